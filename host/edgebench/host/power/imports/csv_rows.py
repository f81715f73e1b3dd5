"""Reads the rows of a table in text: regular lines as whole blocks, irregular lines line by line.

pyarrow parses a block of lines at once, but rejects the whole block for a single irregular line. So
a rejected block is halved until only small blocks with irregular lines are left, and these blocks
are read line by line. Comments, repeated headers and messages are skipped, and values that are not
numbers become missing values. Skipped lines are counted, and the first line of each kind of
irregularity is kept.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as pacsv

from edgebench.host.power.imports.blocks import Values
from edgebench.host.power.imports.clock_times import TIME_LIMIT_NS, clock_column_ns, clock_ns
from edgebench.host.power.imports.columns import ROWS, TableColumn, TableColumns
from edgebench.host.power.imports.csv_layout import LINE_CHARACTERS, CsvLayout
from edgebench.host.power.imports.number_text import OVERLOAD, OVERLOAD_NUMBER
from edgebench.protocol.errors import FileRefused

BLOCK_BYTES = 1 << 22
BY_LINE_BYTES = 1 << 13
"""A rejected block of at most this size is not halved again, but read line by line."""
LINE, TIME = "#line", "#time"
"""Names of the added columns for line numbers and for times in nanoseconds."""
_COMMENTS = ("#", "//")


class _WrongValue(ValueError):
    """A value that cannot be read; the message names its column."""

    def __init__(self, column: str, why: str) -> None:
        super().__init__(f"column {column!r}: {why}")


@dataclass(slots=True)
class LineCount:
    """Number of lines with the same irregularity, and the first of these lines."""

    count: int = 0
    first_line: int = 0
    why: str = ""
    """What is wrong with the first line."""
    is_of_column: bool = False
    """Whether `why` names a column."""

    def add(self, line: int, why: str = "", count: int = 1, *, is_of_column: bool = False) -> None:
        """Add `count` lines, beginning with `line`."""
        if not self.first_line:
            self.first_line, self.why, self.is_of_column = line, why, is_of_column
        self.count += count


@dataclass(slots=True)
class RowTally:
    """Counts of rows, of lines without a row, and of missing values."""

    row_count: int = 0
    comments: LineCount = field(default_factory=LineCount)
    headers: LineCount = field(default_factory=LineCount)
    irregular: LineCount = field(default_factory=LineCount)
    missing: LineCount = field(default_factory=LineCount)


def read_rows(layout: CsvLayout, tally: RowTally) -> Iterator[dict[str, Values]]:
    """Yield the values of the used columns with line numbers and times, a block at a time.

    Rows with an invalid time are left out; values that are not numbers become NaN.

    Raises:
        FileRefused: a line is too long, or a value has another unit than its column.
    """
    line = layout.skipped_count + 1
    for lines in _blocks(layout):
        values = joined(_parsed(layout, lines, line, tally))
        count = len(values[LINE])
        if layout.columns.time.name == ROWS:
            rows = np.arange(tally.row_count, tally.row_count + count)
            values[TIME] = np.rint(rows * layout.columns.time.scale).astype(np.int64)
        tally.row_count += count
        _count_missing(layout, values, tally)
        if count:
            yield values
        line += lines.count(b"\n")


def joined(parts: Iterable[dict[str, Values]]) -> dict[str, Values]:
    """Concatenate the rows of successive parts; there must be at least one part."""
    every = list(parts)
    if len(every) == 1:
        return every[0]
    columns: dict[str, list[Any]] = {name: [part[name] for part in every] for name in every[0]}
    return {name: np.concatenate(arrays) for name, arrays in columns.items()}


def _blocks(layout: CsvLayout) -> Iterator[bytes]:
    """Yield blocks of the lines after the header, in UTF-8; only the last may lack a line end."""
    with layout.path.open("rb") as file:
        if layout.encoding == "utf-8-sig":
            if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
                file.seek(0)
            pieces = iter(lambda: file.read(BLOCK_BYTES), b"")
        else:
            text = TextIOWrapper(file, layout.encoding, errors="replace")
            pieces = iter(lambda: text.read(BLOCK_BYTES).encode(), b"")
        pending, left, line, to_skip = b"", b"", 1, layout.skipped_count
        for piece in pieces:
            lines, newline, left = (left + piece).rpartition(b"\n")
            lines += newline
            line += lines.count(b"\n")
            if len(left) > LINE_CHARACTERS:
                raise FileRefused(f"line {line} is longer than {LINE_CHARACTERS} characters")
            while to_skip and lines:
                lines = lines.partition(b"\n")[2]
                to_skip -= 1
            if pending:
                yield pending
            pending = lines
        if not to_skip and (pending or left):
            yield pending + left


def _parsed(
    layout: CsvLayout, lines: bytes, first_line: int, tally: RowTally
) -> Iterator[dict[str, Values]]:
    """Yield the rows of a block, which is parsed at once, or in halves, or line by line."""
    values = _at_once(layout, lines, first_line)
    if values is not None:
        yield values
        return
    middle = lines.find(b"\n", len(lines) // 2) + 1
    if len(lines) <= BY_LINE_BYTES or not 0 < middle < len(lines):
        yield _by_line(layout, lines, first_line, tally)
        return
    first, second = lines[:middle], lines[middle:]
    yield from _parsed(layout, first, first_line, tally)
    yield from _parsed(layout, second, first_line + first.count(b"\n"), tally)


def _at_once(layout: CsvLayout, lines: bytes, first_line: int) -> dict[str, Values] | None:
    """Parse the rows of a block at once; None if a line is irregular."""
    shape, columns = layout.shape, layout.columns
    if shape.is_json or layout.style.thousands:
        return None
    kinds = {column.name: pa.float64() for column in columns.used}
    kinds |= {column.name: pa.string() for column in columns.words}
    lines = shape.normal(lines)
    try:
        table = pacsv.read_csv(
            pa.BufferReader(lines),
            read_options=pacsv.ReadOptions(
                column_names=layout.names, block_size=len(lines) + 1, use_threads=False
            ),
            parse_options=pacsv.ParseOptions(delimiter=shape.separator),
            convert_options=pacsv.ConvertOptions(
                include_columns=list(kinds),
                column_types=kinds,
                null_values=list(layout.missing),
                decimal_point=layout.style.decimal,
            ),
        )
    except pa.ArrowException:
        return None
    numbers = np.arange(first_line, first_line + lines.count(b"\n") + (not lines.endswith(b"\n")))
    if len(numbers) != table.num_rows:  # pyarrow leaves out empty lines
        is_row = np.array([bool(line.strip()) for line in lines.split(b"\n")][: len(numbers)], bool)
        numbers = numbers[is_row]
    if len(numbers) != table.num_rows:
        return None
    values: dict[str, Values] = {name: table[name].to_numpy() for name in kinds}
    time_ns = _times_ns(layout, values)
    if time_ns is None:
        return None
    values[LINE], values[TIME] = numbers, time_ns
    return values


def _times_ns(layout: CsvLayout, values: dict[str, Values]) -> NDArray[np.int64] | None:
    """Times as written in the file, without repair, in nanoseconds; None if any is not a time."""
    columns = layout.columns
    time = columns.time
    if time.name == ROWS:
        return np.zeros(0, np.int64)  # numbered by read_rows
    raw = values[time.name]
    if time.is_clock:
        texts = list(raw)
        if columns.date is not None:
            days = values[columns.date.name]
            texts = [f"{day} {text}" for day, text in zip(days, texts, strict=True)]
        time_ns = clock_column_ns(texts)
    else:
        time_ns = _scaled_ns(raw.astype(np.float64), time.scale)
    if time_ns is None or columns.millisecond is None:
        return time_ns
    part_ns = _scaled_ns(values[columns.millisecond.name].astype(np.float64), 1e6)
    return None if part_ns is None else time_ns + part_ns


def _scaled_ns(numbers: NDArray[np.float64], scale: float) -> NDArray[np.int64] | None:
    """Multiply numbers by nanoseconds per unit; None if any is not a number, or is too large."""
    if not (np.abs(numbers) < TIME_LIMIT_NS / scale).all():  # also where it is NaN
        return None
    if scale != int(scale):
        rounded: NDArray[np.int64] = np.rint(numbers * scale).astype(np.int64)
        return rounded
    # Seconds since 1970 as a float resolve 0.2 µs, their nanoseconds as a float 256 ns: the whole
    # part is scaled as an integer.
    whole = np.floor(numbers)
    part_ns: NDArray[np.int64] = np.rint((numbers - whole) * scale).astype(np.int64)
    return whole.astype(np.int64) * int(scale) + part_ns


def _by_line(
    layout: CsvLayout, lines: bytes, first_line: int, tally: RowTally
) -> dict[str, Values]:
    """Parse a few lines one by one; irregular lines are counted and skipped."""
    used, words = layout.columns.used, layout.columns.words
    needed = 1 + max((column.index for column in (*used, *words)), default=0)
    rows: list[list[float]] = []
    texts: list[list[str]] = []
    numbers: list[int] = []
    for number, line in enumerate(lines.decode(errors="replace").split("\n"), first_line):
        text = line.strip()
        if not text:
            continue
        if text.startswith(_COMMENTS):
            tally.comments.add(number)
            continue
        if text == layout.header and not layout.shape.is_json:
            tally.headers.add(number)
            continue
        try:
            fields = [value.strip() for value in layout.shape.fields(line)]
            if len(fields) < needed or any(fields[len(layout.names) :]):
                raise ValueError(f"expected {len(layout.names)} columns, got {len(fields)}")
            row = [_number(layout, column, fields[column.index], number, tally) for column in used]
            _check_clock(layout.columns, fields)
        except ValueError as exc:
            tally.irregular.add(number, str(exc), is_of_column=isinstance(exc, _WrongValue))
            continue
        rows.append(row)
        texts.append([fields[column.index] for column in words])
        numbers.append(number)
    table = np.array(rows, np.float64).reshape(len(rows), len(used))
    words_of = np.array(texts, np.object_).reshape(len(rows), len(words))
    values: dict[str, Values] = {column.name: table[:, at] for at, column in enumerate(used)}
    values |= {column.name: words_of[:, at] for at, column in enumerate(words)}
    time_ns = _times_ns(layout, values)
    assert time_ns is not None, "each row has a time"
    return values | {LINE: np.array(numbers, np.int64), TIME: time_ns}


def _check_clock(columns: TableColumns, fields: Sequence[str]) -> None:
    """Check the time of a row, if the time column contains clock times.

    Raises:
        ValueError: the text is not a clock time.
    """
    if not columns.time.is_clock:
        return
    text = fields[columns.time.index]
    try:
        clock_ns(text if columns.date is None else f"{fields[columns.date.index]} {text}")
    except ValueError as exc:
        raise ValueError(f"column {columns.time.name!r}: not a time: {text[:40]!r}") from exc


def _number(layout: CsvLayout, column: TableColumn, text: str, line: int, tally: RowTally) -> float:
    """Parse a number of a row; NaN if the value is missing.

    Raises:
        ValueError: the time is not a number, so the line is not a row.
        FileRefused: the number has another unit than its column.
    """
    is_time = column in (layout.columns.time, layout.columns.millisecond)
    if text in layout.missing:
        if is_time:
            raise _WrongValue(column.name, f"not a time: {text!r}")
        return np.nan
    if text.upper() in OVERLOAD:
        return OVERLOAD_NUMBER
    try:
        number, unit = layout.style.number(text)
    except ValueError as exc:
        wrong = _WrongValue(column.name, str(exc))
        if is_time:
            raise wrong from exc
        tally.missing.add(line, str(wrong), count=0, is_of_column=True)
        return np.nan
    if is_time and not abs(number) < TIME_LIMIT_NS / column.scale:
        raise _WrongValue(column.name, f"not a time: {text[:40]!r}")
    if unit and not layout.columns.has_unit(column, unit):
        raise FileRefused(f"line {line}, column {column.name!r}: wrong unit: {text[:40]!r}")
    return number


def _count_missing(layout: CsvLayout, values: dict[str, Values], tally: RowTally) -> None:
    """Count missing values that the table does not flag as missing."""
    for column in layout.columns.electrical.values():
        is_missing = ~np.isfinite(values[column.name].astype(np.float64))
        if (flags := layout.columns.flags) is not None:
            is_missing &= (values[flags.name].astype(np.float64) % 2) != 1
        if is_missing.any():
            line = int(values[LINE][np.argmax(is_missing)])
            wrong = str(_WrongValue(column.name, "not a number"))
            tally.missing.add(line, wrong, int(is_missing.sum()), is_of_column=True)
