"""Timeline of a stream of samples at a constant rate, by the meter's own clock.

The place of a sample is its number since the start of the recording. A lost sample has a place,
too. A decoder reports samples and losses. The timeline assigns places and counts losses:

    place      assigns places to the next samples
    lose       skips the places of lost samples
    desync     records damaged bytes, which stand for an unknown number of samples
    saturate   flags and counts samples beyond the range
    count      counts samples beyond the range or without a value, by flags from the decoder
    arrive     records the host time by which all samples placed so far had arrived
    account    returns the loss report
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.arrival import BIN_S, ArrivalRate
from edgebench.meters.base import Flag, Gap, LossReport, Packet, SampleBlock

Places = NDArray[np.int64]
"""Sample numbers since the start of the recording, shape (n,)."""
_SATURATED, _MISSING = np.uint8(Flag.SATURATED), np.uint8(Flag.MISSING)


@dataclass(slots=True, eq=False)
class UniformTimeline:
    """Assigns places (numbers since the start) to samples, and counts missing samples."""

    rate_hz: float
    arrival_s: float = BIN_S
    """Length in seconds of a period that contains at least one prompt arrival."""
    next_index: int = 0
    """Place (number since the start) of the next sample."""
    received_count: int = 0
    missing_count: int = 0
    """Number of received samples without a value."""
    lost_count: int = 0
    saturated_count: int = 0
    bounded_count: int = 0
    """Number of saturated samples right before a switch to a higher range."""
    desync_count: int = 0
    """Number of times that the framing was lost."""
    is_ambiguous: bool = False
    """Whether more samples than `lost_count` may be lost."""
    gaps: list[Gap] = field(default_factory=list[Gap])
    _arrival: ArrivalRate = field(init=False)
    _period_ns: float = field(init=False)
    _whole_period_ns: int | None = field(init=False)
    """Period in whole nanoseconds, for exact times; None if the period is not a whole number."""

    def __post_init__(self) -> None:
        self._arrival = ArrivalRate(self.rate_hz, self.arrival_s)
        self._period_ns = 1e9 / self.rate_hz
        self._whole_period_ns = int(self._period_ns) if self._period_ns.is_integer() else None

    def time_ns(self, places: Places) -> NDArray[np.int64]:
        """Time of these places on the meter's clock; same shape as `places`."""
        if self._whole_period_ns is not None:
            return places * self._whole_period_ns
        time_ns: NDArray[np.int64] = np.rint(places * self._period_ns).astype(np.int64)
        return time_ns

    def interval_ns(self, places: Places) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Start and end of the sample interval at each of these consecutive places, n >= 1."""
        edges = self.time_ns(np.arange(places[0], places[-1] + 2))
        return edges[:-1], edges[1:]

    def place(
        self, count: int, lost: NDArray[np.int64] | None = None, cause: str = "samples lost"
    ) -> Places:
        """Assign places to the next samples.

        Args:
            count: Number of samples.
            lost: Number of samples known to be lost before each sample, shape (count,); None: no
                sample is lost.
            cause: Reason for the loss.
        """
        places = np.arange(self.next_index, self.next_index + count)
        if lost is not None and lost.any():
            places += np.cumsum(lost)
            for at in np.flatnonzero(lost > 0):
                self.lose_in(self._gap(int(places[at]), int(lost[at]), cause))
        if count:
            self.next_index = int(places[-1]) + 1
            self.received_count += count
        return places

    def lose(self, count: int, cause: str) -> None:
        """Leave out the places of `count` lost samples."""
        self.lose_in(self._gap(self.next_index + count, count, cause))

    def lose_in(self, gap: Gap) -> None:
        """Leave out the places of the lost samples in a gap whose times are known."""
        self.gaps.append(gap)
        self.lost_count += gap.count
        self.next_index += gap.count

    def desync(self) -> None:
        """Record damaged bytes or lost framing, which may hide any number of lost samples."""
        self.desync_count += 1
        self.is_ambiguous = True

    def saturate(self, is_beyond: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Count the samples beyond the range, and return their flags, shape (n,)."""
        self.saturated_count += int(np.count_nonzero(is_beyond))
        return is_beyond.view(np.uint8) * _SATURATED

    def count(self, flags: NDArray[np.uint8]) -> None:
        """Count samples that are beyond the range or have no value, by their flags."""
        self.saturated_count += int(np.count_nonzero(flags & _SATURATED))
        self.missing_count += int(np.count_nonzero(flags & _MISSING))

    def arrive(self, rx_ns: int, waiting_count: int = 0) -> None:
        """Record that all samples before the next place, except lost ones, arrived by this time.

        Args:
            rx_ns: Host time.
            waiting_count: Number of later samples that have arrived but have no place yet.
        """
        self._arrival.add(rx_ns, self.next_index + waiting_count)

    def account(self) -> LossReport:
        """Loss report so far; samples without a value count as lost."""
        return LossReport(
            received_count=self.received_count - self.missing_count,
            lost_count=self.lost_count + self.missing_count,
            is_ambiguous=self.is_ambiguous,
            desync_count=self.desync_count,
            gaps=tuple(self.gaps),
            saturated_count=self.saturated_count,
            bounded_count=self.bounded_count,
            rate_error_ppm=self._arrival.error_ppm(),
            rate_span_s=self._arrival.span_s(),
        )

    def _gap(self, end: int, count: int, cause: str) -> Gap:
        """The gap of `count` samples that ends at this place."""
        begin_ns, end_ns = (round(place * self._period_ns) for place in (end - count - 1, end))
        return Gap(max(0, begin_ns), end_ns, count, cause)


class UniformDecoder(ABC):
    """Decoder that places its samples on a timeline."""

    def __init__(self, rate_hz: float, arrival_s: float = BIN_S) -> None:
        self.timeline = UniformTimeline(rate_hz, arrival_s)

    @abstractmethod
    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return the samples that this packet completes."""

    def finish(self) -> list[SampleBlock]:
        """Return the samples that were held back; most decoders hold back none."""
        return []

    def loss(self) -> LossReport:
        """Completeness of the recording up to now."""
        return self.timeline.account()
