"""Turns the bytes of a PPK2 into samples: framing, calibration, range-switch filter, losses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Flag, Header, LossReport, Packet, SampleBlock
from edgebench.meters.ppk2.metadata import RANGES, Calibration
from edgebench.meters.ppk2.spike_filter import SpikeFilter
from edgebench.meters.ppk2.words import (
    RATE_HZ,
    SATURATED_ADC,
    WordFramer,
    WordRun,
    calibration_table,
    ranges_of,
)
from edgebench.meters.timeline import UniformDecoder
from edgebench.protocol.plain import from_plain

SWITCH_SAMPLES = 2
"""Samples after a saturated one in which the unit has switched to a higher range; the app's own
filter takes as many for touched by a switch (spike_filter.py)."""
_ADC_AND_RANGE = np.uint32((1 << 17) - 1)
_ADC = np.uint32((1 << 14) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ppk2Settings:
    """Facts of a recording's header."""

    calibration: Calibration
    supply_v: float
    """Set (source mode) or given by the user: the meter measures no voltage."""
    is_source: bool
    is_filtered: bool = True
    defaulted: tuple[str, ...] = ()
    """Constants of the calibration that the unit did not give."""


class Ppk2Decoder(UniformDecoder):
    """Holds the framing, the filter and the timeline between packets."""

    def __init__(self, settings: Ppk2Settings) -> None:
        super().__init__(RATE_HZ)
        self.settings = settings
        self._framer = WordFramer()
        self._filter = SpikeFilter()
        self._table = calibration_table(settings.calibration, settings.supply_v)
        self._last_beyond = np.zeros(0, np.bool_)
        self._last_ranges = np.zeros(0, np.uint8)
        """The last samples, until it is known whether the unit switches its range behind them."""
        self._standing = Flag.UNCALIBRATED if settings.defaulted else Flag.NONE

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Samples that are complete now."""
        blocks = [self._block(run) for run in self._framer.feed(packet.data)]
        self.timeline.arrive(packet.last_rx_ns)
        return blocks

    def finish(self) -> list[SampleBlock]:
        """Samples that were held back for more bytes."""
        return [self._block(run) for run in self._framer.feed(b"", is_last=True)]

    def loss(self) -> LossReport:
        """Completeness of the recording so far; the counter shows a loss modulo 64 only."""
        desync_count, is_lossy = self._framer.desync_count, self.timeline.lost_count > 0
        return replace(
            super().loss(),
            desync_count=desync_count,
            is_ambiguous=is_lossy or desync_count > 0,
        )

    def _block(self, run: WordRun) -> SampleBlock:
        words, lost = run.words, run.lost
        if run.is_desync and lost[0]:
            self.timeline.lose(int(lost[0]), "framing lost")
            lost = np.concatenate([[0], lost[1:]])
        places = self.timeline.place(len(words), lost, "words lost")
        ranges = ranges_of(words)
        unfiltered_a = current_a = self._table[words & _ADC_AND_RANGE]
        flags = np.full(len(words), int(self._standing), np.uint8)
        if self.settings.is_filtered:
            current_a, touched = self._filter.apply(current_a, ranges)
            flags[touched] |= np.uint8(Flag.RANGE_SWITCH)
        spike_w = (unfiltered_a - current_a) * self.settings.supply_v
        is_damaged = ranges >= RANGES
        current_a[is_damaged] = np.nan  # also where the filter had an answer
        spike_w[is_damaged] = 0.0
        flags[is_damaged] |= np.uint8(Flag.MISSING)
        is_beyond = (words & _ADC) == SATURATED_ADC
        flags |= self.timeline.saturate(is_beyond)
        self._count_bounded(is_beyond, ranges)
        return SampleBlock(
            channel=0,
            index0=int(places[0]),
            time_ns=self.timeline.time_ns(places),
            power_w=current_a * self.settings.supply_v,
            current_a=current_a,
            digital=(words >> 24).astype(np.uint8),
            ranges=ranges,
            flags=flags,
            spike_w=spike_w if self.settings.is_filtered else None,
        )

    def _count_bounded(self, is_beyond: NDArray[np.bool_], ranges: NDArray[np.uint8]) -> None:
        """Count saturated samples behind which the unit switches to a higher range."""
        is_beyond = np.concatenate([self._last_beyond, is_beyond])
        ranges = np.concatenate([self._last_ranges, ranges])
        whole = max(0, len(ranges) - SWITCH_SAMPLES)
        for place in np.flatnonzero(is_beyond[:whole]):
            following = ranges[place + 1 : place + 1 + SWITCH_SAMPLES]
            is_higher = (following > ranges[place]) & (following < RANGES)
            self.timeline.bounded_count += bool(is_higher.any())
        self._last_beyond, self._last_ranges = is_beyond[whole:], ranges[whole:]


def make_decoder(header: Header) -> Ppk2Decoder:
    """Decoder for a recording of a PPK2."""
    return Ppk2Decoder(from_plain(header.facts, Ppk2Settings))
