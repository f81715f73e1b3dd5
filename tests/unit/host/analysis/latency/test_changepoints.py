"""Changepoints: the known ones, every possible cut of short series, and ruptures' results."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.series import known_series
from support.tools import need_shared, skip_or_fail

from edgebench.host.analysis.latency.changepoints import PENALTY_FACTOR, find_changepoints

FLOOR = 1e-3


def cost(values: NDArray[np.float64], ends: list[int]) -> float:
    """Return the cost of a cut, by the definition."""
    parts = [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    likelihoods = sum(part.size * np.log(part.var() + FLOOR**2) for part in parts)
    return float(likelihoods + PENALTY_FACTOR * np.log(values.size) * len(ends))


def cuts(count: int) -> Iterator[list[int]]:
    """Yield every cut of so many values into segments of two or more."""
    inner = range(2, count - 1)
    for chosen in chain.from_iterable(combinations(inner, size) for size in range(count // 2)):
        ends = [*chosen, count]
        if all(end - start >= 2 for start, end in zip([0, *ends], ends, strict=False)):
            yield ends


def test_changepoints_are_the_known_ones() -> None:
    """Otherwise a change would be seen late, twice or not at all."""
    results = json.loads(need_shared("known_answers/measurement.json").read_text())
    rows: dict[str, Any] = results["changepoint"]["results"]
    assert len(rows) == 5
    for name, row in rows.items():
        found = find_changepoints(known_series(name), floor=FLOOR)
        assert len(found) == len(row["breakpoints"]), name
        assert np.abs(np.subtract(found, row["breakpoints"])).max() <= 1, name


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.1, 1e3, 1e6]), min_size=2, max_size=11),
    st.sampled_from([0.05, 0.3, 1.0]),
)
def test_no_other_cut_costs_less(values: list[float], strictness: float) -> None:
    """Otherwise a cut would be reported that is not the best cut."""
    series = np.array(values)
    found = find_changepoints(series, floor=FLOOR, strictness=strictness)
    penalty = PENALTY_FACTOR * np.log(series.size) * (strictness - 1)

    def total(ends: list[int]) -> float:
        return cost(series, ends) + float(penalty) * len(ends)

    least = min(map(total, cuts(series.size)))
    assert total(found) == pytest.approx(least, rel=1e-6, abs=1e-3)


def cuts_by_all_pairs(values: NDArray[np.float64], penalty: float) -> list[int]:
    """Return the ends of the best cut, by trying every start for every end."""
    sums, squares = (np.concatenate([[0.0], np.cumsum(powers)]) for powers in (values, values**2))
    best, before = np.full(values.size + 1, np.inf), [0, 0]
    best[0] = 0.0
    for end in range(2, values.size + 1):
        lengths = end - np.arange(end - 1.0)
        means = (sums[end] - sums[: end - 1]) / lengths
        variances = (squares[end] - squares[: end - 1]) / lengths - means**2
        costs = lengths * np.log(np.maximum(variances, 0.0) + FLOOR**2)
        totals = best[: end - 1] + costs + penalty
        before.append(int(totals.argmin()))
        best[end] = totals.min()
    ends = [values.size]
    while before[ends[-1]]:
        ends.append(before[ends[-1]])
    return ends[::-1]


@pytest.mark.parametrize("strictness", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("count", [63, 64, 65, 66, 67, 500])
@pytest.mark.parametrize("kind", ["steady", "levels", "ramp", "walk", "ticks", "tails"])
def test_starts_that_are_not_tried_would_not_be_chosen(
    kind: str, count: int, strictness: float
) -> None:
    """Otherwise the bound on the other starts would hide the best cut of a long series."""
    draw = np.random.default_rng(count)
    noise = draw.standard_normal(count)
    values = {
        "steady": noise,
        "levels": noise + np.repeat(5 * draw.standard_normal(count // 10 + 1), 10)[:count],
        "ramp": noise + np.linspace(0, 20, count),
        "walk": np.cumsum(noise),
        "ticks": np.round(noise),
        "tails": np.exp(2 * noise),
    }[kind]
    values -= np.median(values)
    found = find_changepoints(values, floor=FLOOR, strictness=strictness)
    assert found == cuts_by_all_pairs(values, PENALTY_FACTOR * np.log(count) * strictness)


@pytest.mark.parametrize("seed", range(6))
def test_ruptures_finds_no_better_cut(seed: int) -> None:
    """Otherwise our sums would not be the cost behind the literature's results."""
    if find_spec("ruptures") is None:
        skip_or_fail("ruptures is not installed")
    from ruptures import Pelt
    from ruptures.costs import CostNormal

    draw = np.random.default_rng(seed)
    levels = np.repeat(draw.uniform(5, 15, 4), draw.integers(5, 40, 4))
    values = levels + draw.uniform(0.01, 0.5) * draw.standard_normal(levels.size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it states the floor that we use as well
        search = Pelt(custom_cost=CostNormal(), min_size=2, jump=1)
    theirs = search.fit(values).predict(PENALTY_FACTOR * np.log(values.size))
    ours = find_changepoints(values, floor=FLOOR)
    assert cost(values, ours) == pytest.approx(cost(values, theirs), rel=1e-9)
    assert ours == theirs


@given(st.integers(2, 300), st.floats(0, 1e12))
def test_constant_series_has_no_changepoint(count: int, value: float) -> None:
    """Otherwise rounding in the sums would create changes out of nothing."""
    assert find_changepoints(np.full(count, value), floor=max(value, 1.0) / 300) == [count]


@settings(max_examples=30)
@given(scale=st.floats(1e-6, 1e9), shift=st.floats(-1e3, 1e3))
def test_unit_and_zero_do_not_matter(scale: float, shift: float) -> None:
    """Otherwise nanoseconds would have other changepoints than milliseconds."""
    values = known_series("warmup")
    expected = find_changepoints(values, floor=0.01)
    assert find_changepoints((values + shift) * scale, floor=0.01 * scale) == expected
