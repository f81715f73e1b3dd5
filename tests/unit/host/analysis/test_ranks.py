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

from edgebench.host.analysis.ranks import (
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
    """Two-sided p value of a sum of ranks among all that are equally likely."""
    low = sum(value <= observed + 1e-9 for value in sums)
    high = sum(value >= observed - 1e-9 for value in sums)
    return min(1.0, 2 * min(low, high) / len(sums))


@settings(max_examples=50, deadline=None)
@given(st.lists(coarse, min_size=1, max_size=9))
def test_pairs_have_the_p_value_of_all_signs(values: list[float]) -> None:
    """Ties or zeros make the p value wrong, as they do in tables."""
    differences = np.array(values)
    ranks = stats.rankdata(np.abs(differences))
    ranks[differences == 0] = 0
    sums = [float(ranks @ np.array(signs)) for signs in product((0, 1), repeat=len(values))]
    expected = p_by_force(sums, float(ranks[differences > 0].sum()))
    assert signed_rank_test(differences).p_value == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(coarse, min_size=1, max_size=5), st.lists(coarse, min_size=1, max_size=5))
def test_independent_sides_have_the_p_value_of_all_choices(a: list[float], b: list[float]) -> None:
    """Ties make the p value wrong, as they do in scipy's exact method."""
    ranks = stats.rankdata([*a, *b])
    sums = [float(ranks[list(chosen)].sum()) for chosen in combinations(range(ranks.size), len(b))]
    expected = p_by_force(sums, float(ranks[len(a) :].sum()))
    assert rank_sum_test(np.array(a), np.array(b)).p_value == pytest.approx(expected)


def excluded(sums: list[int], k: int) -> float:
    """Chance that the k-th smallest candidate is above the true shift."""
    return sum(value < k for value in sums) / len(sums)


@pytest.mark.parametrize("count", range(1, 11))
@pytest.mark.parametrize("level", [0.90, 0.95, 0.99])
def test_interval_of_pairs_is_the_narrowest_exact_one(count: int, level: float) -> None:
    """The interval holds the truth less often than it says, or is wider than it must be."""
    differences = np.random.default_rng(count).standard_normal(count)
    pairs = [(i, j) for i in range(count) for j in range(i, count)]
    means = sorted((differences[i] + differences[j]) / 2 for i, j in pairs)
    sums = [
        sum(rank for rank, sign in enumerate(signs, start=1) if sign)
        for signs in product((0, 1), repeat=count)
    ]
    k = max(k for k in range(len(means) + 1) if excluded(sums, k) <= (1 - level) / 2 + 1e-12)
    found = signed_rank_test(differences).interval(level)
    if k == 0:
        assert found is None
    else:
        assert found == pytest.approx((means[k - 1], means[-k]))


@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (3, 5), (4, 4), (5, 5), (6, 4)])
@pytest.mark.parametrize("level", [0.90, 0.95, 0.99])
def test_interval_of_independent_sides_is_the_narrowest_exact_one(
    sizes: tuple[int, int], level: float
) -> None:
    """The interval holds the truth less often than it says, or is wider than it must be."""
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
def test_pairs_agree_with_scipy(count: int) -> None:
    """Long series overflow, lose precision or switch to a wrong approximation."""
    differences = np.random.default_rng(count).standard_normal(count) + 0.1
    expected = stats.wilcoxon(differences, method="exact" if count <= MAX_PAIRS else "approx")
    found = signed_rank_test(differences)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9 if count <= MAX_PAIRS else 0.02)


@pytest.mark.parametrize("count", [4, 10, 30, MAX_INDEPENDENT, MAX_INDEPENDENT + 1])
def test_independent_sides_agree_with_scipy(count: int) -> None:
    """Long series overflow, lose precision or switch to a wrong approximation."""
    draw = np.random.default_rng(count)
    a, b = draw.standard_normal(count), draw.standard_normal(count - 1) + 0.1
    expected = stats.mannwhitneyu(b, a, method="exact").pvalue
    found = rank_sum_test(a, b).p_value
    assert found == pytest.approx(expected, rel=1e-6 if count <= MAX_INDEPENDENT else 0.02)


def test_approximations_continue_the_exact_intervals() -> None:
    """One run more changes the interval by a jump."""
    draw = np.random.default_rng(1)
    values = draw.standard_normal(MAX_PAIRS + 1)
    exact, normal = signed_rank_test(values[:-1]), signed_rank_test(values)
    assert normal.interval(0.95) == pytest.approx(exact.interval(0.95), abs=0.02)
    others = draw.standard_normal(MAX_INDEPENDENT + 1)
    mine = values[: MAX_INDEPENDENT + 1]
    exact, normal = rank_sum_test(mine[:-1], others[:-1]), rank_sum_test(mine, others)
    assert normal.interval(0.95) == pytest.approx(exact.interval(0.95), abs=0.1)


@pytest.mark.parametrize(
    ("m", "n", "smallest"),
    [(3, 3, 0.1), (4, 4, 0.029), (5, 5, 0.0079), (6, 6, 0.0022), (9, 9, 4e-5)],
)
def test_smallest_p_of_independent_sides_is_the_known_one(m: int, n: int, smallest: float) -> None:
    """A gate is set up that can never fire."""
    found = rank_sum_test(np.arange(1.0, m + 1), np.arange(101.0, n + 101))
    assert found.smallest_p == pytest.approx(smallest, rel=0.05)
    assert found.p_value == pytest.approx(found.smallest_p)


@pytest.mark.parametrize(("count", "smallest"), [(5, 0.0625), (6, 0.031), (10, 0.002)])
def test_smallest_p_of_pairs_is_the_known_one(count: int, smallest: float) -> None:
    """A gate is set up that can never fire."""
    found = signed_rank_test(np.arange(1.0, count + 1))
    assert found.smallest_p == pytest.approx(smallest, rel=0.03)
    assert found.p_value == pytest.approx(found.smallest_p)


@settings(deadline=None)
@given(st.lists(fine, min_size=6, max_size=30), st.integers(0, 1000))
def test_order_of_pairs_does_not_matter_and_signs_mirror(values: list[float], seed: int) -> None:
    """The result depends on which pair was measured first, or on which side is called first."""
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
    """The effect size counts ties as wins."""
    wins = sum((y > x) + (y == x) / 2 for x in a for y in b)
    found = probability_of_superiority(np.array(a), np.array(b))
    assert found == pytest.approx(wins / (len(a) * len(b)))
    assert math.isclose(found, 1 - probability_of_superiority(np.array(b), np.array(a)))
