"""The keys that each version promised: new keys need no entry, old keys are not forgotten."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from edgebench.host.analysis.verdict.table import RULES
from edgebench.host.result.promises import PROMISES_FILE, is_promised, key_paths, place_of
from edgebench.host.result.run import SCHEMA_VERSION, Run

PROMISED: dict[str, list[str]] = json.loads(
    (files("edgebench.host.result") / PROMISES_FILE).read_bytes()
)


def test_every_promised_key_exists() -> None:
    """Otherwise a key would be renamed, and older runs could lack it from then on."""
    rules = {f"verdict.rules.{rule.id}" for rule in RULES}
    places = {place for listed in PROMISED.values() for place in listed}
    assert places <= {*key_paths(Run), *rules}
    assert len(places) == sum(map(len, PROMISED.values())), "one version brought it"
    assert max(map(int, PROMISED)) <= SCHEMA_VERSION


@pytest.mark.parametrize(
    ("place", "version", "expected"),
    [
        ("metrics.latency_ns.p50", 1, True),
        ("metrics.energy.common_j", 3, False),
        ("metrics.energy.common_j", 4, True),
        ("metrics.latency_ns.p95", 6, False),
        ("verdict.rules.memory", 1, True),
        ("verdict.rules.of_tomorrow", 6, False),
    ],
)
def test_key_is_promised_since_its_version(place: str, version: int, expected: bool) -> None:
    """Otherwise a new key without an entry would make every older run wrong."""
    assert is_promised(place, version) is expected


def test_keys_of_a_mapping_are_as_old_as_the_mapping() -> None:
    """Otherwise the removal of a package from an older run would go unnoticed."""
    assert place_of("environment.packages", "numpy") == "environment.packages.*"
    assert is_promised(place_of("environment.packages", "numpy"), 1)
    assert place_of("metrics.latency_ns", "p50") == "metrics.latency_ns.p50"
