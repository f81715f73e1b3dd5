"""Parts of a timed loop in which a source with noise stands still."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.energy import SECOND_NS, recorded

from edgebench.host.analysis.energy.integrate import Floats
from edgebench.host.analysis.energy.plausible.loop import standing_still_in_loop

COUNT = 400
TIMES_NS = np.arange(COUNT) * (SECOND_NS // 100)
LOOP = slice(100, 300)
LOOP_NS = int(TIMES_NS[LOOP.start]), int(TIMES_NS[LOOP.stop - 1])


def powers(step_w: float = 1e-3) -> Floats:
    """Idle, a loop of 2 W and idle, with noise of 5 mW, in these steps."""
    power_w = np.full(COUNT, 0.5)
    power_w[LOOP] = 2.0
    power_w += np.random.default_rng(2).normal(0, 5e-3, COUNT)
    rounded_w: Floats = np.rint(power_w / step_w) * step_w
    return rounded_w


def found_in(directory: Path, power_w: Floats) -> tuple[list[int], float]:
    """Samples that stand still, and their power."""
    power = recorded(directory, TIMES_NS, power_w)
    times_ns, level_w = standing_still_in_loop(power, "supply", LOOP_NS)
    return np.searchsorted(TIMES_NS, times_ns).tolist(), level_w


@pytest.mark.parametrize("level_w", [25.0, 0.5, 0.0], ids=["end of a range", "idle", "stopped"])
@pytest.mark.parametrize("part", [slice(150, 153), slice(220, 300)], ids=["3 samples", "40 %"])
def test_part_at_another_power_is_found(tmp_path: Path, part: slice, level_w: float) -> None:
    """Otherwise 10 % of a loop at full scale would add 31 % to its energy."""
    power_w = powers()
    power_w[part] = level_w
    assert found_in(tmp_path, power_w) == (list(range(COUNT))[part], level_w)


def test_level_that_has_noise_is_another_load(tmp_path: Path) -> None:
    """Otherwise a lower clock, or a program that starts, would refuse an energy."""
    power_w = powers()
    power_w[220:300] += 1.0
    assert found_in(tmp_path, power_w) == ([], 0.0)


def test_pauses_between_inferences_are_no_stops(tmp_path: Path) -> None:
    """Otherwise a device that takes exactly nothing between inferences would have no energy."""
    power_w = powers()
    power_w[(np.arange(COUNT) % 20) < 5] = 0.0
    assert found_in(tmp_path, power_w) == ([], 0.0)


def test_source_without_noise_shows_no_stop(tmp_path: Path) -> None:
    """Otherwise a plug in steps of 0.1 W would be refused when its load changes."""
    power_w = powers(step_w=0.1)
    power_w[220:300] = 2.5
    assert found_in(tmp_path, power_w) == ([], 0.0)


def test_loop_with_too_few_samples_shows_nothing(tmp_path: Path) -> None:
    """Otherwise a loop that the meter hardly saw would end in an error."""
    power = recorded(tmp_path, TIMES_NS, powers())
    times_ns, _ = standing_still_in_loop(power, "supply", (LOOP_NS[0], LOOP_NS[0] + 1))
    assert len(times_ns) == 0
