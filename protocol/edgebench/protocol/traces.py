"""Time series of a run: columns, units, and their binary format on the device.

A trace is sent as consecutive little-endian columns of the same length. The file has no header: the
number of rows is the file size divided by the row size. Columns:

    queries     a row per inference, in issue order, on the device's monotonic clock:
                scheduled_ns i64     time at which the query was due; its latency counts from here
                start_ns i64         before the inputs are copied in
                invoke_start_ns i64  after the inputs are copied in
                invoke_end_ns i64    after the model has run
                end_ns i64           after the outputs are copied out
                sample i64           index of the prepared sample
    telemetry   time_ns i64, sensor i64, value f64       `sensor` indexes the record's sensors
"""

from __future__ import annotations

from dataclasses import dataclass

QUERIES_FILE = "queries.bin"
TELEMETRY_FILE = "telemetry.bin"
ANSWERS_FILE = "answers.npz"
"""File with the outputs of the model. Each array contains output N of a model:

    used.N         measured model, prepared samples
    reference.N    reference, prepared samples
    dataset.N      measured model, data set

The first axis is the sample. The file is not compressed."""
DATASET_INDEX = "dataset_index"
"""Name of an array in `ANSWERS_FILE` that gives, for each output, the index of its sample in the
data set. Without this array, the outputs are for all samples in order."""
RECORD_FILE = "record.json"
METER_FILE = "meter.spool"
"""File with the undecoded recording of a meter during the run; its header describes the
encoding."""
WORKER_LOG_FILE = "worker.log"
HOST_FILE = "host.bin"
"""File with data that one host stores when it starts a run, for the host that later fetches the
run. Both hosts have the same owner."""
CONSOLE_FILE = "console.log"
"""Log of the communication with a target that timed itself."""
LOADGEN_DETAIL_FILE = "mlperf_log_detail.txt"
LOADGEN_FILES = ("mlperf_log_summary.txt", LOADGEN_DETAIL_FILE)
"""Logs of MLPerf's LoadGen, if LoadGen issues the queries."""
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
"""All files that a run in the spool may have."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a packed trace."""

    name: str
    dtype: str
    """Type of the values as a numpy type string: little-endian, 8 bytes wide."""


QUERY_COLUMNS = tuple(
    Column(name, "<i8")
    for name in ("scheduled_ns", "start_ns", "invoke_start_ns", "invoke_end_ns", "end_ns", "sample")
)
TELEMETRY_COLUMNS = (Column("time_ns", "<i8"), Column("sensor", "<i8"), Column("value", "<f8"))

COLUMN_BYTES = 8
"""Every packed column is 8 bytes wide."""


def row_count(size_bytes: int, columns: tuple[Column, ...]) -> int:
    """Number of rows in a packed trace of this size.

    Raises:
        ValueError: the size is not a whole number of rows.
    """
    count, rest = divmod(size_bytes, COLUMN_BYTES * len(columns))
    if rest:
        raise ValueError(f"{size_bytes} bytes are not a whole number of {len(columns)}-column rows")
    return count
