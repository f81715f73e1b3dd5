"""Layout of a table in text: its header, the separators, and how numbers are written.

Any lines may precede the header. Columns are separated by `,` `;` tab or blanks; in a table of
aligned columns, any number of blanks may separate two values. A row of units may follow the header.
A time of the Arduino serial monitor may precede each line. In a table without a header, the columns
are #1, #2, … If each line is a JSON object, the keys of the object are the columns.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgebench.host.power.imports.clock_times import has_zone, is_clock_time
from edgebench.host.power.imports.columns import TableColumns, find_columns, known_columns, unit_of
from edgebench.host.power.imports.known_tables import KnownTable, known_table
from edgebench.host.power.imports.number_text import NO_VALUE, NumberStyle, style_of
from edgebench.host.result.facts import ImportOptions
from edgebench.protocol.errors import FileRefused

HEADER_LINES = 1000
LINE_CHARACTERS = 1 << 16
STYLE_ROWS = 200
"""Number of rows, at the start of a file, that determine the decimal and thousands separators."""
NEAR_ROWS = 10
"""Number of lines after the header in which the first row is looked for, because messages may
precede the row."""
MAX_COLUMNS = 1000
"""Maximum number of columns, so that a file without line ends is not read as a table."""
_SEPARATORS = (";", "\t", ",", " ")
_ARDUINO_TIME = re.compile(r"(\d\d:\d\d:\d\d\.\d{1,6}) -> ")
"""Time that the serial monitor of the Arduino IDE writes before each line."""
_ARDUINO_TIMES = re.compile(rb"(?m)^" + _ARDUINO_TIME.pattern.encode())
_DATE_AND_TIME = re.compile(r"\b(\d{4}-\d\d-\d\d|\d\d\.\d\d\.\d{4}) (\d\d:\d\d:\d\d)")
"""Pattern of a date and a time in aligned columns; both are a single value despite the blank."""
_DATES_AND_TIMES = re.compile(_DATE_AND_TIME.pattern.encode())
_LETTER = re.compile(r"[^\W\d_]")
_BLANKS = re.compile(rb"[ \t]+")
_OUTER_BLANKS = re.compile(rb"(?m)^ | (?=\r?$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShape:
    """How a line is divided into the values of the columns."""

    names: tuple[str, ...]
    separator: str
    is_aligned: bool = False
    """Whether columns are separated by any number of blanks."""
    is_json: bool = False
    has_monitor_times: bool = False
    """Whether each line begins with a time of the Arduino serial monitor."""

    def fields(self, line: str) -> list[str]:
        """Values of a line, in the order of the columns.

        Raises:
            ValueError: the line is not a row.
        """
        line = line.strip("\r\n")
        if self.is_json:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("not a JSON object")
            return ["" if row.get(name) is None else str(row[name]) for name in self.names]
        if self.has_monitor_times:
            line = _ARDUINO_TIME.sub(rf"\1{self.separator}", line, count=1)
        if self.is_aligned:
            return _DATE_AND_TIME.sub(r"\1T\2", line).split()
        return split(line, self.separator)

    def normal(self, lines: bytes) -> bytes:
        """Rewrite lines so that single separators are between values, as a CSV reader expects."""
        if self.has_monitor_times:
            lines = _ARDUINO_TIMES.sub(rb"\1" + self.separator.encode(), lines)
        if self.is_aligned:
            lines = _DATES_AND_TIMES.sub(rb"\1T\2", lines)
            lines = _OUTER_BLANKS.sub(b"", _BLANKS.sub(b" ", lines))
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvLayout:
    """Layout of a file, from its header."""

    path: Path
    shape: LineShape
    header: str
    """Line with the names of the columns; a program that is restarted writes this line again."""
    skipped_count: int
    """Number of lines up to and including the header and its row of units."""
    units_line: int | None
    columns: TableColumns
    encoding: str
    style: NumberStyle
    first_time: str = ""
    """Time of the first row, as text."""
    known: KnownTable | None = None
    """Known program that wrote the file; None for any other table."""

    @property
    def is_local_clock(self) -> bool:
        """Whether times are clock times without a zone, which may step back by an hour."""
        return self.columns.time.is_clock and not has_zone(self.first_time)

    @property
    def has_fractions(self) -> bool:
        """Whether times are finer than a second."""
        return re.search(r"[.,]\d", self.first_time.rpartition(":")[2]) is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return self.shape.names

    @property
    def missing(self) -> tuple[str, ...]:
        """Texts that mark a missing value."""
        return NO_VALUE + (self.known.missing if self.known else ())


def read_layout(path: Path, options: ImportOptions) -> CsvLayout:
    """Find the header, and derive the layout from the header and the rows after it.

    Raises:
        FileRefused: there is no header, or a required column is missing.
        OSError: the file is not readable.
    """
    encoding = _encoding_of(path)
    try:
        with path.open(encoding=encoding) as file:
            head = [file.readline(LINE_CHARACTERS) for _ in range(HEADER_LINES)]
    except UnicodeDecodeError as exc:
        raise FileRefused("neither a .ppk2, a Parquet file nor a CSV in UTF-8") from exc
    lines = [(number, line) for number, line in enumerate(head, 1) if line.strip()]
    if any("\0" in line for _, line in lines):  # Python 3.10's csv module raises its own error
        raise FileRefused("not text: a line contains a NUL")
    first_error: FileRefused | None = None
    # A line with # may be the header, if no other line is; without a header, columns are numbered.
    for read in (_plain_layout, _commented_layout, _unnamed_layout):
        for place in range(len(lines)):
            try:
                layout = read(path, lines[place:], encoding, options)
            except FileRefused as exc:
                # If no line is a header, the error of the first line with names is reported.
                first_error = first_error or exc
                if read is _unnamed_layout and not _is_numbered(options):
                    break  # numbered columns have no power, in whichever line they begin
            else:
                if layout is not None:
                    return layout
    raise first_error or FileRefused("no header line with the names of columns")


def head_of(path: Path) -> tuple[tuple[str, ...], list[list[str]]]:
    """Read the column names and the first rows of any table; both are empty without a header.

    The header is the first line with the same number of fields as the lines after it.
    """
    with path.open(encoding=_encoding_of(path), errors="replace") as file:
        lines = [file.readline(LINE_CHARACTERS) for _ in range(HEADER_LINES)]
    lines = [line for line in lines if line.strip()]
    for place, line in enumerate(lines[:-1]):
        if any(line.count(separator) >= MAX_COLUMNS for separator in _SEPARATORS):
            continue
        try:
            shape = _shape(line.lstrip("# "), lines[place + 1])
        except FileRefused:
            continue
        rows = [row for line in lines[place + 1 : place + STYLE_ROWS] if (row := _row(shape, line))]
        if rows and all(len(row) == len(shape.names) for row in rows[:3]):
            if _has_names(line):
                return shape.names, rows
            return tuple(f"#{index + 1}" for index in range(len(shape.names))), rows
    return (), []


_Lines = Sequence[tuple[int, str]]
"""Line numbers and texts of the lines that are not empty."""


def _plain_layout(
    path: Path, lines: _Lines, encoding: str, options: ImportOptions
) -> CsvLayout | None:
    """The layout, if the first of these lines is the header; otherwise None."""
    text = lines[0][1]
    if text.startswith("#") or not _has_names(text):
        return None
    return _layout(path, text, lines, encoding, options)


def _commented_layout(
    path: Path, lines: _Lines, encoding: str, options: ImportOptions
) -> CsvLayout | None:
    """The layout, if the first of these lines is a header after #; otherwise None."""
    text = lines[0][1]
    if not text.startswith("#"):
        return None
    return _layout(path, text.lstrip("# "), lines, encoding, options)


def _unnamed_layout(
    path: Path, lines: _Lines, encoding: str, options: ImportOptions
) -> CsvLayout | None:
    """The layout with numbered columns, if the first of these lines is a row; otherwise None."""
    number, text = lines[0]
    if text.startswith("#") or _has_names(text):
        return None
    separator = next((character for character in _SEPARATORS if character in text.strip()), ",")
    fields = text.split() if separator == " " else split(text.strip("\r\n"), separator)
    header = separator.join(f"#{index + 1}" for index in range(len(fields)))
    return _layout(path, header, [(number - 1, header), *lines], encoding, options)


def _is_numbered(options: ImportOptions) -> bool:
    """Whether the user names a power or a current by the number of its column, as in #2."""
    named = options.power, options.current
    return any(text is not None and text.startswith("#") for text in named)


def _has_names(text: str) -> bool:
    """Whether a line has a field that is neither a number nor a time.

    >>> _has_names("t_s,power_W"), _has_names("0.1;2,5"), _has_names("09:00:00 5.0 0.1")
    (True, False, False)
    """
    return _LETTER.search(text) is not None and any(
        _LETTER.search(field) and not is_clock_time(field) and not _is_number(field)
        for field in re.split(r"[,;\t ]", text)
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _layout(
    path: Path, header: str, lines: _Lines, encoding: str, options: ImportOptions
) -> CsvLayout:
    """The layout of a table with this header, which is the first of the lines.

    Raises:
        FileRefused: a required column is missing.
    """
    number, following = lines[0][0], [line for _, line in lines[1 : 1 + STYLE_ROWS]]
    shape = _shape(header, following[0] if following else "")
    if shape.is_json:  # its first row names the columns, too
        number, following = number - 1, [header, *following]
    if len(shape.names) > MAX_COLUMNS:
        raise FileRefused(f"not a power table: a header of more than {MAX_COLUMNS} columns")
    below = (_row(shape, following[0]) if following else None) or []
    with_units = None if shape.is_json else _with_units(shape.names, below)
    if with_units is not None:
        shape, following = replace(shape, names=with_units), following[1:]
    near = [row for line in following[:NEAR_ROWS] if (row := _row(shape, line))]
    first_row = next((row for row in near if len(row) >= len(shape.names)), (near or [[]])[0])
    is_named = any((options.time, options.power, options.current, options.voltage))
    known = None if is_named else known_table(shape.names)
    names = shape.names
    if known is None and (twice := [name for name in names if name and names.count(name) > 1]):
        raise FileRefused(f"two columns are named {twice[0]!r}")
    # A separator at the end of each line creates a column without a name.
    named = tuple(
        name if name and names.index(name) == index else f"#{index + 1}"
        for index, name in enumerate(names)
    )
    columns = (
        known_columns(known, named, options, first_row)
        if known
        else find_columns(named, options, first_row)
    )
    rows = [row for line in following if (row := _row(shape, line)) is not None]
    used = [row[column.index] for row in rows for column in columns.used if column.index < len(row)]
    return CsvLayout(
        path=path,
        shape=replace(shape, names=named),
        header=header.strip(),
        skipped_count=number + (with_units is not None),
        units_line=None if with_units is None else number + 1,
        columns=columns,
        encoding=encoding,
        style=style_of(used, shape.separator),
        first_time=first_row[columns.time.index]
        if 0 <= columns.time.index < len(first_row)
        else "",
        known=known,
    )


def _shape(header: str, following: str) -> LineShape:
    """Names of the columns, and how lines are divided.

    Args:
        header: Line with the names, without #.
        following: The line after the header.

    Raises:
        FileRefused: the line begins like JSON, but is not valid JSON.
    """
    if header.lstrip().startswith("{"):
        try:
            row = json.loads(header)
        except ValueError as exc:
            raise FileRefused("not a line of JSON") from exc
        names = tuple(row) if isinstance(row, dict) else ()
        return LineShape(names=names, separator=",", is_json=True)
    has_monitor_times = _ARDUINO_TIME.match(header) is not None
    text = header.partition(" -> ")[2] if has_monitor_times else header
    separator = next((character for character in _SEPARATORS if character in text.strip()), ",")
    if has_monitor_times:
        text = f"time{separator}{text}"
    names = tuple(
        _aligned_names(text.strip(), following)
        if separator == " "
        else (name.strip() for name in split(text.strip("\r\n"), separator))
    )
    return LineShape(
        names=names,
        separator=separator,
        is_aligned=separator == " ",
        has_monitor_times=has_monitor_times,
    )


def _aligned_names(header: str, following: str) -> list[str]:
    """Names of aligned columns; the names are separated by several blanks if they contain blanks.

    A unit in brackets belongs to the name before it.
    """
    count = len(_DATE_AND_TIME.sub(r"\1T\2", following).split())
    divided = [re.split(rule, header) for rule in (r"\s{2,}", r"\s+(?![(\[])", r"\s+")]
    return next((names for names in divided if len(names) == count), divided[1])


def _row(shape: LineShape, line: str) -> list[str] | None:
    """Values of a line; None if it is not a row."""
    try:
        return [value.strip() for value in shape.fields(line)]
    except ValueError:
        return None


def _with_units(names: Sequence[str], row: Sequence[str]) -> tuple[str, ...] | None:
    """The names with the units of the row below them; None if the row is not a row of units."""
    units = [unit_of(text) for text in row]
    has_numbers = any(re.match(r"[-+.,]?\d", text) for text in row)
    is_mostly_units = 2 * sum(map(bool, units)) >= sum(map(bool, row)) > 0
    if has_numbers or not is_mostly_units or len(row) > len(names):
        return None
    units += [None] * (len(names) - len(units))
    return tuple(
        f"{name} ({unit})" if unit else name for name, unit in zip(names, units, strict=True)
    )


def split(line: str, separator: str) -> list[str]:
    """Split a line at its separators; a quoted value may contain separators, but no line end."""
    if '"' not in line:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    except csv.Error as exc:
        raise ValueError(f"not a CSV: {exc}") from exc


def _encoding_of(path: Path) -> str:
    """Detect the encoding by the first bytes; programs for Windows write UTF-16 or Latin 1."""
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
