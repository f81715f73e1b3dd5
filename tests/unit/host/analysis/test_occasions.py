"""The spread between occasions: the next set is as far from this one as it is said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from edgebench.host.analysis.median import median_interval
from edgebench.host.analysis.occasions import MIN_OCCASIONS, next_time

TRIALS = 4000
SIGMA_POINTS = 100 * math.sqrt(0.95 * 0.05 / TRIALS)
"""Standard deviation of a coverage over so many trials, percent."""


@pytest.mark.parametrize("spread", [0.01, 0.1])
@pytest.mark.parametrize("count", [3, 4, 5, 8, 20])
def test_next_set_is_within_the_printed_ratio(count: int, spread: float) -> None:
    """Otherwise the number of ten minutes later would be outside in more than one of twenty."""
    draws = np.exp(spread * np.random.default_rng(count).normal(0, 1, (TRIALS, count + 1)))
    inside = 0
    for values in draws:
        found = next_time(list(values[:-1]))
        assert found is not None
        ratio = values[-1] / values[-2]
        inside += max(ratio, 1 / ratio) - 1 <= found.half_width_ratio
    # Slightly more: where the present set is far from the others, the spread is wide as well.
    assert 95 - 3 * SIGMA_POINTS < 100 * inside / TRIALS < 97


def test_deviations_of_other_models_are_pooled() -> None:
    """Otherwise a new model would have no estimate on a device with a hundred sets."""
    chance = np.random.default_rng(1)
    inside = 0
    for _ in range(TRIALS):
        others = [list(100 * n * np.exp(0.05 * chance.normal(0, 1, 4))) for n in (1, 2, 3)]
        present, later = np.exp(0.05 * chance.normal(0, 1, 2))
        found = next_time([present], others)
        assert found is not None
        assert (found.occasion_count, found.model_count) == (12, 3)
        inside += max(later / present, present / later) - 1 <= found.half_width_ratio
    assert abs(100 * inside / TRIALS - 95) < 3 * SIGMA_POINTS


def test_own_sets_are_preferred() -> None:
    """Otherwise a steady model would have the spread of an unsteady one."""
    found = next_time([100.0, 101.0, 100.5], [[1.0, 2.0, 3.0]])
    assert found is not None
    assert found.model_count == 1
    assert found.half_width_ratio < 0.05


@pytest.mark.parametrize("own", [[], [1.0], [1.0, 1.1]])
def test_too_few_sets_have_no_estimate(own: list[float]) -> None:
    """Otherwise two sets that agree by chance would promise that the third does."""
    assert next_time(own) is None
    assert len(own) < MIN_OCCASIONS


@pytest.mark.parametrize("phi", [0.9, 0.97])
def test_machine_whose_state_outlasts_a_set(phi: float) -> None:
    """Otherwise ± would be the only promise; it holds the next set's median in 20 to 74 of 100."""
    chance, runs, gap = np.random.default_rng(3), 8, 40
    by_interval = by_occasions = trials = 0
    for _ in range(300):
        noise = chance.standard_normal(8 * (runs + gap)) * math.sqrt(1 - phi**2)
        state = 0.03 * lfilter([1.0], [1.0, -phi], noise)
        values = np.exp(state + 0.002 * chance.standard_normal(state.size))
        sets = [values[start : start + runs] for start in range(0, values.size, runs + gap)]
        medians = [float(np.median(run_set)) for run_set in sets]
        found, interval = next_time(medians[:-1]), median_interval(sets[-2])
        assert found is not None
        assert interval is not None
        ratio = medians[-1] / medians[-2]
        by_occasions += max(ratio, 1 / ratio) - 1 <= found.half_width_ratio
        by_interval += interval[0] <= medians[-1] <= interval[1]
        trials += 1
    assert by_interval / trials < 0.6, "the state outlasts a set"
    assert by_occasions / trials > 0.92
