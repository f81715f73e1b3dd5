"""What a meter's values show of the meter: noise, step, update interval and spikes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgebench.host.analysis.energy.values import (
    idle_spikes,
    loop_spikes,
    noise_w,
    step_w,
    update_interval_s,
)

SECOND_NS = 1_000_000_000
CHANCE_SEED = 7


def noise(count: int, deviation_w: float) -> NDArray[np.float64]:
    return np.random.default_rng(CHANCE_SEED).normal(0, deviation_w, count)


def test_noise_is_that_of_a_value_and_not_of_activity() -> None:
    """Otherwise background activity of an idle device would count as noise of the meter."""
    values = 0.5 + noise(2000, 5e-3)
    values[500:600] += 1.0
    assert noise_w([values[:1000], values[1000:]]) == pytest.approx(5.5e-3, rel=0.15)
    assert noise_w([np.full(100, 0.5)]) == 0.0
    assert noise_w([]) == 0.0


def test_noise_of_a_filter_averages_out_less() -> None:
    """Otherwise 20 mW that are alike over five values would count as 9 mW, and average out."""
    white = noise(5004, 0.02)
    alike = np.convolve(white, np.ones(5), "valid") / np.sqrt(5)
    assert noise_w([0.5 + alike]) > 1.6 * 0.02


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([2.5, 2.5, 1.8, 1.3], 0.1),
        ([0.5, 2.0], 0.1),
        ([0.0, 0.1], 0.1),
        ([2.0, 2.0], 0.0),
        ([0.1234567, 2.0], 0.0),
        (list(np.arange(12) * 0.25), 0.25),
    ],
)
def test_step_is_that_of_which_all_values_are_multiples(values: list[float], step: float) -> None:
    """Otherwise a meter of 0.1 W would be 2 % off at a stated 0.01 %."""
    assert step_w(np.array(values)) == pytest.approx(step)


def test_values_without_a_step_have_a_negligible_one() -> None:
    """Otherwise every meter would be as coarse as the differences between its values."""
    assert step_w(0.5 + noise(2000, 5e-3)) < 1e-4
    volts, amperes = 5 + 0.01 * np.arange(20), 0.1 + 1e-3 * np.arange(20)
    assert 0 < step_w((volts[:, None] * amperes).reshape(-1)) < 5e-3


def polled(duration_s: float, rate_hz: float) -> NDArray[np.int64]:
    chance = np.random.default_rng(CHANCE_SEED)
    steps_s = chance.uniform(0.5, 1.5, round(duration_s * rate_hz)) / rate_hz
    times_ns: NDArray[np.int64] = np.rint(np.cumsum(steps_s) * SECOND_NS).astype(np.int64)
    return times_ns


def test_interval_between_new_values_is_found() -> None:
    """Otherwise a meter with one value per second would count as one with ten."""
    time_ns = polled(30, 10.0)
    per_second = noise(40, 5e-3)[time_ns // SECOND_NS]
    assert update_interval_s(time_ns, per_second, 0.1) == pytest.approx(1.0, abs=0.2)
    assert update_interval_s(time_ns, noise(len(time_ns), 5e-3), 0.1) == 0.0
    assert update_interval_s(time_ns, np.full(len(time_ns), 2.0), 0.1) == 0.0


def test_coarse_values_are_not_taken_for_repeated_ones() -> None:
    """Otherwise a meter of 0.1 W would count as one that has a new value each second."""
    time_ns = polled(30, 10.0)
    coarse = np.rint((2.03 + noise(len(time_ns), 0.03)) / 0.1) * 0.1
    assert update_interval_s(time_ns, coarse, 0.1) == 0.0


def test_single_high_values_while_idle_are_spikes() -> None:
    """Otherwise a meter that now and then adds a watt would be 0.5 % off at a stated 0.03 %."""
    values = 0.5 + noise(2000, 5e-3)
    values[50::100] += 1.0
    found = idle_spikes([values], 0.05)
    assert len(found.height_w) == 20
    assert 0.01 < found.most_w < 0.02
    values[51::100] += 1.0
    assert not len(idle_spikes([values], 0.05).height_w), "two in a row are activity"
    values = 0.5 + noise(2000, 5e-3)
    values[::10] += 1.0
    assert not len(idle_spikes([values], 0.05).height_w), "each tenth value is a tick"


def test_bursts_of_inferences_are_no_spikes() -> None:
    """Otherwise the energy of a short burst in each inference would be uncertain."""
    values = 2.0 + noise(10_000, 5e-3)
    values[50::100] += 1.0
    assert not len(loop_spikes(values, 0.05, 100.0).height_w)
    assert len(loop_spikes(values, 0.05, 1000.0).height_w) == 100
