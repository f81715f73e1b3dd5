"""Interval (95 %) of the median of runs' headline values, and the limits on its width.

The module imports no other library, because a list of runs needs no other part of the analysis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from statistics import median

LEVEL = 0.95
"""Confidence level of every interval."""
SIGMAS = 1.959964
"""Half-width of a 95 % interval in standard errors."""
MIN_RUNS = 5
"""Minimum number of runs for an interval. The lowest and the highest of five runs enclose the
median with a probability of 93.75 %; the lowest and the highest of four runs, with 87.5 %."""
PRECISION_SUSPECT_RATIO = 0.05
"""Maximum half-width of the interval of the median, relative to the median, for a run or set to
pass. Source: Hoefler & Belli, Scientific benchmarking of parallel computing systems (2015), 4.2.2,
measure until the interval is within 5 %; nanobench warns at the same error."""
PRECISION_INVALID_RATIO = 0.25
"""A median is invalid if its interval's half-width, relative to the median, is above this ratio."""


def median_interval(values: Iterable[float]) -> tuple[float, float] | None:
    """95 % interval of the median of the values' distribution; None for fewer than five values.

    The interval is interpolated between two pairs of order statistics: the widest pair that covers
    less than 95 %, and the narrowest pair that covers more. So the coverage is 95 % instead of up
    to 99 %. With five values, no pair covers 95 %. The interval then extends from the lowest to the
    highest value, which covers 93.75 %.

    Source: Hettmansperger & Sheather, Confidence intervals based on interpolated order statistics
    (1986).
    """
    ordered = sorted(map(float, values))
    count = len(ordered)
    if count < MIN_RUNS:
        return None
    rank, outer, inner = _ranks(count)
    excess = max(0.0, (outer - LEVEL) / (outer - inner))
    weight = (count - rank) * excess / (rank + (count - 2 * rank) * excess)
    low = (1 - weight) * ordered[rank - 1] + weight * ordered[rank]
    high = (1 - weight) * ordered[count - rank] + weight * ordered[count - rank - 1]
    return low, high


def min_pair_count(comparison_count: int = 1) -> int:
    """Smallest number of pairs of runs that can decide this many comparisons together.

    The smallest p value of n pairs is 2^(1 - n), for differences that all have the same sign. By
    Holm's method, it is multiplied by the number of comparisons. The product has to be less than 5
    %.

    >>> min_pair_count(), min_pair_count(12)
    (6, 9)
    """
    return math.floor(math.log2(comparison_count / (1 - LEVEL))) + 2


def t_quantile(freedom: int) -> float:
    """Student's t at 0.975, from the normal quantile; within 0.1 % if `freedom` is at least 4.

    Source: Abramowitz & Stegun, Handbook of Mathematical Functions (1964), 26.7.5.

    >>> [round(t_quantile(freedom), 3) for freedom in (4, 7, 30)]
    [2.776, 2.365, 2.042]
    """
    z = SIGMAS
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom ** (order + 1) for order, term in enumerate(terms))


def are_too_far_apart(values: Sequence[float]) -> bool:
    """Whether runs with these headline values make an invalid set; False for fewer than five."""
    interval = median_interval(values)
    if interval is None:
        return False
    return is_too_wide(interval, median(values))


def is_too_wide(interval: tuple[float, float], middle: float) -> bool:
    """Whether the interval of a median is so wide that the median is refused.

    >>> is_too_wide((80.0, 120.0), 100.0), is_too_wide((70.0, 130.0), 100.0)
    (False, True)
    """
    return (interval[1] - interval[0]) / 2 > PRECISION_INVALID_RATIO * middle


@cache
def _ranks(count: int) -> tuple[int, float, float]:
    """Rank of the narrowest pair that covers the median with `LEVEL`, and two coverages.

    The rank counts from either end; it is 1 if no pair reaches the level. The coverages belong to
    this pair and to the next narrower pair.
    """
    # Values can lie on either side of the median in 2^count ways. `ways` of them have exactly
    # `rank` values on a given side, and `fewer` have less.
    rank, ways, fewer = 1, count, 1
    while (inner := 1 - 2 * (fewer + ways) / (1 << count)) >= LEVEL:
        fewer += ways
        rank += 1
        ways = ways * (count - rank + 1) // rank
    return rank, 1 - 2 * fewer / (1 << count), inner
