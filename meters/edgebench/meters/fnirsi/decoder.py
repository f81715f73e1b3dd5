"""Reports of an FNIRSI tester to samples, on the tester's own beat."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from edgebench.meters.arrival import ArrivalRate
from edgebench.meters.base import Flag, Floats, Gap, Header, LossReport, Packet, SampleBlock
from edgebench.meters.cable import sign_of
from edgebench.meters.fnirsi.reports import SAMPLES, Framer, is_data, samples_of
from edgebench.meters.hid import REPORT_BYTES
from edgebench.protocol.codec import from_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The facts of a recording's header."""

    is_reversed: bool
    limit_v: float
    limit_a: float
    """What the tester can measure, in either direction."""


@dataclass(slots=True, eq=False)
class FnirsiDecoder:
    """Holds the state between packets."""

    settings: Settings
    rate_hz: float
    _framer: Framer = field(default_factory=Framer)
    _arrival: ArrivalRate = field(init=False)
    _is_begun: bool = False
    """The first report with samples came: it holds garbage."""
    _next_index: int = 0
    _received: int = 0
    _saturated: int = 0
    _gaps: list[Gap] = field(default_factory=list[Gap])

    def __post_init__(self) -> None:
        self._arrival = ArrivalRate(self.rate_hz)

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """The samples that are complete now."""
        blocks = []
        for report, skipped_bytes in self._framer.feed(packet.data):
            self._note_gap(skipped_bytes)
            if not is_data(report):
                continue
            if self._is_begun:
                blocks.append(self._block(*samples_of(report)))
            self._is_begun = True
        if blocks:
            self._arrival.add(packet.last_rx_ns, self._next_index)
        return blocks

    def finish(self) -> list[SampleBlock]:
        """Nothing is held back; damage at the end is lost as well."""
        self._note_gap(self._framer.finish())
        return []

    def loss(self) -> LossReport:
        """Damaged reports are counted; those that never came show in the rate."""
        return LossReport(
            received_count=self._received,
            lost_count=sum(gap.count for gap in self._gaps),
            is_ambiguous=bool(self._gaps),
            desync_count=len(self._gaps),
            gaps=tuple(self._gaps),
            saturated_count=self._saturated,
            rate_error_ppm=self._arrival.error_ppm(),
            rate_span_s=self._arrival.span_s(),
        )

    def _note_gap(self, skipped_bytes: int) -> None:
        if not skipped_bytes or not self._is_begun:
            return
        count = SAMPLES * max(1, round(skipped_bytes / REPORT_BYTES))
        end = self._next_index + count
        begin_ns = self._time_ns(max(0, self._next_index - 1))
        self._gaps.append(Gap(begin_ns, self._time_ns(end), count, "damaged on the way"))
        self._next_index = end

    def _time_ns(self, index: int) -> int:
        return round(index * 1e9 / self.rate_hz)

    def _block(self, voltage_v: Floats, current_a: Floats) -> SampleBlock:
        first, self._next_index = self._next_index, self._next_index + SAMPLES
        self._received += SAMPLES
        current_a = current_a * sign_of(self.settings.is_reversed)
        is_beyond = (np.abs(current_a) >= self.settings.limit_a) | (
            np.abs(voltage_v) >= self.settings.limit_v
        )
        self._saturated += int(np.count_nonzero(is_beyond))
        times = np.arange(first, first + SAMPLES) * (1e9 / self.rate_hz)
        return SampleBlock(
            channel=0,
            index0=first,
            time_ns=np.rint(times).astype(np.int64),
            power_w=voltage_v * current_a,
            current_a=current_a,
            voltage_v=voltage_v,
            flags=is_beyond.astype(np.uint8) * np.uint8(Flag.SATURATED),
        )


def make_decoder(header: Header) -> FnirsiDecoder:
    """The decoder for a recording of an FNIRSI tester.

    Raises:
        RemoteProtocolError: the header is damaged.
    """
    return FnirsiDecoder(from_plain(header.facts, Settings), header.capability.rate_hz)
