"""Conversion of columns between numpy and Arrow.

pyarrow's own conversions import pandas if pandas is installed. The import takes 0.35 s of CPU time,
also in commands that do not need pandas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def to_arrow(values: NDArray[Any]) -> Any:  # pyarrow has no types
    """Convert numbers or Booleans to an Arrow array; NaN stays NaN, and does not become null."""
    is_boolean = values.dtype == np.bool_
    packed = np.packbits(values, bitorder="little") if is_boolean else np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(packed)])


def texts_to_arrow(texts: Iterable[str]) -> Any:
    """Convert strings to an Arrow array."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(
        len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))
    )


def to_numpy(column: Any) -> NDArray[Any]:
    """Numbers or Booleans of a column as a read-only array; nulls become NaN."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if column.null_count:
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values
    if pa.types.is_boolean(column.type):
        return to_numpy(column.cast(pa.uint8())).view(np.bool_)
    return np.from_dlpack(column)


def table_of(columns: Mapping[str, Any]) -> Any:
    """Arrow table from a mapping of names to numpy or Arrow columns."""
    arrays = [
        to_arrow(values) if isinstance(values, np.ndarray) else values
        for values in columns.values()
    ]
    return pa.Table.from_arrays(arrays, names=list(columns))
