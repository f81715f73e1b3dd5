"""What the analysis asks of a recording of power, wherever that is kept."""

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
        """What the meter is."""
        ...

    @property
    def loss(self) -> LossReport:
        """How complete it is."""
        ...

    @property
    def arrival(self) -> ArrivalLine | None:
        """When its samples came; None where nobody knows."""
        ...

    @property
    def flags(self) -> int:
        """All that is wrong with any sample."""
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
            MeasurementError: a time is outside of what was recorded.
        """
        ...

    def window(self, channel: str, begin_ns: int, end_ns: int) -> EnergyWindow:
        """Energy between two times, with what its uncertainty depends on.

        Raises:
            MeasurementError: the window is empty, or reaches beyond what was recorded.
        """
        ...

    def peak_w(self, channel: str, begin_ns: int, end_ns: int) -> float:
        """Highest value in a window."""
        ...

    def falling_edges(self) -> Mapping[int, Nanoseconds]:
        """Times of the last high and of the first low sample's middle, by digital input."""
        ...
