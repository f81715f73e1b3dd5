"""The JSON Schema: derived from the types, shipped as derived, and followed by stored runs."""

from __future__ import annotations

import json
from functools import cache
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


@cache
def validator() -> jsonschema.Draft202012Validator:
    """The schema is derived once: that takes longer than to check a document."""
    return jsonschema.Draft202012Validator(run_schema())


def errors(document: dict[str, Any]) -> list[str]:
    """Places where a document violates the schema."""
    found = validator().iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in found]


def test_shipped_schema_is_the_one_of_the_types() -> None:
    """Otherwise `edgebench schema` would print an outdated schema: devtools/write_schema.py."""
    shipped = (files("edgebench.host.result") / SCHEMA_FILE).read_text()
    assert json.loads(shipped) == run_schema()


def test_schema_is_a_schema() -> None:
    """Otherwise no validator would accept it."""
    jsonschema.Draft202012Validator.check_schema(run_schema())


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.parts[-2])
def test_stored_run_keeps_to_the_schema(path: Path) -> None:
    """Otherwise our documents would be refused by tools that rely on the schema."""
    assert errors(json.loads(path.read_bytes())) == []


@pytest.mark.parametrize("path", RUNS, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_older_run_keeps_to_it_once_it_was_read(path: Path) -> None:
    """Otherwise an older run would be passed on in a form of no version."""
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
    """Otherwise the schema would accept everything."""
    document = json.loads(OURS[0].read_bytes())
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert len(errors(document)) == 1


def test_key_of_a_newer_version_is_allowed_and_kept() -> None:
    """Otherwise reading and writing a newer run would remove its unknown keys."""
    document = json.loads(OURS[0].read_bytes())
    document["novel"] = {"a": 1}
    document["metrics"]["latency_ns"]["p95"] = 5
    document["verdict"]["rules"][2]["novel"] = ["x"]
    assert errors(document) == []
    assert json.loads(json.dumps(to_document(from_document(document)))) == document
