"""CSV: one row per run, with a stable header; RFC 4180, UTF-8.

Names of models and notes are untrusted text, so a cell that a spreadsheet would run as a formula is
prefixed with an apostrophe. Leading blanks do not protect it, as some programs drop them. Neither
does a position behind a semicolon or a line feed: where the comma is the decimal mark, the cell
ends there. A tab or a carriage return is a `?` already (`fact_cells`). Numbers are as they are, and
a reader such as pandas gets the apostrophe as part of the text.

Source: OWASP, CSV Injection.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import BinaryIO

from edgebench.host.export.columns import (
    FACT_COLUMNS,
    export_rows,
    fact_cells,
    number_cells,
    number_columns,
)
from edgebench.host.export.exported import ExportedRun

_FORMULA = re.compile(r"(^|[;\n])(?=\s*[=+\-@＝＋－＠])")
"""Position at which a formula would start."""


def write(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write the runs as rows."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    numbers = list(number_columns())
    writer = csv.writer(text)
    writer.writerow([*(column.name for column in FACT_COLUMNS), *numbers])
    for one in export_rows(runs):
        cells = number_cells(one)
        # No spreadsheet runs an escaped cell as a formula.
        facts = [
            _FORMULA.sub(r"\1'", cell) if isinstance(cell, str) else cell
            for cell in fact_cells(one).values()
        ]
        writer.writerow([*facts, *(cells.get(name) for name in numbers)])
    text.detach()
