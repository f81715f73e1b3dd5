"""Items of a PowerShield's stream, independent of its format on the wire."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Consecutive samples."""

    values: Floats
    """Current in A, or energy in J of the preceding interval; shape (n,)."""
    exponents: NDArray[np.uint8]
    """Exponent of each sample without its minus sign. The base is the radix of the format, and the
    exponent determines the step of the value."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The meter's own time, sent once per second among the samples."""

    time_ms: int
    """Time since the start of the recording."""
    buffer_ratio: float
    """Fill level of the meter's buffer, 0…1."""
    is_overflow: bool = False
    """Whether samples are lost because the meter's buffer overflowed."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Invalid bytes in the stream, in place of which samples are lost."""

    count: int
    """Minimum number of lost samples."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of the selected kind at the event input D7."""

    number: int
    """Number of the event. After 99, 999 or a longer row of nines, numbers may restart at 0."""


@dataclass(frozen=True, slots=True)
class Overcurrent:
    """The current exceeds the measuring range."""


@dataclass(frozen=True, slots=True)
class PowerDown:
    """The meter switched the device's supply off."""


@dataclass(frozen=True, slots=True)
class SupplyVoltage:
    """Voltage of the device's supply, as reported by the meter."""

    voltage_v: float


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """Error text from the meter."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """The meter ended the recording."""


Item = Values | Stamp | Hole | Edge | Overcurrent | PowerDown | SupplyVoltage | ErrorMessage | End
