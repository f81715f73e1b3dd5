"""Time series of a run: columns, units, and their packed form on the device.

A trace travels as little-endian columns, one after another, each of the same length. The file
says nothing about itself: the number of rows is its size over the row size. Columns:

    queries     start_ns i64, end_ns i64                 device monotonic clock, issue order
    telemetry   time_ns i64, sensor i64, value f64       `sensor` indexes the list beside it
"""

from __future__ import annotations

from dataclasses import dataclass

QUERIES_FILE = "queries.bin"
TELEMETRY_FILE = "telemetry.bin"
SENSORS_FILE = "telemetry.json"
"""The names of the sensors, a JSON list; `sensor` in the trace is an index into it."""
RECORD_FILE = "record.json"
WORKER_LOG_FILE = "worker.log"
SPOOL_FILES = (RECORD_FILE, QUERIES_FILE, TELEMETRY_FILE, SENSORS_FILE, WORKER_LOG_FILE)
"""Every file that a spooled run may hold."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a packed trace."""

    name: str
    dtype: str
    """numpy type string, little-endian, 8 bytes wide."""


QUERY_COLUMNS = (Column("start_ns", "<i8"), Column("end_ns", "<i8"))
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
