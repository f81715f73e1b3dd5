"""Variation of the latencies of a run, and alternation between two levels.

Theory of operation. Three simple measures of the counted invocations:

1. The interquartile range, relative to the median.
2. The medians of ten blocks of equal time, and their range. If the latency drifts for seconds, for
   any reason, a percentile of the whole run depends on the time of the measurement.
3. Two levels. The medians of nine successive invocations, which a single spike does not change, are
   split in two groups by least squares. The groups are levels, and not the two halves of a single
   distribution, under three conditions. They are far apart relative to the variation within them
   (Ashman's D: 2.7 for a normal distribution, 3.5 for a uniform distribution, such as a drift).
   Each stay lasts for several medians; inputs with two costs, in random order, stay on a level for
   two medians on average. And the run leaves each level and returns to it. A latency between the
   levels belongs to the level before it.

A detected warm-up is not a warm-up if the latencies before the cut occur again after the cut:
`comes_back` checks this.

Source: Ashman, Bird & Zepf, Detecting bimodality in astronomical datasets (1994), for D. The limits
are edgebench's own: figures in the tests, and for real runs in docs/decisions/0023.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgebench.host.result.latency import LatencyLevels, Stability

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

BLOCK_COUNT = 10
MIN_BLOCK_SIZE = 10
"""Smallest mean number of invocations per block; a median of fewer varies too much by chance."""
SLICE_SIZE = 9
"""Number of successive invocations whose median is a point in the search for levels."""
MIN_SLICES = 30
MIN_DISTANCE = 4.0
"""Minimum distance D of two levels; the two halves of one level have a D of at most 3.5."""
MIN_LEVEL_RATIO = 1.10
"""Minimum ratio of two levels; levels that are closer hardly change the median."""
MIN_LEVEL_SHARE = 0.10
"""Minimum share of each of two levels. A rarer level belongs to the tail, which p90, p99 and
their intervals describe."""
MIN_DWELL_SLICES = 3.0
"""Minimum mean stay on a level, in slices. Inferences with two costs in random order stay on a
level for 2 slices on average."""
MIN_DEPENDENT_DWELL_SLICES = 1.5
"""Minimum mean stay on a level, in slices, from which a percentile is assumed to depend on the
visits to that level. Example: runs of 1000 queries that stay on a slow level for 30 queries at a
time. With `MIN_DWELL_SLICES` in place of this limit, 28 % of these runs have an interval of p50,
and 69 % of the intervals contain the true value. With 2, the figures are 5 % and 7 %. With this
limit, no run has an interval."""
MIN_CYCLE_S = 0.010
"""Minimum duration of a stay on one level plus a stay on the other. Faster alternation, such as by
a timer's tick, averages out in a run of seconds. For example, a run on an idle machine spent 1 ms
on a level 39 % higher after each 4 ms on the lower level. The medians of its ten blocks differed by
only 0.1 %."""
PART_COUNT = 5
"""Number of parts into which a run is cut. The first and the last part show the drift of the run.
After a linear drift by 4 %, their medians are 3.2 % apart. Shorter parts vary more by chance,
longer parts hide more of the drift."""
MIN_VISITS = 2
"""Minimum number of separate stays on each level; a single stay is a warm-up or a slowdown."""
RETURN_SHARE = 0.05
"""A run counts as returned to the level before a cut if at least this share of the run after the
cut is on that level."""
_HYSTERESIS = 0.3
"""A level counts as reached within this distance, relative to the distance of the two levels."""


def stability(latency_ns: Integers, start_ns: Integers, end_ns: int) -> Stability:
    """Variation of the latencies of a run.

    Args:
        latency_ns: Counted invocations, shape (n,), n >= 1.
        start_ns: Starts of these invocations, shape (n,).
        end_ns: End of the last invocation.
    """
    first, median, third = (float(quartile) for quartile in np.percentile(latency_ns, (25, 50, 75)))
    edges = np.linspace(start_ns[0], end_ns, BLOCK_COUNT + 1)[1:-1]
    parts = np.split(latency_ns, np.searchsorted(start_ns, edges))
    is_enough = latency_ns.size >= BLOCK_COUNT * MIN_BLOCK_SIZE
    medians = [float(np.median(part)) for part in parts if part.size] if is_enough else []
    return Stability(
        iqr_ratio=(third - first) / max(median, 1.0),
        block_p50_ns=tuple(medians),
        block_range_ratio=(max(medians) - min(medians)) / max(median, 1.0) if medians else None,
        levels=find_levels(latency_ns, start_ns, end_ns),
        drift_ratio=_drift_ratio(latency_ns),
    )


def _drift_ratio(latency_ns: Integers) -> float | None:
    """Change of the latency from the first to the last part of a run, relative to the median."""
    size = latency_ns.size // PART_COUNT
    if size < MIN_BLOCK_SIZE:
        return None
    first, last = np.median(latency_ns[:size]), np.median(latency_ns[-size:])
    return float(last - first) / max(float(np.median(latency_ns)), 1.0)


def find_levels(latency_ns: Integers, start_ns: Integers, end_ns: int) -> LatencyLevels | None:
    """Two levels between which the latency alternates, or None.

    Args:
        latency_ns: Invocations, shape (n,), in order of time.
        start_ns: Starts of these invocations, shape (n,).
        end_ns: End of the last invocation.
    """
    stays = _stays(latency_ns)
    if stays is None:
        return None
    middle, is_high, visits = stays
    share = float(is_high.mean())
    if min(share, 1 - share) < MIN_LEVEL_SHARE or min(visits) < MIN_VISITS:
        return None
    edges_ns = np.append(start_ns[: is_high.size * SLICE_SIZE : SLICE_SIZE], end_ns)
    times_s = np.diff(edges_ns) / 1e9
    low_dwell_s = float(times_s[~is_high].sum()) / visits[0]
    high_dwell_s = float(times_s[is_high].sum()) / visits[1]
    if low_dwell_s + high_dwell_s < MIN_CYCLE_S:
        return None
    return LatencyLevels(
        low_ns=math.exp(middle[0]),
        high_ns=math.exp(middle[1]),
        high_ratio=share,
        low_dwell_s=low_dwell_s,
        high_dwell_s=high_dwell_s,
    )


def rarer_level(latency_ns: Integers) -> tuple[float, int]:
    """Share of the rarer of two levels, and its number of visits; 0 and 0 for a single level.

    The effective count of a percentile that depends on a level is at most the number of visits to
    that level.

    Args:
        latency_ns: Invocations or queries, shape (n,), in order of time.
    """
    stays = _stays(latency_ns, MIN_DEPENDENT_DWELL_SLICES)
    if stays is None:
        return 0.0, 0
    _, is_high, visits = stays
    share = float(is_high.mean())
    return min((share, visits[1]), (1 - share, visits[0]))


def comes_back(latency_ns: Integers, begin: int, cut: int) -> bool:
    """Whether the latencies from before a cut occur again after it, not only as spikes.

    Args:
        latency_ns: All invocations, shape (n,).
        begin: First of the rows before the cut.
        cut: First row after the cut.
    """
    before, after = _slice_medians(latency_ns[begin:cut]), _slice_medians(latency_ns[cut:])
    if not before.size or not after.size:
        return False
    level, rest = float(np.median(before)), float(np.median(after))
    if max(level, rest) < MIN_LEVEL_RATIO * min(level, rest):
        return False  # levels so close are accepted, and noise reaches from level to level
    between = math.sqrt(max(level, 1.0) * max(rest, 1.0))
    is_there = after > between if level > rest else after < between
    return float(is_there.mean()) >= RETURN_SHARE


def _stays(
    latency_ns: Integers, min_dwell_slices: float = MIN_DWELL_SLICES
) -> tuple[tuple[float, float], NDArray[np.bool_], tuple[int, int]] | None:
    """Logarithms of two levels, the slices on the higher level, and the visits to each level.

    None if there are no two levels.
    """
    medians = _slice_medians(latency_ns)
    if medians.size < MIN_SLICES:
        return None
    values = np.log(np.maximum(medians, 1.0))
    # `split` is the highest value of the lower of two groups, which are chosen for the least sum of
    # squares. The extreme thousandth at both ends is clipped, so that a spike is not a group.
    bounds = np.quantile(values, (0.001, 0.999))
    ordered = np.sort(np.clip(values, *bounds))
    sums, counts = np.cumsum(ordered)[:-1], np.arange(1, ordered.size)
    total = float(ordered.sum())
    # The sum of squares within the groups is least where that between them is largest.
    between = sums**2 / counts + (total - sums) ** 2 / (ordered.size - counts)
    split = float(ordered[int(np.argmax(between))])
    low, high = values[values <= split], values[values > split]
    if not low.size or not high.size:
        return None
    middle = float(np.median(low)), float(np.median(high))
    spread = math.hypot(_spread(low, middle[0]), _spread(high, middle[1])) / math.sqrt(2)
    if middle[1] - middle[0] < max(math.log(MIN_LEVEL_RATIO), MIN_DISTANCE * spread):
        return None
    # A point is on the high level if that is the last level that was reached.
    reach = _HYSTERESIS * (middle[1] - middle[0])
    is_reached = (values <= middle[0] + reach) | (values >= middle[1] - reach)
    last = np.maximum.accumulate(np.where(is_reached, np.arange(values.size), 0))
    is_high: NDArray[np.bool_] = values[last] >= middle[1] - reach
    count = int(np.count_nonzero(np.diff(is_high))) + 1
    visits = (count + int(not is_high[0])) // 2, (count + int(is_high[0])) // 2
    high_count = int(np.count_nonzero(is_high))
    stays = (is_high.size - high_count) / max(visits[0], 1), high_count / max(visits[1], 1)
    return (middle, is_high, visits) if min(stays) >= min_dwell_slices else None


def _slice_medians(latency_ns: Integers) -> Floats:
    count = latency_ns.size // SLICE_SIZE
    rows = latency_ns[: count * SLICE_SIZE].reshape(count, SLICE_SIZE)
    medians: Floats = np.median(rows, axis=1)
    return medians


def _spread(values: Floats, middle: float) -> float:
    """Standard deviation, estimated from the median absolute deviation as for normal values."""
    return 1.4826 * float(np.median(np.abs(values - middle)))
