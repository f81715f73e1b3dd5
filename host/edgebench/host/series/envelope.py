"""Envelope of a trace: the lowest, mean and highest value of each interval.

The mean of many samples hides a peak, and decimation may omit the peak, so a chart needs all three
values. Envelopes are for charts only: energy is always computed from the samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GAP_RATIO = 5.0
"""If two readings are further apart than this many times the median distance, there is a gap."""


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """Summary of each interval of a trace; all columns are NaN for an interval without a value."""

    edges_s: Floats
    """Edges of the intervals, ascending, shape (k + 1,)."""
    low: Floats
    """Lowest value of each interval, shape (k,)."""
    mean: Floats
    """Mean of each interval, shape (k,)."""
    high: Floats
    """Highest value of each interval, shape (k,)."""

    @property
    def count(self) -> int:
        """Number of intervals, k."""
        return len(self.mean)


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """A trace: values at points in time."""

    time_s: Floats
    """Times, ascending, shape (n,)."""
    value: Floats
    """Values, shape (n,)."""

    def __len__(self) -> int:
        return len(self.time_s)

    def gaps(self) -> NDArray[np.int64]:
        """Indices of the values that are followed by a gap, shape (g,)."""
        steps_s = np.diff(self.time_s)
        if not steps_s.size:
            return np.zeros(0, np.int64)
        return np.flatnonzero(steps_s > GAP_RATIO * max(float(np.median(steps_s)), 1e-9))

    def envelope(self, edges_s: Floats) -> Envelope:
        """Lowest, mean and highest value in each interval.

        Args:
            edges_s: Edges, ascending, shape (k + 1,), k >= 1; intervals are half-open, except that
                the last interval includes its end.
        """
        bounds = np.searchsorted(self.time_s, edges_s)
        bounds[-1] = np.searchsorted(self.time_s, edges_s[-1], side="right")
        counts = np.diff(bounds)
        low, mean, high = (np.full(len(counts), np.nan) for _ in range(3))
        if (filled := counts > 0).any():
            # Non-empty intervals are adjacent, as reduceat requires.
            inside, starts = self.value[: bounds[-1]], bounds[:-1][filled]
            low[filled] = np.minimum.reduceat(inside, starts)
            mean[filled] = np.add.reduceat(inside, starts) / counts[filled]
            high[filled] = np.maximum.reduceat(inside, starts)
        return Envelope(edges_s, low, mean, high)


def even_edges(begin_s: float, end_s: float, count: int) -> Floats:
    """Edges of `count` intervals of equal length, shape (count + 1,)."""
    return np.linspace(begin_s, end_s, count + 1)
