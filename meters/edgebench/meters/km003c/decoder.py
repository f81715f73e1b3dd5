"""Messages of a KM003C to samples: readings that were asked for, or the tester's own queue."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.arrival import ArrivalRate
from edgebench.meters.base import (
    Decoder,
    Flag,
    Gap,
    Header,
    LossReport,
    Packet,
    SampleBlock,
)
from edgebench.meters.cable import sign_of
from edgebench.meters.km003c.messages import (
    SEQUENCE_HZ,
    SEQUENCE_SIZE,
    Queued,
    queued_of,
    values_of,
)
from edgebench.meters.polled import Point, PolledDecoder, Reading
from edgebench.protocol.codec import from_plain

LIMIT_V, LIMIT_A = 50.0, 6.0
"""Source: ChargerLAB, KM003C product page, as remembered; not checked."""
TICK_NS = 1_000_000_000 // SEQUENCE_HZ
BACKLOG_TICKS = 10 * SEQUENCE_HZ
"""By which samples may get ahead of the answers' arrival: assumed, more than a queue holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The facts of a recording's header."""

    is_reversed: bool = False
    is_queue: bool = False


class ReadingDecoder(PolledDecoder):
    """An answer to a point."""

    def __init__(self, header: Header, settings: Settings) -> None:
        super().__init__(header.capability)
        self._sign = sign_of(settings.is_reversed)

    def points(self, readings: list[Reading]) -> list[Point]:
        """The one answer of a round."""
        [(time_ns, message)] = readings
        try:
            voltage_v, current_a = values_of(message or b"")
        except ValueError:
            return [Point(channel=0, time_ns=time_ns, power_w=math.nan, flags=Flag.MISSING)]
        flags = Flag.NONE
        if abs(voltage_v) >= LIMIT_V or abs(current_a) >= LIMIT_A:
            flags |= Flag.SATURATED
        return [
            Point(
                channel=0,
                time_ns=time_ns,
                power_w=voltage_v * current_a * self._sign,
                flags=flags,
                current_a=current_a * self._sign,
                voltage_v=voltage_v,
            )
        ]


@dataclass(slots=True, eq=False)
class QueueDecoder:
    """Places samples by their sequence, which wraps around every 65.5 s.

    A session gives up a tester that is silent for less, so a step is never a whole turn too short.
    An answer whose sequence stands still, or runs ahead of the time that passed (backwards is
    nearly a turn ahead), is damaged.
    """

    settings: Settings
    rate_hz: float
    _arrival: ArrivalRate = field(init=False)
    _last_tick: int | None = None
    """Of the last sample, unwrapped; the first is 0."""
    _last_sequence: int = 0
    _last_sample_rx_ns: int = 0
    _next_index: int = 0
    _received: int = 0
    _saturated: int = 0
    _damaged: int = 0
    _good_rx_ns: int = 0
    _last_rx_ns: int = 0
    _gaps: list[Gap] = field(default_factory=list[Gap])

    def __post_init__(self) -> None:
        self._arrival = ArrivalRate(self.rate_hz)

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """The samples of an answer."""
        self._last_rx_ns = packet.last_rx_ns
        try:
            queued = queued_of(packet.data)
            ticks = self._ticks(queued.sequence, packet.last_rx_ns)
        except ValueError:  # how many are lost, the next sequence tells
            self._damaged += 1
            return []
        self._good_rx_ns = packet.last_rx_ns
        if not len(ticks):
            return []
        block = self._block(queued, ticks)
        self._arrival.add(packet.last_rx_ns, self._next_index)
        return [block]

    def finish(self) -> list[SampleBlock]:
        """Nothing is held back; how many are lost in damage at the end, its time tells."""
        lost = round((self._last_rx_ns - self._good_rx_ns) * self.rate_hz / 1e9)
        if self._received and lost > 0:
            period_ns = round(1e9 / self.rate_hz)
            begin_ns = (self._next_index - 1) * period_ns
            end_ns = begin_ns + (lost + 1) * period_ns
            self._gaps.append(Gap(begin_ns, end_ns, lost, "damaged on the way"))
        self._good_rx_ns = self._last_rx_ns
        return []

    def loss(self) -> LossReport:
        """How complete the recording is, so far."""
        return LossReport(
            received_count=self._received,
            lost_count=sum(gap.count for gap in self._gaps),
            is_ambiguous=self._damaged > 0,
            desync_count=self._damaged,
            gaps=tuple(self._gaps),
            saturated_count=self._saturated,
            rate_error_ppm=self._arrival.error_ppm(),
            rate_span_s=self._arrival.span_s(),
        )

    def _ticks(self, sequence: NDArray[np.uint16], rx_ns: int) -> NDArray[np.int64]:
        """Milliseconds since the first sample.

        Raises:
            ValueError: these cannot be the samples that follow.
        """
        if not len(sequence):
            return np.zeros(0, np.int64)
        is_first = self._last_tick is None
        before = int(sequence[0]) if is_first else self._last_sequence
        steps = np.diff(sequence.astype(np.int64), prepend=before) % SEQUENCE_SIZE
        if not steps[1 if is_first else 0 :].all():
            raise ValueError("the sequence stands still")
        passed = 0 if is_first else (rx_ns - self._last_sample_rx_ns) // TICK_NS
        if steps.sum() > passed + BACKLOG_TICKS:
            raise ValueError("the sequence runs ahead of the time")
        ticks: NDArray[np.int64] = (self._last_tick or 0) + np.cumsum(steps)
        self._last_tick, self._last_sequence = int(ticks[-1]), int(sequence[-1])
        self._last_sample_rx_ns = rx_ns
        return ticks

    def _block(self, queued: Queued, ticks: NDArray[np.int64]) -> SampleBlock:
        index = np.rint(ticks * (self.rate_hz / SEQUENCE_HZ)).astype(np.int64)
        self._note_gaps(index)
        self._next_index = int(index[-1]) + 1
        self._received += len(index)
        current_a = queued.current_a * sign_of(self.settings.is_reversed)
        is_beyond = (np.abs(current_a) >= LIMIT_A) | (np.abs(queued.voltage_v) >= LIMIT_V)
        self._saturated += int(np.count_nonzero(is_beyond))
        return SampleBlock(
            channel=0,
            index0=int(index[0]),
            time_ns=ticks * TICK_NS,
            power_w=queued.voltage_v * current_a,
            current_a=current_a,
            voltage_v=queued.voltage_v,
            flags=is_beyond.astype(np.uint8) * np.uint8(Flag.SATURATED),
        )

    def _note_gaps(self, index: NDArray[np.int64]) -> None:
        lost = np.diff(index, prepend=self._next_index - 1) - 1
        period_ns = round(1e9 / self.rate_hz)
        for place in np.flatnonzero(lost > 0):
            count, end_ns = int(lost[place]), int(index[place]) * period_ns
            begin_ns = end_ns - (count + 1) * period_ns
            self._gaps.append(Gap(begin_ns, end_ns, count, "the tester's queue overflowed"))


def make_decoder(header: Header) -> Decoder:
    """The decoder for a recording of a KM003C.

    Raises:
        RemoteProtocolError: the header is damaged.
    """
    settings = from_plain(header.facts, Settings)
    if settings.is_queue:
        return QueueDecoder(settings, header.capability.rate_hz)
    return ReadingDecoder(header, settings)
