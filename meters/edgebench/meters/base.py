"""The interface of an energy meter.

A meter is opened, asked what it can do, and recorded in sessions. A driver never invents a
number: what it could not read is a flag on the sample, and a meter that is not there is `Missing`
with the reason. Times are nanoseconds of a named clock domain; nothing here compares the clocks
of two domains.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from types import TracebackType
from typing import Protocol


class Flag(IntFlag):
    """What is wrong with a sample; none of them may be ignored when energy is computed."""

    NONE = 0
    MISSING = 1
    """The meter did not answer: the value is not a number."""
    SATURATED = 2
    """The true value may be higher."""
    UNCALIBRATED = 4
    """The meter's calibration was not complete."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One thing that a meter measures, and where."""

    name: str
    boundary: str
    """What is inside: package, platform, board, rail, wall, battery."""


@dataclass(frozen=True, slots=True)
class Capability:
    """What an opened meter can do."""

    driver: str
    channels: tuple[Channel, ...]
    rate_hz: float
    """Readings a second in a session."""
    is_averaging: bool
    """A value is the mean since the last reading, not an instant."""
    clock_domain: str


@dataclass(frozen=True, slots=True)
class Missing:
    """The meter cannot be used here, and why; one line."""

    reason: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one channel."""

    time_ns: int
    """End of the interval that the value is the mean of, or the instant."""
    channel: int
    """Index into the capability's channels."""
    power_w: float
    flags: Flag


@dataclass(frozen=True, slots=True)
class LossReport:
    """What a session should have recorded, and what it did."""

    expected_count: int
    received_count: int

    @property
    def lost_ratio(self) -> float:
        """Share of the readings that is missing, 0…1."""
        if self.expected_count <= 0:
            return 0.0
        return max(0.0, 1 - self.received_count / self.expected_count)


class MeterSession(Protocol):
    """One recording: begins with `with`, and stops the meter however the block ends."""

    def __enter__(self) -> MeterSession:
        """Start recording."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop recording."""
        ...

    def samples(self) -> list[Sample]:
        """Everything that was recorded, in time order; complete after the block has ended."""
        ...

    def loss(self) -> LossReport:
        """How complete the recording is."""
        ...


class Meter(Protocol):
    """An energy meter."""

    @property
    def name(self) -> str:
        """Driver name, as in `--meter`."""
        ...

    def open(self) -> Capability | Missing:
        """Find the meter and ask it what it can do; reports, never raises."""
        ...

    def session(self) -> MeterSession:
        """A recording of an opened meter."""
        ...
