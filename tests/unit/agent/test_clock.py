"""The agent describes the clock that times the inferences."""

from __future__ import annotations

import math
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import pytest
from support.trees import make_tree

from edgebench.agent.clock import MAX_READS, SERIES, SOURCE_FILE, describe_clock

STEPS_NS = (1000.0, 1e3 / 3.579545, 100.0, 1e3 / 19.2, 1e3 / 24, 1e3 / 54)
"""µs, ACPI timer, 10 MHz, and the timers of Arm boards."""


class CoarseClock:
    """A clock with a step, of which a reading takes a different time at each call."""

    def __init__(self, step_ns: float, seed: int, read_ns: float = 45.0) -> None:
        self._step_ns, self._read_ns = step_ns, read_ns
        self._chance = np.random.default_rng(seed)
        self._now_ns = float(self._chance.uniform(1e12, 1e13))
        self.read_count = 0

    def __call__(self) -> int:
        """The time; one call of a hundred is interrupted for up to 20 µs."""
        self.read_count += 1
        self._now_ns += self._read_ns + float(self._chance.exponential(3.0))
        if self._chance.random() < 0.01:
            self._now_ns += float(self._chance.uniform(0, 20_000))
        return math.floor(math.floor(self._now_ns / self._step_ns) * self._step_ns)


@pytest.mark.parametrize("step_ns", STEPS_NS)
@pytest.mark.parametrize("seed", range(5))
def test_step_is_found(step_ns: float, seed: int) -> None:
    """Otherwise the reader of a result would not learn what its clock resolves."""
    found = describe_clock(clock=CoarseClock(step_ns, seed))
    assert found.step_ns == pytest.approx(step_ns, rel=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_fine_clock_has_no_step(seed: int) -> None:
    """Otherwise the cost of a reading would be reported as the step of a clock."""
    assert describe_clock(clock=CoarseClock(1.0, seed)).step_ns is None


def test_cost_is_that_of_a_reading_that_was_not_interrupted() -> None:
    """Otherwise the cost would depend on the other programs of the device."""
    assert describe_clock(clock=CoarseClock(1.0, 1)).read_ns == pytest.approx(48.0, abs=100)


def test_clock_that_hardly_moves_ends() -> None:
    """Otherwise an agent on a clock of 10 ms would read it for a second for each status."""
    clock = CoarseClock(1e7, 1)
    assert describe_clock(clock=clock).step_ns is None
    assert clock.read_count <= 2 * SERIES * MAX_READS


def test_source_is_that_of_the_kernel(tmp_path: Path) -> None:
    """Otherwise a machine that fell back to a slow source would look like the others."""
    assert describe_clock(make_tree(tmp_path / "none", {})).source is None
    root = make_tree(tmp_path / "board", {SOURCE_FILE: "arch_sys_counter\n"})
    assert describe_clock(root).source == "arch_sys_counter"


def test_clock_of_this_machine_is_read() -> None:
    """Otherwise the cost would be that of the test's clock alone."""
    begin_ns = perf_counter_ns()
    found = describe_clock()
    assert 0 < found.read_ns < perf_counter_ns() - begin_ns
