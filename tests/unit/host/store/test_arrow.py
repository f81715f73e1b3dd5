"""Columns between numpy and Arrow: equal to pyarrow's own conversions, without pandas."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from edgebench.host.store.arrow import table_of, texts_to_arrow, to_arrow, to_numpy

COLUMNS = [
    np.arange(-3, 20, dtype=np.int64),
    np.array([1.5, np.nan, np.inf, -0.0]),
    np.array([3, 1, 255], np.uint8),
    np.arange(7, dtype=np.int32)[::2],
    np.array([True, False, True] * 7),
    np.empty(0),
]


@pytest.mark.parametrize("values", COLUMNS)
def test_numbers_come_back(values: NDArray[Any]) -> None:
    """Otherwise a column would be shifted, cut, or have null for NaN."""
    column = to_arrow(values)
    assert column.equals(pa.array(values)) or np.isnan(values).any()
    assert (column.type, column.null_count) == (pa.array(values).type, 0)
    np.testing.assert_array_equal(to_numpy(column), values)
    chunks = pa.chunked_array([column.slice(0, 2), column.slice(2)])
    np.testing.assert_array_equal(to_numpy(chunks), values)
    np.testing.assert_array_equal(to_numpy(column.slice(1)), values[1:])


def test_null_is_nan() -> None:
    """Otherwise a damaged file with a null would end in a traceback."""
    np.testing.assert_array_equal(to_numpy(pa.array([1.0, None])), [1.0, np.nan])


def test_texts_and_tables_are_those_of_pyarrow() -> None:
    """Otherwise the names of sensors would be lost or cut."""
    names = ["cpu", "", "Wärme", "x" * 300]
    assert texts_to_arrow(names).equals(pa.array(names))
    table = table_of({"a": np.arange(4), "names": texts_to_arrow(names)})
    table.validate(full=True)
    assert table.equals(pa.table({"a": np.arange(4), "names": names}))


def test_pandas_is_not_imported() -> None:
    """Otherwise each command would take 0.35 s more of CPU time."""
    code = (
        "import sys, numpy as np; from edgebench.host.store.arrow import *;"
        "table = table_of({'a': np.arange(3), 'b': np.ones(3, bool)});"
        "to_numpy(table['a']), to_numpy(table['b']), texts_to_arrow(['x']);"
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
