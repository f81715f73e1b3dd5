"""The gate before a run: by temperature and slope, with an end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.boards import BOARDS, make_board

from edgebench.agent.cooldown import Gate, find_thermometer, wait_until_cool
from edgebench.device_profiles.load import find_profile
from edgebench.device_profiles.schema import Cooldown
from edgebench.protocol.thermal import CooldownFacts, CooldownOutcome

PI_5_COOLING = ((0, 85.1), (30, 69.7), (60, 65.9), (180, 63.1), (300, 60.4), (600, 59.3))
"""A Raspberry Pi 5 after a compilation, without a cooler: seconds and degrees. Idle before: 48.3.

Public observation; see the profile.
"""
PI_5_IDLE_C = 48.3


class Device:
    """A device with a clock of its own, which advances during each sleep."""

    def __init__(self, temp_c: Callable[[float], float | None]) -> None:
        self.now_s = 100.0
        self._temp_c = temp_c

    def thermometer(self) -> float | None:
        """The temperature now."""
        return self._temp_c(self.now_s - 100.0)

    async def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.now_s += seconds

    def wait(self, gate: Gate, timeout_s: float = 600.0, stop_at_s: float = 1e9) -> CooldownFacts:
        """Wait for the gate."""
        return asyncio.run(
            wait_until_cool(
                gate,
                self.thermometer,
                timeout_s=timeout_s,
                is_stopping=lambda: self.now_s - 100.0 >= stop_at_s,
                clock=lambda: self.now_s,
                sleep=self.sleep,
            )
        )


def pi_5(time_s: float) -> float:
    """The trace, and what comes after it, in steps of half a degree like its sensor's."""
    times, temps = zip(*PI_5_COOLING, strict=True)
    return round(2 * float(np.interp(time_s, times, temps))) / 2


def test_bare_pi_5_is_not_cool_after_ten_minutes_and_that_is_said() -> None:
    """Otherwise the next run would start on a hot case, as after a fixed pause of five minutes."""
    profile = find_profile("raspberrypi-5")
    assert profile is not None
    assert Gate(profile.cooldown, 40.0).target_c == 43.0, "three degrees over the coolest"
    assert Gate(profile.cooldown, 43.0).target_c == 45.0, "below the first step of the fan"
    gate = Gate(profile.cooldown, PI_5_IDLE_C)
    assert gate.target_c == PI_5_IDLE_C + 1.5, "the air is too warm for that"
    found = Device(pi_5).wait(gate, profile.cooldown.timeout_s)
    assert found.outcome is CooldownOutcome.TIMED_OUT
    assert (found.waited_s, found.start_c, found.reached_c) == (600.0, 85.0, 59.5)
    assert found.slope_c_per_min == pytest.approx(0.0, abs=1.0)


@pytest.mark.parametrize(("max_c", "earliest_s", "latest_s"), [(66.0, 300, 330), (59.5, 480, 600)])
def test_gate_opens_when_it_is_cool_and_hardly_cools_any_more(
    max_c: float, earliest_s: float, latest_s: float
) -> None:
    """Otherwise a run would start as soon as the junction is cool, while the case is still hot."""
    found = Device(pi_5).wait(Gate(Cooldown(max_c=max_c), None))
    assert found.outcome is CooldownOutcome.COOL
    assert earliest_s <= found.waited_s <= latest_s
    assert found.reached_c is not None
    assert found.reached_c <= max_c
    assert found.slope_c_per_min is not None
    assert -1.0 <= found.slope_c_per_min <= 0.0


def test_device_that_still_cools_has_to_wait() -> None:
    """Otherwise three degrees a minute would be called steady."""
    found = Device(lambda time_s: 60.0 - 3 * time_s / 60).wait(Gate(Cooldown(max_c=59.0), None))
    assert found.outcome is CooldownOutcome.TIMED_OUT


def test_cool_device_starts_at_once() -> None:
    """Otherwise every run of a campaign would wait half a minute for nothing."""
    found = Device(lambda _: 40.0).wait(Gate(Cooldown(), 39.0))
    assert (found.outcome, found.waited_s) == (CooldownOutcome.COOL, 5.0)


def test_unknown_device_starts_at_once() -> None:
    """Otherwise a board without a profile would never be measured."""
    found = Device(lambda _: 70.0).wait(Gate(Cooldown(), None))
    assert (found.outcome, found.waited_s) == (CooldownOutcome.COOL, 0.0)
    assert found.target_c is None


def test_sensor_that_dies_ends_the_wait() -> None:
    """Otherwise a thermometer that no longer responds would keep the device for ten minutes."""
    found = Device(lambda time_s: 80.0 if time_s < 20 else None).wait(
        Gate(Cooldown(max_c=50.0), None)
    )
    assert (found.outcome, found.waited_s) == (CooldownOutcome.NO_SENSOR, 35.0)
    assert (found.start_c, found.reached_c) == (80.0, 80.0)
    never = Device(lambda _: None).wait(Gate(Cooldown(max_c=50.0), None))
    assert (never.outcome, never.start_c) == (CooldownOutcome.NO_SENSOR, None)


def test_sensor_that_fails_for_a_moment_is_asked_again() -> None:
    """Otherwise a busy bus would let the run start hot, with the remark that there is no sensor."""
    found = Device(lambda time_s: None if 20 <= time_s < 35 else max(50.0, 80.0 - time_s)).wait(
        Gate(Cooldown(max_c=60.0), None)
    )
    assert found.outcome is CooldownOutcome.COOL
    assert found.reached_c == 50.0


def test_slope_is_that_of_all_readings() -> None:
    """Otherwise the step of a sensor at one end of the window would pass for a cooling device."""
    steady = Gate(Cooldown(max_c=60.0, poll_s=5.0), None)
    steady.readings = [(5.0 * i, 50.75 if i == 0 else 50.0) for i in range(7)]
    slope = steady.slope_c_per_min
    assert slope is not None
    assert -1.0 < slope < 0.0, "between the two ends, it is -1.5"
    cooling = Gate(Cooldown(max_c=60.0), None)
    cooling.readings = [(5.0 * i, 50.0 - 0.25 * i) for i in range(7)]
    assert cooling.slope_c_per_min == pytest.approx(-3.0)


def test_gate_may_be_held_by_somebody_else() -> None:
    """Otherwise the run would start with the gate's zone cool, but another above its limit."""
    device = Device(lambda _: 40.0)
    found = asyncio.run(
        wait_until_cool(
            Gate(Cooldown(), 39.0),
            device.thermometer,
            timeout_s=600.0,
            may_start=lambda: device.now_s >= 140.0,
            clock=lambda: device.now_s,
            sleep=device.sleep,
        )
    )
    assert (found.outcome, found.waited_s) == (CooldownOutcome.COOL, 40.0)


def test_stopped_wait_ends() -> None:
    """Otherwise Ctrl-C while a device cools would take effect after ten minutes."""
    found = Device(lambda _: 80.0).wait(Gate(Cooldown(max_c=50.0), None), stop_at_s=12.0)
    assert (found.outcome, found.waited_s) == (CooldownOutcome.STOPPED, 15.0)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("timeout_s", [math.nan, -1.0, 0.0])
def test_senseless_timeout_is_over_at_once(timeout_s: float) -> None:
    """Otherwise a run would wait until NaN, which is for ever."""
    found = Device(lambda _: 80.0).wait(Gate(Cooldown(max_c=50.0), None), timeout_s)
    assert (found.outcome, found.waited_s) == (CooldownOutcome.TIMED_OUT, 0.0)


@pytest.mark.parametrize(
    ("board", "expected"),
    [
        ("raspberry_pi_5", 54.05),
        ("rock_5b", None),
        ("beaglebone_black", None),
        ("bare_vm", None),
        ("android_8", None),
        ("android_11", None),
        ("android_phone", 31.793081),
        ("android_16", 36.4),
    ],
)
def test_thermometer_is_the_zone_of_the_profile(
    tmp_path: Path, board: str, expected: float | None
) -> None:
    """Otherwise the gate would wait for a zone that has nothing to do with the model."""
    root = make_board(tmp_path, BOARDS[board])
    profile = find_profile(BOARDS[board].profile)
    assert profile is not None
    thermometer = find_thermometer(profile, root)
    if board == "rock_5b":
        assert thermometer is not None
        assert thermometer() is not None
    elif expected is None:
        assert thermometer is None
    else:
        assert thermometer is not None
        assert thermometer() == expected
