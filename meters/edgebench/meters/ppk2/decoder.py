"""Turns the bytes of a PPK2 into calibrated and filtered samples, and counts lost samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Flag, Header, LossReport, Packet, SampleBlock
from edgebench.meters.ppk2.metadata import RANGES, Calibration
from edgebench.meters.ppk2.spike_filter import SpikeFilter
from edgebench.meters.ppk2.words import (
    HIGHEST_A,
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
"""The unit switches to a higher range within this number of samples after a saturated sample.
Nordic's filter also replaces this number of samples after the first sample in a new range
(spike_filter.py)."""
_ADC_AND_RANGE = np.uint32((1 << 17) - 1)
_ADC = np.uint32((1 << 14) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ppk2Settings:
    """Settings that are stored as facts in a recording's header."""

    calibration: Calibration
    supply_v: float
    """Supply voltage, as configured in source mode or as given by the user: the meter does not
    measure voltage."""
    is_source: bool
    is_filtered: bool = True
    defaulted: tuple[str, ...] = ()
    """Names of calibration constants that the unit did not send, so that defaults are used."""


class Ppk2Decoder(UniformDecoder):
    """Decodes packets, and keeps the state of framing, filter and timeline between packets."""

    def __init__(self, settings: Ppk2Settings) -> None:
        super().__init__(RATE_HZ)
        self.settings = settings
        self._framer = WordFramer()
        self._filter = SpikeFilter()
        self._table = calibration_table(settings.calibration, settings.supply_v)
        self._last_beyond = np.zeros(0, np.bool_)
        self._last_ranges = np.zeros(0, np.uint8)
        """Ranges of the newest samples, kept until it is known whether a range switch follows
        them."""
        self._standing = Flag.UNCALIBRATED if settings.defaulted else Flag.NONE

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return the samples that this packet completes."""
        blocks = [self._block(run) for run in self._framer.feed(packet.data)]
        self.timeline.arrive(packet.last_rx_ns)
        return blocks

    def finish(self) -> list[SampleBlock]:
        """Return the samples that were held back until their framing was certain."""
        return [self._block(run) for run in self._framer.feed(b"", is_last=True)]

    def loss(self) -> LossReport:
        """Completeness of the recording so far; the counter counts lost words modulo 64."""
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
        current_a[is_damaged] = np.nan  # even where the filter has a value
        spike_w[is_damaged] = 0.0
        flags[is_damaged] |= np.uint8(Flag.MISSING)
        is_beyond = ((words & _ADC) == SATURATED_ADC) | ((unfiltered_a >= HIGHEST_A) & ~is_damaged)
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
        """Count saturated samples that are followed by a switch to a higher range."""
        is_beyond = np.concatenate([self._last_beyond, is_beyond])
        ranges = np.concatenate([self._last_ranges, ranges])
        whole = max(0, len(ranges) - SWITCH_SAMPLES)
        for place in np.flatnonzero(is_beyond[:whole]):
            following = ranges[place + 1 : place + 1 + SWITCH_SAMPLES]
            is_higher = (following > ranges[place]) & (following < RANGES)
            self.timeline.bounded_count += bool(is_higher.any())
        self._last_beyond, self._last_ranges = is_beyond[whole:], ranges[whole:]


def make_decoder(header: Header) -> Ppk2Decoder:
    """Create the decoder of a PPK2's recording."""
    return Ppk2Decoder(from_plain(header.facts, Ppk2Settings))
