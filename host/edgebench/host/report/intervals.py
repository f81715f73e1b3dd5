"""Values with their intervals on one scale, as rows of a table that is its own chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.host.report.charts import LOG_RATIO

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlottedValue:
    """One value to plot, and what stands beside it."""

    label: str
    value: float
    interval: Interval | None
    shown: str
    bounds: str = ""
    state: str = ""
    """Verdict; empty where the value has none of its own."""
    labels: tuple[str, ...] = ()
    """What it is instead of a measurement of a real device."""


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One value on the scale of its plot; places are 0 to 100."""

    plotted: PlottedValue
    at: float
    low_at: float | None
    high_at: float | None


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """Rows on a common scale."""

    rows: tuple[IntervalRow, ...]
    is_log: bool
    zero_at: float | None
    """Place of zero, from which bars are drawn; None where the scale has none."""


def interval_plot(values: Sequence[PlottedValue], *, from_zero: bool = False) -> IntervalPlot:
    """The rows of a plot.

    Args:
        values: Finite values, at least one.
        from_zero: Whether the scale has to contain zero, as for shares of a whole.
    """
    ends: list[float] = [end for one in values for end in (one.value, *(one.interval or ()))]
    low, high = min(ends), max(ends)
    is_log = not from_zero and low > 0 and high / low > LOG_RATIO
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if is_log:
        low, high = math.log(low), math.log(high)
    margin = 0.05 * (high - low) or abs(high) * 0.05 or 1.0
    low -= 0.0 if from_zero and low == 0 else margin
    high += margin

    def place(value: float) -> float:
        mapped = math.log(value) if is_log else value
        return 100 * (mapped - low) / (high - low)

    rows = tuple(
        IntervalRow(
            one,
            place(one.value),
            None if one.interval is None else place(one.interval[0]),
            None if one.interval is None else place(one.interval[1]),
        )
        for one in values
    )
    return IntervalPlot(rows, is_log, place(0.0) if from_zero else None)
