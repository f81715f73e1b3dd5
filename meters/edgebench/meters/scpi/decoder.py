"""Decoders of SCPI recordings: blocks from instruments with a timer, or polled readings.

Samples in blocks are not numbered, so their times follow from their order, and a loss of samples
shows only in the rate.
"""

from __future__ import annotations

import numpy as np

from edgebench.meters.base import Decoder, Floats, Header, Packet, SampleBlock
from edgebench.meters.scpi.elog import RECORD_BYTES
from edgebench.meters.scpi.multimeter import MultimeterDecoder
from edgebench.meters.scpi.power_meter import Wt300Decoder
from edgebench.meters.scpi.query import QueryDecoder
from edgebench.meters.scpi.responses import content_of, flags_of, numbers_of
from edgebench.meters.scpi.setup import ResponseKind, ScpiSettings
from edgebench.meters.timeline import UniformDecoder
from edgebench.protocol.errors import TargetError
from edgebench.protocol.plain import from_plain


class BlockDecoder(UniformDecoder):
    """Turns blocks into samples. A value that the instrument marks as missing counts as lost."""

    def __init__(self, settings: ScpiSettings, rate_hz: float) -> None:
        super().__init__(rate_hz)
        self.settings = settings

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return the samples of a response; none if the response is damaged."""
        try:
            content = content_of(packet.data)
        except TargetError:  # a damaged recording: the number of lost samples is unknown
            self.timeline.desync()
            return []
        current_a, voltage_v = self._values(content)
        if not len(current_a):
            return []
        flags = flags_of(current_a) | flags_of(voltage_v)
        is_flagged = flags != 0
        current_a[is_flagged] = voltage_v[is_flagged] = np.nan
        self.timeline.count(flags)
        places = self.timeline.place(len(current_a))
        self.timeline.arrive(packet.last_rx_ns)
        is_averaging = self.settings.kind is ResponseKind.ELOG
        begin_ns, end_ns = self.timeline.interval_ns(places)
        return [
            SampleBlock(
                channel=0,
                index0=int(places[0]),
                time_ns=end_ns if is_averaging else begin_ns,
                begin_ns=begin_ns if is_averaging else None,
                power_w=current_a * voltage_v,
                current_a=current_a,
                voltage_v=voltage_v if is_averaging else None,
                flags=flags,
            )
        ]

    def _values(self, content: bytes) -> tuple[Floats, Floats]:
        """Current and voltage; each of shape (n,)."""
        if self.settings.kind is ResponseKind.ELOG:
            whole = len(content) // RECORD_BYTES * RECORD_BYTES
            records = np.frombuffer(content[:whole], ">f4").astype(np.float64).reshape(-1, 2)
            return records[:, 0], records[:, 1]
        current_a = numbers_of(content) if content.strip() else np.zeros(0)
        return current_a, np.full(len(current_a), self.settings.supply_v or np.nan)


def make_decoder(header: Header) -> Decoder:
    """Create the decoder of a SCPI instrument's recording."""
    settings = from_plain(header.facts, ScpiSettings)
    if settings.kind is ResponseKind.POWER_METER:
        return Wt300Decoder(header)
    if settings.kind is ResponseKind.MULTIMETER:
        return MultimeterDecoder(header)
    if settings.kind is ResponseKind.QUERY:
        return QueryDecoder(header)
    return BlockDecoder(settings, header.capability.rate_hz)
