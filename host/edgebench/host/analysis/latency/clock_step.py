"""Step of the clock that timed the inferences, estimated from their durations.

A clock with coarse steps reports durations on a grid: 10 and 11 µs by a clock of 1 µs, though every
inference takes 10.4 µs. All order statistics lie on that grid. If the two bounds of an interval are
equal order statistics, the interval has no width and does not contain the true value. Timers of Arm
boards have steps of 10 to 52 ns; timers of some virtual machines and old PCs have steps of 70 ns to
1 µs.

Durations are whole nanoseconds, so on a grid with a step of 41.67 ns they come in groups of at most
three successive values. Durations that were not rounded to a grid vary by more than three values,
and fill the values between two groups.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MIN_STEP_NS = 8.0
"""Finest step that is detected; finer steps are negligible for latencies above 1 µs."""
MIN_SHARE = 0.01
"""A group of durations counts if it has at least this share of all durations."""
MIN_COUNT = 20
"""Minimum mean number of durations per group. With fewer durations, gaps between groups may be due
to chance."""
ROUNDING_NS = 2
"""Maximum width of a group of equal durations. It is not 0, because start, end and difference are
rounded to whole nanoseconds."""


def clock_step_ns(duration_ns: NDArray[np.int64]) -> float | None:
    """Step of the clock; None if the durations show no step, or a step that is too fine.

    Args:
        duration_ns: Durations of single inferences, shape (n,).
    """
    values, counts = np.unique(duration_ns, return_counts=True)
    begins = np.flatnonzero(np.diff(values, prepend=values[:1] - 2) > 1)
    sizes = np.add.reduceat(counts, begins)
    is_frequent = sizes >= MIN_SHARE * duration_ns.size
    if np.count_nonzero(is_frequent) < 2 or sizes[is_frequent].mean() < MIN_COUNT:
        return None
    groups = np.split(values, begins[1:])
    frequent = [group for group, keep in zip(groups, is_frequent, strict=True) if keep]
    if any(group[-1] - group[0] > ROUNDING_NS for group in frequent):
        return None
    centres_ns = np.array([float(group.mean()) for group in frequent])
    gaps_ns = np.diff(centres_ns)
    # From gap to gap, because the smallest gap is up to 1 ns off, which adds up over many steps.
    steps = np.concatenate([[0.0], np.cumsum(np.round(gaps_ns / gaps_ns.min()))])
    step_ns = float((centres_ns[-1] - centres_ns[0]) / steps[-1])
    off_ns = np.abs(centres_ns - centres_ns[0] - steps * step_ns)
    if step_ns < MIN_STEP_NS or off_ns.max() > ROUNDING_NS:
        return None
    return step_ns
