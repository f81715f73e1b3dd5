"""Bound on a meter's time constant, from falls of the power."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgebench.host.analysis.energy.sync.falls import fall_s

RATE_HZ = 10.0
IDLE_W, LOOP_W = 0.5, 2.0


def recorded(lag_s: float, noise_w: float = 0.0) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """A loop for 10 s, activity of 1.3 W for 0.4 s, and idle; with a filter."""
    chance = np.random.default_rng(3)
    time_s = np.cumsum(chance.uniform(0.5, 1.5, 300) / RATE_HZ)
    fine_s = np.arange(0, time_s[-1] + 1, 1e-3)
    power_w = np.where(fine_s < 10, LOOP_W, np.where(fine_s < 10.4, 1.3, IDLE_W))
    if lag_s:
        kept = np.exp(-1e-3 / lag_s)
        for place in range(1, len(power_w)):
            power_w[place] += kept * (power_w[place - 1] - power_w[place])
    values = np.interp(time_s, fine_s, power_w) + chance.normal(0, noise_w, len(time_s))
    return np.rint(time_s * 1e9).astype(np.int64), values


def bound_s(
    samples: tuple[NDArray[np.int64], NDArray[np.float64]], noise_w: float = 0.0
) -> float | None:
    return fall_s(*samples, idle_w=IDLE_W, loop_w=LOOP_W, noise_w=noise_w)


@pytest.mark.parametrize("lag_s", [0.3, 0.5, 2.0])
@pytest.mark.parametrize("noise_w", [0.0, 5e-3])
def test_filter_is_bounded_by_the_falls(lag_s: float, noise_w: float) -> None:
    """Otherwise a filter of 0.5 s would take 1 % of the energy, unseen."""
    found_s = bound_s(recorded(lag_s, noise_w), noise_w)
    assert found_s is not None
    assert 0.95 * lag_s <= found_s <= 1.3 * lag_s


def test_meter_without_a_filter_falls_within_a_sample() -> None:
    """Otherwise activity after the loop would count as a filter."""
    found_s = bound_s(recorded(0.0))
    assert found_s is not None
    assert found_s < 1.5 / RATE_HZ


def test_a_spike_is_no_fall() -> None:
    """Otherwise one wrong value would hide a filter of two seconds."""
    time_ns, values = recorded(2.0)
    values[150] += 2.0
    found_s = bound_s((time_ns, values))
    assert found_s is not None
    assert found_s >= 1.9


def test_loop_that_is_lost_in_the_noise_bounds_nothing() -> None:
    """Otherwise the falls of the noise would exclude any filter."""
    assert bound_s(recorded(0.5, 0.3), 0.3) is None
