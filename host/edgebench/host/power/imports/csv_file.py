"""CSV and other tables in text as blocks of samples.

csv_layout    header, separators, units, how numbers are written
csv_rows      lines → rows of values; irregular lines are skipped and counted
table_times   a first pass over the times: which times are repaired, and how
blocks        rows → samples
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edgebench.host.power.imports.blocks import TableDecoder
from edgebench.host.power.imports.columns import ROWS, TableColumn, TableColumns
from edgebench.host.power.imports.csv_layout import CsvLayout
from edgebench.host.power.imports.csv_rows import LINE, TIME
from edgebench.host.power.imports.table_times import TablePlan, read_samples
from edgebench.host.power.imports.time_window import TimeWindow
from edgebench.meters.base import SampleBlock


@dataclass(slots=True)
class LineNumbers:
    """Line numbers of the rows that are being decoded, for errors."""

    first_row: int = 0
    lines: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def of(self, row: int) -> str:
        """Line of a row, as text; rows count from 0."""
        return f"line {self.lines[row - self.first_row]}"


def sample_columns(layout: CsvLayout) -> TableColumns:
    """Columns of the layout; the time column is that of `read_samples`, in nanoseconds."""
    name = layout.columns.time.name
    time = TableColumn(TIME if name == ROWS else name, layout.columns.time.index, 1.0)
    return replace(layout.columns, time=time, date=None, millisecond=None)


def read_blocks(
    layout: CsvLayout,
    plan: TablePlan,
    window: TimeWindow,
    table: TableDecoder,
    numbers: LineNumbers,
) -> Iterator[SampleBlock]:
    """Yield all samples, a block of rows at a time.

    Raises:
        FileRefused: a row is of another channel, a value is invalid, or an energy counter
            contradicts the powers.
    """
    for values in read_samples(layout, plan, window):
        if len(values[LINE]):
            numbers.first_row, numbers.lines = table.tally.count, values[LINE].astype(np.int64)
            yield table.block(values | {table.columns.time.name: values[TIME]})
    table.refuse_contradiction()
