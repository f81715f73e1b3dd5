"""Latency summaries with intervals.

Percentiles are order statistics without interpolation, so every number that is reported was
really measured. Where there are too few queries for a two-sided 95 % interval, the percentile is
None.

Intervals are exact for independent queries. Queries are hardly ever independent: a clock that
changes, or another process that runs for a moment, slows many in a row, and a hundred thousand of
them may say no more about the median than five hundred would. So each interval is corrected for
autocorrelation: it takes the ranks of the effective count of queries, at the same quantiles. It is
the exact interval where there is no sign of dependence. Where there is, the effective count is an
estimate, on the cautious side, and the interval is None where that is too small to be relied on.
benchmarks/coverage.py has how often the intervals hold the true value, and where they cannot: a
run that saw one of two levels only knows nothing of the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.binomial import binomial_cdf, binomial_quantile
from edgebench.host.analysis.latency.dependence import cautious_count
from edgebench.host.analysis.latency.stability import rarer_level
from edgebench.host.analysis.median import LEVEL
from edgebench.host.result.latency import PERCENTILES, EffectiveCount, Interval, LatencySummary
from edgebench.protocol.errors import MeasurementError

MIN_DEPENDENT_COUNT = 45
"""Fewest independent queries that dependent ones have to be worth for any interval. With 45,
1 % of the series worth 15 have one, as their dependence is underestimated, and 77 % of those worth
50, of which 96 % hold. With 30, 12 % of the former have one, of which 84 % hold; with 60, half of
the latter, of which 93 % hold. benchmarks/coverage.py: AR 0.99 of 3000, AR 0.9 of 1000."""
MIN_LEVEL_VISITS = 30
"""Fewest visits of the rarer of two levels for an interval of a percentile that depends on it: with
fewer, how much of the run they were is chance. With 20, the runs that have an interval of p50 are
those that happened to switch often: of 10,000 queries with stays of 300, 12 %, and 81 % hold."""
LEVEL_REACH = 0.2
"""Largest share that a level may have, relative to that of the queries above a percentile, from
which on the percentile depends on it."""
DEPENDENT_MARGIN = 1.6
"""Factor on the fewest queries that have an interval, for queries that depend on each other: with
fewer, an interval is there because the effective count came out too large."""


def summarize(latency_ns: NDArray[np.int64]) -> LatencySummary:
    """Summary of latencies, with an interval for each percentile.

    Args:
        latency_ns: Per-query latency, shape (n,), nanoseconds, n >= 1, warm-up excluded.

    Raises:
        MeasurementError: there is no query.
    """
    if latency_ns.size == 0:
        raise MeasurementError("no query was measured")
    ordered = np.sort(latency_ns)
    values = {name: percentile(ordered, p)[0] for name, p in PERCENTILES.items()}
    effective = EffectiveCount(
        mean=int(cautious_count(latency_ns.astype(np.float64))),
        p50=_effective_count(latency_ns, ordered, 0.50),
        p90=_effective_count(latency_ns, ordered, 0.90),
        p99=_effective_count(latency_ns, ordered, 0.99),
        p99_9=_effective_count(latency_ns, ordered, 0.999),
    )
    share, visits = rarer_level(latency_ns)
    has_few_visits = 0 < visits < MIN_LEVEL_VISITS
    largest_share = share_limit(share, visits) if has_few_visits else share

    def interval(p: float, count: int | None) -> Interval | None:
        if has_few_visits and largest_share >= LEVEL_REACH * (1 - p):
            return None
        return percentile_interval(ordered, p, count)

    return LatencySummary(
        count=int(ordered.size),
        min=int(ordered[0]),
        mean=float(ordered.mean()),
        p50=values["p50"],
        p90=values["p90"],
        p99=values["p99"],
        p99_9=values["p99_9"],
        max=int(ordered[-1]),
        p50_ci95=interval(0.50, effective.p50),
        p90_ci95=interval(0.90, effective.p90),
        p99_ci95=interval(0.99, effective.p99),
        p99_9_ci95=interval(0.999, effective.p99_9),
        mean_ci95=mean_interval(ordered, effective.mean),
        effective_count=effective,
    )


def share_limit(share: float, visits: int) -> float:
    """Largest share of time on a level that a run with so few visits to it is compatible with.

    The lengths of stays, on the level and beside it, are taken for exponential: twice their sum
    over their mean is chi-squared with 2 v degrees of freedom each, and so the ratio of the odds
    that were seen to the true ones has the F distribution with 2 v and 2 v.

    Args:
        share: Share that was seen, ratio in (0, 1).
        visits: Number of stays, v >= 1.

    Source: Lawless, Statistical Models and Methods for Lifetime Data (2003), 4.1, for ratios of
    exponential means.
    """
    from scipy.special import fdtri

    odds = share / (1 - share) * float(fdtri(2 * visits, 2 * visits, (1 + LEVEL) / 2))
    return odds / (1 + odds)


def _effective_count(latency_ns: NDArray[np.int64], ordered: NDArray[np.int64], p: float) -> int:
    """Number of independent queries that say as much about a percentile."""
    value = ordered[_index(ordered.size, p)]
    count = cautious_count((latency_ns <= value).astype(np.float64))
    if np.searchsorted(ordered, value, "right") - np.searchsorted(ordered, value, "left") > 1:
        # With many equal values one side may hold nearly everything, and so tell nothing.
        count = min(count, cautious_count((latency_ns < value).astype(np.float64)))
    return int(count)


def _index(count: int, p: float) -> int:
    """Index of a percentile, from 0."""
    return min(count - 1, int(count * p))


def percentile_interval(
    ordered: NDArray[np.int64], p: float, effective: int | None = None
) -> Interval | None:
    """95 % interval of a percentile; None where the effective count is too small.

    With l and u the ranks for m independent queries, the ranks among n are l (n+1)/(m+1), rounded
    down, and the mirror image of that for n + 1 - u: the same expected quantiles, the same ranks
    for m = n.

    Args:
        ordered: Values in ascending order, shape (n,).
        p: Which percentile, ratio in (0, 1).
        effective: Number of independent values that they are worth; None, or all of them: they are
            independent.

    Source: E[F(X_(l))] = l / (m + 1): David & Nagaraja, Order Statistics (2003), 2.2.
    """
    count = int(ordered.size)
    effective = count if effective is None else effective
    if effective < count and (
        effective < MIN_DEPENDENT_COUNT
        or interval_ranks(int(effective / DEPENDENT_MARGIN), p) is None
    ):
        return None
    ranks = interval_ranks(effective, p)
    if ranks is None:
        return None
    lower = ranks[0] * (count + 1) // (effective + 1)
    from_above = (effective + 1 - ranks[1]) * (count + 1) // (effective + 1)
    return int(ordered[lower - 1]), int(ordered[count - from_above])


def mean_interval(
    values: NDArray[np.int64] | NDArray[np.float64], effective: int | None = None
) -> tuple[float, float] | None:
    """95 % interval of the mean by Student's t; None below two independent values.

    Args:
        values: Shape (n,), in any order.
        effective: Number of independent values that they are worth; None: all of them.
    """
    from scipy.special import stdtrit

    effective = int(values.size) if effective is None else effective
    if effective < 2:
        return None
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / effective**0.5
    reach = float(stdtrit(effective - 1, (1 + LEVEL) / 2)) * error
    return mean - reach, mean + reach


def percentile(ordered: NDArray[np.int64], p: float) -> tuple[int | None, Interval | None]:
    """One percentile with its interval for independent queries; both None where they are too few.

    Args:
        ordered: Values in ascending order, shape (n,).
        p: Which percentile, ratio in (0, 1).

    Source: value: mlcommons/inference, loadgen/results.cc, `sorted[int(n·p)]`.
    """
    interval = percentile_interval(ordered, p)
    if interval is None:
        return None, None
    return int(ordered[_index(ordered.size, p)]), interval


def interval_ranks(count: int, p: float) -> tuple[int, int] | None:
    """Ranks, from 1, of the order statistics that bound a percentile; None where unbounded.

    Equal-tailed and exact: with F the binomial distribution function,
    l = max{l: F(l-1; n, p) <= alpha/2} and u = min{u: F(u-1; n, p) >= 1 - alpha/2}.

    Source: Hahn & Meeker, Statistical Intervals (1991), 5.2.
    """
    tail = (1 - LEVEL) / 2
    # The quantile is min{k: F(k) >= q}; ranks are one higher.
    upper = binomial_quantile(1 - tail, count, p) + 1
    lower = binomial_quantile(tail, count, p)
    if binomial_cdf(lower, count, p) <= tail:
        lower += 1
    return (lower, upper) if lower >= 1 and upper <= count else None
