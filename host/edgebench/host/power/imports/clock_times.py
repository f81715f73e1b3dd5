"""Clock times as text, in the formats that instruments and programs write.

    2026-11-22T09:00:00.123456+01:00   2026/11/22 09:00:00.5   22.11.2026 09:00:00,5   09:00:00.5
    11-22-2026 09:00:00                (only for programs that are known to write the month first)

Only differences of times are used, so a date or zone may be missing; times without a date continue
across midnight.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date

import numpy as np
from numpy.typing import NDArray

from edgebench.protocol.errors import FileRefused

_CLOCK = re.compile(
    r"""\s*(?:(?P<ymd>\d{4}[-/.]\d{1,2}[-/.]\d{1,2})|(?P<dmy>\d{1,2}[-/.]\d{1,2}[-/.]\d{4}))?
    [T ]?\s*(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})(?:[.,:](?P<part>\d{1,9}))?)?
    \s*(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})?\s*""",
    re.VERBOSE,
)
_DAY_NS = 86_400_000_000_000
_EPOCH = date(1970, 1, 1).toordinal()
TIME_LIMIT_NS = 1 << 62
"""Limit of a time, so that the difference of two times fits an int64."""


def is_clock_time(text: str) -> bool:
    """Whether a text is a clock time.

    >>> is_clock_time("2026-11-22T09:00:00Z"), is_clock_time("09:00:01.5"), is_clock_time("12.5")
    (True, True, False)
    """
    return _CLOCK.fullmatch(text) is not None


def clock_ns(text: str, *, is_month_first: bool = False) -> int:
    """A clock time in nanoseconds, since 1970 if it has a date, else since midnight.

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
    seconds = int(match["h"]) * 3600 + int(match["m"]) * 60 + int(match["s"] or 0)
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
        parts = [parts[2], *(parts[:2] if is_month_first else parts[1::-1])]
    time_ns += (date(parts[0], parts[1], parts[2]).toordinal() - _EPOCH) * _DAY_NS
    if abs(time_ns) >= TIME_LIMIT_NS:
        raise ValueError(f"not a time: {text[:40]!r}")
    return time_ns


def clock_times_ns(texts: Iterable[str], last_ns: int | None = None) -> NDArray[np.int64]:
    """Clock times in nanoseconds, shape (n,); times without a date continue across midnight.

    Args:
        texts: The times in file order.
        last_ns: Time of the preceding row.

    Raises:
        FileRefused: a text is not a clock time.
    """
    times: list[int] = []
    before_ns = last_ns
    for text in texts:
        try:
            time_ns = clock_ns(str(text))
        except ValueError as exc:
            raise FileRefused(f"not a clock time: {str(text)[:40]!r}") from exc
        if before_ns is not None and time_ns < _DAY_NS:
            days = max(0, before_ns // _DAY_NS)
            time_ns += days * _DAY_NS
            # A step back by over half a day is midnight; a smaller step back is a disordered log,
            # which is refused later.
            if before_ns - time_ns > _DAY_NS // 2:
                time_ns += _DAY_NS
        times.append(time_ns)
        before_ns = time_ns
    return np.array(times, np.int64)
