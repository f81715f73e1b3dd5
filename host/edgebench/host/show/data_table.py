"""A table that is printed as a list of its cells where the terminal is too narrow for it.

rich makes room by cutting numbers, and a number without its last digits is another number.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table

GAP = 2
"""Columns of the terminal between two columns of a table."""
LEAST_NAME = 6
"""Names and sentences are folded to no fewer columns than this."""


class DataTable(Table):
    """A table of numbers and names; a column that may not be folded is never cut."""

    def __init__(self, *names: str) -> None:
        """Make a table.

        Args:
            names: Names of its first columns, whose cells may be folded.
        """
        super().__init__(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for name in names:
            self.add_column(name, overflow="fold")

    def add_numbers(self, *names: str) -> None:
        """Add columns whose cells are printed on one line, or the table is a list."""
        for name in names:
            self.add_column(name, no_wrap=True)

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterable[RenderableType | Segment]:
        """The table, or a list of its cells, row by row."""
        widths = (_least_width(one, console, options) + GAP for one in self.columns)
        if sum(widths) <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        for row in zip(*(column.cells for column in self.columns), strict=True):
            listed = Table.grid(padding=(0, GAP, 0, 0))
            listed.add_column(no_wrap=True)
            listed.add_column(overflow="fold")
            for column, cell in zip(self.columns, row, strict=True):
                listed.add_row(column.header, cell)
            yield listed
            yield ""


def _least_width(column: Column, console: Console, options: ConsoleOptions) -> int:
    """Columns of the terminal that this one takes at least."""
    found = [Measurement.get(console, options, one) for one in (column.header, *column.cells)]
    if column.no_wrap:
        return max(one.maximum for one in found)
    longest_word = max(one.minimum for one in found)
    return max(column.width or column.min_width or 0, min(longest_word, LEAST_NAME))
