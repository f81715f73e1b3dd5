"""Notes on how a power file was read: lines without a sample, and times that were repaired."""

from __future__ import annotations

from edgebench.host.result.reason import ReasonKind
from edgebench.host.result.reasons.words import format_seconds
from edgebench.protocol.percent import format_percent


@ReasonKind
def lines_skipped(*, line_count: int, first_line: int, why: str) -> str:
    return f"{_lines(line_count, first_line)} skipped: {why}"


@ReasonKind
def comments_skipped(*, line_count: int, first_line: int) -> str:
    return f"{_lines(line_count, first_line)} skipped: comments"


@ReasonKind
def header_repeated(*, line_count: int, first_line: int) -> str:
    return f"{_lines(line_count, first_line)} skipped: the header is repeated, as after a restart"


@ReasonKind
def units_row(*, line: int) -> str:
    return f"line {line} has the units of the columns"


@ReasonKind
def values_missing(*, value_count: int, first_line: int, why: str) -> str:
    values = "1 missing value" if value_count == 1 else f"{value_count} missing values"
    where = "in line" if value_count == 1 else "from line"
    return f"{values} {where} {first_line}: {why}"


@ReasonKind
def numbers_written(*, decimal: str, thousands: str) -> str:
    grouped = f", thousands separated by {thousands!r}" if thousands else ""
    return f"numbers with a decimal {'comma' if decimal == ',' else 'point'}{grouped}"


@ReasonKind
def counter_used(*, column: str, rate_hz: float) -> str:
    return f"times are computed from the sample counter {column!r} at {rate_hz:g} Hz"


@ReasonKind
def times_spread(*, row_count: int, step_s: float) -> str:
    rows = "1 row has" if row_count == 1 else f"{row_count} rows have"
    spread = "these rows are spread evenly up to the next timestamp"
    return f"{rows} the same time as another row: {spread}, {format_seconds(step_s)} later"


@ReasonKind
def times_whole_seconds() -> str:
    return "times are whole seconds, so the first and last times are known only to half a second"


@ReasonKind
def times_unwrapped(*, place_count: int, first_line: int, period_s: float) -> str:
    wrapped = _places(place_count, first_line)
    return f"the time counter wrapped after {format_seconds(period_s)}, {wrapped}: corrected"


@ReasonKind
def clock_set_back(*, place_count: int, first_line: int, period_s: float) -> str:
    return (
        f"the clock was set back by {format_seconds(period_s)}, as at the end of daylight saving "
        f"time, {_places(place_count, first_line)}: corrected"
    )


@ReasonKind
def times_late(*, place_count: int, first_line: int, longest_s: float) -> str:
    return (
        f"times step back by up to {format_seconds(longest_s)}, "
        f"{_places(place_count, first_line)}: treated as late timestamps"
    )


@ReasonKind
def part_used(
    *, part: int, part_count: int, first_line: int, last_line: int, row_count: int, left_count: int
) -> str:
    return (
        f"the time jumps back, so the file has {part_count} parts: part {part} is used, lines "
        f"{first_line} to {last_line}, {row_count} rows; {left_count} rows are not used"
    )


@ReasonKind
def rows_disordered(*, row_count: int, first_line: int) -> str:
    rows = "1 row" if row_count == 1 else f"{row_count} rows"
    return f"{rows} out of order, from line {first_line}: not used"


@ReasonKind
def window_used(*, row_count: int, left_count: int) -> str:
    return f"{row_count} rows between --from and --until are used, {left_count} others are not"


@ReasonKind
def gain_assumed(*, gain_ratio: float) -> str:
    return f"gain error not stated: {format_percent(gain_ratio)} is assumed; state it with --gain"


@ReasonKind
def offset_not_stated() -> str:
    return "offset not stated: 0 is assumed; state it with --offset"


@ReasonKind
def boundary_not_stated() -> str:
    return "measurement boundary not stated: the file does not state what the instrument supplied"


@ReasonKind
def sample_kind_not_stated(*, rate_hz: float, limit_hz: float) -> str:
    return (
        f"the file does not state whether its {rate_hz:.4g} samples per second are means or "
        f"instants; below {limit_hz:g} per second, state this with --samples"
    )


@ReasonKind
def few_instants(*, rate_hz: float, limit_hz: float) -> str:
    return (
        f"{rate_hz:.4g} instantaneous samples per second do not show what happens between them; "
        f"at least {limit_hz:g} per second are needed"
    )


@ReasonKind
def losses_not_excluded() -> str:
    return "lost samples cannot be excluded: the times are not evenly spaced"


def _lines(count: int, first: int) -> str:
    return f"line {first}" if count == 1 else f"{count} lines from line {first}"


def _places(count: int, first: int) -> str:
    return f"in line {first}" if count == 1 else f"{count} times, first in line {first}"
