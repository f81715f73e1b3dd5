"""Turns packed powers, float64 in watts, into samples."""

from __future__ import annotations

import numpy as np

from edgebench.meters.base import Header, Packet, SampleBlock
from edgebench.meters.timeline import UniformDecoder

SAMPLE = np.dtype("<f8")


class SyntheticDecoder(UniformDecoder):
    """Assigns times to the samples by their order, because no sample is ever lost."""

    def __init__(self, header: Header) -> None:
        super().__init__(header.capability.rate_hz)
        self._rest = b""

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return the complete samples; an incomplete sample is kept for the next packet."""
        data = self._rest + packet.data
        count, rest = divmod(len(data), SAMPLE.itemsize)
        self._rest = data[len(data) - rest :]
        places = self.timeline.place(count)
        self.timeline.arrive(packet.last_rx_ns)
        if not count:
            return []
        begin_ns, time_ns = self.timeline.interval_ns(places)
        return [
            SampleBlock(
                channel=0,
                index0=int(places[0]),
                time_ns=time_ns,
                begin_ns=begin_ns,
                power_w=np.frombuffer(data, SAMPLE, count).astype(np.float64),
                flags=np.zeros(count, np.uint8),
            )
        ]
