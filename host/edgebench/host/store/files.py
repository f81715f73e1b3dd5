"""Converts the packed traces of a stored run to Parquet, and reads all files of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from edgebench.host.analysis.arithmetic import check_times
from edgebench.host.analysis.latency.queries import Queries
from edgebench.host.analysis.measurement import TargetTraces, Traces
from edgebench.host.analysis.thermal.telemetry import TelemetryTrace, split_by_sensor
from edgebench.host.arrays import load_arrays
from edgebench.host.result.document import to_document
from edgebench.host.result.facts import HostFacts
from edgebench.host.result.migrations import migrated_facts, migrated_record
from edgebench.host.result.run import Run
from edgebench.host.store.arrow import table_of, texts_to_arrow, to_arrow, to_numpy
from edgebench.host.store.finite_json import read_finite
from edgebench.host.store.layout import (
    ANNOTATIONS_FILE,
    CLOCK_FILE,
    EVENTS_FILE,
    EXPECTED_FILE,
    HOST_FACTS_FILE,
    LABELS_FILE,
    POWER_FILE,
    QUERIES_FILE,
    RAW_DIRECTORY,
    RUN_FILE,
    TELEMETRY_FILE,
)
from edgebench.host.store.parquet_file import TEXT, Layout, open_parquet, read_columns
from edgebench.host.store.power_file import PowerFile
from edgebench.host.store.power_outline import check_outline
from edgebench.protocol import traces
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import EdgebenchError, RunDamaged
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.protocol.record import Event, RunRecord
from edgebench.protocol.spec import samples_per_query
from edgebench.protocol.telemetry import TelemetryFacts
from edgebench.protocol.text import one_line
from edgebench.system.whole_files import is_unfinished, write_whole

_COMPRESSION = "zstd"
_SPAN_COLUMNS = {
    "scheduled_ns": "start_ns",
    "invoke_start_ns": "start_ns",
    "invoke_end_ns": "end_ns",
}
"""Maps each column that is missing in traces of version 1 to the column that is read instead."""
_CLOCK_COLUMNS = ("t0", "t1", "t2", "t3", "group")
_TIME_COLUMNS = ("scheduled_ns", "start_ns", "invoke_start_ns", "invoke_end_ns", "end_ns")
_QUERIES = Layout(
    {
        **dict.fromkeys(("index", "query", *_TIME_COLUMNS), pa.int64()),
        **dict.fromkeys(("sample", "batch"), pa.int32()),
        **dict.fromkeys(("ok", "warmup"), pa.bool_()),
    }
)
"""Columns of queries.parquet; since version 2, the column `sample` has 64-bit integers."""
_TELEMETRY = Layout({"time_ns": pa.int64(), "sensor": TEXT, "value": pa.float64()})
_CLOCK = Layout(dict.fromkeys(_CLOCK_COLUMNS, pa.int64()))
MAX_PROBES = 10_000
"""Maximum number of clock probes of a run; real runs have a few groups of 8 probes."""


def read_record(directory: Path) -> RunRecord:
    """The agent's record of a run.

    Raises:
        RunDamaged: the record is not readable.
    """
    path = directory / RAW_DIRECTORY / traces.RECORD_FILE
    try:
        return from_outside(migrated_record(read_finite(path)), RunRecord)
    except OSError as exc:
        raise RunDamaged(f"record of the run is not readable: {exc.strerror}: {path}") from exc
    except (ValueError, LookupError, TypeError, RecursionError, EdgebenchError) as exc:
        raise RunDamaged(f"record of the run is not readable: {exc}: {path}") from exc


def unpack_traces(directory: Path, record: RunRecord) -> Queries:
    """Convert the packed traces under raw/ to Parquet files; return the queries.

    Traces that a killed process has already converted are read, and not converted again.

    Raises:
        RunDamaged: a trace is damaged.
    """
    packed, unpacked = directory / RAW_DIRECTORY / traces.QUERIES_FILE, directory / QUERIES_FILE
    if record.worker is None:
        raise RunDamaged(f"run {record.run_id} has no queries: it measured nothing")
    if unpacked.exists() and not packed.exists():
        return read_queries(directory)
    queries = _queries(_columns(packed, traces.QUERY_COLUMNS), record.worker.warmup_query_count)
    write_queries(unpacked, queries, samples_per_query(record.spec))
    unpack_telemetry(directory, record)
    packed.unlink()
    return queries


def unpack_telemetry(directory: Path, record: RunRecord) -> None:
    """Convert the packed telemetry under raw/ to a Parquet file, if there is any.

    Raises:
        RunDamaged: the telemetry is damaged.
    """
    packed = directory / RAW_DIRECTORY / traces.TELEMETRY_FILE
    if packed.exists():
        _unpack_telemetry(directory, record.telemetry.sensors)
        packed.unlink()


def write_queries(path: Path, queries: Queries, batch: int) -> None:
    """Write queries.parquet, with a row for each inference."""
    count = len(queries)
    index = np.arange(count, dtype=np.int64)
    is_warmup = index < queries.warmup_count
    times = {name: getattr(queries, name) for name in _TIME_COLUMNS}
    table = table_of(
        {
            "index": index,
            "query": np.where(is_warmup, -1, (index - queries.warmup_count) // batch),
            **times,
            "sample": queries.sample,
            "batch": np.full(count, batch, np.int32),
            "ok": np.ones(count, np.bool_),
            "warmup": is_warmup,
        }
    )
    # Times are ascending: differences take 3 bytes instead of 8.
    encoding = dict.fromkeys(("index", "query", *_TIME_COLUMNS), "DELTA_BINARY_PACKED")
    pq.write_table(
        table,
        path,
        compression=_COMPRESSION,
        use_dictionary=False,  # pyarrow allows either a dictionary or an encoding
        column_encoding=encoding,
    )


def read_queries(directory: Path) -> Queries:
    """Read the queries of a stored run.

    Raises:
        RunDamaged: the file is not readable.
    """
    *columns, warmup = read_query_columns(directory, *_TIME_COLUMNS, "sample", "warmup")
    return _queries(columns, int(np.count_nonzero(warmup)))


def read_query_columns(directory: Path, *names: str) -> list[NDArray[np.int64]]:
    """Columns of the queries of a stored run, each of shape (n,); the caller may modify them.

    The columns are read by row group, because reading a whole table takes twice the memory, and a
    run of an hour has millions of rows.

    Raises:
        RunDamaged: the file is not readable, lacks a column, or has a time beyond the range of a
            clock.
    """
    path = directory / QUERIES_FILE
    with open_parquet(path, _QUERIES, max_rows=_query_count(read_record(directory))) as file:
        known = set(file.schema_arrow.names)
        if "scheduled_ns" not in known:  # version 1 had a start and an end
            names = tuple(_SPAN_COLUMNS.get(name, name) for name in names)
        if missing := [name for name in names if name not in known]:
            raise RunDamaged(f"{path}: no column {missing[0]!r}")
        columns = [_column(file, name) for name in names]
    try:
        for name, column in zip(names, columns, strict=True):
            if name.endswith("_ns"):
                check_times(column)
    except ValueError as exc:
        raise RunDamaged(f"queries are damaged: {exc}: {path}") from exc
    return columns


def _query_count(record: RunRecord) -> int:
    """Number of rows of a run's queries according to its record."""
    return record.worker.query_count if record.worker is not None else 0


def _column(file: Any, name: str) -> NDArray[np.int64]:
    values = np.empty(file.metadata.num_rows, np.int64)
    end = 0
    for number in range(file.num_row_groups):
        column = file.read_row_group(number, columns=[name])[name]
        if column.null_count:
            raise RunDamaged(f"queries are damaged: a query has no {name}")
        part = to_numpy(column)
        begin, end = end, end + len(part)
        values[begin:end] = part
    return values


def _queries(columns: Sequence[NDArray[Any]], warmup_count: int) -> Queries:
    scheduled_ns, start_ns, invoke_start_ns, invoke_end_ns, end_ns, sample = columns
    return Queries(
        scheduled_ns, start_ns, invoke_start_ns, invoke_end_ns, end_ns, sample, warmup_count
    )


def read_traces(directory: Path, record: RunRecord, queries: Queries) -> Traces:
    """All inputs of the analysis of a run except its record; `queries` are the queries of the run.

    Raises:
        RunDamaged: a file is damaged.
    """
    raw = directory / RAW_DIRECTORY
    log = raw / traces.LOADGEN_DETAIL_FILE
    return Traces(
        queries,
        _read_arrays(raw / traces.ANSWERS_FILE),
        _read_arrays(raw / LABELS_FILE),
        read_facts(directory),
        log.read_text(errors="replace") if log.exists() else None,
        read_telemetry(directory, record.telemetry),
        _read_power(directory),
    )


def read_target_traces(directory: Path) -> TargetTraces:
    """All inputs of the analysis of a run on a target, except the record of the run.

    Raises:
        RunDamaged: a file is damaged.
    """
    raw = directory / RAW_DIRECTORY
    return TargetTraces(
        _read_arrays(raw / traces.ANSWERS_FILE),
        _read_arrays(raw / LABELS_FILE),
        read_facts(directory),
        _read_power(directory),
    )


def _read_power(directory: Path) -> PowerFile | None:
    return PowerFile.open(directory) if (directory / POWER_FILE).exists() else None


def read_telemetry(directory: Path, facts: TelemetryFacts) -> TelemetryTrace:
    """Map each sensor to its telemetry in a run; empty if no sensor was sampled.

    Raises:
        RunDamaged: the file is damaged.
    """
    absent = {item.sensor: item.reason for item in facts.absent}
    path = directory / TELEMETRY_FILE
    if not path.exists():
        return TelemetryTrace({}, facts.constants, absent)
    with open_parquet(path, _TELEMETRY, max_rows=facts.reading_count or None) as file:
        table = read_columns(file, _TELEMETRY)
    try:
        if missing := [name for name in ("time_ns", "sensor") if table[name].null_count]:
            raise ValueError(f"a reading has no {missing[0]}")
        time_ns = to_numpy(table["time_ns"]).astype(np.int64)
        check_times(time_ns)
        names = table["sensor"].unify_dictionaries().combine_chunks()
        value = to_numpy(table["value"]).astype(np.float64)
        index = to_numpy(names.indices).astype(np.int64)
        series = split_by_sensor(time_ns, index, value, names.dictionary.to_pylist())
    except (KeyError, ValueError, TypeError, AttributeError, pa.ArrowException) as exc:
        raise RunDamaged(f"telemetry is damaged: {one_line(exc)}") from exc
    return TelemetryTrace(series, facts.constants, absent)


def write_facts(directory: Path, facts: HostFacts, labels: Mapping[str, NDArray[Any]]) -> None:
    """Write the host's facts about a run, and the labels of its data set, into raw/."""
    raw = directory / RAW_DIRECTORY
    (raw / HOST_FACTS_FILE).write_text(json.dumps(to_plain(facts), indent=1) + "\n")
    if labels:
        # Any: in the stub of savez, a name might be the option `allow_pickle`.
        np.savez(raw / LABELS_FILE, **dict[str, Any](labels))


def read_facts(directory: Path) -> HostFacts:
    """Facts about a run that the host recorded; default values without a file of facts.

    Raises:
        RunDamaged: the file is not readable.
    """
    path = directory / RAW_DIRECTORY / HOST_FACTS_FILE
    if not path.exists():
        return HostFacts()
    try:
        return from_outside(migrated_facts(read_finite(path)), HostFacts)
    except (OSError, ValueError, RecursionError, EdgebenchError) as exc:
        raise RunDamaged(f"host facts of the run are not readable: {exc}: {path}") from exc


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Arrays of an uncompressed .npz file; empty if the file does not exist."""
    if not path.exists():
        return {}
    try:
        arrays = load_arrays(path.read_bytes(), is_compression_allowed=False)
    except (OSError, ValueError) as exc:
        raise RunDamaged(f"outputs are not readable: {exc}: {path}") from exc
    for name, array in arrays.items():
        if array.ndim < 1 or array.dtype.kind not in "biuf":
            raise RunDamaged(f"output {name[:40]!r} does not have numbers for each sample: {path}")
    return arrays


def read_frame(directory: Path, name: str) -> Any:
    """Arrow table of the queries or the telemetry of a run, for data frames.

    Raises:
        RunDamaged: the file is not readable.
    """
    record = read_record(directory)
    layout, max_rows = _QUERIES, _query_count(record)
    if name == TELEMETRY_FILE:
        layout, max_rows = _TELEMETRY, record.telemetry.reading_count
    with open_parquet(directory / name, layout, max_rows=max_rows or None) as file:
        return read_columns(file, layout)


def check_traces(directory: Path) -> None:
    """Check the footers of a run's Parquet files without reading columns.

    Raises:
        RunDamaged: a file has an unexpected layout, or the record is not readable.
    """
    record = read_record(directory)
    for name, layout, max_rows in (
        (QUERIES_FILE, _QUERIES, _query_count(record)),
        (TELEMETRY_FILE, _TELEMETRY, record.telemetry.reading_count or None),
        (CLOCK_FILE, _CLOCK, MAX_PROBES),
    ):
        if (directory / name).exists():
            with open_parquet(directory / name, layout, max_rows=max_rows):
                pass
    if (power := _read_power(directory)) is not None:
        check_outline(power)


def write_clock(directory: Path, groups: list[list[ClockProbe]]) -> None:
    """Write clock.parquet: a row per probe, with the number of its group.

    The write is atomic, because probes cannot be repeated, and a host may be killed at any time.
    """
    rows = [
        (probe.t0, probe.t1, probe.t2, probe.t3, number)
        for number, group in enumerate(groups)
        for probe in group
    ]
    cells = np.array(rows, np.int64).reshape(-1, len(_CLOCK_COLUMNS))
    columns = {name: cells[:, place].copy() for place, name in enumerate(_CLOCK_COLUMNS)}
    path = directory / CLOCK_FILE
    # Via a buffer: writing to a path takes pyarrow four times as long as encoding a few rows.
    packed = pa.BufferOutputStream()
    pq.write_table(table_of(columns), packed, use_dictionary=False, write_statistics=False)
    write_whole(path, packed.getvalue())


def read_clock(directory: Path) -> list[list[ClockProbe]]:
    """Groups of clock probes of a stored run; empty if the run has no probes."""
    if not (directory / CLOCK_FILE).exists():
        return []
    groups: dict[int, list[ClockProbe]] = {}
    with open_parquet(directory / CLOCK_FILE, _CLOCK, max_rows=MAX_PROBES) as file:
        rows = read_columns(file, _CLOCK).to_pylist()
    for row in rows:
        if row.keys() != set(_CLOCK_COLUMNS) or None in row.values():
            raise RunDamaged(f"clock probes are damaged: {directory / CLOCK_FILE}")
        groups.setdefault(row.pop("group"), []).append(ClockProbe(**row))
    return list(groups.values())


def write_events(directory: Path, events: tuple[Event, ...]) -> None:
    """Write the events of a run to events.jsonl, one JSON object per line."""
    lines = "".join(json.dumps(asdict(event)) + "\n" for event in events)
    (directory / EVENTS_FILE).write_text(lines)


def file_digests(directory: Path) -> dict[str, str]:
    """Map the path of each file, relative to the run's directory, to its SHA-256.

    run.json, expected.json and annotations.json are left out.
    """
    digests = {}
    others = tuple(directory / name for name in (RUN_FILE, EXPECTED_FILE, ANNOTATIONS_FILE))
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path not in others and not is_unfinished(path.name):
            with path.open("rb") as file:
                digests[str(path.relative_to(directory))] = sha256_of(file).hexdigest()
    return digests


def write_run(directory: Path, run: Run) -> None:
    """Write run.json.

    Raises:
        ValueError: a number of the run is infinite, or NaN.
    """
    text = json.dumps(to_document(run), indent=1, allow_nan=False)
    (directory / RUN_FILE).write_text(text + "\n")


def _unpack_telemetry(directory: Path, names: Sequence[str]) -> None:
    path = directory / RAW_DIRECTORY / traces.TELEMETRY_FILE
    time_ns, sensor, value = _columns(path, traces.TELEMETRY_COLUMNS)
    try:
        if sensor.size and not 0 <= sensor.min() <= sensor.max() < len(names):
            raise ValueError(f"sensor {sensor.max()} of {len(names)}")
        named = pa.DictionaryArray.from_arrays(
            to_arrow(sensor.astype(np.int32)), texts_to_arrow(names)
        )
        named.validate(full=True)
    except (ValueError, pa.ArrowException) as exc:
        raise RunDamaged(f"telemetry is damaged: {exc}") from exc
    table = table_of({"time_ns": time_ns, "sensor": named, "value": value})
    pq.write_table(table, directory / TELEMETRY_FILE, compression=_COMPRESSION)


def _columns(path: Path, columns: tuple[traces.Column, ...]) -> list[NDArray[Any]]:
    try:
        data = path.read_bytes()
        count = traces.row_count(len(data), columns)
    except (OSError, ValueError) as exc:
        raise RunDamaged(f"trace is damaged: {exc}: {path}") from exc
    step = count * traces.COLUMN_BYTES
    return [
        np.frombuffer(data, column.dtype, count, offset=i * step).astype(column.dtype[1:])
        for i, column in enumerate(columns)
    ]
