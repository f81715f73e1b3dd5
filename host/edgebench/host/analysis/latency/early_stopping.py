"""Early stopping, which finds the order statistic that may stand for a percentile.

A short run may report a percentile if the estimate is pessimistic. Let t of n queries be slower
than a latency. At 99 % confidence, this latency is an upper bound on the p-th percentile if

    P[Bin(n, 1 - p) <= t] = I_p(n - t, t + 1) < 0.01        (I: regularised incomplete beta)

The largest t that satisfies this condition is used. The reported number is the next larger
latency, so at least one query must be slower than the bound. This module computes the same numbers
as MLPerf's load generator.

LoadGen scans t = 1, 2, 3… and searches, for each t, the smallest count of fast queries that passes.
The probability falls with the count of fast queries and rises with t, so for a given n one
bisection over t is enough: 22 evaluations for four million queries.

LoadGen sums a series, and scipy evaluates the same function. Relative to 0.01, their results agree
to about 1e-9, while the results of neighbouring t differ by 1e-3 and more. So both choose the same
t except for one n in millions.

The method assumes independent queries. Under drift or autocorrelation the confidence does not
hold; the intervals of `summary.py` account for that.

Source: mlcommons/inference, loadgen/early_stopping.cc and loadgen/results.cc (6.0.17).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgebench.protocol.errors import UsageError

DOUBT = 1 - 0.99
"""Allowed probability that the estimate is below the percentile; slightly above 0.01, as in
LoadGen."""


def estimate(ordered: NDArray[np.int64], p: float) -> int | None:
    """Early-stopping estimate of a percentile; None below `min_query_count(p)` queries.

    For single_stream, `ordered` contains latencies of samples; for multi_stream, latencies of
    queries.

    Args:
        ordered: Latencies in ascending order, shape (n,), nanoseconds.
        p: Which percentile, ratio in (0, 1).

    Raises:
        UsageError: p is not inside (0, 1).
    """
    slower_count = allowed_over_latency_count(int(ordered.size), p)
    return None if slower_count is None else int(ordered[ordered.size - slower_count])


def server_passes(query_count: int, over_latency_count: int, p: float) -> bool:
    """Whether a server run with this number of late queries keeps its latency limit.

    Args:
        query_count: Queries of the run.
        over_latency_count: Queries that took longer than the limit, timed from their due times.
        p: Share of all queries that must be in time, ratio in (0, 1).

    Raises:
        UsageError: p is not inside (0, 1), or `over_latency_count` is negative or exceeds
            `query_count`.
    """
    _check(p)
    if not 0 <= over_latency_count <= query_count:
        raise UsageError(f"{over_latency_count} late queries of {query_count}")
    return _passes(query_count - over_latency_count, over_latency_count, p)


def min_query_count(p: float) -> int:
    """Smallest number of queries with an estimate, such as 64 for p90 and 662 for p99.

    Raises:
        UsageError: p is not inside (0, 1).
    """
    return min_under_latency_count(1, p) + 1


def min_under_latency_count(over_latency_count: int, p: float) -> int:
    """Smallest number of fast queries that compensates for this number of slow queries.

    Raises:
        UsageError: p is not inside (0, 1), or the count is negative.
    """
    _check(p)
    if over_latency_count < 0:
        raise UsageError(f"over-latency count {over_latency_count} is negative")

    def passes(count: int) -> bool:
        return _passes(count, over_latency_count, p)

    above = 1
    while not passes(above):
        above *= 2
    return _first(passes, above // 2 + 1, above)


def allowed_over_latency_count(query_count: int, p: float) -> int | None:
    """Number of queries, at least 1, that may be slower than the bound; None for too few queries.

    Raises:
        UsageError: p is not inside (0, 1).
    """
    _check(p)
    if query_count < 2 or not _passes(query_count - 1, 1, p):
        return None
    return _first(lambda count: not _passes(query_count - count, count, p), 2, query_count) - 1


def _passes(under_count: int, over_count: int, p: float) -> bool:
    """Whether so few slow queries are improbable if the percentile exceeds the bound."""
    from scipy.special import betainc

    return under_count > 0 and bool(betainc(under_count, over_count + 1, p) < DOUBT)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Smallest number in low…high at which a monotonic condition holds; it holds at `high`."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _check(p: float) -> None:
    if not 0 < p < 1:
        raise UsageError(f"percentile {p} is not between 0 and 1")
