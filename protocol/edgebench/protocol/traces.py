"""Time series of a run: columns, units, and their packed form on the device.

A trace is sent as consecutive little-endian columns of the same length. The file has no header: the
number of rows is its size divided by the row size. Columns:

    queries     a row per inference, in issue order, on the device's monotonic clock:
                scheduled_ns i64     the query was due: origin of the query's latency
                start_ns i64         before its inputs are copied in
                invoke_start_ns i64  after its inputs are copied in
                invoke_end_ns i64    after the model has run
                end_ns i64           after its outputs are copied out
                sample i64           index of the prepared sample
    telemetry   time_ns i64, sensor i64, value f64       `sensor` indexes the record's sensors
"""

from __future__ import annotations

from dataclasses import dataclass

QUERIES_FILE = "queries.bin"
TELEMETRY_FILE = "telemetry.bin"
ANSWERS_FILE = "answers.npz"
"""Outputs of the model: arrays `used.N` and `reference.N` with output N for the prepared samples,
`dataset.N` with output N for the data set; first axis: samples. Uncompressed."""
DATASET_INDEX = "dataset_index"
"""Array in that file: index of the sample of the data set for each output. Without it, the outputs
are for all samples in their order."""
RECORD_FILE = "record.json"
METER_FILE = "meter.spool"
"""Recording of a meter during the run, undecoded, with a header that describes its encoding."""
WORKER_LOG_FILE = "worker.log"
HOST_FILE = "host.bin"
"""Data from the host that started the run, for the host of the same owner that collects it."""
CONSOLE_FILE = "console.log"
"""Log of the line to a target that timed itself."""
LOADGEN_DETAIL_FILE = "mlperf_log_detail.txt"
LOADGEN_FILES = ("mlperf_log_summary.txt", LOADGEN_DETAIL_FILE)
"""Logs of MLPerf's LoadGen, if it issues the queries."""
SPOOL_FILES = (
    RECORD_FILE,
    QUERIES_FILE,
    TELEMETRY_FILE,
    ANSWERS_FILE,
    METER_FILE,
    WORKER_LOG_FILE,
    HOST_FILE,
    CONSOLE_FILE,
    *LOADGEN_FILES,
)
"""Every file that a spooled run may hold."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a packed trace."""

    name: str
    dtype: str
    """numpy type string, little-endian, 8 bytes wide."""


QUERY_COLUMNS = tuple(
    Column(name, "<i8")
    for name in ("scheduled_ns", "start_ns", "invoke_start_ns", "invoke_end_ns", "end_ns", "sample")
)
TELEMETRY_COLUMNS = (Column("time_ns", "<i8"), Column("sensor", "<i8"), Column("value", "<f8"))

COLUMN_BYTES = 8
"""Every packed column is 8 bytes wide."""


def row_count(size_bytes: int, columns: tuple[Column, ...]) -> int:
    """Rows in a packed trace of this size.

    Raises:
        ValueError: the size is not a whole number of rows.
    """
    count, rest = divmod(size_bytes, COLUMN_BYTES * len(columns))
    if rest:
        raise ValueError(f"{size_bytes} bytes are not a whole number of {len(columns)}-column rows")
    return count
