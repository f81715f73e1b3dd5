"""Effective counts: known ones, theory, and what they must never do."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.series import ar1
from support.tools import need_shared

from edgebench.host.analysis.latency.dependence import (
    MAX_CORRELATED_POINTS,
    autocorrelation_time,
    autocorrelations,
    cautious_count,
    integrated_time,
)


def effective_count(values: NDArray[np.float64]) -> float:
    """Return the effective count by the estimate itself, without any caution."""
    return values.size / autocorrelation_time(values)[0]


def known() -> Any:
    """Return known answers that were computed elsewhere."""
    return json.loads(need_shared("known_answers/measurement.json").read_text())["autocorrelation"]


def test_effective_count_is_the_known_one() -> None:
    """Otherwise the sum of correlations would end elsewhere than in the literature."""
    row = known()["ar1"]
    noise = np.random.Generator(np.random.PCG64(20240101)).standard_normal(row["n"])
    series = np.empty(row["n"])
    series[0] = noise[0] / (1 - row["phi"] ** 2) ** 0.5
    for i in range(1, series.size):
        series[i] = row["phi"] * series[i - 1] + noise[i]
    correlations = autocorrelations(series)
    assert correlations[1] == pytest.approx(row["rho1"], abs=1e-9)
    assert series.size / integrated_time(correlations)[0] == pytest.approx(row["ess_geyer"])
    assert effective_count(series) == pytest.approx(row["ess_geyer"])


def test_correlations_are_those_of_the_definition() -> None:
    """Otherwise the Fourier transform would wrap around."""
    for count in (2, 3, 10, 64, 1000):
        series = np.random.default_rng(count).standard_normal(count).cumsum()
        deviations = series - series.mean()
        products = np.correlate(deviations, deviations, mode="full")[count - 1 :]
        expected = products / products[0]
        assert autocorrelations(series) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.3, 0.8, 0.9, 0.99])
@pytest.mark.parametrize("count", [2, 3, 16, 17, 500, 20_000])
@pytest.mark.parametrize("is_indicator", [False, True])
def test_sequence_ends_at_the_same_lag_with_and_without_the_transform(
    phi: float, count: int, is_indicator: bool
) -> None:
    """Otherwise the first lags, which are correlated one by one, would be worth something else."""
    for seed in range(5):
        series = ar1(np.random.default_rng(seed), count, phi)
        series = (series <= np.median(series)).astype(float) if is_indicator else series
        time, last_lag = integrated_time(autocorrelations(series))
        error = (2 * (2 * last_lag + 1) / count) ** 0.5
        expected = time if time > 1 + 2 * error else 1.0
        assert autocorrelation_time(series) == pytest.approx((expected, error), rel=1e-9)


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.5, 0.8, 0.9])
@pytest.mark.parametrize("count", [20_000, 400_000])
def test_effective_count_follows_the_theory(phi: float, count: int) -> None:
    """Otherwise averaging over blocks would lose dependence within them, or bias the estimate."""
    found = effective_count(ar1(np.random.default_rng(1), count, phi))
    assert found == pytest.approx(count * (1 - phi) / (1 + phi), rel=0.15)


def test_slow_drift_of_a_long_series_is_seen() -> None:
    """Otherwise dependence that reaches farther than any block would go unnoticed."""
    count = 20 * MAX_CORRELATED_POINTS
    series = np.random.default_rng(3).standard_normal(count)
    series += 3 * np.sin(np.arange(count) / count * 30)
    assert effective_count(series) < 200


@settings(deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=200))
def test_series_is_worth_something_but_not_more_than_its_length(values: list[float]) -> None:
    """Otherwise alternating values would be worth more than were measured, or constant ones 0."""
    for count in (effective_count, cautious_count):
        found = count(np.array(values))
        assert 0 < found <= len(values)
        assert count(np.tile([1.0, -1.0], 100)) == 200
        assert count(np.full(len(values), values[0])) == len(values)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_cautious_count_is_the_estimate_less_its_error(phi: float) -> None:
    """Otherwise intervals would be too narrow in every second run, or twice as wide as needed."""
    series = ar1(np.random.default_rng(1), 20_000, phi)
    theory = 20_000 * (1 - phi) / (1 + phi)
    assert 0.6 * theory < cautious_count(series) <= 1.05 * theory


def test_rare_values_of_a_level_that_comes_and_goes_are_worth_little() -> None:
    """Otherwise the tail of a device that switches levels would seem to be independent queries.

    One in fifty queries of the slow level is above the 99th percentile, one after another as if by
    chance; but the share of the slow level differs from run to run.
    """
    random = np.random.default_rng(3)
    is_slow = np.repeat(random.random(20) < 0.5, 500)
    above = (is_slow & (random.random(is_slow.size) < 0.02)).astype(np.float64)
    assert effective_count(above) > 0.8 * above.size, "the sum of correlations hardly sees it"
    counts = [
        np.count_nonzero(np.repeat(random.random(20) < 0.5, 500) & (random.random(10_000) < 0.02))
        for _ in range(500)
    ]
    truth = above.size * above.mean() / float(np.var(counts))
    assert truth < 0.4, "the number of such queries varies more than by chance"
    assert cautious_count(above) < 0.6 * above.size
