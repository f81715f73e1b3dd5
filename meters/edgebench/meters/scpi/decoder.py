"""Blocks of an instrument with a timer of its own to samples; the decoder that a recording needs.

Samples have no numbers: they are placed one behind the other, and a loss shows in the rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.arrival import ArrivalRate
from edgebench.meters.base import (
    Decoder,
    Flag,
    Floats,
    Header,
    LossReport,
    Packet,
    SampleBlock,
)
from edgebench.meters.scpi.answers import content_of, flags_of, numbers_of
from edgebench.meters.scpi.elog import RECORD_BYTES
from edgebench.meters.scpi.multimeter import MultimeterDecoder
from edgebench.meters.scpi.power_meter import PowerMeterDecoder
from edgebench.meters.scpi.setup import Kind, Settings
from edgebench.protocol.codec import from_plain
from edgebench.protocol.errors import TargetError


@dataclass(slots=True, eq=False)
class BlockDecoder:
    """One packet is one answer."""

    settings: Settings
    rate_hz: float
    _arrival: ArrivalRate = field(init=False)
    _count: int = 0
    _missing: int = 0
    _saturated: int = 0
    _damaged: int = 0

    def __post_init__(self) -> None:
        self._arrival = ArrivalRate(self.rate_hz)

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """The samples of an answer."""
        try:
            content = content_of(packet.data)
        except TargetError:  # a recording that was damaged: how many are lost is not known
            self._damaged += 1
            return []
        current_a, voltage_v = self._values(content)
        if not len(current_a):
            return []
        flags = flags_of(current_a) | flags_of(voltage_v)
        current_a, voltage_v = (np.where(flags, np.nan, one) for one in (current_a, voltage_v))
        first, self._count = self._count, self._count + len(current_a)
        self._arrival.add(packet.last_rx_ns, self._count)
        self._missing += int(np.count_nonzero(flags & np.uint8(Flag.MISSING)))
        self._saturated += int(np.count_nonzero(flags & np.uint8(Flag.SATURATED)))
        return [self._block(first, current_a, voltage_v, flags)]

    def finish(self) -> list[SampleBlock]:
        """Nothing is held back."""
        return []

    def loss(self) -> LossReport:
        """Values that the instrument did not have are lost; those never sent show in the rate."""
        return LossReport(
            received_count=self._count - self._missing,
            lost_count=self._missing,
            is_ambiguous=self._damaged > 0,
            desync_count=self._damaged,
            saturated_count=self._saturated,
            rate_error_ppm=self._arrival.error_ppm(),
            rate_span_s=self._arrival.span_s(),
        )

    def _values(self, content: bytes) -> tuple[Floats, Floats]:
        """Current and voltage."""
        if self.settings.kind is Kind.ELOG:
            whole = len(content) // RECORD_BYTES * RECORD_BYTES
            records = np.frombuffer(content[:whole], ">f4").astype(np.float64).reshape(-1, 2)
            return records[:, 0], records[:, 1]
        current_a = numbers_of(content) if content.strip() else np.zeros(0)
        return current_a, np.full(len(current_a), self.settings.supply_v or np.nan)

    def _block(
        self, first: int, current_a: Floats, voltage_v: Floats, flags: NDArray[np.uint8]
    ) -> SampleBlock:
        is_averaging = self.settings.kind is Kind.ELOG
        edges = np.arange(first, first + len(current_a) + 1) * (1e9 / self.rate_hz)
        edges_ns = np.rint(edges).astype(np.int64)
        return SampleBlock(
            channel=0,
            index0=first,
            time_ns=edges_ns[1:] if is_averaging else edges_ns[:-1],
            begin_ns=edges_ns[:-1] if is_averaging else None,
            power_w=current_a * voltage_v,
            current_a=current_a,
            voltage_v=voltage_v if is_averaging else None,
            flags=flags,
        )


def make_decoder(header: Header) -> Decoder:
    """The decoder for a recording of an instrument.

    Raises:
        MeasurementError: the header is damaged.
    """
    settings = from_plain(header.facts, Settings)
    if settings.kind is Kind.POWER_METER:
        return PowerMeterDecoder(header)
    if settings.kind is Kind.MULTIMETER:
        return MultimeterDecoder(header)
    return BlockDecoder(settings, header.capability.rate_hz)
