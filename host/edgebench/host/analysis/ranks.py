"""Exact rank statistics: Wilcoxon's signed ranks for pairs, Mann–Whitney's rank sums otherwise.

Theory of operation. Under the null hypothesis every pattern of signs (pairs) or every choice of
which values belong to the first side (independent samples) is equally likely, given the ranks
that were observed. The distribution of the sum of ranks follows by adding one value after the
other; ranks are doubled, so that mid-ranks of ties are whole numbers. So p values are exact with
ties as well, where scipy's are not.

Intervals invert the same test without ties: the k-th smallest and k-th largest of all pairwise
means (pairs) or differences (independent) bound the shift, with the largest k whose two tails
keep their half of what the level leaves. The point estimate is the median of the same numbers.

Beyond `MAX_PAIRS` and `MAX_INDEPENDENT` the normal approximation takes over.

Source: Hollander, Wolfe & Chicken, Nonparametric Statistical Methods (2014), sections 3.1–3.3 and
4.1–4.3; Hodges & Lehmann (1963); ties given their ranks: Lehmann, Nonparametrics (1975), 1.4, 3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bounds = tuple[float, float]

MAX_PAIRS = 300
"""Pairs up to which the distribution is exact: 45,150 rank sums, 10 ms."""
MAX_INDEPENDENT = 50
"""Values on the larger side up to which the distribution is exact."""


@dataclass(frozen=True, slots=True)
class ShiftTest:
    """How far one side is shifted against the other, and whether that may be chance."""

    shift: float
    """Hodges–Lehmann estimate, unit of the values."""
    p_value: float
    """Two-sided."""
    smallest_p: float
    """The smallest p value that so many values can have at all."""
    _candidates: Floats
    """Pairwise means or differences, in ascending order."""
    _null: Floats
    """Probability of 0, 1, 2… of the statistic without ties."""

    def interval(self, level: float) -> Bounds | None:
        """Bounds of the shift; None where so few values have no two-sided interval."""
        below = np.cumsum(self._null)
        # The k-th candidate from either end is left out with probability P[statistic < k].
        k = int(np.searchsorted(below, (1 - level) / 2 * (1 + 1e-9), side="right"))
        if k == 0 or k > self._candidates.size // 2 + 1:
            return None
        return float(self._candidates[k - 1]), float(self._candidates[-k])


def signed_rank_test(differences: Floats) -> ShiftTest:
    """Wilcoxon's signed-rank test of differences, shape (m,), m >= 1.

    Zeros are ranked and have no sign. Source: Pratt (1959).
    """
    count = differences.size
    rows, columns = np.triu_indices(count)
    means = np.sort((differences[rows] + differences[columns]) / 2)
    doubled = _doubled_ranks(np.abs(differences))
    signed = differences != 0
    statistic = int(doubled[differences > 0].sum())
    chances = _signed_rank_sums(doubled[signed])
    null = _signed_rank_sums(2 * np.arange(1, count + 1))[::2]
    return ShiftTest(
        shift=float(np.median(means)),
        p_value=_two_sided(chances, statistic),
        smallest_p=0.5 ** (count - 1),
        _candidates=means,
        _null=null / null.sum(),
    )


def rank_sum_test(first: Floats, second: Floats) -> ShiftTest:
    """The Mann–Whitney test; the shift is that of `second` against `first`."""
    differences = np.sort(np.subtract.outer(second, first).ravel())
    doubled = _doubled_ranks(np.concatenate([first, second]))
    m, n = first.size, second.size
    null = _rank_sums(2 * np.arange(1, m + n + 1), n)[n * (n + 1) :: 2]
    return ShiftTest(
        shift=float(np.median(differences)),
        p_value=_two_sided(_rank_sums(doubled, n), int(doubled[m:].sum())),
        smallest_p=min(1.0, 2 / math.comb(m + n, n)),
        _candidates=differences,
        _null=null / null.sum(),
    )


def probability_of_superiority(first: Floats, second: Floats) -> float:
    """A12: the chance that a value of `second` is above one of `first`, ties counted half.

    Source: Vargha & Delaney, A critique and improvement of the CL common language effect size
    statistics (2000). Cliff's delta is 2 A12 - 1.
    """
    differences = np.subtract.outer(second, first)
    return float(
        (np.count_nonzero(differences > 0) + np.count_nonzero(differences == 0) / 2)
        / differences.size
    )


def _doubled_ranks(values: Floats) -> NDArray[np.int64]:
    """Twice the mid-ranks: the count of smaller values plus that of values not larger, plus 1."""
    ordered = np.sort(values)
    smaller = np.searchsorted(ordered, values, side="left")
    doubled: NDArray[np.int64] = smaller + np.searchsorted(ordered, values, side="right") + 1
    return doubled


def _signed_rank_sums(doubled: NDArray[np.int64]) -> Floats:
    """Probability of each sum of the ranks with a positive sign, index: twice the sum."""
    total = int(doubled.sum())
    if doubled.size > MAX_PAIRS:
        return _normal(total, total / 2, math.sqrt(float((doubled.astype(float) ** 2).sum())) / 2)
    chances = np.zeros(total + 1)
    chances[0] = 1.0
    reached = 0
    for rank in doubled:
        added = chances[: reached + 1] / 2
        chances[: reached + 1] = added
        chances[rank : rank + reached + 1] += added
        reached += int(rank)
    return chances


def _rank_sums(doubled: NDArray[np.int64], chosen: int) -> Floats:
    """Probability of each sum of so many ranks chosen from all, index: twice the sum."""
    count, total = doubled.size, int(doubled.sum())
    if max(chosen, count - chosen) > MAX_INDEPENDENT:
        variance = chosen * (count - chosen) / (count - 1) * float(np.var(doubled))
        return _normal(total, chosen * total / count, math.sqrt(variance))
    ways = np.zeros((chosen + 1, total + 1))
    ways[0, 0] = 1.0
    for number, rank in enumerate(doubled, start=1):
        # From the largest group down, so that every value is chosen at most once.
        for size in range(min(number, chosen), 0, -1):
            ways[size, rank:] += ways[size - 1, : total + 1 - rank]
    chances: Floats = ways[chosen] / math.comb(count, chosen)
    return chances


def _normal(total: int, mean: float, deviation: float) -> Floats:
    """The normal approximation on 0…total. Only even sums exist without ties: hence `/ sum`."""
    from scipy.special import ndtr

    if deviation == 0:
        certain: Floats = np.eye(1, total + 1, int(mean))[0]
        return certain
    edges = (np.arange(total + 2) - 0.5 - mean) / deviation
    chances: Floats = np.diff(ndtr(edges))
    return chances


def _two_sided(chances: Floats, statistic: int) -> float:
    """Twice the smaller tail."""
    low, high = chances[: statistic + 1].sum(), chances[statistic:].sum()
    return float(min(1.0, 2 * min(low, high)))
