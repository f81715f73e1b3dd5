"""How much do the latencies of a run vary, and do they alternate between two levels?

Theory of operation. Three looks at the invocations that count, each simple enough to be believed:

1. The interquartile range over the median.
2. The medians of ten blocks of equal time, and their range: whatever made the latency wander for
   seconds, a percentile of the whole run is then a matter of when it was measured.
3. Two levels. The medians of nine successive invocations, which no single spike moves, are split in
   two groups by least squares. They are levels, and not the two halves of one distribution, if the
   groups are far apart for what they vary in themselves (Ashman's D: 2.7 for a normal
   distribution, 3.5 for a uniform one, such as a drift); if each lasts, several medians at a time,
   where samples of two costs in random order change at every second one; and if each is left and
   comes back. A latency between the levels belongs to the one that it comes from.

A level that comes back is no warm-up. `comes_back` asks that of a warm-up that was found: whether
the latencies that were to be cut occur again after the cut.

Source: Ashman, Bird & Zepf, Detecting bimodality in astronomical datasets (1994), for D; the limits
are our own: figures in the tests, and for real runs in docs/decisions/0023.
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
"""Fewest invocations that a block has on average; a median of fewer varies too much by itself."""
SLICE_SIZE = 9
"""Successive invocations whose median is one point in the search of levels."""
MIN_SLICES = 30
MIN_DISTANCE = 4.0
"""Least D of two levels; one level with noise or drift has at most 3.5."""
MIN_LEVEL_RATIO = 1.10
"""Least ratio of two levels: nearer ones cannot move the median by more than what may pass."""
MIN_LEVEL_SHARE = 0.10
"""Least share of each level. A rarer one is a tail, for which p90 and p99 have their intervals."""
MIN_DWELL_SLICES = 3.0
"""Least mean stay on a level, in medians; costs in random order stay for 2."""
MIN_DEPENDENT_DWELL_SLICES = 1.5
"""Least mean stay from which on a percentile is taken to depend on the visits to a level. With that
of switching, runs of 1000 queries with a slow level for 30 at a time keep an interval of p50 in
28 %, which holds the true value in 69 %; with 2, in 5 % and 7 %; with this, in none."""
MIN_CYCLE_S = 0.010
"""Least time for a stay on both levels. Faster alternation, as with a timer's tick, averages out in
a run of seconds: an idle machine has a run with 1 ms on a level 39 % higher after 4 ms on the lower
one, whose medians of ten blocks range over 0.1 %."""
MIN_VISITS = 2
"""Fewest separate stays on each level: once is a warm-up or a slow-down."""
RETURN_SHARE = 0.05
"""Least share of the rest of a run on the level that was to be cut, for it to have come back."""
_HYSTERESIS = 0.3
"""Distance from a level, relative to that of both, within which it is reached."""


def stability(latency_ns: Integers, start_ns: Integers, end_ns: int) -> Stability:
    """Variation of the latencies of a run.

    Args:
        latency_ns: Invocations that count, shape (n,), n >= 1.
        start_ns: Their starts, shape (n,).
        end_ns: End of the last one.
    """
    first, median, third = (float(one) for one in np.percentile(latency_ns, (25, 50, 75)))
    edges = np.linspace(start_ns[0], end_ns, BLOCK_COUNT + 1)[1:-1]
    parts = np.split(latency_ns, np.searchsorted(start_ns, edges))
    is_enough = latency_ns.size >= BLOCK_COUNT * MIN_BLOCK_SIZE
    medians = [float(np.median(part)) for part in parts if part.size] if is_enough else []
    return Stability(
        iqr_ratio=(third - first) / max(median, 1.0),
        block_p50_ns=tuple(medians),
        block_range_ratio=(max(medians) - min(medians)) / max(median, 1.0) if medians else None,
        levels=find_levels(latency_ns, start_ns, end_ns),
    )


def find_levels(latency_ns: Integers, start_ns: Integers, end_ns: int) -> LatencyLevels | None:
    """Two levels between which the latency alternates, or None.

    Args:
        latency_ns: Invocations, shape (n,), in order of time.
        start_ns: Their starts, shape (n,).
        end_ns: End of the last one.
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
    """Share of the rarer of two levels, and how often it was visited; 0 and 0 for one level.

    What a run says of a percentile that depends on a level is worth no more than its visits there.

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
    """Whether the latencies between two rows occur again after them, and not just as spikes.

    Args:
        latency_ns: All invocations, shape (n,).
        begin: First row of those that are to be cut.
        cut: Row after the last of them.
    """
    before, after = _slice_medians(latency_ns[begin:cut]), _slice_medians(latency_ns[cut:])
    if not before.size or not after.size:
        return False
    level, rest = float(np.median(before)), float(np.median(after))
    if max(level, rest) < MIN_LEVEL_RATIO * min(level, rest):
        return False  # within what may pass anyhow, and noise reaches from one to the other
    between = math.sqrt(max(level, 1.0) * max(rest, 1.0))
    is_there = after > between if level > rest else after < between
    return float(is_there.mean()) >= RETURN_SHARE


def _stays(
    latency_ns: Integers, min_dwell_slices: float = MIN_DWELL_SLICES
) -> tuple[tuple[float, float], NDArray[np.bool_], tuple[int, int]] | None:
    """Logarithms of two levels, where the latency is on the higher, and visits of both; or None."""
    medians = _slice_medians(latency_ns)
    if medians.size < MIN_SLICES:
        return None
    values = np.log(np.maximum(medians, 1.0))
    # Highest value of the lower of two groups with the least sum of squares. The extreme thousandth
    # of both ends is pulled in, so that one spike is no group.
    bounds = np.quantile(values, (0.001, 0.999))
    ordered = np.sort(np.clip(values, *bounds))
    sums, counts = np.cumsum(ordered)[:-1], np.arange(1, ordered.size)
    total = float(ordered.sum())
    # The sum of squares is least where that between the groups is largest.
    between = sums**2 / counts + (total - sums) ** 2 / (ordered.size - counts)
    split = float(ordered[int(np.argmax(between))])
    low, high = values[values <= split], values[values > split]
    if not low.size or not high.size:
        return None
    middle = float(np.median(low)), float(np.median(high))
    spread = math.hypot(_spread(low, middle[0]), _spread(high, middle[1])) / math.sqrt(2)
    if middle[1] - middle[0] < max(math.log(MIN_LEVEL_RATIO), MIN_DISTANCE * spread):
        return None
    # Whether each point is on the high level: the one that was reached last.
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
    """Standard deviation of a normal distribution with this median absolute deviation."""
    return 1.4826 * float(np.median(np.abs(values - middle)))
