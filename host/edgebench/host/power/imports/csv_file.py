"""CSV, block by block: separators `,` `;` tab and space; any lines before the header.

pyarrow reads numbers fast, but its errors are terse. A file that it rejects is read again with
Python's csv module, up to the first invalid value.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as pacsv

from edgebench.host.power.imports.blocks import TableDecoder, Values, spread_rows
from edgebench.host.power.imports.clock_times import TIME_LIMIT_NS, is_clock_time
from edgebench.host.power.imports.columns import (
    ROWS,
    TableColumn,
    TableColumns,
    find_columns,
    known_columns,
)
from edgebench.host.power.imports.known_tables import KnownTable, known_table
from edgebench.host.result.facts import ImportOptions
from edgebench.meters.base import SampleBlock
from edgebench.protocol.errors import FileRefused

BLOCK_BYTES = 1 << 22
HEADER_LINES = 1000
LINE_CHARACTERS = 1 << 16
_SEPARATORS = (";", "\t", ",", " ")
_NO_VALUE = ("", "nan", "NaN", "NAN", "null", "NULL", "None", "NA", "N/A", "n/a")
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+(?:[eE][-+]?\d+)?\s*")
_WITH_UNIT = re.compile(r"\s*([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-zµ]*)\s*")
MAX_COLUMNS = 1000
"""Maximum number of columns; a file without line ends is not a table."""


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """Layout of a file, from its header."""

    path: Path
    names: tuple[str, ...]
    separator: str
    skipped_count: int
    """Number of lines up to and including the header."""
    columns: TableColumns
    encoding: str
    decimal: str
    """Decimal point or comma."""
    known: KnownTable | None = None
    """Known program that wrote the file; None for any other table."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Texts that mark a missing value."""
        return _NO_VALUE + (self.known.missing if self.known else ())


def read_layout(path: Path, options: ImportOptions) -> CsvLayout:
    """Find the header.

    Raises:
        FileRefused: there is no header, or a required column is missing.
        OSError: the file is not readable.
    """
    encoding = _encoding_of(path)
    try:
        with path.open(encoding=encoding) as file:
            head = [file.readline(LINE_CHARACTERS) for _ in range(HEADER_LINES)]
    except UnicodeDecodeError as exc:
        raise FileRefused("not a .ppk2, a Parquet file or a CSV in UTF-8") from exc
    lines = [(number, line) for number, line in enumerate(head, 1) if line.strip()]
    first_error: FileRefused | None = None
    # A line with # may be the header, if no other line is.
    for is_comment in (False, True):
        for place, (number, line) in enumerate(lines):
            if line.startswith("#") is not is_comment:
                continue
            following = next((one for _, one in lines[place + 1 :]), "")
            text = line.lstrip("# ") if is_comment else line
            try:
                return _layout(path, text, number, following, encoding, options)
            except FileRefused as exc:
                # If no line is a header, the error of the first line is reported.
                first_error = first_error or exc
    raise first_error or FileRefused("no header line with the names of columns")


def _encoding_of(path: Path) -> str:
    """Encoding, from the first bytes: programs for Windows write UTF-16 or Latin 1."""
    with path.open("rb") as file:
        head = file.read(LINE_CHARACTERS)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as exc:
        # Single-byte text has no control characters; other content is not text.
        is_text = exc.start < len(head) - 4 and not re.search(rb"[\x00-\x08\x0e-\x1f]", head)
        return "latin-1" if is_text else "utf-8-sig"
    return "utf-8-sig"


def _layout(
    path: Path, line: str, number: int, following: str, encoding: str, options: ImportOptions
) -> CsvLayout:
    if "\0" in line + following:  # Python 3.10's csv module raises its own error for NUL
        raise FileRefused("not text: a line contains a NUL")
    separator = next((one for one in _SEPARATORS if one in line.strip()), ",")
    names = tuple(
        name.strip() for name in next(csv.reader([line.strip("\r\n")], delimiter=separator))
    )
    if len(names) > MAX_COLUMNS:
        raise FileRefused(f"not a power table: a header of more than {MAX_COLUMNS} columns")
    twice = [name for name in names if name and names.count(name) > 1]
    first_row = next(csv.reader([following.strip("\r\n")], delimiter=separator), [])
    first_row = [value.strip() for value in first_row]
    is_named = any((options.time, options.power, options.current, options.voltage))
    known = None if is_named else known_table(names)
    if twice and known is None:
        raise FileRefused(f"two columns are named {twice[0]!r}")
    # A separator at the end of each line creates a column without a name.
    named = tuple(
        name if name and names.index(name) == index else f"#{index}"
        for index, name in enumerate(names)
    )
    columns = (
        known_columns(known, named, options, first_row)
        if known
        else find_columns(named, options, first_row)
    )
    decimal = "," if separator != "," and any(map(_DECIMAL_COMMA.fullmatch, first_row)) else "."
    return CsvLayout(path, named, separator, number, columns, encoding, decimal, known)


def read_rows(layout: CsvLayout, table: TableDecoder) -> Iterator[SampleBlock]:
    """All samples, a block of text at a time.

    Raises:
        FileRefused: a line or a value is invalid.
    """
    batches = _batches(layout)
    if layout.known is not None and layout.known.may_repeat:
        batches = _spread(layout, batches)
    for values in batches:
        yield table.block(values)


def _batches(layout: CsvLayout) -> Iterator[dict[str, Values]]:
    """Values of the used columns, a block of text at a time."""
    known = layout.known
    is_text = known is not None and (known.has_units or known.has_footer)
    kinds = {
        column.name: pa.string() if is_text else pa.float64() for column in layout.columns.used
    }
    kinds |= {column.name: pa.string() for column in layout.columns.words}
    try:
        reader = pacsv.open_csv(
            layout.path,
            read_options=pacsv.ReadOptions(
                column_names=layout.names,
                skip_rows=layout.skipped_count,
                block_size=BLOCK_BYTES,
                use_threads=False,
                encoding="utf8" if layout.encoding == "utf-8-sig" else layout.encoding,
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=layout.separator,
                invalid_row_handler=(lambda _: "skip") if known and known.has_footer else None,
            ),
            convert_options=pacsv.ConvertOptions(
                include_columns=list(kinds),
                column_types=kinds,
                null_values=list(layout.missing),
                decimal_point=layout.decimal,
            ),
        )
        for batch in reader:
            if batch.num_rows:
                values: dict[str, Values] = {
                    name: batch.column(name).to_numpy(zero_copy_only=False) for name in kinds
                }
                if known is not None and known.has_footer:
                    values = _without_footer(values, layout)
                if is_text:
                    for column in layout.columns.used:
                        values[column.name] = _without_units(values[column.name], layout, column)
                if len(next(iter(values.values()))):
                    yield values
    except pa.ArrowException as exc:
        raise FileRefused(_first_wrong(layout) or str(exc).splitlines()[0]) from exc


def _without_footer(values: dict[str, Values], layout: CsvLayout) -> dict[str, Values]:
    """The rows with a valid time: lines after the samples have other text in its place."""
    time = layout.columns.time
    if time.name == ROWS:
        return values
    is_time = is_clock_time if time.is_clock else _WITH_UNIT.fullmatch
    kept = np.array(
        [text is not None and bool(is_time(str(text))) for text in values[time.name]], bool
    )
    return {name: column[kept] for name, column in values.items()}


def _without_units(texts: Values, layout: CsvLayout, column: TableColumn) -> NDArray[np.float64]:
    """Numbers that are followed by their unit; NaN for missing values."""
    numbers = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        if text is None or str(text).strip() in layout.missing:
            continue
        if (match := _WITH_UNIT.fullmatch(str(text))) is None:
            raise FileRefused(f"column {column.name!r}: not a number: {str(text)[:40]!r}")
        if match[2] and not layout.columns.has_unit(column, match[2]):
            raise FileRefused(f"column {column.name!r}: wrong unit: {str(text)[:40]!r}")
        numbers[row] = float(match[1])
    return numbers


def _spread(layout: CsvLayout, batches: Iterator[dict[str, Values]]) -> Iterator[dict[str, Values]]:
    """Rows that share a time, spread up to the next time."""
    time = layout.columns.time
    if time.name == ROWS or time.is_clock:
        yield from batches
        return
    for rows in spread_rows(_whole_times(layout, batches), time.name):
        # In the unit of the column: integer nanoseconds over its scale.
        scaled: Values = rows[time.name] / time.scale
        yield {**rows, time.name: scaled}


def _whole_times(
    layout: CsvLayout, batches: Iterator[dict[str, Values]]
) -> Iterator[dict[str, Values]]:
    """Batches with times in whole nanoseconds."""
    time = layout.columns.time
    count = 0
    for rows in batches:
        times = rows[time.name].astype(np.float64)
        is_wrong = ~(np.abs(times) < TIME_LIMIT_NS / time.scale)  # also where it is NaN
        if is_wrong.any():
            place = line_of(layout, count + int(np.argmax(is_wrong)))
            raise FileRefused(f"{place}, column {time.name!r}: not a time")
        count += len(times)
        yield rows | {time.name: np.rint(times * time.scale).astype(np.int64)}


def line_of(layout: CsvLayout, row: int) -> str:
    """Line number of a row, as text; rows count from 0."""
    number, _ = next(islice(_lines(layout), row, None), (0, []))
    return f"line {number}"


def _lines(layout: CsvLayout) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each non-empty line."""
    with layout.path.open(encoding=layout.encoding, errors="replace", newline="") as file:
        # The length of a line is limited: a file may have no line ends.
        lines = iter(lambda: file.readline(LINE_CHARACTERS), "")
        reader = csv.reader(islice(lines, layout.skipped_count, None), delimiter=layout.separator)
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
                text = fields[column.index].strip()
                try:
                    float("nan" if text in layout.missing else text.replace(layout.decimal, "."))
                except ValueError:
                    why = f"not a number: {text[:40]!r}"
                    if "," in text and layout.decimal == ".":
                        why = f"decimal comma in {text[:40]!r}: use a decimal point"
                    return f"line {number}, column {column.name!r}: {why}"
    except csv.Error as exc:
        return f"not a CSV: {exc}"
    return None
