"""CSV: a row per run, with a stable header; RFC 4180, UTF-8.

Names of models and notes are untrusted text, so a formula in a cell is prefixed with an apostrophe.
A formula is also recognised after leading blanks, because some programs drop them. It is also
recognised after a semicolon or a line feed, because a program ends the cell there if its decimal
mark is the comma. `fact_cells` replaces tabs and carriage returns by `?`. Numbers are unchanged. A
reader such as pandas returns the apostrophe as part of the text.

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
"""Position at which a formula may begin."""


def write(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write the runs as rows."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    numbers = list(number_columns())
    writer = csv.writer(text)
    writer.writerow([*(column.name for column in FACT_COLUMNS), *numbers])
    for export_row in export_rows(runs):
        cells = number_cells(export_row)
        # Spreadsheets do not evaluate an escaped cell as a formula.
        facts = [
            _FORMULA.sub(r"\1'", cell) if isinstance(cell, str) else cell
            for cell in fact_cells(export_row).values()
        ]
        writer.writerow([*facts, *(cells.get(name) for name in numbers)])
    text.detach()
