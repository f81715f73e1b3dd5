"""Bytes of a PPK2 to samples: framing, calibration, the filter over range switches, losses."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.arrival import ArrivalRate
from edgebench.meters.base import Flag, Gap, Header, LossReport, Packet, SampleBlock
from edgebench.meters.ppk2.metadata import RANGES, Calibration
from edgebench.meters.ppk2.spike_filter import SpikeFilter
from edgebench.meters.ppk2.words import (
    PERIOD_NS,
    RATE_HZ,
    SATURATED_ADC,
    Framed,
    Framer,
    calibration_table,
    ranges_of,
)
from edgebench.protocol.codec import from_plain

_ADC_AND_RANGE = np.uint32((1 << 17) - 1)
_ADC = np.uint32((1 << 14) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The facts of a recording's header."""

    calibration: Calibration
    supply_v: float
    """Set (source mode) or given by the user: the meter measures no voltage."""
    is_source: bool
    is_filtered: bool = True
    defaulted: tuple[str, ...] = ()
    """Constants of the calibration that the unit did not give."""


@dataclass(slots=True, eq=False)
class Ppk2Decoder:
    """Holds the state between packets."""

    settings: Settings
    _framer: Framer = field(default_factory=Framer)
    _filter: SpikeFilter = field(default_factory=SpikeFilter.new)
    _arrival: ArrivalRate = field(default_factory=lambda: ArrivalRate(RATE_HZ))
    _next_index: int = 0
    _received: int = 0
    _lost: int = 0
    _saturated: int = 0
    _gaps: list[Gap] = field(default_factory=list[Gap])
    _table: NDArray[np.float64] = field(init=False)
    _standing: Flag = field(init=False)

    def __post_init__(self) -> None:
        self._table = calibration_table(self.settings.calibration, self.settings.supply_v)
        self._standing = Flag.UNCALIBRATED if self.settings.defaulted else Flag.NONE

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """The samples that are complete now."""
        blocks = [self._block(framed) for framed in self._framer.feed(packet.data)]
        self._arrival.add(packet.last_rx_ns, self._next_index)
        return blocks

    def finish(self) -> list[SampleBlock]:
        """What was held back for more bytes."""
        return [self._block(framed) for framed in self._framer.feed(b"", is_last=True)]

    def loss(self) -> LossReport:
        """How complete the recording is, so far."""
        return LossReport(
            received_count=self._received,
            lost_count=self._lost,
            is_ambiguous=self._lost > 0 or self._framer.desync_count > 0,
            desync_count=self._framer.desync_count,
            gaps=tuple(self._gaps),
            saturated_count=self._saturated,
            rate_error_ppm=self._arrival.error_ppm(),
            rate_span_s=self._arrival.span_s(),
        )

    def _block(self, framed: Framed) -> SampleBlock:
        words, count = framed.words, len(framed.words)
        index = self._places(framed)
        ranges = ranges_of(words)
        unfiltered_a = current_a = self._table[words & _ADC_AND_RANGE]
        flags = np.full(count, int(self._standing), np.uint8)
        if self.settings.is_filtered:
            current_a, touched = self._filter.apply(current_a, ranges)
            flags[touched] |= np.uint8(Flag.RANGE_SWITCH)
        spike_w = (unfiltered_a - current_a) * self.settings.supply_v
        is_damaged = ranges >= RANGES
        current_a[is_damaged] = np.nan  # also where the filter had an answer
        spike_w[is_damaged] = 0.0
        flags[is_damaged] |= np.uint8(Flag.MISSING)
        is_saturated = (words & _ADC) == SATURATED_ADC
        flags[is_saturated] |= np.uint8(Flag.SATURATED)
        self._saturated += int(np.count_nonzero(is_saturated))
        return SampleBlock(
            channel=0,
            index0=int(index[0]),
            time_ns=index * PERIOD_NS,
            power_w=current_a * self.settings.supply_v,
            current_a=current_a,
            digital=(words >> 24).astype(np.uint8),
            ranges=ranges,
            flags=flags,
            spike_w=spike_w if self.settings.is_filtered else None,
        )

    def _places(self, framed: Framed) -> NDArray[np.int64]:
        """Each word's place on the unit's timeline, shape (n,); what is lost is noted."""
        count = len(framed.words)
        index = self._next_index + np.arange(count) + np.cumsum(framed.lost)
        self._note_gaps(framed, index * PERIOD_NS)
        self._next_index = int(index[-1]) + 1
        self._received += count
        return index

    def _note_gaps(self, framed: Framed, time_ns: NDArray[np.int64]) -> None:
        for place in np.flatnonzero(framed.lost):
            count = int(framed.lost[place])
            end_ns = int(time_ns[place])
            cause = "framing lost" if framed.is_desync and place == 0 else "words lost"
            self._gaps.append(Gap(end_ns - (count + 1) * PERIOD_NS, end_ns, count, cause))
            self._lost += count


def make_decoder(header: Header) -> Ppk2Decoder:
    """The decoder for a recording of a PPK2.

    Raises:
        MeasurementError: the header is damaged.
    """
    return Ppk2Decoder(from_plain(header.facts, Settings))
