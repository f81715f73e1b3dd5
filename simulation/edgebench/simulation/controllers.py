"""The kinds of controllers that throttle real boards.

A controller takes time, temperature and load, and returns both the actual state of the processor
(`clock`, `idle`) and the state that the device reports. On some boards, the two states differ, and
edgebench must detect the difference.

Source of thresholds and behaviour: the facts in the device profiles.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Protocol

RPI_SOFT_LIMIT, RPI_THROTTLED, RPI_CAPPED, RPI_UNDERVOLTAGE = 0x8, 0x4, 0x2, 0x1
STICKY_SHIFT = 16
POWER_EXPONENT = 2.5
"""Power is proportional to the clock raised to this exponent, which exceeds 1 because the voltage
rises with the clock."""
BUDGET_NOISE_S = 1e-6
"""Tolerance of the energy budget; it exceeds the rounding errors of hundreds of small steps."""


@dataclass(frozen=True, slots=True)
class Effect:
    """State of a device under a controller: both the actual and the reported state."""

    clock: float = 1.0
    """Actual frequency relative to the nominal frequency, 0…1."""
    idle: float = 0.0
    """Share of the time in which the CPUs are forced to idle."""
    told_clock: float = 1.0
    """Frequency in `scaling_cur_freq` relative to the nominal frequency."""
    cap: float = 1.0
    """Frequency in `scaling_max_freq` relative to the nominal frequency."""
    bits: int = 0
    """Firmware bits that are set now."""
    cooling_state: int = 0
    fan: float = 0.0
    """Speed of the fan, 0…1."""
    overcurrent_count: int = 0
    """Over-current events since boot."""

    @property
    def speed(self) -> float:
        """Computing speed relative to the undisturbed device."""
        return self.clock * (1 - self.idle)


class Controller(Protocol):
    """A throttling mechanism."""

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """Return the current effect; times must increase from call to call.

        Args:
            time_s: Time since the creation of the device.
            junction_c: Present temperature.
            busy: Share of the time since the last call in which the model ran, 0…1.
        """
        ...


@dataclass(slots=True)
class Nothing:
    """A device with sufficient cooling, or without a mechanism that throttles it."""

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """Return the state of a device that is not throttled."""
        return Effect()


@dataclass(slots=True)
class Progressive:
    """Raspberry Pi 4 and 5: the firmware lowers the clock between two temperatures."""

    soft_c: float = 80.0
    hard_c: float = 85.0
    lowest: float = 0.6

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """Lower the actual clock; the kernel keeps reporting the requested clock."""
        share = min(1.0, max(0.0, (junction_c - self.soft_c) / (self.hard_c - self.soft_c)))
        bits = RPI_THROTTLED | RPI_CAPPED if share > 0 else 0
        return Effect(clock=1 - share * (1 - self.lowest), bits=bits)


@dataclass(slots=True)
class BangBang:
    """Raspberry Pi 3B+: above the soft temperature limit, the clock is 1200 MHz, else 1400 MHz."""

    soft_c: float = 60.0
    hysteresis_c: float = 1.0
    low: float = 1200 / 1400
    is_low: bool = False

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """Switch between two levels with a hysteresis."""
        if junction_c >= self.soft_c:
            self.is_low = True
        elif junction_c < self.soft_c - self.hysteresis_c:
            self.is_low = False
        return Effect(clock=self.low, bits=RPI_SOFT_LIMIT) if self.is_low else Effect()


@dataclass(slots=True)
class StepWise:
    """The kernel's step_wise governor, which changes the throttling by one step in each period.

    Above the trip point, the governor throttles by one step more, otherwise by one step less.
    """

    trip_c: float = 85.0
    steps: int = 8
    lowest: float = 0.4
    period_s: float = 0.25
    state: int = 0
    next_s: float = 0.0

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """Change the state by a step; `scaling_max_freq` and the cooling device show the state."""
        if time_s >= self.next_s:
            self.next_s = time_s + self.period_s
            step = 1 if junction_c > self.trip_c else -1
            self.state = min(self.steps, max(0, self.state + step))
        clock = 1 - (1 - self.lowest) * self.state / self.steps
        return Effect(clock=clock, told_clock=clock, cap=clock, cooling_state=self.state)


@dataclass(slots=True)
class IdleInjection:
    """i.MX8M Plus: CPUs are forced to idle, and the frequency does not change."""

    trip_c: float = 85.0
    gain_per_c: float = 0.1
    most: float = 0.5
    is_told: bool = True
    """Whether the cooling device reports its state; if not, it always reports 0."""

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """Force idle time in proportion to the excess over the trip temperature."""
        idle = min(self.most, max(0.0, (junction_c - self.trip_c) * self.gain_per_c))
        return Effect(idle=idle, cooling_state=round(100 * idle) if self.is_told else 0)


@dataclass(slots=True)
class PowerLimit:
    """x86: turbo until the energy budget is spent, then a sustained clock; heat has no effect.

    A processor may exceed the power limit PL1 until its mean power over the time tau reaches PL1.
    Idle time refills this budget, which is counted in seconds of turbo under full load.
    """

    turbo_s: float = 28.0
    sustained: float = 0.7
    refill: float = 0.25
    """Share of the budget that must be refilled before the next turbo."""
    spent_s: float = 0.0
    is_limited: bool = False
    last_s: float = 0.0

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """Spend or refill the budget; the kernel reports the actual clock, but no throttling."""
        limit = math.pow(self.sustained, POWER_EXPONENT)
        power = limit if self.is_limited else 1.0
        # Seconds of the budget spent per second; negative while the budget is refilled.
        taken = (busy * power - limit) / (1 - limit)
        spent_s = self.spent_s + taken * (time_s - self.last_s)
        self.spent_s, self.last_s = min(self.turbo_s, max(0.0, spent_s)), time_s
        if self.spent_s >= self.turbo_s - BUDGET_NOISE_S:
            self.is_limited = True
        elif self.spent_s <= self.turbo_s * (1 - self.refill):
            self.is_limited = False
        clock = self.sustained if self.is_limited else 1.0
        return Effect(clock=clock, told_clock=clock)


@dataclass(slots=True)
class Dips:
    """A clock that is lowered at random times (dips); the seed determines these times."""

    seed: int
    rate_per_s: float
    length_s: float
    low: float
    """Clock during a dip relative to the nominal clock."""
    count: int = 0
    until_s: float = -1.0
    next_s: float = 10.0
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def clock(self, time_s: float) -> float:
        """Present clock relative to the nominal clock."""
        if time_s >= self.next_s:
            self.count += 1
            self.until_s = time_s + self.length_s
            self.next_s = self.until_s + self.chance.expovariate(self.rate_per_s)
        return self.low if time_s < self.until_s else 1.0


@dataclass(slots=True)
class UnderVoltage(Dips):
    """A weak supply: the firmware lowers the clock whenever the voltage dips."""

    rate_per_s: float = 0.2
    length_s: float = 1.5
    low: float = 0.6

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """Lower the clock during a dip; the firmware reports it as throttling."""
        clock = self.clock(time_s)
        bits = RPI_UNDERVOLTAGE | RPI_THROTTLED | RPI_CAPPED if clock < 1 else 0
        return Effect(clock=clock, bits=bits)


@dataclass(slots=True)
class OverCurrent(Dips):
    """Jetson: clock pulses are skipped for short times, and only an event counter shows this."""

    rate_per_s: float = 2.0
    length_s: float = 0.2
    low: float = 0.5

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """Lower the clock during a dip; the kernel keeps reporting the requested clock."""
        return Effect(clock=self.clock(time_s), overcurrent_count=self.count)


@dataclass(slots=True)
class Fan:
    """A fan whose speed changes in steps, with a hysteresis; the clock is not throttled."""

    steps_c: tuple[float, ...] = (50.0, 60.0, 67.5, 75.0)
    hysteresis_c: float = 5.0
    state: int = 0

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """Adjust the fan; a state of its cooling device above 0 is no sign of throttling."""
        while self.state < len(self.steps_c) and junction_c >= self.steps_c[self.state]:
            self.state += 1
        while self.state and junction_c < self.steps_c[self.state - 1] - self.hysteresis_c:
            self.state -= 1
        return Effect(cooling_state=self.state, fan=self.state / len(self.steps_c))
