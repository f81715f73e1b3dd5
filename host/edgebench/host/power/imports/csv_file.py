"""CSV, block by block: separators `,` `;` and tab, lines of `#` before the header.

pyarrow reads numbers fast and says little of what it refuses; a file that it refuses is read again
by Python's own reader up to the first value that is wrong.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as pacsv

from edgebench.host.power.imports.blocks import Rows
from edgebench.host.power.imports.columns import Columns, find_columns
from edgebench.meters.base import SampleBlock
from edgebench.protocol.errors import FileRefused

BLOCK_BYTES = 1 << 22
HEADER_LINES = 1000
LINE_CHARACTERS = 1 << 16
_SEPARATORS = (";", "\t", ",")
_NO_VALUE = ("", "nan", "NaN", "NAN", "null", "NULL", "None", "NA", "N/A", "n/a")


@dataclass(frozen=True, slots=True)
class Layout:
    """What the header says."""

    path: Path
    names: tuple[str, ...]
    separator: str
    skipped_count: int
    """Lines up to the header's, with it."""
    columns: Columns


def read_layout(path: Path, supply_v: float | None) -> Layout:
    """Find the header.

    Raises:
        FileRefused: there is none, or not one that can be used.
        OSError: the file is not readable.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = (file.readline(LINE_CHARACTERS) for _ in range(HEADER_LINES))
            for number, line in enumerate(lines, 1):
                if line.strip() and not line.startswith("#"):
                    return _layout(path, line, number, supply_v)
    except UnicodeDecodeError as exc:
        raise FileRefused("neither a .ppk2, nor Parquet, nor a CSV as UTF-8 text") from exc
    raise FileRefused("no header line with the names of columns")


def _layout(path: Path, line: str, number: int, supply_v: float | None) -> Layout:
    separator = next((one for one in _SEPARATORS if one in line), ",")
    names = tuple(name.strip() for name in next(csv.reader([line], delimiter=separator)))
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise FileRefused(f"two columns are named {twice[0]!r}")
    # Those without a name, as behind separators at the end of each line, are nobody's.
    told = tuple(name or f"#{place}" for place, name in enumerate(names))
    return Layout(path, told, separator, number, find_columns(told, supply_v))


def read_rows(layout: Layout, rows: Rows) -> Iterator[SampleBlock]:
    """All samples, a block of text at a time.

    Raises:
        FileRefused: a line or a value is wrong.
    """
    kinds = {column.name: pa.float64() for column in layout.columns.used}
    if layout.columns.channel is not None:
        kinds[layout.columns.channel.name] = pa.string()
    try:
        for batch in _open(layout, kinds):
            if batch.num_rows:
                values = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in kinds}
                yield rows.block(values)
    except pa.ArrowException as exc:
        raise FileRefused(_first_wrong(layout) or str(exc).splitlines()[0]) from exc


def _open(layout: Layout, kinds: dict[str, Any]) -> Any:  # of record batches
    return pacsv.open_csv(
        layout.path,
        read_options=pacsv.ReadOptions(
            column_names=layout.names,
            skip_rows=layout.skipped_count,
            block_size=BLOCK_BYTES,
            use_threads=False,
        ),
        parse_options=pacsv.ParseOptions(delimiter=layout.separator),
        convert_options=pacsv.ConvertOptions(
            include_columns=list(kinds),
            column_types=kinds,
            null_values=list(_NO_VALUE),
        ),
    )


def line_of(layout: Layout, row: int) -> str:
    """Words for a row, counted from 0."""
    number, _ = next(islice(_lines(layout), row, None), (0, []))
    return f"line {number}"


def _lines(layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of each line that is not empty."""
    with layout.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        for _ in range(layout.skipped_count):
            file.readline()
        reader = csv.reader(file, delimiter=layout.separator)
        for fields in reader:
            if fields:
                yield reader.line_num + layout.skipped_count, fields


def _first_wrong(layout: Layout) -> str | None:
    try:
        for number, fields in _lines(layout):
            if len(fields) != len(layout.names):
                expected = f"{len(layout.names)} columns, got {len(fields)}"
                return f"line {number}: expected {expected}"
            for column in layout.columns.used:
                if (why := _why_wrong(fields[column.place].strip())) is not None:
                    return f"line {number}, column {column.name!r}: {why}"
    except csv.Error as exc:
        return f"not a CSV: {exc}"
    return None


def _why_wrong(text: str) -> str | None:
    try:
        float(text if text not in _NO_VALUE else "nan")
    except ValueError:
        if "," in text:
            return f"decimal comma in {text[:40]!r}: write numbers with a point"
        return f"no number: {text[:40]!r}"
    return None
