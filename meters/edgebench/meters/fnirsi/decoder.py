"""Turns reports of an FNIRSI tester into samples on the tester's own clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgebench.meters.base import Floats, Header, Packet, SampleBlock
from edgebench.meters.cable import sign_of
from edgebench.meters.fnirsi.reports import SAMPLES, ReportFramer, is_data, samples_of
from edgebench.meters.hid import REPORT_BYTES
from edgebench.meters.timeline import UniformDecoder
from edgebench.protocol.plain import from_plain

LIMIT_V, LIMIT_A = 28.0, 7.0
"""Limits of the measuring range, assumed for all models. If the range of a tester is smaller,
clipped values have no flag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FnirsiSettings:
    """Settings that are stored as facts in a recording's header."""

    is_reversed: bool
    limit_v: float
    limit_a: float
    """Highest current that the tester measures, in either direction."""


class FnirsiDecoder(UniformDecoder):
    """Assigns times to the samples of complete reports.

    A lost report shows only as a lower rate.
    """

    def __init__(self, settings: FnirsiSettings, rate_hz: float) -> None:
        super().__init__(rate_hz)
        self.settings = settings
        self._framer = ReportFramer()
        self._is_begun = False
        """Whether the first report with samples has arrived; its samples are garbage."""

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return the samples that this packet completes."""
        blocks = []
        for report, skipped_bytes in self._framer.feed(packet.data):
            self._lose(skipped_bytes)
            if not is_data(report):
                continue
            if self._is_begun:
                blocks.append(self._block(*samples_of(report)))
            self._is_begun = True
        if blocks:
            self.timeline.arrive(packet.last_rx_ns)
        return blocks

    def finish(self) -> list[SampleBlock]:
        """Return no samples, because none are held back; count damaged bytes as lost samples."""
        self._lose(self._framer.finish())
        return []

    def _lose(self, skipped_bytes: int) -> None:
        """Count the samples of damaged reports as lost; derive the number from `skipped_bytes`."""
        if skipped_bytes and self._is_begun:
            self.timeline.desync()
            reports = max(1, round(skipped_bytes / REPORT_BYTES))
            self.timeline.lose(SAMPLES * reports, "damaged on the way")

    def _block(self, voltage_v: Floats, current_a: Floats) -> SampleBlock:
        places = self.timeline.place(SAMPLES)
        current_a = current_a * sign_of(self.settings.is_reversed)
        is_beyond = np.abs(current_a) >= self.settings.limit_a
        is_beyond |= np.abs(voltage_v) >= self.settings.limit_v
        return SampleBlock(
            channel=0,
            index0=int(places[0]),
            time_ns=self.timeline.time_ns(places),
            power_w=voltage_v * current_a,
            current_a=current_a,
            voltage_v=voltage_v,
            flags=self.timeline.saturate(is_beyond),
        )


def make_decoder(header: Header) -> FnirsiDecoder:
    """Create the decoder of an FNIRSI tester's recording."""
    settings = from_plain(header.facts, FnirsiSettings)
    return FnirsiDecoder(settings, header.capability.rate_hz)
