"""Types of run.json: written runs are read back, and unknown keys are kept."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from support.metered import store_metered_run
from support.records import CREATED_UTC, RUN_ID

from edgebench.host.result.document import Document, created_utc, from_document, to_document
from edgebench.host.result.run import SCHEMA_VERSION
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import RunDamaged, RunNewer

MISSING = object()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Document:
    """The document of a metered run."""
    store = Store(tmp_path_factory.mktemp("stored"))
    store_metered_run(store)
    return store.document(RUN_ID)


def plain(document: Document) -> Any:
    """The document as JSON represents it: without tuples."""
    return json.loads(json.dumps(document, allow_nan=False))


def changed(document: Document, path: tuple[str | int, ...], value: object) -> Document:
    """A copy with another value, a new value, or no value at this place."""
    found = deepcopy(document)
    part: Any = found
    for step in path[:-1]:
        part = part[step]
    if value is MISSING:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return found


def test_run_is_read_as_it_was_written(stored: Document) -> None:
    """Otherwise a number would change, or vanish, when a run is read and written again."""
    assert stored["schema_version"] == SCHEMA_VERSION
    assert plain(to_document(from_document(stored))) == stored


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("tags",), ["baseline"]),
        (("metrics", "energy", "carbon_g"), 3.5),
        (("metrics", "cold_start_ns", "link"), {"p50": 5}),
        (("verdict", "rules", 3, "advice"), "wait"),
        (("environment", "cpu", "stepping"), None),
    ],
)
def test_keys_of_a_later_edgebench_of_this_schema_are_kept(
    stored: Document, path: tuple[str | int, ...], value: object
) -> None:
    """Otherwise reading and writing a run of a later edgebench would remove its new keys."""
    later = changed(stored, path, value)
    assert plain(to_document(from_document(later))) == later


def test_document_of_a_newer_schema_is_not_read(stored: Document) -> None:
    """Otherwise a key whose meaning has changed by then would be shown with a verdict."""
    newer = changed(stored, ("schema_version",), SCHEMA_VERSION + 1)
    with pytest.raises(RunNewer, match=f"schema version {SCHEMA_VERSION + 1}, this edgebench"):
        from_document(newer)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metrics", "latency_ns", "p50"), "7150"),
        (("metrics", "latency_ns", "p50"), 7150.5),
        (("metrics", "energy", "sync", "method"), "telepathy"),
        (("metrics",), None),
        (("verdict", "rules"), [5]),
        (("verdict", "state"), "perhaps"),
        (("verdict", "rules", 0, "facts"), {"why": ["a", "list"]}),
        (("kind",), "guess"),
        (("spec", "threads"), 0),
    ],
)
def test_value_of_another_kind_is_refused_in_one_line(
    stored: Document, path: tuple[str | int, ...], value: object
) -> None:
    """Otherwise a damaged run would end in a traceback, or be shown with arbitrary values."""
    wrong = changed(stored, path, value)
    with pytest.raises(RunDamaged, match="run is damaged: ") as refused:
        from_document(wrong)
    assert "\n" not in str(refused.value)
    newer = changed(wrong, ("schema_version",), 99)
    with pytest.raises(RunNewer, match="schema version 99, this edgebench supports") as too_new:
        from_document(newer)
    assert not isinstance(too_new.value, RunDamaged), "its hint is another one"


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("metrics", "warmup"), MISSING, "metrics.warmup is missing"),
        (("verdict", "rules", 1, "outcome"), MISSING, "verdict.rules[1].outcome is missing"),
        (("metrics", "latency_ns", "p50"), "7", "metrics.latency_ns.p50 is wrong: expected int"),
        (("kind",), "guess", "kind is wrong: expected one of measurement, profile, got 'guess'"),
    ],
)
def test_damage_is_told_with_its_place(
    stored: Document, path: tuple[str | int, ...], value: object, told: str
) -> None:
    """Otherwise the error would not name the missing key of six hundred."""
    with pytest.raises(RunDamaged) as refused:
        from_document(changed(stored, path, value))
    assert str(refused.value).startswith(f"run is damaged: {told}")


@pytest.mark.parametrize("version", [None, 0, -1, True, 1.0, "7"])
def test_document_without_a_version_is_damaged(stored: Document, version: object) -> None:
    """Otherwise a foreign document would be read as a run."""
    with pytest.raises(RunDamaged):
        from_document(changed(stored, ("schema_version",), version))


def test_argument_without_words_is_left_out(stored: Document) -> None:
    """Otherwise a command that was edited would end every page of the run in an IndexError."""
    edited = changed(stored, ("command",), {"id": "c", "arguments": [["a.onnx"], [], ["--quick"]]})
    command = from_document(edited).command
    assert command is not None
    assert command.arguments == (("a.onnx",), ("--quick",))


def test_reading_changes_nothing(stored: Document) -> None:
    """Otherwise the caller's document would be migrated in place."""
    older = changed(stored, ("schema_version",), 6)
    before = deepcopy(older)
    from_document(older)
    assert older == before


@pytest.mark.parametrize(
    ("run_id", "expected"),
    [(RUN_ID, CREATED_UTC), ("20261301-000000-x", None), ("my-run", None), ("", None)],
)
def test_time_of_a_run_comes_from_its_id(run_id: str, expected: str | None) -> None:
    """Otherwise a run that was collected a week later would be dated to its collection."""
    assert created_utc(run_id) == expected
