"""Interface of a power recording for the analysis, independent of its storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds
from edgebench.host.analysis.energy.plausible.texture import SampleRows, Texture
from edgebench.host.analysis.energy.uncertainty import EnergyWindow
from edgebench.meters.arrival import ArrivalLine
from edgebench.meters.base import Header, LossReport


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePiece:
    """A part of a channel's recording, with a summary that is known without reading its samples."""

    first_ns: int
    last_ns: int
    sample_count: int
    lowest_w: float
    highest_w: float
    texture: Texture
    read: Callable[[], SampleRows]


TraceT = TypeVar("TraceT")


class PowerTrace(Protocol):
    """Recording of power; all times are nanoseconds of the meter's clock."""

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
        """Arrival times of the samples; None if they are unknown."""
        ...

    @property
    def flags(self) -> int:
        """Bitwise or of the flags of all samples."""
        ...

    def span_ns(self, channel: str) -> tuple[int, int]:
        """First and last time of a channel.

        Raises:
            MeasurementError: the channel has no valid sample.
        """
        ...

    def cumulative_j(self, channel: str, time_ns: Nanoseconds) -> Floats:
        """Energy from the begin of the channel to each of these times, shape (m,).

        Raises:
            MeasurementError: a time is outside the recording.
        """
        ...

    def window(self, channel: str, begin_ns: int, end_ns: int) -> EnergyWindow:
        """Energy between two times, with the quantities that determine its uncertainty.

        Raises:
            MeasurementError: the window is empty, or reaches beyond the recording.
        """
        ...

    def samples(
        self, channel: str, begin_ns: int | None, end_ns: int | None
    ) -> tuple[Nanoseconds, Floats]:
        """Times and powers of a channel's samples between two times; NaN if missing."""
        ...

    def peak_w(self, channel: str, begin_ns: int, end_ns: int) -> float:
        """Highest sample in a window, W."""
        ...

    def pieces(self, channel: str) -> Sequence[TracePiece]:
        """Parts of a channel's recording that have a sample with a value, in order of time."""
        ...

    def without(self: TraceT, times_ns: Mapping[str, Nanoseconds]) -> TraceT:
        """A copy of the recording without each channel's samples at the given times."""
        ...

    def falling_edges(self) -> Mapping[int, Nanoseconds]:
        """Falling edges of each digital input, midway from the last high to the first low."""
        ...
