"""Clocks with coarse steps: the step is found, and intervals contain what was not resolved."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from support.coarse_clock import COUNT, MODELS_NS, STEPS_NS, Interval, median_of, queries

from edgebench.host.analysis.latency.clock_step import clock_step_ns


def timed(
    model_ns: float, step_ns: float, chance: np.random.Generator, noise: float = 0.01
) -> NDArray[np.int64]:
    """Durations of a model by a clock with this step."""
    return queries(model_ns, step_ns, chance, noise).invoke_ns


@pytest.mark.parametrize("step_ns", STEPS_NS)
@pytest.mark.parametrize("model_ns", MODELS_NS)
def test_interval_holds_what_a_coarse_clock_does_not_resolve(
    step_ns: float, model_ns: float
) -> None:
    """Otherwise p50 would be 11.000 (11.000..11.000) µs, and the truth 10.756 µs.

    `benchmarks/clocks.py` makes a hundred of each.
    """
    found = [median_of(model_ns, step_ns, seed, noise=0.003) for seed in range(3)]
    assert Interval.OUTSIDE not in found
    # With the loop, a step below a tenth of the model is no reason to refuse it.
    assert Interval.REFUSED not in found or step_ns > model_ns / 25


@pytest.mark.parametrize("step_ns", STEPS_NS)
def test_step_is_found(step_ns: float) -> None:
    """Otherwise the reader would not learn why an interval is wide."""
    for seed in range(20):
        durations_ns = timed(10_756.0, step_ns, np.random.default_rng(seed))
        found = clock_step_ns(durations_ns)
        assert found == pytest.approx(step_ns, rel=0.02)


@pytest.mark.parametrize("model_ns", [300.0, 3_000.0, 30_000.0, 3e6])
@pytest.mark.parametrize("noise", [0.001, 0.01, 0.1])
def test_fine_clock_has_no_step(model_ns: float, noise: float) -> None:
    """Otherwise every interval of an ordinary machine would be wider than it has to be."""
    for seed in range(20):
        assert clock_step_ns(timed(model_ns, 1.0, np.random.default_rng(seed), noise)) is None


@pytest.mark.parametrize("levels_ns", [(1000, 1400), (1000, 1400, 1800)])
def test_levels_are_no_grid(levels_ns: tuple[int, ...]) -> None:
    """Otherwise a model that switches between levels would be taken for a coarse clock."""
    chance = np.random.default_rng(1)
    durations_ns = (chance.choice(levels_ns, COUNT) + chance.normal(0, 3, COUNT)).astype(np.int64)
    assert clock_step_ns(durations_ns) is None


def test_few_durations_show_no_step() -> None:
    """Otherwise ten slow inferences would be a grid, as all of them are apart."""
    assert clock_step_ns(np.arange(1_000_000, 2_000_000, 100_000, dtype=np.int64)) is None
