"""Turns packets of a Monsoon HVPM into calibrated samples, and counts lost samples.

Observations are held back until the unit is calibrated, which takes some seconds. An observation
that is used for calibration contains no measurement, so an interpolated value with a flag takes its
place on the timeline. More than `INTERPOLATED_MAX` successive observations without a measurement
count as lost.

Source: msoon/PyMonsoon 0.1.88, Monsoon/HVPM.py and sampleEngine.py (voltage).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Flag, Floats, Header, Packet, SampleBlock
from edgebench.meters.monsoon.calibration import COARSE_END, FINE_END, READINGS, Converter
from edgebench.meters.monsoon.packets import (
    RECORD_BYTES,
    Observations,
    PacketReader,
    SampleKind,
    kinds_of,
)
from edgebench.meters.timeline import UniformDecoder
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.plain import from_plain

VOLT = 62.5e-6 * 4
"""Volts per step of the raw main voltage."""
VOLTAGE_END = 65_535
FINE, COARSE = 0, 1
"""Measuring range of a sample from the fine converter, and of a sample from the coarse one."""
INTERPOLATED_MAX = 10
"""Up to this number of successive observations without a measurement are interpolated. This number
of observations takes 2 ms, which is assumed to be longer than a calibration."""
HELD_MAX_S = 30.0
"""A recording fails if the unit is not calibrated within this time. Five calibration readings take
about a fifth of this time."""
_LOST = "dropped by the meter"


@dataclass(frozen=True, slots=True, kw_only=True)
class MonsoonSettings:
    """Calibration constants of a unit, stored as facts in a recording's header."""

    fine_scale_a: float
    coarse_scale_a: float
    """Full scales of the two converters."""
    fine_offset: float
    coarse_offset: float
    """Zero offsets of the two converters, in steps."""


class MonsoonDecoder(UniformDecoder):
    """Decodes packets; holds observations back for the calibration and for the next measurement."""

    def __init__(self, header: Header) -> None:
        super().__init__(header.capability.rate_hz)
        settings = from_plain(header.facts, MonsoonSettings)
        self._is_averaging = header.capability.is_averaging
        self._reader = PacketReader()
        self._fine = Converter("main_fine", settings.fine_scale_a, settings.fine_offset)
        self._coarse = Converter("main_coarse", settings.coarse_scale_a, settings.coarse_offset)
        self._is_calibrated = False
        self._rest = b""
        self._waiting: list[tuple[Observations, NDArray[np.int64]]] = []
        """Waiting observations, and the number of missing observations before each of them."""
        self._waiting_count = 0
        """Number of samples on the timeline that result from the waiting observations and the lost
        observations between them."""
        self._lost = 0
        """Number of missing observations after the last observation that arrived."""
        self._last: tuple[int, float, float] | None = None
        """The last sample: its number on the timeline, its current and its voltage."""

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return the samples that are complete; none until the unit is calibrated.

        Raises:
            MeasurementError: the unit was not calibrated within 30 s.
        """
        data = self._rest + packet.data
        whole = len(data) // RECORD_BYTES * RECORD_BYTES
        self._rest = data[whole:]
        run = self._reader.read(data[:whole])
        for _ in range(run.damaged_count):
            self.timeline.desync()
        if run.lost.any():  # packets, whose number of observations is unknown
            self.timeline.is_ambiguous = True
        run.lost[0] += self._lost
        self._lost = int(run.lost[-1])
        if len(run.observations):
            self._wait(run.observations, run.lost[:-1])
        self.timeline.arrive(packet.last_rx_ns, self._waiting_count + self._lost)
        if self._calibrate(READINGS):
            return self._blocks()
        if self._waiting_count > HELD_MAX_S * self.timeline.rate_hz:
            raise MeasurementError(f"the HVPM was not calibrated within {HELD_MAX_S:g} s")
        return []

    def finish(self) -> list[SampleBlock]:
        """Return the samples that were held back; calibrate with fewer readings if necessary.

        Raises:
            MeasurementError: the recording is too short to contain a calibration.
        """
        blocks: list[SampleBlock] = []
        if self._waiting:
            if not self._calibrate(1):
                raise MeasurementError("the HVPM was not calibrated yet: record for longer")
            blocks = self._blocks()
            self._waiting.clear()  # readings at the end, without a measurement after them
        if self._lost:
            self.timeline.lose(self._lost, _LOST)
            self._lost = 0
        return blocks

    def _wait(self, observations: Observations, lost: NDArray[np.int64]) -> None:
        self._waiting.append((observations, lost))
        self._waiting_count += len(lost) + int(lost.sum())

    def _calibrate(self, reading_count: int) -> bool:
        """Calibrate if enough readings have arrived; return whether the meter is calibrated."""
        if not self._is_calibrated and self._waiting:
            observations = np.concatenate([packets for packets, _ in self._waiting])
            kinds = kinds_of(observations)
            converters = self._fine, self._coarse
            if all(
                converter.count(observations, kinds) >= reading_count for converter in converters
            ):
                for converter in converters:
                    converter.begin(observations, kinds)
                self._is_calibrated = True
        return self._is_calibrated

    def _blocks(self) -> list[SampleBlock]:
        """Return samples up to the last measurement; later observations stay held back."""
        if not self._waiting:
            return []
        observations = np.concatenate([packets for packets, _ in self._waiting])
        lost = np.concatenate([lost_flags for _, lost_flags in self._waiting])
        measured = np.flatnonzero(kinds_of(observations) == SampleKind.MEASUREMENT)
        end = int(measured[-1]) + 1 if len(measured) else 0
        self._waiting.clear()
        self._waiting_count = 0
        tail, tail_lost = observations[end:], lost[end:]
        if len(tail) > INTERPOLATED_MAX:  # a pause, whatever its final length
            self._currents(tail)
            self._lost += len(tail) + int(tail_lost.sum())
        elif len(tail):
            self._wait(tail, tail_lost)
        if not end:
            return []
        return [self._block(observations[:end], lost[:end])]

    def _currents(self, observations: Observations) -> tuple[Floats, NDArray[np.bool_]]:
        """Currents, and a mask of values from the coarse converter; updates the calibration."""
        kinds = kinds_of(observations)
        fine_a = self._fine.current_a(observations, kinds)
        coarse_a = self._coarse.current_a(observations, kinds)
        is_coarse = observations["main_fine"] >= FINE_END
        return np.where(is_coarse, coarse_a, fine_a), is_coarse

    def _block(self, observations: Observations, lost: NDArray[np.int64]) -> SampleBlock:
        """Make a block from observations. The last of the observations is a measurement."""
        current_a, is_coarse = self._currents(observations)
        is_measured = kinds_of(observations) == SampleKind.MEASUREMENT
        is_kept = is_measured | _is_in_short_run(~is_measured)
        if self._last is None:  # skip everything before the first measurement
            first = int(np.argmax(is_measured))
            self.timeline.next_index += first + int(lost[: first + 1].sum())
            observations, lost = observations[first:], lost[first:]
            lost[0] = 0
            current_a, is_coarse = current_a[first:], is_coarse[first:]
            is_measured, is_kept = is_measured[first:], is_kept[first:]
        missing = np.diff(np.cumsum(lost + ~is_kept)[is_kept], prepend=0)
        places = self.timeline.place(len(missing), missing, _LOST)
        is_beyond = is_coarse & (observations["main_coarse"] >= COARSE_END)
        is_beyond = (is_beyond | (observations["main_voltage"] >= VOLTAGE_END)) & is_measured
        is_value = is_measured[is_kept]
        current_a = self._filled(places, current_a[is_kept], is_value, 1)
        voltage_v = self._filled(places, observations["main_voltage"][is_kept] * VOLT, is_value, 2)
        self._last = int(places[-1]), float(current_a[-1]), float(voltage_v[-1])
        flags = self.timeline.saturate(is_beyond[is_kept])
        flags[~is_value] |= np.uint8(Flag.INTERPOLATED)
        begin_ns, end_ns = self.timeline.time_ns(places), self.timeline.time_ns(places + 1)
        return SampleBlock(
            channel=0,
            index0=int(places[0]),
            begin_ns=begin_ns if self._is_averaging else None,
            time_ns=end_ns if self._is_averaging else begin_ns,
            power_w=current_a * voltage_v,
            current_a=current_a,
            voltage_v=voltage_v,
            ranges=np.where(is_coarse[is_kept], COARSE, FINE).astype(np.uint8),
            flags=flags,
        )

    def _filled(
        self, places: NDArray[np.int64], values: Floats, is_value: NDArray[np.bool_], column: int
    ) -> Floats:
        """Interpolate missing values between measurements; returns shape (n,)."""
        known, known_places = values[is_value], places[is_value]
        if self._last is not None:
            known = np.concatenate([[self._last[column]], known])
            known_places = np.concatenate([[self._last[0]], known_places])
        return np.interp(places, known_places, known)


def _is_in_short_run(is_without: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the observations that have no measurement and are to be interpolated."""
    edges = np.flatnonzero(np.diff(is_without, prepend=False, append=False))
    is_short = is_without.copy()
    for begin, end in edges.reshape(-1, 2):
        if end - begin > INTERPOLATED_MAX:
            is_short[begin:end] = False
    return is_short
