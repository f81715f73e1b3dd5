"""A table that is printed as a list of its cells if the terminal is too narrow.

rich cuts numbers to make a table fit into the terminal. A number without its last digits is a wrong
number.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table

GAP = 2
"""Number of characters between two columns of a table."""
LEAST_NAME = 6
"""Minimum width of a column of names or sentences, which are folded to fit into it."""


class DataTable(Table):
    """A table of numbers and names; a column with `no_wrap` is never cut."""

    def __init__(self, *names: str) -> None:
        """Make a table.

        Args:
            names: Names of the first columns, whose cells may be folded.
        """
        super().__init__(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for name in names:
            self.add_column(name, overflow="fold")

    def add_numbers(self, *names: str) -> None:
        """Add columns whose cells are never folded; if they do not fit, the table is a list."""
        for name in names:
            self.add_column(name, no_wrap=True)

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterable[RenderableType | Segment]:
        """The table, or a list of its cells, row by row."""
        widths = (_least_width(column, console, options) + GAP for column in self.columns)
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
    """Minimum width of the column on the terminal."""
    found = [Measurement.get(console, options, cell) for cell in (column.header, *column.cells)]
    if column.no_wrap:
        return max(one.maximum for one in found)
    longest_word = max(one.minimum for one in found)
    return max(column.width or column.min_width or 0, min(longest_word, LEAST_NAME))
