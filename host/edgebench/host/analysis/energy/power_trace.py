"""What the analysis needs of a recording of power, wherever that is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds
from edgebench.host.analysis.energy.uncertainty import EnergyWindow
from edgebench.meters.arrival import ArrivalLine
from edgebench.meters.base import Header, LossReport


class PowerTrace(Protocol):
    """A recording; times are those of the meter's clock, nanoseconds."""

    @property
    def header(self) -> Header:
        """Description of the meter."""
        ...

    @property
    def loss(self) -> LossReport:
        """Completeness of the recording."""
        ...

    @property
    def arrival(self) -> ArrivalLine | None:
        """Arrival times of the samples; None where they are unknown."""
        ...

    @property
    def flags(self) -> int:
        """Everything that is wrong with any sample."""
        ...

    def span_ns(self, channel: str) -> tuple[int, int]:
        """First and last time of a channel.

        Raises:
            MeasurementError: it has no number.
        """
        ...

    def cumulative_j(self, channel: str, time_ns: Nanoseconds) -> Floats:
        """Energy from the channel's begin to each of these times, shape (m,).

        Raises:
            MeasurementError: a time is outside the recording.
        """
        ...

    def window(self, channel: str, begin_ns: int, end_ns: int) -> EnergyWindow:
        """Energy between two times, with what its uncertainty depends on.

        Raises:
            MeasurementError: the window is empty, or reaches beyond the recording.
        """
        ...

    def peak_w(self, channel: str, begin_ns: int, end_ns: int) -> float:
        """Highest value in a window."""
        ...

    def falling_edges(self) -> Mapping[int, Nanoseconds]:
        """Middle between the last high and the first low sample, by digital input."""
        ...
