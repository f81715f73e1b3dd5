"""The part of a file between `--from` and `--until`.

--from 10s               seconds since the first sample that is read
--from 4000.5            time of the file, in the unit of its time column (default: seconds)
--from 09:00:05          clock time of the file, with or without a date
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgebench.host.power.imports.clock_times import clock_ns, has_date, is_clock_time
from edgebench.host.result.facts import ImportOptions
from edgebench.meters.base import SampleBlock
from edgebench.protocol.errors import UsageError

DAY_NS = 86_400_000_000_000
_SECOND_NS = 1e9
_ARRAYS = (
    "time_ns",
    "power_w",
    "flags",
    "begin_ns",
    "current_a",
    "voltage_v",
    "digital",
    "ranges",
    "spike_w",
)
"""Names of the fields of a block that are arrays with one value for each sample."""
_PARTS = {"h": 3600.0, "min": 60.0, "m": 60.0, "sec": 1.0, "s": 1.0, "ms": 1e-3}
_LENGTH = re.compile(r"(?:\d+(?:\.\d+)?\s*(?:ms|min|m|sec|s|h)\s*)+")
_LENGTH_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|m|sec|s|h)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Lower or upper bound of the time window."""

    time_ns: int | None = None
    """The bound as a time in the file; None if the bound is an offset from the first sample."""
    offset_ns: int | None = None
    """The bound as a time since the first sample; None if the bound is a time in the file."""
    is_time_of_day: bool = False
    """Whether the time has no date, and applies to every day."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Selects the samples between two bounds, both included; None stands for no bound."""

    begin: Bound | None = None
    end: Bound | None = None

    def has_time(self, time_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the times inside the bounds, shape (n,); bounds that are offsets are ignored."""
        is_inside = np.ones(len(time_ns), np.bool_)
        for bound, sign in ((self.begin, 1), (self.end, -1)):
            if bound is not None and bound.time_ns is not None:
                times_ns = time_ns % DAY_NS if bound.is_time_of_day else time_ns
                is_inside &= sign * (times_ns - bound.time_ns) >= 0
        return is_inside

    def has_offset(self, offset_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the offsets inside the bounds, shape (n,); bounds that are times are ignored."""
        is_inside = np.ones(len(offset_ns), np.bool_)
        for bound, sign in ((self.begin, 1), (self.end, -1)):
            if bound is not None and bound.offset_ns is not None:
                is_inside &= sign * (offset_ns - bound.offset_ns) >= 0
        return is_inside


def window_of(options: ImportOptions, scale: float = _SECOND_NS) -> TimeWindow:
    """Parse the window in the user's options.

    Args:
        options: Options with the bounds.
        scale: Nanoseconds per unit of the time column.

    Raises:
        UsageError: a bound is not a time.
    """
    bounds = (("--from", options.begin), ("--until", options.until))
    begin, end = (
        None if text is None else _bound(name, text.strip(), scale) for name, text in bounds
    )
    return TimeWindow(begin, end)


def _bound(name: str, text: str, scale: float) -> Bound:
    if _LENGTH.fullmatch(text):
        parts = _LENGTH_PART.findall(text)
        return Bound(
            offset_ns=round(sum(float(number) * _PARTS[unit] for number, unit in parts) * 1e9)
        )
    try:
        if is_clock_time(text):
            return Bound(time_ns=clock_ns(text), is_time_of_day=not has_date(text))
        return Bound(time_ns=round(float(text) * scale))
    except (ValueError, OverflowError) as exc:
        raise UsageError(
            f"{name} must be a time after the first sample, such as 10s, or a time in the file, "
            f"such as 4000.5 or 09:00:05, got {text!r}"
        ) from exc


def cut_blocks(blocks: Iterable[SampleBlock], window: TimeWindow) -> Iterator[SampleBlock]:
    """Yield the samples inside the window, renumbered; blocks without samples are left out."""
    first_ns: int | None = None
    counts: dict[int, int] = {}
    for block in blocks:
        first_ns = int(block.time_ns[0]) if first_ns is None else first_ns
        is_inside = window.has_time(block.time_ns) & window.has_offset(block.time_ns - first_ns)
        if not is_inside.any():
            continue
        arrays = {
            name: value[is_inside]
            for name in _ARRAYS
            if (value := getattr(block, name)) is not None
        }
        index0 = counts.get(block.channel, 0)
        counts[block.channel] = index0 + int(np.count_nonzero(is_inside))
        yield replace(block, index0=index0, **arrays)
