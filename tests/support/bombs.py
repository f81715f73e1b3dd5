"""Parquet files of a few kilobytes with any number of rows, in place of those of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgebench.host.store.layout import (
    CLOCK_FILE,
    POWER_FILE,
    QUERIES_FILE,
    TELEMETRY_FILE,
)
from edgebench.host.store.power import KEY, SCHEMA

GROUP_ROWS = 1 << 20
"""Rows of a row group, as edgebench writes them."""
_SENSORS = pa.dictionary(pa.int32(), pa.string())
_SCHEMAS = {
    QUERIES_FILE: pa.schema([("start_ns", pa.int64())]),
    TELEMETRY_FILE: pa.schema([("sensor", _SENSORS)]),
    CLOCK_FILE: pa.schema([("t0", pa.int64())]),
    POWER_FILE: pa.schema([SCHEMA.field("watts_w")]),
}
"""One column of each file: the others would only cost time here."""
BOMBS = tuple(_SCHEMAS)


def write_bomb(directory: Path, name: str, row_count: int) -> None:
    """Replace a file of a run by a file with this many equal rows."""
    schema = _SCHEMAS[name]
    kind = schema.field(0).type
    rows = min(row_count, GROUP_ROWS)
    if kind == _SENSORS:
        zeros = pa.array(np.zeros(rows, np.int32))
        column = pa.DictionaryArray.from_arrays(zeros, pa.array(["x"]))
    else:
        column = pa.array(np.zeros(rows), kind)
    table = pa.table([column], schema=schema)
    kept = None
    if name == POWER_FILE and (directory / name).exists():
        kept = (pq.read_metadata(directory / name).metadata or {}).get(KEY.encode())
    with pq.ParquetWriter(directory / name, schema, compression="zstd") as writer:
        for _ in range(-(-row_count // rows)):
            writer.write_table(table, row_group_size=rows)
        if kept is not None:
            writer.add_key_value_metadata({KEY: kept.decode()})
