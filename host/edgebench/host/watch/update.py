"""Updates about a device that is watched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from edgebench.protocol.live import LiveSamples
from edgebench.protocol.messages import SeatState


@dataclass(frozen=True, slots=True)
class Absence:
    """A device cannot be watched now; sent when that begins, and when the reason changes."""

    device: str
    """Name of the device, `AGENT/SEAT` of several."""
    since_s: float
    """Time at which it was there last, or else at which the watch began; Unix time."""
    reason: str
    is_final: bool = False
    """Whether it is not tried again, as its agent broke the protocol."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """A device is there, or has another holder, run or phase."""

    device: str
    state: SeatState


@dataclass(frozen=True, slots=True)
class Batch:
    """Readings of a device since the last ones, about once a second."""

    device: str
    samples: LiveSamples
    run_id: str | None
    """Run in progress."""
    load_1m: float | None
    """Load average of the device over the last minute, if it reports that."""


Update = Union[Absence, StateChange, Batch]
