"""CSV: one row a run, with a stable header; RFC 4180, UTF-8.

A text that a spreadsheet would take for a formula gets an apostrophe in front: the name of a model
or a note may come from anybody.

Source: OWASP, CSV Injection.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import BinaryIO

from edgebench.host.export.columns import FACT_COLUMNS, Fact, number_cells, number_columns
from edgebench.host.export.exported import ExportedRun

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def write(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write the runs as rows."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    numbers = list(number_columns())
    writer = csv.writer(text)
    writer.writerow([*(column.name for column in FACT_COLUMNS), *numbers])
    for one in runs:
        cells = number_cells(one)
        facts = [_harmless(column.cell(one)) for column in FACT_COLUMNS]
        writer.writerow([*facts, *(cells.get(name) for name in numbers)])
    text.detach()


def _harmless(cell: Fact) -> Fact:
    """The cell as no program computes it.

    >>> _harmless("=1+1"), _harmless("digits.onnx"), _harmless(-1.5)
    ("'=1+1", 'digits.onnx', -1.5)
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell
