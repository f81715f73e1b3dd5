"""Parquet: the columns of CSV with their types, and the latencies of each run as lists.

Each run is a row in a separate row group. `inference_start_s` and `inference_latency_ns` have an
element for each inference after the warm-up; both are null if the inferences were not timed singly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from edgebench.host.export.columns import (
    FACT_COLUMNS,
    export_rows,
    fact_cells,
    number_cells,
    number_columns,
)
from edgebench.host.export.exported import ExportedRun
from edgebench.host.series.run_series import read_series
from edgebench.host.store.arrow import to_arrow

_TYPES: dict[type, Any] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
TRACES = ("inference_start_s", "inference_latency_ns")
"""Columns with lists: the starts of the inferences, relative to the first query after the warm-up,
and their latencies."""


def write(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write the runs as rows, one run in memory at a time: a run may have millions of latencies."""
    schema = pa.schema(
        [
            *((column.name, _TYPES[column.kind]) for column in FACT_COLUMNS),
            *((name, pa.float64()) for name in number_columns()),
            *((name, pa.list_(pa.float64())) for name in TRACES),
        ]
    )
    # With a single row per group, dictionaries save nothing and take 0.5 GB for an hour.
    with pq.ParquetWriter(out, schema, compression="zstd", use_dictionary=False) as writer:
        for export_row in export_rows(runs):
            row = {
                **fact_cells(export_row),
                **number_cells(export_row),
                **_latencies(export_row.exported),
            }
            columns = [_column(row.get(field.name), field.type) for field in schema]
            writer.write_table(pa.table(columns, schema=schema))


def _latencies(exported_run: ExportedRun) -> dict[str, Any]:
    """Starts and latencies of the inferences after the warm-up; empty if the run has no latency."""
    if exported_run.run.verdict.is_refused or exported_run.run.metrics.latency_ns is None:
        return {}
    latency = read_series(exported_run.directory, exported_run.run).latency
    if latency is None:
        return {}
    start_s = latency.start_s[latency.warmup_count :]
    return dict(zip(TRACES, (start_s, latency.steady_ns), strict=True))


def _column(cell: Any, kind: Any) -> Any:
    """Array with a single cell; the numbers of a list are not converted to Python objects."""
    if cell is None or not pa.types.is_list(kind):
        return pa.array([cell], kind)
    return pa.ListArray.from_arrays(pa.array([0, len(cell)], pa.int32()), to_arrow(cell))
