"""An inference on a simulated device: how long it takes, and how much it heats."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.agent import simulated
from edgebench.simulation.slowed import PAUSE_NS, SHARED, slowed

INVOKE_NS = 400_000
LOOK_NS = 1_000
"""What one look at the clock takes."""


class Clock:
    """A clock that advances when it is looked at, or during work."""

    now_ns = 0

    def __call__(self) -> int:
        self.now_ns += LOOK_NS
        return self.now_ns

    def work(self) -> None:
        self.now_ns += INVOKE_NS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the machine's clock."""
    made = Clock()
    monkeypatch.setattr("time.perf_counter_ns", made)
    return made


def worked_s(path: Path) -> float:
    """What the simulated device reads."""
    return float(SHARED.unpack(path.read_bytes())[1])


@pytest.mark.parametrize("speed", [1.0, 0.5, 0.25])
def test_inference_takes_as_much_longer_as_the_device_is_slower(
    clock: Clock, tmp_path: Path, speed: float
) -> None:
    """Otherwise a device at half its clock would be as fast as ever, or not grow warm."""
    path = tmp_path / "speed"
    path.write_bytes(SHARED.pack(speed, 7.0))
    call = slowed(clock.work, str(path))
    begin_ns = clock.now_ns
    for _ in range(10):
        call()
    took_ns = clock.now_ns - begin_ns
    assert took_ns == pytest.approx(10 * INVOKE_NS / speed, rel=0.02)
    assert worked_s(path) - 7.0 == pytest.approx(took_ns / 1e9, rel=0.02)


@pytest.mark.parametrize(
    ("pause_ns", "counted_ns"), [(PAUSE_NS // 2, PAUSE_NS // 2), (5 * PAUSE_NS, 0)]
)
def test_loop_heats_and_a_pause_does_not(
    clock: Clock, tmp_path: Path, pause_ns: int, counted_ns: int
) -> None:
    """Otherwise a tiny model would be half idle, or a waiting server as hot as a busy one."""
    path = tmp_path / "speed"
    path.write_bytes(SHARED.pack(1.0, 0.0))
    call = slowed(clock.work, str(path))
    call()
    before_s = worked_s(path)
    clock.now_ns += pause_ns
    call()
    expected_s = (INVOKE_NS + counted_ns) / 1e9
    assert worked_s(path) - before_s == pytest.approx(expected_s, abs=5e-6)


def test_real_device_is_left_alone() -> None:
    """Otherwise a measurement would pay for a simulation that does not take place."""

    def invoke() -> None: ...

    assert simulated.slowed(invoke, None) is invoke
