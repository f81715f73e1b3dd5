"""The cool-down gate: a run starts as soon as temperature and slope show that the device is cool.

The profile sets the target: a few degrees above the lowest idle temperature of this device, but at
most `max_c`. `max_c` lies below the temperature at which a fan starts. If the lowest idle
temperature is above `max_c`, the target is slightly above the lowest idle temperature. If the first
two readings do not exceed the target, the run starts at once. A device that was warm has to stay at
or below the target for `stable_s`, and its temperature must not change faster than
`slope_c_per_min_max`. The reason is that a device that still cools has a hot case. A run would
therefore begin with less thermal reserve than the previous run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from edgebench.agent.telemetry.source import numbered, read_text
from edgebench.agent.telemetry.sources.android import read_heat_c
from edgebench.device_profiles.schema import Cooldown, Profile
from edgebench.protocol.thermal import CooldownFacts, CooldownOutcome

REACHABLE_C = 1.5
"""Minimum margin of the target above the lowest idle temperature, because a sensor has steps of
half a degree, and noise."""
FAILED_COUNT_MAX = 3
"""If more consecutive readings than this number fail, the sensor counts as broken."""
Thermometer = Callable[[], float | None]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True)
class Gate:
    """Decides only from the readings so far whether a run may start, without a clock or device."""

    rules: Cooldown
    coolest_c: float | None
    """Lowest idle temperature of the device so far; None if unknown."""
    readings: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """Pairs of a time, in seconds since the start of the cool-down, and a temperature."""

    @property
    def target_c(self) -> float | None:
        """Temperature that the device must not exceed; None if the profile sets none."""
        absolute = [] if self.rules.max_c is None else [self.rules.max_c]
        if self.coolest_c is None:
            return min(absolute, default=None)
        is_relative = self.rules.mode == "delta_over_baseline"
        relative = [self.coolest_c + self.rules.delta_c] if is_relative else []
        if not relative + absolute:
            return None
        # In a warm room, a target below the lowest idle temperature would never be reached.
        return max(min(relative + absolute), self.coolest_c + REACHABLE_C)

    @property
    def slope_c_per_min(self) -> float | None:
        """Slope of a line through the readings of the last `stable_s`; None if they are too few."""
        recent = self._recent()
        if len(recent) < 2:
            return None
        from statistics import linear_regression

        return 60 * linear_regression(*zip(*recent, strict=True)).slope

    @property
    def settled_c(self) -> float | None:
        """The highest of the last three readings, so that a single low reading has no effect."""
        return max((temp_c for _, temp_c in self.readings[-3:]), default=None)

    def is_open(self) -> bool:
        """Whether the run may start."""
        target_c = self.target_c
        if target_c is None:
            return True
        if len(self.readings) < 2:
            return False
        if all(temp_c <= target_c for _, temp_c in self.readings):
            return True
        recent, slope = self._recent(), self.slope_c_per_min
        is_long = recent[-1][0] - recent[0][0] >= self.rules.stable_s
        is_cool = all(temp_c <= target_c for _, temp_c in recent)
        is_steady = slope is not None and abs(slope) <= self.rules.slope_c_per_min_max
        return is_long and is_cool and is_steady

    def _recent(self) -> list[tuple[float, float]]:
        """The readings of the last `stable_s`, and the reading before them."""
        end_s = self.readings[-1][0] if self.readings else 0.0
        begin_s = end_s - self.rules.stable_s
        older = [reading for reading in self.readings if reading[0] <= begin_s]
        return older[-1:] + [reading for reading in self.readings if reading[0] > begin_s]


async def wait_until_cool(
    gate: Gate,
    thermometer: Thermometer,
    *,
    timeout_s: float,
    is_stopping: Callable[[], bool] = lambda: False,
    may_start: Callable[[], bool] = lambda: True,
    clock: Callable[[], float] = time.monotonic,
    sleep: Sleep = asyncio.sleep,
) -> CooldownFacts:
    """Wait until the gate opens, the time is over, the sensor fails, or the run is stopped."""
    begin_s, failed_count = clock(), 0
    while True:
        temp_c = await asyncio.to_thread(thermometer)  # on a phone, this runs a command
        waited_s = clock() - begin_s
        failed_count = failed_count + 1 if temp_c is None else 0
        if failed_count > FAILED_COUNT_MAX:
            return _facts(gate, CooldownOutcome.NO_SENSOR, waited_s)
        if temp_c is not None:
            gate.readings.append((waited_s, temp_c))
            if gate.is_open() and may_start():
                return _facts(gate, CooldownOutcome.COOL, waited_s)
        if is_stopping():
            return _facts(gate, CooldownOutcome.STOPPED, waited_s)
        if not waited_s < timeout_s:  # a timeout of NaN ends the wait as well
            return _facts(gate, CooldownOutcome.TIMED_OUT, waited_s)
        await sleep(min(gate.rules.poll_s, max(0.0, timeout_s - waited_s)))


def find_thermometer(profile: Profile, root: Path = Path("/")) -> Thermometer | None:
    """Function that reads the temperature for the profile's gate; None if the zone is missing."""
    zone = next((z for z in profile.thermal.zone if z.role == profile.cooldown.zone), None)
    if zone is not None and zone.source == "dumpsys":
        read = partial(read_heat_c, root, zone.match_type)
        return None if read() is None else read
    if zone is None or zone.source != "sysfs":
        return None
    for folder in numbered(root / "sys/class/thermal", "thermal_zone"):
        if read_text(folder / "type") == zone.match_type:
            return lambda: _celsius(folder / "temp", zone.ignore_values_c)
    return None


def _celsius(path: Path, ignored: tuple[float, ...]) -> float | None:
    try:
        temp_c = int(read_text(path)) / 1000
    except ValueError:
        return None
    return None if temp_c in ignored or temp_c < -100 else temp_c


def _facts(gate: Gate, outcome: CooldownOutcome, waited_s: float) -> CooldownFacts:
    temps_c = [temp_c for _, temp_c in gate.readings]
    return CooldownFacts(
        outcome,
        waited_s,
        start_c=temps_c[0] if temps_c else None,
        reached_c=temps_c[-1] if temps_c else None,
        target_c=gate.target_c,
        slope_c_per_min=gate.slope_c_per_min,
    )
