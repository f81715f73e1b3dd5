"""Packed watts to samples."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from edgebench.meters.arrival import ArrivalRate
from edgebench.meters.base import Flag, Header, LossReport, Packet, SampleBlock

SAMPLE = np.dtype("<f8")


@dataclass(slots=True, eq=False)
class SyntheticDecoder:
    """Packed watts to samples."""

    rate_hz: float
    _arrival: ArrivalRate = field(init=False)
    _rest: bytes = b""
    _count: int = 0

    def __post_init__(self) -> None:
        self._arrival = ArrivalRate(self.rate_hz)

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """The samples that are complete now."""
        data = self._rest + packet.data
        whole = len(data) - len(data) % SAMPLE.itemsize
        self._rest = data[whole:]
        power_w = np.frombuffer(data[:whole], SAMPLE).astype(np.float64)
        first, self._count = self._count, self._count + len(power_w)
        self._arrival.add(packet.last_rx_ns, self._count)
        edges = np.arange(first, self._count + 1) * (1e9 / self.rate_hz)
        edges_ns = np.rint(edges).astype(np.int64)
        block = SampleBlock(
            channel=0,
            index0=first,
            time_ns=edges_ns[1:],
            begin_ns=edges_ns[:-1],
            power_w=power_w,
            flags=np.full(len(power_w), int(Flag.NONE), np.uint8),
        )
        return [block] if len(power_w) else []

    def finish(self) -> list[SampleBlock]:
        """Half a sample is none."""
        return []

    def loss(self) -> LossReport:
        """Nothing is lost between a formula and a file; its clock may be wrong by order."""
        return LossReport(
            received_count=self._count,
            rate_error_ppm=self._arrival.error_ppm(),
            rate_span_s=self._arrival.span_s(),
        )


def make_decoder(header: Header) -> SyntheticDecoder:
    """The decoder for a recording."""
    return SyntheticDecoder(header.capability.rate_hz)
