"""Interval plots, which show values with their intervals on a common scale as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.host.report.charts import LOG_RATIO

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlottedValue:
    """Value to plot, with its labels."""

    label: str
    value: float
    interval: Interval | None
    shown: str
    bounds: str = ""
    state: str = ""
    """Verdict; empty for a value without a verdict."""
    labels: tuple[str, ...] = ()
    """Labels of a simulated or emulated device and of synthetic power."""


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """Value with its positions on the scale of the plot, 0 to 100."""

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
    """Position of zero, from which bars are drawn; None if zero is not on the scale."""


def interval_plot(values: Sequence[PlottedValue], *, from_zero: bool = False) -> IntervalPlot:
    """Plot of values with their intervals.

    Args:
        values: Finite values, at least one.
        from_zero: Whether the scale must contain zero, as for fractions of a total.
    """
    ends: list[float] = [end for value in values for end in (value.value, *(value.interval or ()))]
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
            value,
            place(value.value),
            None if value.interval is None else place(value.interval[0]),
            None if value.interval is None else place(value.interval[1]),
        )
        for value in values
    )
    return IntervalPlot(rows, is_log, place(0.0) if from_zero else None)
