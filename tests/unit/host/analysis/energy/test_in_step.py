"""Inferences in step with a meter's own samples: the error that no trace shows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgebench.host.analysis.energy.in_step import Loop, in_step_ratio

INTERVAL_S, LOOP_S = 1e-3, 10.0


def error_ratio(chance: np.random.Generator, period_s: float, deviation_s: float) -> float:
    """Return the error of a loop's mean power, relative to the span of the power."""
    count = int(LOOP_S / period_s)
    ends_s = np.cumsum(chance.normal(period_s, deviation_s, count))
    starts_s = np.concatenate([[0.0], ends_s[:-1]])
    busy_ratio = chance.uniform(0.3, 0.7)
    times_s = np.arange(chance.uniform(0, INTERVAL_S), ends_s[-1], INTERVAL_S)
    place = np.searchsorted(starts_s, times_s, side="right") - 1
    is_busy = times_s - starts_s[place] < busy_ratio * period_s
    return float(is_busy.mean() - busy_ratio)


@pytest.mark.parametrize("phases", [1, 2, 3, 5, 10, 100])
@pytest.mark.parametrize("inferences", [1, 3])
@pytest.mark.parametrize("off_s", [0.0, 1e-8, 1e-7, 1e-6, 1e-5])
@pytest.mark.parametrize("deviation_s", [0.0, 1e-6, 1e-5])
def test_error_of_a_loop_is_within_what_is_said(
    phases: int, inferences: int, off_s: float, deviation_s: float
) -> None:
    """Otherwise a loop in step would be off by half of the span, with its energy printed to 1 %."""
    chance = np.random.default_rng(phases)
    period_s = phases * INTERVAL_S / inferences + off_s
    loop = Loop(period_s, deviation_s, int(LOOP_S / period_s))
    errors = [error_ratio(chance, period_s, deviation_s) for _ in range(60)]
    # What samples out of step leave is the budget's term between samples.
    rest = math.sqrt(INTERVAL_S / LOOP_S)
    allowed = 2 * math.hypot(in_step_ratio(loop, INTERVAL_S), rest)
    assert np.mean(np.abs(errors) <= allowed) >= 0.95


@pytest.mark.parametrize(
    ("period_s", "deviation_s", "expected"),
    [
        (2e-3, 0.0, math.sqrt(2 / 12) / 2),
        (1e-3, 1e-6, math.sqrt(2 / 12)),
        (0.25e-3, 0.0, math.sqrt(2 / 12)),
        (2e-3, 5e-4, 0.0),  # the inferences' own spread
        (2.037e-3, 0.0, 0.0),
        (22.8e-6, 2e-6, 0.0),  # far faster than the samples, and never alike
    ],
)
def test_loops_in_step_are_told_from_others(
    period_s: float, deviation_s: float, expected: float
) -> None:
    """Otherwise every energy of a slow meter would become uncertain, or none would."""
    loop = Loop(period_s, deviation_s, int(LOOP_S / period_s))
    assert in_step_ratio(loop, INTERVAL_S) == pytest.approx(expected, abs=0.02)


def test_clocks_that_may_differ_are_no_drift() -> None:
    """Otherwise a loop in step would count as drifting by the unknown difference of the clocks."""
    count = 30_000
    loop = Loop(2e-3 * (1 + 100e-6), 1e-7, count)
    assert in_step_ratio(loop, INTERVAL_S) < 0.15
    assert in_step_ratio(loop, INTERVAL_S, 100e-6) == pytest.approx(math.sqrt(2 / 12) / 2)


def test_loop_is_known_by_its_starts() -> None:
    """Otherwise one late inference would hide that all others are in step."""
    start_ns = np.arange(100) * 2_000_000
    start_ns[50:] += 9_000_000
    loop = Loop.of(start_ns)
    assert loop == Loop(period_s=2e-3, deviation_s=0.0, count=99)
    assert Loop.of(start_ns[:2]) is None


@pytest.mark.parametrize("phases", [50, 100, 1000, 5000])
def test_samples_in_step_are_seen_however_many_moments_they_see(phases: int) -> None:
    """Otherwise nothing would be in step above 50 moments.

    10 kS/s next to a loop of 10.000 ms would then be 100 % off.
    """
    period_s = phases * INTERVAL_S * (1 + 3e-9)
    loop = Loop(period_s, 0.0, 200)
    assert in_step_ratio(loop, INTERVAL_S) == pytest.approx(math.sqrt(2 / 12) / phases)


def test_most_moments_leave_the_least_of_the_span() -> None:
    """Otherwise the search would never end, or the error would be zero."""
    loop = Loop(period_s=1.0, deviation_s=0.1, count=100_000)
    assert 0 < in_step_ratio(loop, 1e-8) < 1e-6
