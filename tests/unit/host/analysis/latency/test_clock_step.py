"""Clocks with coarse steps: the step is found, and intervals contain what was not resolved."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgebench.host.analysis.latency.clock_step import clock_step_ns
from edgebench.host.analysis.latency.summary import summarize
from edgebench.host.analysis.median import PRECISION_INVALID_RATIO

STEPS_NS = (1000.0, 1e3 / 3.579545, 100.0, 1e3 / 19.2, 1e3 / 24, 1e3 / 54)
"""µs, ACPI timer, 10 MHz, and the timers of Arm boards."""
COUNT = 2000


def timed(
    model_ns: float, step_ns: float, chance: np.random.Generator, noise: float = 0.01
) -> NDArray[np.int64]:
    """Durations of a model by a clock with this step, and gaps of a loop between them."""
    true_ns = model_ns * np.exp(noise * chance.standard_normal(COUNT))
    ends_ns = np.cumsum(true_ns + chance.uniform(200, 400, COUNT)) + chance.uniform(0, step_ns)
    read_ns = [np.floor(np.floor(at / step_ns) * step_ns) for at in (ends_ns - true_ns, ends_ns)]
    made: NDArray[np.int64] = (read_ns[1] - read_ns[0]).astype(np.int64)
    return made


@pytest.mark.parametrize("step_ns", STEPS_NS)
@pytest.mark.parametrize("model_ns", [300.0, 1_000.0, 3_000.0, 10_756.0, 30_000.0])
def test_interval_holds_what_a_coarse_clock_does_not_resolve(
    step_ns: float, model_ns: float
) -> None:
    """Otherwise p50 would be 11.000 (11.000..11.000) µs, and the truth 10.756 µs."""
    outside = 0
    for seed in range(40):
        chance = np.random.default_rng(seed)
        durations_ns = timed(model_ns, step_ns, chance, noise=0.003)
        found = summarize(durations_ns, clock_step_ns(durations_ns))
        if found.p50_ci95 is None:  # the run is suspect
            continue
        low, high = found.p50_ci95
        is_refused = high - low > 2 * PRECISION_INVALID_RATIO * max(found.p50 or 0, 1)
        outside += not (low <= model_ns <= high or is_refused)
    assert outside <= 2, "of 40; of 100, at most 5"


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
