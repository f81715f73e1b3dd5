"""The JSON Schema: what the types give, what is shipped, and what stored runs keep to."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from edgebench.host.result.document import from_document, to_document
from edgebench.host.result.run import SCHEMA_VERSION
from edgebench.host.result.schema import SCHEMA_FILE, run_schema

FIXTURES = Path(__file__).parents[3] / "fixtures" / "runs"
RUNS = sorted(FIXTURES.glob("v*/*/run.json"))
OURS = [path for path in RUNS if path.parts[-3] == f"v{SCHEMA_VERSION}"]


def errors(document: dict[str, Any]) -> list[str]:
    """Where a document is not what the schema says."""
    found = jsonschema.Draft202012Validator(run_schema()).iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in found]


def test_shipped_schema_is_the_one_of_the_types() -> None:
    """`edgebench schema` prints another schema than runs have: devtools/write_schema.py."""
    shipped = (files("edgebench.host.result") / SCHEMA_FILE).read_text()
    assert json.loads(shipped) == run_schema()


def test_schema_is_a_schema() -> None:
    """No validator takes it."""
    jsonschema.Draft202012Validator.check_schema(run_schema())


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.parts[-2])
def test_stored_run_keeps_to_the_schema(path: Path) -> None:
    """A document that we write is refused by those who trust the schema."""
    assert errors(json.loads(path.read_bytes())) == []


@pytest.mark.parametrize("path", RUNS, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_older_run_keeps_to_it_once_it_was_read(path: Path) -> None:
    """An older run is handed on in the shape of no version."""
    written = to_document(from_document(json.loads(path.read_bytes())))
    assert errors(json.loads(json.dumps(written))) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metrics", "latency_ns", "p50"), "45 µs"),
        (("metrics", "latency_ns", "p50_ci95"), [1, 2, 3]),
        (("verdict", "state"), "excellent"),
        (("verdict", "rules", 0, "outcome"), "maybe"),
        (("spec", "scenario"), None),
        (("device", "name"), None),
    ],
)
def test_wrong_value_is_found(path: tuple[str | int, ...], value: object) -> None:
    """The schema lets everything pass."""
    document = json.loads(OURS[0].read_bytes())
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert len(errors(document)) == 1


def test_key_of_a_newer_version_is_allowed_and_kept() -> None:
    """Whoever reads and writes a newer run takes from it what it does not know."""
    document = json.loads(OURS[0].read_bytes())
    document["novel"] = {"a": 1}
    document["metrics"]["latency_ns"]["p95"] = 5
    document["verdict"]["rules"][2]["novel"] = ["x"]
    assert errors(document) == []
    assert json.loads(json.dumps(to_document(from_document(document)))) == document
