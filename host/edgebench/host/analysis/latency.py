"""Latency summaries with intervals.

Percentiles are order statistics without interpolation, so every number that is reported was
really measured. A percentile is reported only with its interval: where the sample is too small
for a two-sided 95 % interval, both are None.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.protocol.errors import MeasurementError

LEVEL = 0.95
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Summary of latencies, nanoseconds."""

    count: int
    min: int
    mean: float
    p50: int | None
    p90: int | None
    p99: int | None
    p99_9: int | None
    max: int
    p50_ci95: Interval | None
    p90_ci95: Interval | None
    p99_ci95: Interval | None


def summarize(latency_ns: NDArray[np.int64]) -> LatencySummary:
    """The summary of latencies.

    Args:
        latency_ns: Per-query latency, shape (n,), nanoseconds, n >= 1, warm-up excluded.

    Raises:
        MeasurementError: there is no query.
    """
    if latency_ns.size == 0:
        raise MeasurementError("no query was measured")
    ordered = np.sort(latency_ns)
    p50, p50_ci95 = percentile(ordered, 0.50)
    p90, p90_ci95 = percentile(ordered, 0.90)
    p99, p99_ci95 = percentile(ordered, 0.99)
    return LatencySummary(
        count=int(ordered.size),
        min=int(ordered[0]),
        mean=float(ordered.mean()),
        p50=p50,
        p90=p90,
        p99=p99,
        p99_9=percentile(ordered, 0.999)[0],
        max=int(ordered[-1]),
        p50_ci95=p50_ci95,
        p90_ci95=p90_ci95,
        p99_ci95=p99_ci95,
    )


def percentile(ordered: NDArray[np.int64], p: float) -> tuple[int | None, Interval | None]:
    """One percentile with its 95 % interval; both None where the sample is too small.

    Args:
        ordered: Values in ascending order, shape (n,).
        p: Which percentile, ratio in (0, 1).

    Source: value: mlcommons/inference, loadgen/results.cc, `sorted[int(n·p)]`.
    """
    count = int(ordered.size)
    ranks = interval_ranks(count, p)
    if ranks is None:
        return None, None
    value = int(ordered[min(count - 1, int(count * p))])
    return value, (int(ordered[ranks[0] - 1]), int(ordered[ranks[1] - 1]))


def interval_ranks(count: int, p: float) -> tuple[int, int] | None:
    """Ranks, from 1, of the order statistics that bound a percentile; None where unbounded.

    Equal-tailed and exact: with F the binomial distribution function,
    l = max{l: F(l-1; n, p) <= alpha/2} and u = min{u: F(u-1; n, p) >= 1 - alpha/2}.

    Source: Hahn & Meeker, Statistical Intervals (1991), 5.2.
    """
    from scipy.stats import binom

    tail = (1 - LEVEL) / 2
    # ppf gives min{k: F(k) >= q}; ranks are one higher.
    upper = int(binom.ppf(1 - tail, count, p)) + 1
    lower = int(binom.ppf(tail, count, p))
    if binom.cdf(lower, count, p) <= tail:
        lower += 1
    return (lower, upper) if lower >= 1 and upper <= count else None
