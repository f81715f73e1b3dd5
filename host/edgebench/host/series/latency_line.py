"""Latency over time for every kind of output, as a line of medians, a band, and maxima.

    LatencySeries ──▶ latency_line() ──▶ terminal (`show/pictures.py`), report (`report/charts.py`),
                                         notebook (`show/notebook.py`), figure (`show/plot.py`)

A mean follows the slowest inferences. For example, if 1 % of the inferences take a hundred times
the median, a line of means lies at twice the median. Therefore the line has the median of each
interval, and the median of the line is the p50 of the run.

The median of the line requires intervals with equal numbers of inferences, because each interval
has the same weight. With intervals of equal length, the later intervals of a run that slows down
would have fewer inferences. The number of inferences in an interval is odd, because only then is
the median of an interval as often above as below the median of the distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from edgebench.host.analysis.latency.summary import percentile_index
from edgebench.host.series.envelope import Floats
from edgebench.host.series.run_series import LatencySeries

OVERVIEW_COUNT = 240
"""Number of intervals in a chart of a whole run. An interval has about three pixels in a report,
and two in a notebook. A run with fewer inferences has an interval for each inference."""
LINE_REACH, BAND_REACH = 1.25, 1.5
"""Limits on the length of a latency axis, as ratios to the median. Up to the first limit, the axis
includes the p50 of every interval. Up to the second limit, it includes the band of every interval.
At each end, at most 5 % of the intervals have a p50 outside the axis. If at most 5 % of the
intervals are beyond the first limit, a shift by 5 % of the median is at least a seventeenth of the
axis."""
FEW_RATIO = 0.05
"""Maximum share of the intervals whose p50 is beyond an end of the axis."""
LEAST_REACH = 0.025
"""Minimum distance of each end of the axis from the median, divided by the median. Much smaller
noise is then drawn as a flat line."""


@dataclass(frozen=True, slots=True)
class AxisLimits:
    """Ends of an axis of latencies, nanoseconds."""

    low_ns: float
    high_ns: float

    def places(self, values_ns: Floats) -> Floats:
        """Positions on the axis from 0 to 1; values beyond an end are at the end."""
        return np.clip((values_ns - self.low_ns) / (self.high_ns - self.low_ns), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class LatencyLine:
    """Latency in each interval of inferences; columns have shape (k,), the warm-up is first."""

    begin_s: Floats
    """Start of the first inference of each interval."""
    end_s: Floats
    """Start of the first inference of the next interval; for the last interval, start of its last
    inference."""
    p10_ns: Floats
    p50_ns: Floats
    p90_ns: Floats
    max_ns: Floats
    size: int
    """Number of inferences in each interval after the warm-up, an odd number. The last interval has
    up to twice as many."""
    warmup_count: int
    """Number of intervals of the warm-up."""

    def __len__(self) -> int:
        return len(self.p50_ns)

    @property
    def middle_s(self) -> Floats:
        """Middle of each interval."""
        return (self.begin_s + self.end_s) / 2

    @property
    def steady_span_s(self) -> tuple[float, float]:
        """Start of the first and of the last inference after the warm-up."""
        return float(self.begin_s[self.warmup_count]), float(self.end_s[-1])

    @cached_property
    def median_ns(self) -> float:
        """Median of the line after the warm-up; except for noise, it is the p50 of the run."""
        return middle_of(self.p50_ns[self.warmup_count :])

    @cached_property
    def line_limits(self) -> AxisLimits:
        """Ends of an axis for the line without its band."""
        return self._limits(0.0)

    @cached_property
    def limits(self) -> AxisLimits:
        """Ends of an axis for the line and its band."""
        return self._limits(BAND_REACH)

    def _limits(self, band_reach: float) -> AxisLimits:
        """Ends of an axis.

        Args:
            band_reach: Ratio to the median up to which the axis includes the band; 0 without a
                band.
        """
        steady = slice(self.warmup_count, None)
        line_ns, median_ns = self.p50_ns[steady], self.median_ns
        low_ns = max(
            float(line_ns.min()),
            min(float(np.quantile(line_ns, FEW_RATIO)), median_ns / LINE_REACH),
        )
        high_ns = min(
            float(line_ns.max()),
            max(float(np.quantile(line_ns, 1 - FEW_RATIO)), median_ns * LINE_REACH),
        )
        if band_reach:
            low_ns = min(low_ns, max(float(self.p10_ns[steady].min()), median_ns / band_reach))
            high_ns = max(high_ns, min(float(self.p90_ns[steady].max()), median_ns * band_reach))
        # The median is 0 if the steps of the clock are longer than the latency.
        least_ns = max(LEAST_REACH * median_ns, 1.0)
        return AxisLimits(min(low_ns, median_ns - least_ns), max(high_ns, median_ns + least_ns))

    def by_column(self, edges_s: Floats) -> Floats:
        """Median of the line in each column of a time axis; NaN outside the run.

        Args:
            edges_s: Edges of the columns, ascending, shape (c + 1,).
        """
        values = np.full(len(edges_s) - 1, np.nan)
        middle_s = self.middle_s
        first, last = np.searchsorted(middle_s, (edges_s[:-1], edges_s[1:]))
        for column in np.flatnonzero(last > first):
            values[column] = np.median(self.p50_ns[first[column] : last[column]])
        # A column between the middles of two intervals has the value of the interval around it.
        centre_s = (edges_s[:-1] + edges_s[1:]) / 2
        around = np.searchsorted(self.begin_s, centre_s, side="right") - 1
        is_inside = (around >= 0) & (centre_s <= self.end_s[np.maximum(around, 0)])
        return np.where(np.isnan(values) & is_inside, self.p50_ns[np.maximum(around, 0)], values)


def latency_line(latency: LatencySeries, count: int = OVERVIEW_COUNT) -> LatencyLine:
    """Compute the line of a run.

    Args:
        latency: Latencies, at least one after the warm-up.
        count: Maximum number of intervals after the warm-up, and likewise in the warm-up.
    """
    warmup, total = latency.warmup_count, len(latency.latency_ns)
    size = math.ceil((total - warmup) / count) | 1
    # The last interval of the warm-up may be smaller; the last interval of the run may be larger.
    before = range(0, warmup, max(size, math.ceil(warmup / count)))
    starts = [*before, *range(warmup, max(warmup + 1, total - size + 1), size)]
    bounds = np.array([*starts, total], np.int64)
    columns = np.array(
        [_percentiles(latency.latency_ns[begin:end]) for begin, end in pairwise(bounds)]
    )
    begin_s = latency.start_s[bounds[:-1]]
    p10, p50, p90, highest = columns.T
    return LatencyLine(
        begin_s=begin_s,
        end_s=np.append(begin_s[1:], latency.start_s[-1]),
        p10_ns=p10,
        p50_ns=p50,
        p90_ns=p90,
        max_ns=highest,
        size=size,
        warmup_count=len(before),
    )


def shared_limits(lines: Sequence[LatencyLine], *, has_band: bool = True) -> AxisLimits:
    """Ends of an axis for the lines of one or more runs, with or without their bands."""
    limits = [line.limits if has_band else line.line_limits for line in lines]
    return AxisLimits(min(limit.low_ns for limit in limits), max(limit.high_ns for limit in limits))


def above_count(latency: LatencySeries, limits: AxisLimits) -> int:
    """Number of inferences after the warm-up that are above the upper end of an axis."""
    return int(np.count_nonzero(latency.steady_ns > limits.high_ns))


def distribution_limits(latency_ns: Floats) -> AxisLimits:
    """Ends of an axis for a distribution, at p0.5 and p99 of the latencies, with a margin.

    If p99 is above `BAND_REACH` times the median, the upper end is at that ratio or at p90,
    whichever is higher. Otherwise, in a distribution with a tail of ten times the median, all other
    latencies would be a single bar.
    """
    low, middle, most, high = (
        float(value) for value in np.quantile(latency_ns, (0.005, 0.5, 0.9, 0.99), method="lower")
    )
    high = min(high, max(most, BAND_REACH * middle))
    margin = 0.25 * (high - low)
    low, high = (
        max(low - margin, float(latency_ns.min())),
        min(high + margin, float(latency_ns.max())),
    )
    return AxisLimits(low, high) if low < high else AxisLimits(0.99 * low, 1.01 * high + 1.0)


def middle_of(values: Floats) -> float:
    """The median, as one of the values and without interpolation; `values` must not be empty."""
    middle = percentile_index(len(values), 0.5)
    return float(np.partition(values, middle)[middle])


def _percentiles(latency_ns: Floats) -> tuple[float, float, float, float]:
    """p10, p50, p90 and maximum, each of them a measured value."""
    ordered = np.sort(latency_ns)
    p10, p50, p90 = (float(ordered[percentile_index(ordered.size, p)]) for p in (0.1, 0.5, 0.9))
    return p10, p50, p90, float(ordered[-1])
