"""Latency summaries: known answers, and intervals that cover what they promise."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.series import ar1
from support.tools import need_shared

from edgebench.host.analysis.latency.dependence import cautious_count
from edgebench.host.analysis.latency.summary import (
    DEPENDENT_MARGIN,
    MIN_DEPENDENT_COUNT,
    interval_ranks,
    mean_interval,
    percentile,
    percentile_interval,
    summarize,
)
from edgebench.protocol.errors import MeasurementError

PERCENTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
SMALLEST_COUNT = {0.5: 6, 0.9: 36, 0.95: 72, 0.99: 368, 0.999: 3688}
"""First n with a two-sided 95 % interval: max(p, 1-p)^n <= 0.025, by logarithm."""


TRIALS = 400
"""Number of series of a simulated coverage; its standard error is 1.1 %."""


@cache
def binomial(count: int, p: Fraction) -> list[Fraction]:
    """Return the exact probabilities of 0…count."""
    return [math.comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(count + 1)]


def known() -> Any:
    """Return known answers that were computed elsewhere."""
    path = need_shared("known_answers/measurement.json")
    return json.loads(path.read_text())["order_statistic_ci_95"]["ranks"]


def test_ranks_are_the_known_ones() -> None:
    """Otherwise the interval of a percentile would differ from the literature's."""
    rows = known()
    assert len(rows) > 20
    for name, row in rows.items():
        p, count = (part.lstrip("pn") for part in name.split("_"))
        expected = (row["lower_rank_1based"], row["upper_rank_1based"])
        found = interval_ranks(int(count), float(p))
        assert found == (None if None in expected else expected), name


@pytest.mark.parametrize("p", PERCENTILES)
def test_sample_that_is_too_small_has_no_interval(p: float) -> None:
    """Otherwise a p99 with an interval would be printed for fifty queries."""
    smallest = SMALLEST_COUNT[p]
    assert smallest == math.ceil(math.log(0.025) / math.log(max(p, 1 - p)))
    too_small = {*range(1, smallest, 50), smallest - 1}
    assert all(interval_ranks(count, p) is None for count in too_small)
    assert interval_ranks(smallest, p) is not None


@settings(max_examples=30)
@given(count=st.integers(6, 300), percent=st.integers(5, 95))
def test_coverage_is_exact_and_no_smaller_interval_has_it(count: int, percent: int) -> None:
    """Otherwise an interval called 95 % would hold the truth too rarely, or be too wide."""
    p = Fraction(percent, 100)
    chances = binomial(count, p)
    tail = Fraction(25, 1000)
    below = next(k for k in range(count + 1) if sum(chances[: k + 1]) > tail)
    above = next(k for k in range(count + 1) if sum(chances[: k + 1]) >= 1 - tail)
    lower, upper = below, above + 1  # the definition, in exact arithmetic
    ranks = interval_ranks(count, float(p))
    if lower < 1 or upper > count:
        assert ranks is None
        return
    assert ranks == (lower, upper)
    assert sum(chances[lower:upper]) >= Fraction(95, 100)


@given(count=st.integers(6, 10_000), p=st.sampled_from(PERCENTILES))
def test_ranks_are_in_order_and_inside_the_sample(count: int, p: float) -> None:
    """Otherwise an interval would be reversed, miss its percentile or leave the measured range."""
    ranks = interval_ranks(count, p)
    if ranks is None:
        return
    value_rank = min(count - 1, int(count * p)) + 1
    assert 1 <= ranks[0] <= value_rank <= ranks[1] <= count


@given(count=st.integers(6, 5000), first=st.integers(1, 998), more=st.integers(1, 998))
def test_ranks_grow_with_the_percentile_and_with_the_count(
    count: int, first: int, more: int
) -> None:
    """Otherwise a higher percentile would have a lower interval."""
    low, high = first / 1000, min(0.999, (first + more) / 1000)
    here, there = interval_ranks(count, low), interval_ranks(count, high)
    if here and there:
        assert here[0] <= there[0]
        assert here[1] <= there[1]
    longer = interval_ranks(count + 1, low)
    if here and longer:
        assert here[0] <= longer[0] <= here[0] + 1
        assert here[1] <= longer[1] <= here[1] + 1


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=200))
def test_summary_holds_only_numbers_that_were_measured(values: list[int]) -> None:
    """Otherwise a percentile would be a number that no query ever took."""
    summary = summarize(np.array(values, np.int64))
    assert summary.count == len(values)
    assert (summary.min, summary.max) == (min(values), max(values))
    for value in (summary.p50, summary.p90, summary.p99, summary.p99_9):
        assert value is None or value in values
    for interval in (summary.p50_ci95, summary.p90_ci95, summary.p99_ci95):
        assert interval is None or set(interval) <= set(values)
    assert (summary.p50 is None) == (len(values) < 6)
    assert (summary.p90 is None) == (len(values) < 36)
    assert (summary.p99, summary.p99_ci95) == (None, None)
    assert (summary.p99_9, summary.p99_9_ci95) == (None, None)
    assert summary.mean == pytest.approx(sum(values) / len(values))


def test_tail_of_many_queries_has_its_interval() -> None:
    """Otherwise p99.9 of ten thousand queries would be a dash, or a number without its error."""
    summary = summarize(np.random.default_rng(1).permutation(10_000))
    assert summary.p99_9 == 9990
    assert summary.p99_9_ci95 is not None
    low, high = summary.p99_9_ci95
    # Ranks 9983 and 9997: the binomial distribution of 10,000 queries has 1.4 % below, 1.1 % above.
    assert (low, high) == (9982, 9996)


@given(st.permutations(list(range(40))))
def test_values_do_not_depend_on_the_order(order: list[int]) -> None:
    """Otherwise another order would give another number, where only intervals may differ."""
    one, other = summarize(np.array(order)), summarize(np.arange(40))
    for name in ("count", "min", "mean", "p50", "p90", "p99", "p99_9", "max"):
        assert getattr(one, name) == getattr(other, name)


@settings(deadline=None)
@given(st.permutations(list(range(200))), st.sampled_from(PERCENTILES), st.integers(1, 200))
def test_dependence_widens_intervals(order: list[int], p: float, worth: int) -> None:
    """Otherwise queries that are worth less would give an interval that promises more."""
    ordered = np.sort(np.array(order, np.int64))
    independent = percentile_interval(ordered, p)
    assert independent == percentile_interval(ordered, p, 200)
    found = percentile_interval(ordered, p, worth)
    is_enough = worth == 200 or worth >= MIN_DEPENDENT_COUNT
    is_bounded = interval_ranks(worth if worth == 200 else int(worth / DEPENDENT_MARGIN), p)
    assert (found is None) == (not is_enough or is_bounded is None)
    if found and independent:
        # Both ranks are rounded outwards.
        assert found[0] <= independent[0] + 1
        assert found[1] >= independent[1] - 1
        assert 0 <= found[0] <= found[1] <= 199


def test_independent_queries_keep_their_exact_intervals() -> None:
    """Otherwise noise in the correlations would widen every interval a little."""
    draw = np.random.default_rng(2)
    same = 0
    for _ in range(100):
        latency_ns = np.round(draw.lognormal(13, 0.1, 1000)).astype(np.int64)
        found = summarize(latency_ns)
        same += (found.p50_ci95, found.p99_ci95) == (
            percentile(np.sort(latency_ns), 0.50)[1],
            percentile(np.sort(latency_ns), 0.99)[1],
        )
    assert same >= 90


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("p", [0.5, 0.9])
def test_intervals_cover_the_truth_in_dependent_series(phi: float, p: float) -> None:
    """Otherwise an interval called 95 % would hold the truth in every third run."""
    draw = np.random.default_rng(int(100 * phi))
    truth = NormalDist().inv_cdf(p)
    covered = 0
    for _ in range(TRIALS):
        series = ar1(draw, 2500, phi)
        ordered = np.sort(series)
        worth = int(cautious_count((series <= ordered[int(2500 * p)]).astype(float)))
        # Intervals pick ranks; a series of any unit will do.
        ranks = percentile_interval(np.arange(2500), p, worth)
        assert ranks is not None
        covered += ordered[ranks[0]] <= truth <= ordered[ranks[1]]
    assert covered / TRIALS >= 0.93


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.9])
def test_mean_intervals_cover_the_truth_in_dependent_series(phi: float) -> None:
    """Otherwise the mean of a run that drifts back and forth would be called certain."""
    draw = np.random.default_rng(int(100 * phi))
    covered = 0
    for _ in range(TRIALS):
        series = ar1(draw, 2500, phi)
        interval = mean_interval(series, int(cautious_count(series)))
        assert interval is not None
        covered += interval[0] <= 0 <= interval[1]
    assert covered / TRIALS >= 0.93


def test_mean_interval_is_the_known_one() -> None:
    """Otherwise the interval of a mean would use normal quantiles for ten values."""
    row = json.loads(need_shared("known_answers/measurement.json").read_text())["student_t"]
    values = np.array(row["vector"])
    assert mean_interval(values, int(cautious_count(values))) == pytest.approx(row["ci95"])
    assert mean_interval(values[:1]) is None


def test_percentiles_are_refused_an_interval_when_queries_are_worth_too_few() -> None:
    """Otherwise a thousand dependent queries would give a p99 interval that nothing supports."""
    latency_ns = np.repeat(np.random.default_rng(0).integers(10**5, 10**6, 20), 50)
    found = summarize(latency_ns)
    assert found.p99 is not None
    assert found.p99_ci95 is None
    assert found.effective_count is not None
    assert found.effective_count.p50 < 100
    assert found.mean_ci95 is not None


@pytest.mark.parametrize(("visits", "has_interval"), [(12, False), (29, False), (30, True)])
def test_interval_takes_thirty_visits_of_the_rarer_level(visits: int, has_interval: bool) -> None:
    """Otherwise a median between two levels would have an interval that holds in 81 % of runs."""
    row = np.arange(10_000)
    level_ns = 1e6 * (1 + row * 2 * visits // row.size % 2)
    noise = np.random.default_rng(3).normal(1, 0.01, row.size)
    found = summarize((level_ns * noise).astype(np.int64))
    assert (found.p50_ci95 is not None, found.p90_ci95 is not None) == (has_interval, has_interval)


def test_ladder_gives_the_known_percentiles() -> None:
    """Otherwise a percentile would be the neighbour of that defined by the benchmark rules."""
    path = need_shared("known_answers/measurement.json")
    ladders = json.loads(path.read_text())["early_stopping"]["ladder_1000_2000_..._n_x1000_ns"]
    for count, row in ladders.items():
        ordered = np.arange(1, int(count) + 1, dtype=np.int64) * 1000
        for name, p in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            value, interval = percentile(ordered, p)
            assert value == (row[name] if interval else None)


def test_no_query_is_no_summary() -> None:
    """Otherwise an empty run would have a latency."""
    with pytest.raises(MeasurementError, match="no query"):
        summarize(np.array([], np.int64))


def test_one_query_has_no_percentile() -> None:
    """Otherwise the only latency would be printed as a median."""
    summary = summarize(np.array([5], np.int64))
    assert (summary.min, summary.mean, summary.max, summary.p50) == (5, 5.0, 5, None)
