"""Packed traces from a device become Parquet; damaged traces are refused in one line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.records import (
    SENSORS,
    WARMUP_COUNT,
    clock_probes,
    latencies,
    query_trace,
    run_record,
    spool_files,
    telemetry_trace,
    worker_record,
)

from edgebench.host.store import files
from edgebench.host.store.layout import QUERIES_FILE, TELEMETRY_FILE
from edgebench.protocol import traces
from edgebench.protocol.errors import EdgebenchError, RunDamaged, StoreError
from edgebench.protocol.plain import to_plain
from edgebench.protocol.record import Event

RECORD = run_record(worker_record(latencies()))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A run as it came from the device."""
    spool_files(tmp_path / "raw", RECORD, latencies())
    return tmp_path


def test_queries_survive_from_the_device_to_the_store(directory: Path) -> None:
    """Otherwise a time would change on its way, or the warm-up be marked wrongly."""
    unpacked = files.unpack_traces(directory, RECORD)
    stored = files.read_queries(directory)
    for queries in (unpacked, stored):
        assert np.array_equal(queries.end_ns - queries.start_ns, latencies())
        assert queries.warmup_count == WARMUP_COUNT
    table = files.read_frame(directory, QUERIES_FILE)
    assert table.column_names[:4] == ["index", "query", "scheduled_ns", "start_ns"]
    assert table["index"].to_pylist() == list(range(len(latencies())))
    assert np.count_nonzero(table["warmup"].to_numpy()) == WARMUP_COUNT


def test_telemetry_has_the_names_of_its_sensors(directory: Path) -> None:
    """Otherwise a temperature would be stored under the name of a load."""
    files.unpack_traces(directory, RECORD)
    table = files.read_frame(directory, TELEMETRY_FILE).to_pylist()
    assert {row["sensor"] for row in table} == set(SENSORS)
    assert all(row["value"] > 50 for row in table if row["sensor"] == SENSORS[1])
    assert table[0]["time_ns"] == 0


def test_packed_traces_go_when_they_are_unpacked_and_the_record_stays(directory: Path) -> None:
    """Otherwise every run would be stored twice, or its raw record would be lost."""
    files.unpack_traces(directory, RECORD)
    kept = {path.name for path in (directory / "raw").iterdir()}
    assert kept == {traces.RECORD_FILE, traces.ANSWERS_FILE, traces.WORKER_LOG_FILE}
    assert files.read_record(directory) == RECORD


def test_traces_that_are_unpacked_already_are_read(directory: Path) -> None:
    """Otherwise a run whose analysis was killed half-way would look damaged on the next try."""
    first = files.unpack_traces(directory, RECORD)
    again = files.unpack_traces(directory, RECORD)
    assert np.array_equal(first.start_ns, again.start_ns)
    assert first.warmup_count == again.warmup_count
    assert (directory / TELEMETRY_FILE).exists()


def test_run_without_telemetry_is_a_run(directory: Path) -> None:
    """Otherwise a sampler that failed would cost the latencies too."""
    (directory / "raw" / traces.TELEMETRY_FILE).unlink()
    files.unpack_traces(directory, RECORD)
    assert not (directory / TELEMETRY_FILE).exists()


def test_clock_probes_survive_in_their_groups(tmp_path: Path) -> None:
    """Otherwise the drift of a clock would be computed from the wrong ends."""
    files.write_clock(tmp_path, clock_probes())
    assert files.read_clock(tmp_path) == clock_probes()
    files.write_clock(tmp_path, [])
    assert files.read_clock(tmp_path) == []


def test_host_that_is_killed_while_it_writes_loses_no_clock_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the file would be empty for the next command, and the run stay on its device."""

    def killed(_: int) -> None:
        raise KeyboardInterrupt

    files.write_clock(tmp_path, clock_probes())
    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        files.write_clock(tmp_path, clock_probes()[:1])
    assert files.read_clock(tmp_path) == clock_probes()


def test_events_are_one_json_object_a_line(tmp_path: Path) -> None:
    """Otherwise a text with a line break in it would break the event log."""
    files.write_events(tmp_path, (Event(1, "failed", "two\nlines"), Event(2, "end")))
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["failed", "end"]


DAMAGE: dict[str, Callable[[Path], object]] = {
    "queries missing": lambda raw: (raw / traces.QUERIES_FILE).unlink(),
    "queries cut": lambda raw: (raw / traces.QUERIES_FILE).write_bytes(
        query_trace(latencies())[:-1]
    ),
    "telemetry cut": lambda raw: (raw / traces.TELEMETRY_FILE).write_bytes(telemetry_trace()[:-8]),
    "telemetry of unknown sensors": lambda raw: (raw / traces.TELEMETRY_FILE).write_bytes(
        np.array([0, 99, 0], "<i8").tobytes()
    ),
    "telemetry of negative sensors": lambda raw: (raw / traces.TELEMETRY_FILE).write_bytes(
        np.array([0, -1, 0], "<i8").tobytes()
    ),
    "telemetry of huge sensors": lambda raw: (raw / traces.TELEMETRY_FILE).write_bytes(
        np.array([0, 2**32, 0], "<i8").tobytes()
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_trace_is_refused_in_one_line(directory: Path, what: str) -> None:
    """Otherwise nonsense from a device would crash the host, or be stored."""
    DAMAGE[what](directory / "raw")
    with pytest.raises(StoreError) as caught:
        files.unpack_traces(directory, RECORD)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"run_id": 5}', "\xff", '{"spec": {"threads": 0}}']
)
def test_damaged_record_is_refused_in_one_line(directory: Path, text: str) -> None:
    """Otherwise a record that makes no sense would crash the host."""
    (directory / "raw" / traces.RECORD_FILE).write_bytes(text.encode("latin-1"))
    with pytest.raises(EdgebenchError) as caught:
        files.read_record(directory)
    assert isinstance(caught.value, StoreError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-1e999"])
def test_record_with_a_number_that_is_not_finite_is_damaged(directory: Path, number: str) -> None:
    """Otherwise it would be judged again, and each of its numbers would silently become NaN."""
    path = directory / "raw" / traces.RECORD_FILE
    text, count = re.subn(r": \d+\.\d+", f": {number}", json.dumps(to_plain(RECORD)), count=1)
    assert count == 1
    path.write_text(text)
    with pytest.raises(RunDamaged, match="is not a finite number"):
        files.read_record(directory)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\0" * 100 + b"PAR1", b"junk" * 50])
def test_damaged_parquet_is_refused_in_one_line(directory: Path, content: bytes) -> None:
    """Otherwise a stored trace that a disk damaged would end in a traceback."""
    files.unpack_traces(directory, RECORD)
    (directory / QUERIES_FILE).write_bytes(content)
    with pytest.raises(StoreError, match="trace not readable") as caught:
        files.read_queries(directory)
    assert "\n" not in str(caught.value)


def test_parquet_without_a_column_is_refused(directory: Path) -> None:
    """Otherwise a trace of another tool would end in a traceback."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"start_ns": [1]}), directory / QUERIES_FILE)
    with pytest.raises(StoreError, match="no column"):
        files.read_queries(directory)
