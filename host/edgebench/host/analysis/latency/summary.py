"""Latency summaries with intervals.

Percentiles are order statistics without interpolation, so every reported number is a measured
value. A percentile with too few queries for a two-sided 95 % interval is None.

Intervals are exact for independent queries. Queries are rarely independent: a changing clock, or
another process that runs for a moment, slows many queries in a row. A hundred thousand dependent
queries may determine the median no better than five hundred independent queries. So each interval
is corrected for autocorrelation: it uses the ranks of the effective count of queries, at the same
quantiles. Without a sign of dependence, the result is the exact interval. With dependence, the
effective count is a cautious estimate. The interval is None if this count is too small for a
reliable interval.

benchmarks/coverage.py lists how often the intervals contain the true value. The intervals are not
reliable for a run that stays on only one of two levels: such a run contains no information about
the other level.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.binomial import binomial_cdf, binomial_quantile
from edgebench.host.analysis.latency.dependence import cautious_count
from edgebench.host.analysis.latency.stability import rarer_level
from edgebench.host.analysis.median import LEVEL
from edgebench.host.result.latency import PERCENTILES, EffectiveCount, Interval, LatencySummary
from edgebench.protocol.errors import MeasurementError

MIN_DEPENDENT_COUNT = 45
"""Minimum effective count at which dependent queries have an interval.

With a limit of 45, only 1 % of the series with a true effective count of 15 have an interval,
because their dependence is underestimated. Of the series with a true count of 50, 77 % have an
interval, and 96 % of these intervals contain the true value. With a limit of 30, 12 % of the series
with a count of 15 have an interval, and 84 % of these intervals contain the true value. With a
limit of 60, 50 % of the series with a count of 50 have an interval, and 93 % of these intervals
contain the true value. benchmarks/coverage.py: AR 0.99 of 3000, AR 0.9 of 1000.
"""
MIN_LEVEL_VISITS = 30
"""A percentile that depends on the rarer of two levels has an interval if the run visits that level
at least this often. With fewer visits, the share of the level depends on chance. With a limit of
20, only runs that happen to switch often have an interval of p50. For example, 12 % of the runs of
10,000 queries with stays of 300 queries then have an interval, and 81 % of these intervals contain
the true value."""
LEVEL_REACH = 0.2
"""A percentile depends on a level if enough queries are on the level: at least this fraction of the
number of queries above the percentile."""
DEPENDENT_MARGIN = 1.6
"""Factor by which the effective count of dependent queries must exceed the smallest count that
gives an interval. Just above the smallest count, most intervals exist only because the effective
count was overestimated."""


def summarize(latency_ns: NDArray[np.int64], clock_step_ns: float | None = None) -> LatencySummary:
    """Summary of latencies, with an interval for each percentile.

    Args:
        latency_ns: Per-query latency, shape (n,), nanoseconds, n >= 1, warm-up excluded.
        clock_step_ns: Step of the clock, by which each percentile may be wrong. None if the step is
            too fine to matter.

    Raises:
        MeasurementError: `latency_ns` is empty.
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
        bounds = percentile_interval(ordered, p, count)
        step_ns = math.ceil(clock_step_ns or 0.0)
        return None if bounds is None else (max(0, bounds[0] - step_ns), bounds[1] + step_ns)

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
    """Upper confidence limit of the share of time on a level that a run visits only rarely.

    The lengths of stays on the level, and of stays off it, are assumed to be exponential. Twice the
    sum of the lengths divided by their mean is then chi-squared with 2 v degrees of freedom. So the
    ratio of the observed odds to the true odds has the F distribution with 2 v and 2 v degrees of
    freedom.

    Args:
        share: Observed share, ratio in (0, 1).
        visits: Number of stays, v >= 1.

    Source: Lawless, Statistical Models and Methods for Lifetime Data (2003), 4.1, for ratios of
    exponential means.
    """
    from scipy.special import fdtri

    odds = share / (1 - share) * float(fdtri(2 * visits, 2 * visits, (1 + LEVEL) / 2))
    return odds / (1 + odds)


def _effective_count(latency_ns: NDArray[np.int64], ordered: NDArray[np.int64], p: float) -> int:
    """Number of independent queries that determine a percentile as precisely as these queries."""
    value = ordered[percentile_index(ordered.size, p)]
    count = cautious_count((latency_ns <= value).astype(np.float64))
    if np.searchsorted(ordered, value, "right") - np.searchsorted(ordered, value, "left") > 1:
        # With many equal values, one side may contain nearly all values, and so no information.
        count = min(count, cautious_count((latency_ns < value).astype(np.float64)))
    return int(count)


def percentile_index(count: int, p: float) -> int:
    """Index, from 0, of a percentile among `count` >= 1 values in ascending order.

    Source: mlcommons/inference, loadgen/results.cc, `sorted[int(n·p)]`.
    """
    return min(count - 1, int(count * p))


def percentile_interval(
    ordered: NDArray[np.int64], p: float, effective: int | None = None
) -> Interval | None:
    """95 % interval of a percentile; None if the effective count is too small.

    Let l and u be the ranks for m independent queries. The lower rank among n queries is
    l (n+1)/(m+1), rounded down. The upper rank is (m+1-u) (n+1)/(m+1), rounded down, counted from
    the other end. The expected quantiles are the same, and for m = n the ranks are the same.

    Args:
        ordered: Values in ascending order, shape (n,).
        p: Which percentile, ratio in (0, 1).
        effective: Number of independent values that determine the percentile as precisely as these
            n values. None, or n, if all n values are independent.

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
    """95 % interval of the mean by Student's t; None for fewer than two independent values.

    Args:
        values: Shape (n,), in any order.
        effective: Effective number of independent values; None if all n values are independent.
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
    """A percentile with its interval for independent queries; both None for too few queries.

    Args:
        ordered: Values in ascending order, shape (n,).
        p: Which percentile, ratio in (0, 1).
    """
    interval = percentile_interval(ordered, p)
    if interval is None:
        return None, None
    return int(ordered[percentile_index(ordered.size, p)]), interval


def interval_ranks(count: int, p: float) -> tuple[int, int] | None:
    """Ranks, from 1, of the values that bound a percentile; None if either bound is missing.

    The interval is equal-tailed and exact. With the binomial distribution function F, the ranks are
    l = max{l: F(l-1; n, p) <= alpha/2} and u = min{u: F(u-1; n, p) >= 1 - alpha/2}.

    Source: Hahn & Meeker, Statistical Intervals (1991), 5.2.
    """
    tail = (1 - LEVEL) / 2
    # The quantile is min{k: F(k) >= q}; ranks are higher by 1.
    upper = binomial_quantile(1 - tail, count, p) + 1
    lower = binomial_quantile(tail, count, p)
    if binomial_cdf(lower, count, p) <= tail:
        lower += 1
    return (lower, upper) if lower >= 1 and upper <= count else None
