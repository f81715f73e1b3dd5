"""`edgebench verify` notices every change: to any file of a run, and to any number in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.records import RUN_ID, store_run

from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.host.store.verify import verify
from edgebench.protocol.errors import StoreError

Path_ = tuple[str | int, ...]
PARQUET = ("queries.parquet", "telemetry.parquet", "clock.parquet")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with one good run."""
    made = Store(tmp_path / "store")
    store_run(made)
    return made


@pytest.fixture
def directory(store: Store) -> Path:
    """The directory of the run."""
    return store.directory(RUN_ID)


def is_noticed(store: Store) -> bool:
    """Whether verify finds a difference, or says in one line that it cannot."""
    try:
        return bool(verify(store, RUN_ID))
    except StoreError as exc:
        return "\n" not in str(exc) and len(str(exc)) > 10


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every value of a document that holds no other."""
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from leaves(child, (*path, key))
    elif isinstance(value, list) and value:
        for i, child in enumerate(value):
            yield from leaves(child, (*path, i))
    else:
        yield path, value


def changed(value: Any) -> Any:
    """Another value, as near to the old one as can be."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 1.001 + 1e-6
        case str():
            return value + "x"
        case None:
            return 0
        case _:
            return [*value, "x"] if isinstance(value, list) else {"x": 1}


def with_change(document: Any, path: Path_) -> Any:
    """A copy of the document with one value changed."""
    copy = json.loads(json.dumps(document))
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = changed(parent[path[-1]])
    return copy


def test_good_run_is_verified(store: Store) -> None:
    """Every run is doubted, so nobody looks any more."""
    assert verify(store, RUN_ID) == []


def test_every_changed_value_in_the_document_is_noticed(store: Store, directory: Path) -> None:
    """A number in run.json is edited by hand and still verified."""
    path = directory / RUN_FILE
    document = json.loads(path.read_text())
    places = [place for place, _ in leaves(document)]
    assert len(places) > 100
    missed = []
    for place in places:
        path.write_text(json.dumps(with_change(document, place)))
        if not is_noticed(store):
            missed.append(".".join(map(str, place)))
    assert missed == []


def test_every_changed_value_in_the_record_is_noticed(store: Store, directory: Path) -> None:
    """What the agent said of the run is edited by hand, and the numbers follow."""
    path = directory / "raw" / "record.json"
    record = json.loads(path.read_text())
    places = [place for place, _ in leaves(record)]
    assert len(places) > 80
    missed = []
    for place in places:
        path.write_text(json.dumps(with_change(record, place)))
        if not is_noticed(store):
            missed.append(".".join(map(str, place)))
    assert missed == []


def test_removed_and_added_keys_are_noticed(store: Store, directory: Path) -> None:
    """A rule that failed is cut out of the verdict, or a metric is slipped in."""
    path = directory / RUN_FILE
    document = json.loads(path.read_text())
    for key in [key for key, value in document.items() if value is not None]:
        path.write_text(json.dumps({k: v for k, v in document.items() if k != key}))
        assert is_noticed(store), f"without {key}"
    path.write_text(json.dumps(document | {"extra": 1}))
    assert is_noticed(store)
    fewer = document | {
        "verdict": document["verdict"] | {"rules": document["verdict"]["rules"][1:]}
    }
    path.write_text(json.dumps(fewer))
    assert is_noticed(store)


def every_file(directory: Path) -> list[Path]:
    """The files of a run."""
    return sorted(path for path in directory.rglob("*") if path.is_file())


def test_every_missing_file_is_noticed(store: Store, directory: Path) -> None:
    """A trace is deleted, and the run is still verified."""
    names = [str(path.relative_to(directory)) for path in every_file(directory)]
    assert set(names) >= {*PARQUET, RUN_FILE, "events.jsonl", "raw/record.json", "raw/worker.log"}
    missed = []
    for path in every_file(directory):
        aside = store.root / "aside"
        shutil.move(path, aside)
        if not is_noticed(store):
            missed.append(path.name)
        shutil.move(aside, path)
    assert missed == []
    assert verify(store, RUN_ID) == []


@pytest.mark.parametrize("damage", ["empty", "cut", "longer", "flipped"])
def test_every_damaged_file_is_noticed(store: Store, directory: Path, damage: str) -> None:
    """A disk error in a trace goes unnoticed."""
    missed = []
    for path in every_file(directory):
        data = path.read_bytes()
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 0x20]) + data[middle + 1 :]
        damaged = {"empty": b"", "cut": data[:-1], "longer": data + b"\n", "flipped": flipped}
        path.write_bytes(damaged[damage])
        is_harmless = path.name == RUN_FILE and damage in ("longer", "cut")  # white space
        if not is_noticed(store) and not is_harmless:
            missed.append(path.name)
        path.write_bytes(data)
    assert missed == []


@pytest.mark.parametrize("name", PARQUET)
def test_every_changed_column_of_a_trace_is_noticed(
    store: Store, directory: Path, name: str
) -> None:
    """One value of a trace is edited with a well-behaved tool, and the run is still verified."""
    path = directory / name
    table = pq.read_table(path)
    data = path.read_bytes()
    missed = []
    for column in table.column_names:
        rows = table.to_pylist()
        rows[len(rows) // 2][column] = changed(rows[len(rows) // 2][column])
        pq.write_table(pa.Table.from_pylist(rows), path)
        if not is_noticed(store):
            missed.append(column)
        path.write_bytes(data)
    assert missed == []


def test_two_swapped_queries_are_noticed(store: Store, directory: Path) -> None:
    """The order of latencies, from which drift and throttling are read, is changed."""
    path = directory / "queries.parquet"
    rows = pq.read_table(path).to_pylist()
    first, second = rows[100], rows[101]
    longer = second["end_ns"] - second["start_ns"]
    middle = first["start_ns"] + longer
    first["end_ns"] = second["start_ns"] = middle
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert is_noticed(store)


def test_run_under_another_name_is_noticed(store: Store, directory: Path) -> None:
    """A directory is renamed, and one run passes for another."""
    other = "20270101-000000-00000000"
    directory.rename(store.directory(other))
    (difference,) = verify(store, other)
    assert (difference.key, difference.stored, difference.computed) == ("run_id", other, RUN_ID)


def test_newer_schema_is_refused_and_not_judged(store: Store, directory: Path) -> None:
    """A run of a newer edgebench is called damaged."""
    path = directory / RUN_FILE
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"schema_version": 99}))
    with pytest.raises(StoreError, match="schema version 99"):
        verify(store, RUN_ID)


def test_difference_names_the_key_and_both_values(store: Store, directory: Path) -> None:
    """A person learns that something differs, but not what."""
    path = directory / RUN_FILE
    document = json.loads(path.read_text())
    true_p50 = document["metrics"]["latency_ns"]["p50"]
    document["metrics"]["latency_ns"]["p50"] = 1
    path.write_text(json.dumps(document))
    (difference,) = verify(store, RUN_ID)
    assert difference.key == "metrics.latency_ns.p50"
    assert (difference.stored, difference.computed) == (1, true_p50)
