"""Changepoints of a history: false alarms, power and location."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebench.host.analysis.history.levels import find_exact_starts, find_level_starts

SPREAD = 0.01
STEP = float(np.log(1.05))
HISTORIES = 200


def points(seed: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return points that scatter by 1 %."""
    return np.random.default_rng(seed).normal(0, SPREAD, count)


@pytest.mark.parametrize("count", [7, 8, 30])
def test_false_alarm_rate_is_at_most_alpha(count: int) -> None:
    """Otherwise a nightly gate would fail once a week although nothing changes."""
    alarms = sum(bool(find_level_starts(points(seed, count))) for seed in range(HISTORIES))
    assert alarms <= 16, "the upper binomial 97.5 % limit of 200 at 5 %"


@pytest.mark.parametrize(("count", "step"), [(8, 4), (10, 5), (20, 17), (60, 30), (200, 198)])
def test_step_is_found_at_the_right_point(count: int, step: int) -> None:
    """Otherwise a 5 % slower model would go unnoticed, or another commit would be blamed."""
    found = 0
    for seed in range(10):
        values = points(seed, count)
        values[step:] += STEP
        found += any(abs(start - step) <= 1 for start in find_level_starts(values))
    assert found >= 9


def test_temporary_level_is_found() -> None:
    """Otherwise a kernel that was slower for two weeks would go unnoticed in a year."""
    values = points(1, 200)
    values[90:100] += STEP
    assert find_level_starts(values) == [90, 100]


def test_outliers_are_neither_levels_nor_hide_one() -> None:
    """Otherwise a run disturbed by another program would count as a change, or mask a real one."""
    values = points(2, 60)
    values[[5, 21, 44]] += 0.5
    assert find_level_starts(values) == []
    values[30:] += STEP
    assert find_level_starts(values) == [30]


def test_change_within_the_intervals_of_the_points_is_ignored() -> None:
    """Otherwise points that agree by chance would make noise between runs look like a change."""
    values = np.repeat([0.0, 0.001], 6)
    assert find_level_starts(values) == [6]
    assert find_level_starts(values, errors=np.full(12, 0.01)) == []


def test_fewer_than_five_points_have_no_levels() -> None:
    """Otherwise two points on each side of a step would be called a trend."""
    assert find_level_starts(np.array([0.0, 0.0, 1.0, 1.0])) == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-50, 50, allow_subnormal=False), max_size=12),
    st.integers(0, 3),
)
def test_any_points_have_levels_of_at_least_two_points(values: list[float], seed: int) -> None:
    """Otherwise a history of odd values would crash the command, or give an empty level."""
    starts = find_level_starts(np.array(values), seed=seed)
    edges = [0, *starts, len(values)]
    assert not starts or all(after - before >= 2 for before, after in pairwise(edges))
    assert find_level_starts(np.array(values), seed=seed) == starts


def test_exact_counts_change_with_every_difference_beyond_the_resolution() -> None:
    """Otherwise one more instruction would be lost in a scatter test, or a tick be a change."""
    counts = np.log(np.array([1000.0, 1000.5, 1002.0, 1002.0, 990.0]))
    assert find_exact_starts(counts, resolution=np.log1p(0.001)) == [2, 4]
