"""Repairs the times of a table if its counter wraps, its clock is set back, or times are equal.

Theory of operation. A first pass over the file finds the places where times do not ascend. Each
place gets one of these reasons:

    wrapped        the counter of a microcontroller starts again at 0: the time continues
    set back       a local clock falls back by an hour: the time continues
    late           a step back by a few samples: the timestamp was late
    stray          a row out of order, between rows with ascending times: not used
    new part       anything else, such as a logger that was restarted: the longest part is used

A second pass then yields the rows of the longest part, with ascending times. Rows that share a
time, as with times in whole seconds, are spread evenly up to the next time. Each kind of repair is
reported as a note with its count and first line, so that the user can check the repairs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.power.imports.blocks import Values, spread_rows
from edgebench.host.power.imports.clock_times import continued_ns
from edgebench.host.power.imports.csv_layout import CsvLayout
from edgebench.host.power.imports.csv_rows import LINE, TIME, LineCount, RowTally, joined, read_rows
from edgebench.host.power.imports.number_text import NumberStyle
from edgebench.host.power.imports.time_window import TimeWindow
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons import reading
from edgebench.protocol.errors import FileRefused

IRREGULAR_RATIO = 0.1
"""Largest accepted share of irregular lines, missing values or late times. A file with a larger
share is refused, because it is probably not a table of power."""
NEAR_STEPS = 10.0
"""Largest time step across the wrap of a counter, in typical steps. It is also the largest step
back of a late time."""
WRAPS_NS = (2**32 * 10**6, 2**32 * 10**3, 2**16 * 10**6, 2**16 * 10**3)
"""Periods in ns after which a counter of milliseconds or microseconds wraps. The first two are for
32 bits, as in Arduino's millis() and micros(), the others for 16 bits."""
HOUR_NS = 3_600_000_000_000
STRAY_RATIO = 0.01
"""Successive rows out of order are left out if their number is at most this share of the rows in
the part before them."""
MAX_PIECES = 10_000
SHARED_RATIO = 0.2
"""Times count as coarse if more than this share of the rows has the same time as the row before."""
WHOLE_STEP_NS = 60_000_000_000
"""Whole seconds count as coarse times only if the typical step between times is at most this long.
For longer steps, an error of half a second is negligible."""
_SECOND_NS = 1_000_000_000
_ABSOLUTE_NS = 1_000_000_000 * _SECOND_NS
"""Smallest number that counts as a time since 1970, which is a time in 2001. Smaller numbers are
times of an instrument's own timeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Successive rows with ascending times. Some times may be late; a later step repairs them."""

    begin_row: int
    end_row: int
    first_ns: int
    last_ns: int
    first_line: int
    last_line: int
    added_ns: int
    """Time by which the times of all rows are increased, because a counter wrapped or a clock was
    set back."""

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return self.end_row - self.begin_row


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """How the rows of a table become samples."""

    pieces: tuple[Piece, ...]
    """Rows that are used, in file order."""
    is_spread: bool
    """Whether rows share times, or have late times."""
    tick_ns: int
    """Resolution of the times if they are coarse, such as whole seconds, otherwise 0."""
    edge_s: float
    """Largest error of the first time and of the last time."""
    notes: tuple[Reason, ...]


def plan_table(layout: CsvLayout, window: TimeWindow) -> TablePlan:
    """Read a table once, and determine how its rows become samples.

    Raises:
        FileRefused: too many lines are not rows, too many values are missing, or the times descend
            too often.
    """
    tally, survey = RowTally(), _Survey(layout, window)
    for values in read_rows(layout, tally):
        survey.add(values[TIME].astype(np.int64), values[LINE].astype(np.int64))
    survey.end()
    _refuse_irregular(layout, tally, survey)
    parts = _without_stray(survey)
    number = max(range(len(parts)), key=lambda at: _row_count(parts[at]), default=0)
    used = parts[number] if parts else []
    notes = _row_notes(layout, tally) + _time_notes(survey)
    if len(parts) > 1:
        part = reading.part_used(
            part=number + 1,
            part_count=len(parts),
            first_line=used[0].first_line,
            last_line=used[-1].last_line,
            row_count=_row_count(used),
            left_count=sum(map(_row_count, parts)) - _row_count(used),
        )
        notes.append(part)
    if survey.outside_count:
        inside = reading.window_used(row_count=survey.row_count, left_count=survey.outside_count)
        notes.append(inside)
    return TablePlan(
        pieces=tuple(used),
        is_spread=bool(survey.shared_count or survey.late.count),
        tick_ns=survey.tick_ns,
        edge_s=survey.edge_s,
        notes=tuple(notes),
    )


def _row_count(pieces: Sequence[Piece]) -> int:
    return sum(piece.row_count for piece in pieces)


def _refuse_irregular(layout: CsvLayout, tally: RowTally, survey: _Survey) -> None:
    """Refuse a table with too many irregular rows, because it is another kind of file.

    Raises:
        FileRefused: irregular lines, missing values or late times exceed `IRREGULAR_RATIO`.
    """
    total = tally.row_count + tally.irregular.count
    known = layout.known
    counts = [tally.irregular]
    if known is None and layout.columns.flags is None:
        counts.append(tally.missing)
    for lines in counts:
        if lines.count > IRREGULAR_RATIO * total and not (known and known.has_footer):
            more = f"; {lines.count} of {total} lines are irregular" if lines.count > 1 else ""
            separator = ", " if lines.is_of_column else ": "
            raise FileRefused(f"line {lines.first_line}{separator}{lines.why}{more}")
    is_usual = known is not None and known.may_repeat
    if survey.late.count > IRREGULAR_RATIO * survey.row_count and not is_usual:
        name = layout.columns.time.name
        why = f"column {name!r}: the time is not later than in the row before"
        raise FileRefused(f"line {survey.late.first_line}, {why}")


def _without_stray(survey: _Survey) -> list[list[Piece]]:
    """Join two parts if only a few rows out of order lie between them; leave these rows out."""
    parts: list[list[Piece]] = []
    left = list(survey.parts)
    while left:
        part = left.pop(0)
        is_few = bool(parts) and _row_count(part) <= max(1, STRAY_RATIO * _row_count(parts[-1]))
        if is_few and left and left[0][0].first_ns > parts[-1][-1].last_ns:
            survey.stray.add(part[0].first_line, count=_row_count(part))
            parts[-1] = [*parts[-1], *left.pop(0)]
        else:
            parts.append(part)
    return parts


def _row_notes(layout: CsvLayout, tally: RowTally) -> list[Reason]:
    """Notes on the formats that were found, the lines that were skipped, and missing values."""
    notes: list[Reason] = []
    if layout.units_line is not None:
        notes.append(reading.units_row(line=layout.units_line))
    if layout.style != NumberStyle():
        decimal, thousands = layout.style.decimal, layout.style.thousands
        notes.append(reading.numbers_written(decimal=decimal, thousands=thousands))
    if layout.columns.time.is_counter:
        time = layout.columns.time
        notes.append(reading.counter_used(column=time.name, rate_hz=1e9 / time.scale))
    for kind, lines in (
        (reading.comments_skipped, tally.comments),
        (reading.header_repeated, tally.headers),
    ):
        if lines.count:
            notes.append(kind(line_count=lines.count, first_line=lines.first_line))
    if (lines := tally.irregular).count:
        notes.append(
            reading.lines_skipped(
                line_count=lines.count, first_line=lines.first_line, why=lines.why
            )
        )
    if (lines := tally.missing).count:
        notes.append(
            reading.values_missing(
                value_count=lines.count, first_line=lines.first_line, why=lines.why
            )
        )
    return notes


def _time_notes(survey: _Survey) -> list[Reason]:
    """Notes on the repairs of the times."""
    notes: list[Reason] = []
    if survey.shared_count:
        step_s = survey.typical_ns / 1e9
        notes.append(reading.times_spread(row_count=survey.shared_count, step_s=step_s))
    if survey.tick_ns and not survey.is_shared:
        notes.append(reading.times_whole_seconds())
    for kind, lines in (
        (reading.times_unwrapped, survey.wrapped),
        (reading.clock_set_back, survey.set_back),
    ):
        if lines.count:
            period_s = survey.period_ns / 1e9
            notes.append(
                kind(place_count=lines.count, first_line=lines.first_line, period_s=period_s)
            )
    if (lines := survey.late).count:
        longest_s = survey.longest_late_ns / 1e9
        notes.append(
            reading.times_late(
                place_count=lines.count, first_line=lines.first_line, longest_s=longest_s
            )
        )
    if (lines := survey.stray).count:
        notes.append(reading.rows_disordered(row_count=lines.count, first_line=lines.first_line))
    return notes


def read_samples(
    layout: CsvLayout, plan: TablePlan, window: TimeWindow
) -> Iterator[dict[str, Values]]:
    """Yield the rows that the plan uses, with ascending times.

    Raises:
        FileRefused: a value has another unit than its column, or too many rows share a time.
    """
    rows = _planned_rows(layout, plan)
    if plan.is_spread:
        rows = spread_rows(rows, TIME)
    first_ns: int | None = None
    for values in rows:
        time_ns = values[TIME].astype(np.int64)
        first_ns = int(time_ns[0]) if first_ns is None else first_ns
        is_inside = window.has_offset(time_ns - first_ns)
        yield values if is_inside.all() else _filtered(values, is_inside)


def _filtered(values: dict[str, Values], is_kept: NDArray[np.bool_]) -> dict[str, Values]:
    return {name: column[is_kept] for name, column in values.items()}


def _planned_rows(layout: CsvLayout, plan: TablePlan) -> Iterator[dict[str, Values]]:
    """Yield the rows of the used pieces, with times increased as each piece requires."""
    begins = [piece.begin_row for piece in plan.pieces]
    row, last_ns = 0, None
    for values in read_rows(layout, RowTally()):
        time_ns = continued_ns(values[TIME].astype(np.int64), last_ns)
        last_ns, count = int(time_ns[-1]), len(time_ns)
        place = max(0, bisect_right(begins, row) - 1)
        parts: list[dict[str, Values]] = []
        for piece in plan.pieces[place : bisect_left(begins, row + count)]:
            part = slice(max(0, piece.begin_row - row), max(0, min(count, piece.end_row - row)))
            if part.start < part.stop:
                part_ns: Values = time_ns[part] + piece.added_ns
                parts.append(
                    {name: column[part] for name, column in values.items()} | {TIME: part_ns}
                )
        if parts:
            yield joined(parts)
        row += count


class _Survey:
    """Collects the pieces of a table, and the properties of its times."""

    def __init__(self, layout: CsvLayout, window: TimeWindow) -> None:
        self.parts: list[list[Piece]] = []
        self.row_count = self.outside_count = self.shared_count = 0
        self.typical_ns = 0
        """Median step between successive times in the first rows."""
        self.is_whole = not layout.has_fractions
        self.is_absolute = layout.columns.time.is_clock
        self.late, self.wrapped, self.set_back, self.stray = (LineCount() for _ in range(4))
        self.longest_late_ns = self.period_ns = 0
        self._is_local_clock = layout.is_local_clock
        self._window = window
        self._read_count = 0
        self._last_raw_ns: int | None = None
        self._added_ns = 0
        self._begin: _Row | None = None
        """First row of the piece that is still being collected."""
        self._tail: list[_Row] = []
        """The last two rows of the previous block."""

    def add(self, raw_ns: NDArray[np.int64], lines: NDArray[np.int64]) -> None:
        """Process the next rows: their times as written and their line numbers, each shape (n,)."""
        time_ns = continued_ns(raw_ns, self._last_raw_ns)
        self._last_raw_ns = int(time_ns[-1])
        rows = np.arange(self._read_count, self._read_count + len(time_ns))
        self._read_count += len(time_ns)
        is_inside = self._window.has_time(time_ns)
        if not is_inside.all():
            self.outside_count += int(np.count_nonzero(~is_inside))
            rows, time_ns, lines = rows[is_inside], time_ns[is_inside], lines[is_inside]
        if not len(rows):
            return
        self.row_count += len(rows)
        self.is_whole &= not (time_ns % _SECOND_NS).any()
        if self._begin is None:
            self._begin = int(rows[0]), int(time_ns[0]), int(lines[0])
            self.is_absolute |= int(time_ns[0]) > _ABSOLUTE_NS
        tail = np.array(self._tail, np.int64).reshape(-1, 3)
        table = np.concatenate([tail, np.column_stack([rows, time_ns, lines])])
        steps_ns = np.diff(table[:, 1])
        is_new = np.arange(len(steps_ns)) >= len(tail) - 1
        self.shared_count += int(np.count_nonzero((steps_ns == 0) & is_new))
        if not self.typical_ns and (steps_ns > 0).any():
            self.typical_ns = round(float(np.median(steps_ns[steps_ns > 0])))
        is_break = ((steps_ns < 0) | (np.diff(table[:, 0]) > 1)) & is_new
        for place in np.flatnonzero(is_break) + 1:
            around = table[max(0, place - 2)], *table[place - 1 : place + 2]
            self._break(*map(_row, around))
        self._tail = [_row(row) for row in table[-2:]]

    @property
    def is_shared(self) -> bool:
        """Whether many rows have the same time as the row before them."""
        return self.shared_count > SHARED_RATIO * self.row_count

    @property
    def rows_per_time(self) -> float:
        """Mean number of rows with the same time."""
        return self.row_count / max(1, self.row_count - self.shared_count)

    @property
    def tick_ns(self) -> int:
        """Resolution of coarse times; 0 if they are fine, or if many rows share each time."""
        if self.is_shared:
            return self.typical_ns if self.rows_per_time < 2 else 0
        is_coarse = self.is_whole and self.is_absolute and self.typical_ns <= WHOLE_STEP_NS
        return _SECOND_NS if is_coarse and self.typical_ns else 0

    @property
    def edge_s(self) -> float:
        """Largest error of the first and the last time.

        A row with a coarse time was measured at any moment until the next time, on average in the
        middle. If many rows share each time, the error is at most the duration of a row.
        """
        if self.is_shared:
            return self.typical_ns / 1e9 * min(0.5, 1 / self.rows_per_time)
        return self.tick_ns / 2e9

    def end(self) -> None:
        """Complete the last piece."""
        if self._begin is not None:
            self._close(self._tail[-1], None)

    def _break(self, older: _Row, before: _Row, after: _Row, following: _Row | None = None) -> None:
        """Process a row that is earlier than the row before it, or that follows omitted rows.

        Rows outside the time window are omitted.
        """
        step_ns, near_ns = after[1] - before[1], NEAR_STEPS * self.typical_ns
        if step_ns >= 0:  # rows outside --from and --until are between them
            self._close(before, after)
            return
        for period_ns in WRAPS_NS:
            if 0 <= after[1] <= near_ns and 0 < step_ns + period_ns <= near_ns:
                self._continue(before, after, self.wrapped, period_ns)
                return
        if self._is_local_clock and 0 < step_ns + HOUR_NS <= near_ns:
            self._continue(before, after, self.set_back, HOUR_NS)
        elif -step_ns <= near_ns:
            self.late.add(after[2])
            self.longest_late_ns = max(self.longest_late_ns, -step_ns)
        elif following is not None and following[1] > before[1]:
            self.stray.add(after[2])
            self._close(before, following)
        elif self._begin is not None and self._begin[0] <= older[0] and older[1] < after[1]:
            self.stray.add(before[2])  # the time of the row `before` is wrong
            self._close(older, after)
        else:
            self._close(before, after)
            self._added_ns = 0
            self.parts.append([])

    def _continue(self, before: _Row, after: _Row, counted: LineCount, period_ns: int) -> None:
        self._close(before, after)
        self._added_ns += period_ns
        self.period_ns = period_ns
        counted.add(after[2])

    def _close(self, last: _Row, following: _Row | None) -> None:
        """Complete a piece with its last row; the next piece begins with the following row."""
        assert self._begin is not None, "a row was added"
        if not self.parts:
            self.parts.append([])
        if sum(map(len, self.parts)) >= MAX_PIECES:
            raise FileRefused(f"line {last[2]}: times do not ascend in {MAX_PIECES} places")
        begin_row, first_ns, first_line = self._begin
        piece = Piece(
            begin_row=begin_row,
            end_row=last[0] + 1,
            first_ns=first_ns + self._added_ns,
            last_ns=last[1] + self._added_ns,
            first_line=first_line,
            last_line=last[2],
            added_ns=self._added_ns,
        )
        self.parts[-1].append(piece)
        self._begin = following


_Row = tuple[int, int, int]
"""A row of the table, as its number, its time in nanoseconds, and its line."""


def _row(values: NDArray[np.int64]) -> _Row:
    row, time_ns, line = values.tolist()
    return row, time_ns, line
