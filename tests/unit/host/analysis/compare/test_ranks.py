"""Rank tests: brute force over every sign and every choice, scipy, and symmetries."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from edgebench.host.analysis.compare.ranks import (
    MAX_INDEPENDENT,
    MAX_PAIRS,
    probability_of_superiority,
    rank_sum_test,
    signed_rank_test,
)

Floats = NDArray[np.float64]
coarse = st.integers(-4, 4).map(float)
"""Few different values: many ties and zeros."""
fine = st.floats(-10, 10).filter(lambda value: abs(value) > 1e-6)


def p_by_force(sums: list[float], observed: float) -> float:
    """Return the two-sided p value of a sum of ranks among all equally likely sums."""
    low = sum(value <= observed + 1e-9 for value in sums)
    high = sum(value >= observed - 1e-9 for value in sums)
    return min(1.0, 2 * min(low, high) / len(sums))


def cap_of(count: int) -> int:
    """Return the largest rank that counts: half of them, rounded up."""
    return math.ceil(count / 2)


@settings(max_examples=50, deadline=None)
@given(st.lists(coarse, min_size=1, max_size=9))
def test_pairs_have_the_p_value_of_all_signs(values: list[float]) -> None:
    """Otherwise ties or zeros would make the p value wrong, as they do in tables."""
    differences = np.array(values)
    ranks = np.minimum(stats.rankdata(np.abs(differences)), cap_of(len(values)))
    ranks[differences == 0] = 0
    sums = [float(ranks @ np.array(signs)) for signs in product((0, 1), repeat=len(values))]
    expected = p_by_force(sums, float(ranks[differences > 0].sum()))
    assert signed_rank_test(differences).p_value == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(coarse, min_size=1, max_size=5), st.lists(coarse, min_size=1, max_size=5))
def test_independent_sides_have_the_p_value_of_all_choices(a: list[float], b: list[float]) -> None:
    """Otherwise ties would make the p value wrong, as they do in scipy's exact method."""
    ranks = stats.rankdata([*a, *b])
    sums = [float(ranks[list(chosen)].sum()) for chosen in combinations(range(ranks.size), len(b))]
    expected = p_by_force(sums, float(ranks[len(a) :].sum()))
    assert rank_sum_test(np.array(a), np.array(b)).p_value == pytest.approx(expected)


def excluded(sums: list[int], k: int) -> float:
    """Return the chance that the k-th smallest candidate is above the true shift."""
    return sum(value < k for value in sums) / len(sums)


@settings(max_examples=50, deadline=None)
@given(st.lists(fine, min_size=2, max_size=9, unique=True), st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_interval_of_pairs_holds_what_the_test_does_not_reject(
    values: list[float], level: float
) -> None:
    """Otherwise the interval would hold the truth too rarely, or contradict its own p value."""
    differences = np.array(values)
    steps = np.unique(np.add.outer(differences, differences) / 2)
    if np.min(np.diff(steps)) < 1e-6:
        return  # rounding decides which of two steps is first
    middles = (steps[1:] + steps[:-1]) / 2
    shifts = np.concatenate([steps[:1] - 1, middles, steps[-1:] + 1])
    kept = [signed_rank_test(differences - shift).p_value > 1 - level for shift in shifts]
    found = signed_rank_test(differences).interval(level)
    if kept[0]:
        assert found is None
    elif any(kept):
        first, last = kept.index(True), len(kept) - kept[::-1].index(True)
        assert found == pytest.approx((steps[first - 1], steps[last - 1]))


@pytest.mark.parametrize("count", [6, 10, 15])
def test_interval_of_pairs_holds_the_shift_as_often_as_it_says(count: int) -> None:
    """Otherwise an interval of 95 % would hold the truth in 80 of 100 campaigns."""
    draw = np.random.default_rng(count)
    held = 0
    for _ in range(500):
        found = signed_rank_test(3.0 + draw.standard_normal(count)).interval(0.90)
        assert found is not None
        held += found[0] <= 3.0 <= found[1]
    assert 0.87 <= held / 500 <= 0.97


def test_one_slow_run_does_not_hide_what_all_other_pairs_say() -> None:
    """Otherwise a neighbour's cron job would cause a regression that nine pairs of ten deny."""
    differences = np.array([0.030, 0.031, 0.029, 0.028, 0.033, 0.034, 0.027, 0.032, 0.026, -0.15])
    found = signed_rank_test(differences)
    assert stats.wilcoxon(differences).pvalue > 0.08
    assert found.p_value == pytest.approx(30 / 1024)
    assert found.shift == pytest.approx(0.030, abs=0.002)
    interval = found.interval(0.95)
    assert interval is not None
    assert 0.02 < interval[0] < interval[1] < 0.033


@settings(deadline=None)
@given(st.lists(fine, min_size=2, max_size=12))
def test_estimate_is_where_the_test_is_at_its_centre(values: list[float]) -> None:
    """Otherwise the printed change would not be the change that the test supports best."""
    differences = np.array(values)
    shift = signed_rank_test(differences).shift
    width = 1e-9 + 1e-9 * abs(shift)
    low, high = (_positive(differences - shift + side * width) for side in (1, -1))
    centre = sum(min(rank, cap_of(len(values))) for rank in range(1, len(values) + 1)) / 2
    assert high <= centre <= low


def _positive(differences: Floats) -> float:
    """Return the sum of the capped ranks of positive differences."""
    ranks = np.minimum(stats.rankdata(np.abs(differences), "ordinal"), cap_of(differences.size))
    return float(ranks[differences > 0].sum())


@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (3, 5), (4, 4), (5, 5), (6, 4)])
@pytest.mark.parametrize("level", [0.90, 0.95, 0.99])
def test_interval_of_independent_sides_is_the_narrowest_exact_one(
    sizes: tuple[int, int], level: float
) -> None:
    """Otherwise the interval would hold the truth too rarely, or be wider than it must be."""
    m, n = sizes
    draw = np.random.default_rng(m)
    a, b = draw.standard_normal(m), draw.standard_normal(n)
    differences = sorted(y - x for x in a for y in b)
    sums = [
        sum(chosen) - n * (n - 1) // 2 for chosen in combinations(range(m + n), n)
    ]  # the Mann–Whitney statistic of every choice
    k = max(k for k in range(m * n + 1) if excluded(sums, k) <= (1 - level) / 2 + 1e-12)
    found = rank_sum_test(a, b).interval(level)
    if k == 0:
        assert found is None
    else:
        assert found == pytest.approx((differences[k - 1], differences[-k]))


@pytest.mark.parametrize("count", [6, 10, 25, 60, MAX_PAIRS, MAX_PAIRS + 1])
def test_pairs_agree_with_a_permutation_test(count: int) -> None:
    """Otherwise long series would overflow, lose precision or use a wrong approximation."""
    draw = np.random.default_rng(count)
    differences = draw.standard_normal(count) + 1 / math.sqrt(count)
    ranks = np.minimum(stats.rankdata(np.abs(differences)), cap_of(count))
    signs = (draw.integers(0, 2, (10_000, count), np.uint8) for _ in range(20))
    sums, observed = np.concatenate([some @ ranks for some in signs]), ranks[differences > 0].sum()
    expected = 2 * min(np.mean(sums >= observed), np.mean(sums <= observed))
    assert signed_rank_test(differences).p_value == pytest.approx(min(expected, 1), abs=0.006)


def test_pairs_that_all_agree_have_wilcoxons_p_value() -> None:
    """Otherwise the cap would cost the strongest evidence that so many pairs can give."""
    agreeing = np.arange(1.0, 11.0)
    assert signed_rank_test(agreeing).p_value == stats.wilcoxon(agreeing, method="exact").pvalue


@pytest.mark.parametrize("count", [4, 10, 30, MAX_INDEPENDENT, MAX_INDEPENDENT + 1])
def test_independent_sides_agree_with_scipy(count: int) -> None:
    """Otherwise long series would overflow, lose precision or use a wrong approximation."""
    draw = np.random.default_rng(count)
    a, b = draw.standard_normal(count), draw.standard_normal(count - 1) + 0.1
    expected = stats.mannwhitneyu(b, a, method="exact").pvalue
    found = rank_sum_test(a, b).p_value
    assert found == pytest.approx(expected, rel=1e-6 if count <= MAX_INDEPENDENT else 0.02)


def test_approximations_continue_the_exact_intervals() -> None:
    """Otherwise one more run would change the interval by a jump."""
    draw = np.random.default_rng(1)
    values = draw.standard_normal(MAX_PAIRS + 1)
    exact, normal = signed_rank_test(values[:-1]), signed_rank_test(values)
    assert normal.interval(0.95) == pytest.approx(exact.interval(0.95), abs=0.02)
    others = draw.standard_normal(MAX_INDEPENDENT + 1)
    mine = values[: MAX_INDEPENDENT + 1]
    exact, normal = rank_sum_test(mine[:-1], others[:-1]), rank_sum_test(mine, others)
    assert normal.interval(0.95) == pytest.approx(exact.interval(0.95), abs=0.1)


def test_approximation_is_as_certain_of_less_as_of_more() -> None:
    """Otherwise one run against sixty would be called faster on less evidence than slower."""
    many = np.arange(MAX_INDEPENDENT + 10.0)
    slower, faster = (rank_sum_test(many, np.array([value])) for value in (1e3, -1e3))
    assert faster.p_value == pytest.approx(slower.p_value)


@pytest.mark.parametrize(
    ("m", "n", "smallest"),
    [(3, 3, 0.1), (4, 4, 0.029), (5, 5, 0.0079), (6, 6, 0.0022), (9, 9, 4e-5)],
)
def test_smallest_p_of_independent_sides_is_the_known_one(m: int, n: int, smallest: float) -> None:
    """Otherwise a gate could be set up that can never fire."""
    found = rank_sum_test(np.arange(1.0, m + 1), np.arange(101.0, n + 101))
    assert found.smallest_p == pytest.approx(smallest, rel=0.05)
    assert found.p_value == pytest.approx(found.smallest_p)


@pytest.mark.parametrize(("count", "smallest"), [(5, 0.0625), (6, 0.031), (10, 0.002)])
def test_smallest_p_of_pairs_is_the_known_one(count: int, smallest: float) -> None:
    """Otherwise a gate could be set up that can never fire."""
    found = signed_rank_test(np.arange(1.0, count + 1))
    assert found.smallest_p == pytest.approx(smallest, rel=0.03)
    assert found.p_value == pytest.approx(found.smallest_p)


@settings(deadline=None)
@given(st.lists(fine, min_size=6, max_size=30), st.integers(0, 1000))
def test_order_of_pairs_does_not_matter_and_signs_mirror(values: list[float], seed: int) -> None:
    """Otherwise the result would depend on the order of the pairs, or on which side is first."""
    differences = np.array(values)
    one = signed_rank_test(differences)
    other = signed_rank_test(np.random.default_rng(seed).permutation(differences))
    assert (other.shift, other.p_value) == pytest.approx((one.shift, one.p_value))
    mirrored = signed_rank_test(-differences)
    assert (mirrored.shift, mirrored.p_value) == pytest.approx((-one.shift, one.p_value))
    interval, back = one.interval(0.95), mirrored.interval(0.95)
    assert interval is not None
    assert back is not None
    assert interval[0] <= one.shift <= interval[1]
    assert back == pytest.approx((-interval[1], -interval[0]))


@settings(deadline=None)
@given(st.lists(coarse, min_size=1, max_size=12), st.lists(coarse, min_size=1, max_size=12))
def test_superiority_is_the_share_of_pairs(a: list[float], b: list[float]) -> None:
    """Otherwise the effect size would count ties as wins."""
    wins = sum((y > x) + (y == x) / 2 for x in a for y in b)
    found = probability_of_superiority(np.array(a), np.array(b))
    assert found == pytest.approx(wins / (len(a) * len(b)))
    assert math.isclose(found, 1 - probability_of_superiority(np.array(b), np.array(a)))
