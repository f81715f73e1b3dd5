"""The packed traces: column widths and file names that host and agent must agree on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.protocol import traces


@pytest.mark.parametrize("columns", [traces.QUERY_COLUMNS, traces.TELEMETRY_COLUMNS])
def test_columns_are_little_endian_and_eight_bytes_wide(
    columns: tuple[traces.Column, ...],
) -> None:
    """Otherwise a trace from a device would be read with the wrong width or byte order."""
    for column in columns:
        assert np.dtype(column.dtype).itemsize == traces.COLUMN_BYTES
        assert column.dtype.startswith("<")


@given(rows=st.integers(0, 2**40), rest=st.integers(0, 47))
def test_row_count_counts_whole_rows_only(rows: int, rest: int) -> None:
    """Otherwise a trace that was cut off would be read as a shorter one."""
    size_bytes = 48 * rows + rest
    if rest == 0:
        assert traces.row_count(size_bytes, traces.QUERY_COLUMNS) == rows
    else:
        with pytest.raises(ValueError, match="whole number"):
            traces.row_count(size_bytes, traces.QUERY_COLUMNS)


def test_spooled_files_are_plain_names() -> None:
    """Otherwise a name in the list would lead out of the run's directory, or be there twice."""
    assert len(set(traces.SPOOL_FILES)) == len(traces.SPOOL_FILES) == 10
    assert all("/" not in name and not name.startswith(".") for name in traces.SPOOL_FILES)
