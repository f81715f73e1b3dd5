"""Updates about a watched device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from edgebench.protocol.live import LiveSamples
from edgebench.protocol.messages import SeatState


@dataclass(frozen=True, slots=True)
class Absence:
    """A device cannot be watched now; reported when the absence begins or its reason changes."""

    device: str
    """Name of the device; `AGENT/SEAT` if its agent has several devices."""
    since_s: float
    """Unix time at which the device was last present. If the device was never present, the time at
    which the watch began."""
    reason: str
    is_final: bool = False
    """Whether the agent violated the protocol, so that no reconnection is attempted."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """A device has become present, or its lease holder, run or phase has changed."""

    device: str
    state: SeatState


@dataclass(frozen=True, slots=True)
class Batch:
    """Readings of a device since the previous batch; reported about once a second."""

    device: str
    samples: LiveSamples
    run_id: str | None
    load_1m: float | None
    """Load average of the device over the last minute; None if not reported."""


Update = Union[Absence, StateChange, Batch]
