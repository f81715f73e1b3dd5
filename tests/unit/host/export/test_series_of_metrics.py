"""Formats that keep a series of each metric: Bencher, github-action-benchmark, OpenMetrics."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus
from support.exports import (
    HOSTILE,
    INVALID,
    METERED,
    PLAIN,
    SET,
    Stored,
    renamed,
    written,
)

from edgebench.host.export.exported import ExportedRun, sets_of
from edgebench.host.export.openmetrics import family_name
from edgebench.host.result.metrics import METRICS, Better

METRIC = {
    "type": "object",
    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
    "required": ["value"],
}
BMF = {
    "type": "object",
    "patternProperties": {".+": {"type": "object", "patternProperties": {".+": METRIC}}},
}
"""The schema that Bencher publishes for its format."""
ENTRY = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "unit": {"type": "string"},
        "value": {"type": "number"},
        "range": {"type": "string"},
        "extra": {"type": "string"},
    },
    "required": ["name", "unit", "value"],
    "additionalProperties": False,
}
"""`BenchmarkResult` of github-action-benchmark."""


def test_bmf_keeps_to_its_schema_and_has_the_intervals(
    stored: Stored, metered: ExportedRun
) -> None:
    """Otherwise Bencher would refuse the file, or draw a line without its band."""
    runs = [metered, *stored(PLAIN), *stored(SET), *stored(INVALID)]
    made = json.loads(written("bmf", runs))
    jsonschema.validate(made, BMF)
    assert len(made) == 3
    assert all(len(name) <= 1024 for name in made)
    assert all(len(measure) <= 64 for one in made.values() for measure in one)
    summary, latency = metered.run.metrics.latency_ns, next(iter(made.values()))["latency"]
    assert summary is not None
    assert latency["value"] == summary.p50
    assert (latency["lower_value"], latency["upper_value"]) == summary.p50_ci95


def test_series_of_a_set_is_the_median_of_its_runs(stored: Stored) -> None:
    """Otherwise the first run of five would stand for all of them."""
    [one] = sets_of(stored(SET))
    [(name, measures)] = json.loads(written("bmf", stored(SET))).items()
    assert "[suspect]" in name
    assert measures["latency"]["value"] == one.metrics["latency_ns.p50"].median


@pytest.mark.parametrize(
    ("name", "better"), [("github-smaller", Better.LOWER), ("github-bigger", Better.HIGHER)]
)
def test_github_action_benchmark_has_one_direction_a_file(
    name: str, better: Better, stored: Stored
) -> None:
    """Otherwise the action would take a higher throughput for a regression."""
    made: list[dict[str, Any]] = json.loads(written(name, [*stored(METERED), *stored(INVALID)]))
    jsonschema.validate(made, {"type": "array", "items": ENTRY})
    paths = [entry["name"].rpartition(": ")[2] for entry in made]
    assert paths
    assert {METRICS[path].better for path in paths} == {better}
    assert all("verdict: suspect" in entry["extra"] for entry in made)
    assert all("[suspect" in entry["name"] for entry in made)


def samples_of(text: str) -> dict[str, dict[str, float]]:
    """Values by family and benchmark."""
    return {
        family.name: {sample.labels["benchmark"]: sample.value for sample in family.samples}
        for family in parse_openmetrics(text)
    }


def test_openmetrics_is_read_by_prometheus_with_units(stored: Stored, metered: ExportedRun) -> None:
    """Otherwise a missing unit, a wrong suffix or a missing end would fail a scrape."""
    runs = [metered, *stored(PLAIN), *stored(INVALID)]
    text = written("openmetrics", runs).decode()
    families = {family.name: family for family in parse_openmetrics(text)}
    latency = families["edgebench_latency_p50_seconds"]
    assert latency.unit == "seconds"
    assert families["edgebench_energy_gross_per_inference_joules"].unit == "joules"
    assert len(families["edgebench_verdict"].samples) == 3
    verdicts = [run.run.headline_state.value for run in runs[:2]]
    assert [sample.labels["verdict"] for sample in latency.samples] == verdicts
    summary = metered.run.metrics.latency_ns
    assert summary is not None
    assert summary.p50 is not None
    assert latency.samples[0].value == pytest.approx(summary.p50 / 1e9)
    bounds = [families[f"edgebench_latency_p50_{end}_95_seconds"] for end in ("lower", "upper")]
    found = [bound.samples[0].value * 1e9 for bound in bounds]
    assert found == pytest.approx(summary.p50_ci95)


def test_openmetrics_is_read_as_the_older_format_too(stored: Stored) -> None:
    """Otherwise the textfile collector of the node exporter would refuse the file."""
    text = written("openmetrics", stored(PLAIN)).decode()
    names = {family.name for family in parse_prometheus(text)}
    assert names >= set(samples_of(text))


def test_names_of_families_are_of_one_metric_each() -> None:
    """Otherwise two metrics would share a family, or a unit would stand twice in a name."""
    names = [family_name(metric) for metric in METRICS.values()]
    assert len(set(names)) == len(METRICS)
    assert all(name.isidentifier() for name in names)


def test_hostile_name_is_text_in_openmetrics(stored: Stored) -> None:
    """Otherwise a quote in a name would end the label, and the scrape."""
    [one] = map(renamed, stored(PLAIN))
    families = list(parse_openmetrics(written("openmetrics", [one]).decode()))
    assert {sample.labels["model"] for family in families for sample in family.samples} == {HOSTILE}
