"""Turns messages of a KM003C, from polled readings or from the tester's own queue, into samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Decoder, Flag, Header, Packet, SampleBlock
from edgebench.meters.cable import sign_of
from edgebench.meters.km003c.messages import (
    SEQUENCE_HZ,
    SEQUENCE_SIZE,
    QueueSamples,
    samples_of,
    values_of,
)
from edgebench.meters.polled import Point, PolledDecoder, Reading
from edgebench.meters.timeline import UniformDecoder
from edgebench.protocol.plain import from_plain

LIMIT_V, LIMIT_A = 50.0, 6.0
"""Limits of the measuring range, assumed because no ChargerLAB data sheet was available. With a
smaller true range, clipped values would have no flag; with a larger true range, valid values would
be flagged as saturated."""
TICK_NS = 1_000_000_000 // SEQUENCE_HZ
BACKLOG_TICKS = 10 * SEQUENCE_HZ
"""Number of ticks (of the sequence number) by which a response may be ahead of the elapsed time.
This number is assumed to exceed the length of the tester's queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Km003cSettings:
    """Settings that are stored as facts in a recording's header."""

    is_reversed: bool = False
    is_queue: bool = False


class ReadingDecoder(PolledDecoder):
    """Makes a point from each response; a damaged response becomes a missing value."""

    def __init__(self, header: Header, settings: Km003cSettings) -> None:
        super().__init__(header)
        self._sign = sign_of(settings.is_reversed)

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return the point of a polling round, which has a single response."""
        [(time_ns, message)] = readings
        try:
            voltage_v, current_a = values_of(message or b"")
        except ValueError:
            return [Point.missing(time_ns)]
        is_beyond = abs(voltage_v) >= LIMIT_V or abs(current_a) >= LIMIT_A
        return [
            Point(
                time_ns=time_ns,
                power_w=voltage_v * current_a * self._sign,
                flags=Flag.SATURATED if is_beyond else Flag.NONE,
                current_a=current_a * self._sign,
                voltage_v=voltage_v,
            )
        ]


class QueueDecoder(UniformDecoder):
    """Assigns times to samples by their sequence number, which wraps around every 65.5 s.

    If the tester sends nothing, the session ends much sooner than in this time, so the sequence
    number never advances by its whole range between two responses. A response counts as damaged if
    its sequence number repeats, or has advanced by more than the elapsed time allows. A step
    backward of the sequence number appears as an advance by almost its whole range.
    """

    def __init__(self, settings: Km003cSettings, rate_hz: float) -> None:
        super().__init__(rate_hz)
        self._sign = sign_of(settings.is_reversed)
        self._last_tick: int | None = None
        """Number of milliseconds from the first sample to the last sample; does not wrap around."""
        self._last_sequence = 0
        self._last_sample_rx_ns = 0
        self._good_rx_ns = 0
        self._last_rx_ns = 0

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return the samples of a response; none if the response is damaged."""
        self._last_rx_ns = packet.last_rx_ns
        try:
            samples = samples_of(packet.data)
            ticks = self._ticks(samples.sequence, packet.last_rx_ns)
        except ValueError:  # the next sequence shows how many samples are lost
            self.timeline.desync()
            return []
        self._good_rx_ns = packet.last_rx_ns
        if not len(ticks):
            return []
        block = self._block(samples, ticks)
        self.timeline.arrive(packet.last_rx_ns)
        return [block]

    def finish(self) -> list[SampleBlock]:
        """Return no samples, because none are held back; count the lost samples at the end.

        The number of lost samples follows from the time since the last undamaged response.
        """
        lost = round((self._last_rx_ns - self._good_rx_ns) * self.timeline.rate_hz / 1e9)
        if self.timeline.received_count and lost > 0:
            self.timeline.lose(lost, "damaged on the way")
        self._good_rx_ns = self._last_rx_ns
        return []

    def _ticks(self, sequence: NDArray[np.uint16], rx_ns: int) -> NDArray[np.int64]:
        """Milliseconds from the recording's first sample to each of the samples in a response.

        Raises:
            ValueError: the sequence numbers do not continue those of the previous response.
        """
        if not len(sequence):
            return np.zeros(0, np.int64)
        is_first = self._last_tick is None
        before = int(sequence[0]) if is_first else self._last_sequence
        steps = np.diff(sequence.astype(np.int64), prepend=before) % SEQUENCE_SIZE
        if not steps[1 if is_first else 0 :].all():
            raise ValueError("the tester's sequence numbers do not advance")
        passed = 0 if is_first else (rx_ns - self._last_sample_rx_ns) // TICK_NS
        if steps.sum() > passed + BACKLOG_TICKS:
            raise ValueError("the tester's sequence numbers run ahead of the elapsed time")
        ticks: NDArray[np.int64] = (self._last_tick or 0) + np.cumsum(steps)
        self._last_tick, self._last_sequence = int(ticks[-1]), int(sequence[-1])
        self._last_sample_rx_ns = rx_ns
        return ticks

    def _block(self, samples: QueueSamples, ticks: NDArray[np.int64]) -> SampleBlock:
        index = np.rint(ticks * (self.timeline.rate_hz / SEQUENCE_HZ)).astype(np.int64)
        lost = np.diff(index, prepend=self.timeline.next_index - 1) - 1
        self.timeline.place(len(index), lost, "the tester's queue overflowed")
        current_a = samples.current_a * self._sign
        is_beyond = (np.abs(current_a) >= LIMIT_A) | (np.abs(samples.voltage_v) >= LIMIT_V)
        return SampleBlock(
            channel=0,
            index0=int(index[0]),
            time_ns=ticks * TICK_NS,
            power_w=samples.voltage_v * current_a,
            current_a=current_a,
            voltage_v=samples.voltage_v,
            flags=self.timeline.saturate(is_beyond),
        )


def make_decoder(header: Header) -> Decoder:
    """Create the decoder of a KM003C's recording."""
    settings = from_plain(header.facts, Km003cSettings)
    if settings.is_queue:
        return QueueDecoder(settings, header.capability.rate_hz)
    return ReadingDecoder(header, settings)
