"""CSV, block by block: separators `,` `;` and tab, lines of `#` before the header.

pyarrow reads numbers fast, and says little of what it refuses; such a file is read again by
Python's own reader, up to the first wrong value.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
from pyarrow import csv as pacsv

from edgebench.host.power.imports.blocks import TableDecoder
from edgebench.host.power.imports.columns import TableColumns, find_columns
from edgebench.meters.base import SampleBlock
from edgebench.protocol.errors import FileRefused

BLOCK_BYTES = 1 << 22
HEADER_LINES = 1000
LINE_CHARACTERS = 1 << 16
_SEPARATORS = (";", "\t", ",")
_NO_VALUE = ("", "nan", "NaN", "NAN", "null", "NULL", "None", "NA", "N/A", "n/a")


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """Layout of a file by its header."""

    path: Path
    names: tuple[str, ...]
    separator: str
    skipped_count: int
    """Lines up to the header, and the header."""
    columns: TableColumns


def read_layout(path: Path, supply_v: float | None) -> CsvLayout:
    """Find the header.

    Raises:
        FileRefused: there is no header, or not all that is needed.
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


def _layout(path: Path, line: str, number: int, supply_v: float | None) -> CsvLayout:
    separator = next((one for one in _SEPARATORS if one in line), ",")
    names = tuple(name.strip() for name in next(csv.reader([line], delimiter=separator)))
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise FileRefused(f"two columns are named {twice[0]!r}")
    # A separator at the end of each line makes a column without a name.
    named = tuple(name or f"#{index}" for index, name in enumerate(names))
    return CsvLayout(path, named, separator, number, find_columns(named, supply_v))


def read_rows(layout: CsvLayout, table: TableDecoder) -> Iterator[SampleBlock]:
    """All samples, a block of text at a time.

    Raises:
        FileRefused: a line or a value is wrong.
    """
    kinds = {column.name: pa.float64() for column in layout.columns.used}
    if layout.columns.channel is not None:
        kinds[layout.columns.channel.name] = pa.string()
    try:
        reader = pacsv.open_csv(
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
        for batch in reader:
            if batch.num_rows:
                values = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in kinds}
                yield table.block(values)
    except pa.ArrowException as exc:
        raise FileRefused(_first_wrong(layout) or str(exc).splitlines()[0]) from exc


def line_of(layout: CsvLayout, row: int) -> str:
    """Words for a row, counted from 0."""
    number, _ = next(islice(_lines(layout), row, None), (0, []))
    return f"line {number}"


def _lines(layout: CsvLayout) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of each line that is not empty."""
    with layout.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        for _ in range(layout.skipped_count):
            file.readline()
        reader = csv.reader(file, delimiter=layout.separator)
        for fields in reader:
            if fields:
                yield reader.line_num + layout.skipped_count, fields


def _first_wrong(layout: CsvLayout) -> str | None:
    try:
        for number, fields in _lines(layout):
            if len(fields) != len(layout.names):
                expected = f"{len(layout.names)} columns, got {len(fields)}"
                return f"line {number}: expected {expected}"
            for column in layout.columns.used:
                if (why := _why_wrong(fields[column.index].strip())) is not None:
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
