"""The yardstick's arithmetic: which parts count, and what the figures are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.agent.worker import yardstick
from edgebench.agent.worker.yardstick import (
    BUFFER_BYTES,
    PART_COUNT,
    PIECE_BYTES,
    FixedWork,
    calibrated_work,
    fastest_cpus,
)

UNIT_NS = 10_000
UNIT_COUNT = 50
READ_NS = 50
"""Time of a reading of the clock, and so of a copy, which does not advance the clock itself."""


@pytest.fixture
def _one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy each buffer once: a simulated clock would need 200,000 copies for 20 ms."""
    monkeypatch.setattr(yardstick, "WORK_NS", 1)


simulated = pytest.mark.usefixtures("_one_pass")


class Machine:
    """A clock that advances by the duration of each unit of work."""

    def __init__(self, slow_parts: Iterator[float]) -> None:
        self.now_ns = 7_000_000_000
        self.unit_total = 0
        self._slow_parts = slow_parts
        self._factor = 1.0

    def clock(self) -> int:
        self.now_ns += READ_NS
        return self.now_ns

    def unit(self) -> None:
        if self.unit_total % UNIT_COUNT == 0:
            self._factor = next(self._slow_parts)
        self.unit_total += 1
        self.now_ns += round(UNIT_NS * self._factor)


def machine(*readings: float, disturbed: int = 0) -> tuple[Machine, FixedWork]:
    """A machine with a factor of the time of each reading, and its work.

    Args:
        readings: The factors; the last applies to all later readings.
        disturbed: Parts of each reading that take three times as long.
    """

    def factors() -> Iterator[float]:
        for factor in (*readings, *(readings[-1:] * 10)):
            yield from [factor * 3] * disturbed + [factor] * (PART_COUNT - disturbed)

    made = Machine(factors())
    return made, FixedWork(made.unit, UNIT_COUNT, clock=made.clock)


@simulated
def test_figures_are_times_and_bytes_per_unit() -> None:
    """Otherwise two machines, or two runs of a machine, could not be compared."""
    device, work = machine(1.0)
    reading = work.measure()
    assert device.unit_total == PART_COUNT * UNIT_COUNT
    assert reading.integer_ns_per_unit == UNIT_NS + READ_NS / UNIT_COUNT
    assert reading.integer_spread_ratio == 0
    # A copy reads each byte and writes it.
    assert reading.memory_bytes_per_s == 2 * PIECE_BYTES / (READ_NS / 1e9)


@simulated
@pytest.mark.parametrize("disturbed", [4, 20, 35])
def test_parts_that_another_process_interrupts_do_not_count(disturbed: int) -> None:
    """Otherwise a program next to the run would look like a change of the clock."""
    _, quiet = machine(1.0)
    _, busy = machine(1.0, disturbed=disturbed)
    assert busy.measure().integer_ns_per_unit == quiet.measure().integer_ns_per_unit


@simulated
@pytest.mark.parametrize("factor", [1.2, 0.8])
def test_changed_speed_is_the_ratio_of_the_readings(factor: float) -> None:
    """Otherwise a clock that fell during the run would not be detected."""
    device, work = machine(1.0, factor)
    before, after = work.measure(), work.measure()
    assert after.integer_ns_per_unit / before.integer_ns_per_unit == pytest.approx(factor, rel=1e-3)
    assert device.unit_total == 2 * PART_COUNT * UNIT_COUNT


@simulated
def test_work_without_memory_has_the_integer_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a model that fills the memory would fail because of its yardstick."""

    def refuse(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(yardstick, "mmap", refuse)
    _, work = machine(1.0)
    reading = work.measure()
    assert reading.integer_ns_per_unit == UNIT_NS + READ_NS / UNIT_COUNT
    assert (reading.memory_bytes_per_s, reading.memory_spread_ratio) == (None, None)


def test_this_machine_has_a_speed() -> None:
    """Checks the real work: it takes time, and the CPUs of the run are those of before."""
    cpus = os.sched_getaffinity(0)
    work = calibrated_work()
    reading = work.measure()
    assert work.unit_count > 1
    assert reading.integer_ns_per_unit > 100
    assert reading.memory_bytes_per_s is not None
    assert reading.memory_bytes_per_s > BUFFER_BYTES
    assert os.sched_getaffinity(0) == cpus


def test_fastest_type_of_core_is_measured(tmp_path: Path) -> None:
    """Otherwise a reading on an efficiency core would look like a clock that fell."""
    folder = tmp_path / "sys/devices/system/cpu"
    assert fastest_cpus((0, 1, 2), tmp_path) == (0, 1, 2)
    for cpu, capacity in enumerate((400, 1024, 1024, 400)):
        (folder / f"cpu{cpu}").mkdir(parents=True)
        (folder / f"cpu{cpu}/cpu_capacity").write_text(f"{capacity}\n")
    assert fastest_cpus((0, 1, 2, 3), tmp_path) == (1, 2)
    assert fastest_cpus((0, 3), tmp_path) == (0, 3)
