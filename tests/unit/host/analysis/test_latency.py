"""Latency summaries: known answers, and intervals that cover what they promise."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tools import need_shared

from edgebench.host.analysis.latency import interval_ranks, percentile, summarize
from edgebench.protocol.errors import MeasurementError

PERCENTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
SMALLEST_COUNT = {0.5: 6, 0.9: 36, 0.95: 72, 0.99: 368, 0.999: 3688}
"""First n with a two-sided 95 % interval: max(p, 1-p)^n <= 0.025, by logarithm."""


@cache
def binomial(count: int, p: Fraction) -> list[Fraction]:
    """Exact probabilities of 0…count."""
    return [math.comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(count + 1)]


def known() -> Any:
    """Known answers that were computed elsewhere."""
    path = need_shared("known_answers/measurement.json")
    return json.loads(path.read_text())["order_statistic_ci_95"]["ranks"]


def test_ranks_are_the_known_ones() -> None:
    """The interval of a percentile is another one than the literature's."""
    rows = known()
    assert len(rows) > 20
    for name, row in rows.items():
        p, count = (part.lstrip("pn") for part in name.split("_"))
        expected = (row["lower_rank_1based"], row["upper_rank_1based"])
        found = interval_ranks(int(count), float(p))
        assert found == (None if None in expected else expected), name


@pytest.mark.parametrize("p", PERCENTILES)
def test_sample_that_is_too_small_has_no_interval(p: float) -> None:
    """A p99 with an interval is printed for fifty queries."""
    smallest = SMALLEST_COUNT[p]
    assert smallest == math.ceil(math.log(0.025) / math.log(max(p, 1 - p)))
    too_small = {*range(1, smallest, 50), smallest - 1}
    assert all(interval_ranks(count, p) is None for count in too_small)
    assert interval_ranks(smallest, p) is not None


@settings(max_examples=30)
@given(count=st.integers(6, 300), percent=st.integers(5, 95))
def test_coverage_is_exact_and_no_smaller_interval_has_it(count: int, percent: int) -> None:
    """An interval that is called 95 % holds the truth less often, or is wider than it must be."""
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
    """An interval is upside down, beside its percentile, or outside of what was measured."""
    ranks = interval_ranks(count, p)
    if ranks is None:
        return
    value_rank = min(count - 1, int(count * p)) + 1
    assert 1 <= ranks[0] <= value_rank <= ranks[1] <= count


@given(count=st.integers(6, 5000), first=st.integers(1, 998), more=st.integers(1, 998))
def test_ranks_grow_with_the_percentile_and_with_the_count(
    count: int, first: int, more: int
) -> None:
    """A higher percentile has a lower interval."""
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
    """A percentile is a number that no query ever took."""
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
    assert summary.mean == pytest.approx(sum(values) / len(values))


@given(st.permutations(list(range(40))))
def test_summary_does_not_depend_on_the_order(order: list[int]) -> None:
    """The same latencies in another order give another number."""
    assert summarize(np.array(order)) == summarize(np.arange(40))


def test_ladder_gives_the_known_percentiles() -> None:
    """A percentile is the neighbour of the one that the benchmark rules define."""
    path = need_shared("known_answers/measurement.json")
    ladders = json.loads(path.read_text())["early_stopping"]["ladder_1000_2000_..._n_x1000_ns"]
    for count, row in ladders.items():
        ordered = np.arange(1, int(count) + 1, dtype=np.int64) * 1000
        for name, p in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            value, interval = percentile(ordered, p)
            assert value == (row[name] if interval else None)


def test_no_query_is_no_summary() -> None:
    """An empty run has a latency."""
    with pytest.raises(MeasurementError, match="no query"):
        summarize(np.array([], np.int64))


def test_one_query_has_no_percentile() -> None:
    """The only latency is printed as a median."""
    summary = summarize(np.array([5], np.int64))
    assert (summary.min, summary.mean, summary.max, summary.p50) == (5, 5.0, 5, None)
