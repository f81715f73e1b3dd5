"""Items of a PowerShield's stream, whichever format it has on the wire."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Samples that follow each other."""

    values: Floats
    """Ampere, or joule in the interval before; shape (n,)."""
    exponents: NDArray[np.uint8]
    """Negative power of the format's radix that each has: how fine its step is."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The meter's own time, which it sends once a second among the samples."""

    time_ms: int
    """Time since the recording began."""
    buffer_ratio: float
    """Share of its buffer that is full, 0…1."""
    is_overflow: bool = False
    """Samples are lost, as its buffer was too full."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes that mean nothing: samples are lost here."""

    count: int
    """Samples lost at least."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The event input D7 changed here, as it was asked to report."""

    number: int
    """Count of such events; it begins anew at 0 after the last one of two digits or more."""


@dataclass(frozen=True, slots=True)
class Overcurrent:
    """More current than the range can measure."""


@dataclass(frozen=True, slots=True)
class PowerDown:
    """The meter switched the device's supply off."""


@dataclass(frozen=True, slots=True)
class SupplyVoltage:
    """Voltage of the device's supply, as the meter says."""

    voltage_v: float


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """Error, in the meter's words."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """The meter ended the recording."""


Item = Values | Stamp | Hole | Edge | Overcurrent | PowerDown | SupplyVoltage | ErrorMessage | End
