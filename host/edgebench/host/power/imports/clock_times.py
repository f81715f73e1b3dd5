"""Clock times as text, in the formats that instruments and programs write.

    2026-11-22T09:00:00.123456+01:00   2026/11/22 09:00:00.5   22.11.2026 09:00:00,5   09:00:00.5
    11/22/2026 9:00:00 PM              (with a 12-hour clock, the month is first)
    11-22-2026 09:00:00                (only for programs that are known to write the month first)

Only differences of times are used, so a date or zone may be missing. Times without a date continue
across midnight.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_CLOCK = re.compile(
    r"""\s*(?:(?P<ymd>\d{4}[-/.]\d{1,2}[-/.]\d{1,2})|(?P<dmy>\d{1,2}[-/.]\d{1,2}[-/.]\d{4}))?
    [T ]?\s*(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})(?:[.,:](?P<part>\d{1,9}))?)?
    \s*(?P<half>[AaPp][Mm])?\s*(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})?\s*""",
    re.VERBOSE,
)
_DAY_NS = 86_400_000_000_000
_EPOCH = date(1970, 1, 1).toordinal()
TIME_LIMIT_NS = 1 << 62
"""Largest accepted time, chosen so that the difference of two times fits an int64."""


def is_clock_time(text: str) -> bool:
    """Whether a text is a clock time.

    >>> is_clock_time("2026-11-22T09:00:00Z"), is_clock_time("09:00:01.5"), is_clock_time("12.5")
    (True, True, False)
    """
    return _CLOCK.fullmatch(text) is not None


def clock_ns(text: str, *, is_month_first: bool = False) -> int:
    """Convert a clock time to nanoseconds, since 1970 if it has a date, otherwise since midnight.

    Raises:
        ValueError: the text is not a clock time, or is beyond TIME_LIMIT_NS.

    >>> clock_ns("1970-01-01T01:00:00.5+01:00"), clock_ns("22.11.2026 09:00:00,25") % 10**9
    (500000000, 250000000)
    >>> clock_ns("01-02-1970 00:00:00", is_month_first=True) // 86_400_000_000_000
    1
    """
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(f"not a time: {text[:40]!r}")
    half = (match["half"] or "").lower()
    hours = int(match["h"]) % 12 + 12 * (half == "pm") if half else int(match["h"])
    seconds = hours * 3600 + int(match["m"]) * 60 + int(match["s"] or 0)
    time_ns = seconds * 1_000_000_000 + int((match["part"] or "0").ljust(9, "0"))
    zone = match["zone"]
    if zone and zone[0] in "+-":
        minutes = int(zone[1:3]) * 60 + int(zone[-2:])
        time_ns += minutes * 60_000_000_000 * (-1 if zone[0] == "+" else 1)
    day = match["ymd"] or match["dmy"]
    if not day:
        return time_ns
    parts = [int(part) for part in re.split(r"[-/.]", day)]
    if match["dmy"]:
        # A 12-hour clock is that of the United States, where the month comes first.
        parts = [parts[2], *(parts[:2] if is_month_first or half else parts[1::-1])]
    time_ns += (date(parts[0], parts[1], parts[2]).toordinal() - _EPOCH) * _DAY_NS
    if abs(time_ns) >= TIME_LIMIT_NS:
        raise ValueError(f"not a time: {text[:40]!r}")
    return time_ns


def has_zone(text: str) -> bool:
    """Whether a clock time states its offset from UTC.

    >>> has_zone("2026-11-22T09:00:00Z"), has_zone("2026-11-22 09:00:00")
    (True, False)
    """
    match = _CLOCK.fullmatch(text)
    return match is not None and match["zone"] is not None


def has_date(text: str) -> bool:
    """Whether a clock time has a date.

    >>> has_date("2026-11-22T09:00:00"), has_date("09:00:00")
    (True, False)
    """
    match = _CLOCK.fullmatch(text)
    return match is not None and bool(match["ymd"] or match["dmy"])


def clock_column_ns(texts: Sequence[str]) -> NDArray[np.int64] | None:
    """Convert clock times to ns, like `clock_ns`; shape (n,); None if any text is not a time."""
    array = pa.array(texts, pa.string())
    if array.null_count:
        return None
    if len(texts) and "," in texts[0]:  # to pyarrow, such a time is not ISO 8601
        commas = pc.ReplaceSubstringOptions(",", ".")
        array = pc.call_function("replace_substring", [array], commas)
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        with suppress(pa.ArrowInvalid):  # other formats than ISO 8601, or a mix of them
            time_ns: NDArray[np.int64] = array.cast(kind).cast(pa.int64()).to_numpy()
            return time_ns if bool((np.abs(time_ns) < TIME_LIMIT_NS).all()) else None
    try:
        return np.array([clock_ns(text) for text in texts], np.int64)
    except ValueError:
        return None


def continued_ns(time_ns: NDArray[np.int64], last_ns: int | None) -> NDArray[np.int64]:
    """Continue times of day across midnight; times with a date are unchanged.

    A step back by more than half a day counts as midnight. A smaller step back is left as it is.

    Args:
        time_ns: Times of successive rows, shape (n,), n >= 1.
        last_ns: Result for the row before these rows; None if there is no earlier row.
    """
    if time_ns.max() >= _DAY_NS:
        return time_ns
    before_ns = int(time_ns[0]) if last_ns is None else last_ns % _DAY_NS
    days = (last_ns or 0) // _DAY_NS + np.cumsum(
        np.diff(time_ns, prepend=before_ns) < -_DAY_NS // 2
    )
    continued: NDArray[np.int64] = time_ns + _DAY_NS * days
    return continued
