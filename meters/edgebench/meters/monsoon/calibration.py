"""Calibration of a Monsoon HVPM, which turns raw values of its two converters into amperes.

Two converters measure the main current simultaneously. The fine converter measures up to some ten
milliamperes, and the coarse converter measures the whole range. Every 1.25 s, both converters
sample their zero and their reference once. The formula calibrates the values that follow. In the
formula, `zero` and `reference` are the means of the last five readings of the zero and of the
reference:

    current = (raw - zero - offset) · scale / (reference - zero - offset)

The formula yields mA for the coarse converter, and µA for the fine converter. Offset and scale are
stored in the unit. Values that come before the fifth reading are calibrated with the first five
readings.

Source: msoon/PyMonsoon 0.1.88, Monsoon/sampleEngine.py (formula, means), calibrationData.py (a
reading of 0 is invalid), HVPM.py (threshold).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Floats
from edgebench.meters.monsoon.packets import Observations, SampleKind
from edgebench.protocol.errors import MeasurementError

READINGS = 5
"""Number of readings of the zero, and of the reference, over which the means are taken."""
FINE_END = 64_000
"""Lowest raw value of the fine converter at which the coarse converter is used instead."""
COARSE_END = 65_535
"""Raw value at which the coarse converter saturates."""
READING_KINDS = (SampleKind.ZERO, SampleKind.REFERENCE)


@dataclass(frozen=True, slots=True)
class _Line:
    """Line through the calibration: the raw value at 0 A, and the amperes per step."""

    zero: float
    step_a: float


def _readings() -> dict[SampleKind, deque[int]]:
    return {kind: deque(maxlen=READINGS) for kind in READING_KINDS}


@dataclass(slots=True)
class Converter:
    """Calibration of a converter."""

    column: str
    """Name of the observation field that contains the converter's raw values."""
    scale_a: float
    offset: float
    _line: _Line | None = None
    _last: dict[SampleKind, deque[int]] = field(default_factory=_readings)

    def count(self, observations: Observations, kinds: NDArray[np.uint8]) -> int:
        """The number of zero readings or of reference readings, whichever is smaller."""
        return min(len(self._raw(observations, kinds, kind)) for kind in READING_KINDS)

    def begin(self, observations: Observations, kinds: NDArray[np.uint8]) -> None:
        """Calibrate with the first five readings in `observations`, or all if there are fewer.

        Raises:
            MeasurementError: the reference is not above zero.
        """
        zeros, references = (
            self._raw(observations, kinds, kind)[:READINGS] for kind in READING_KINDS
        )
        self._line = self._line_of(float(zeros.mean()), float(references.mean()))

    def current_a(self, observations: Observations, kinds: NDArray[np.uint8]) -> Floats:
        """Convert observations to currents, shape (n,); update the calibration with new readings.

        Raises:
            MeasurementError: the reference is not above zero.
        """
        raw = observations[self.column].astype(np.float64)
        current_a = np.empty(len(raw))
        readings = np.flatnonzero(np.isin(kinds, READING_KINDS))
        for first, end in pairwise([0, *(readings + 1), len(raw)]):
            assert self._line is not None, "set by `begin`"
            current_a[first:end] = (raw[first:end] - self._line.zero) * self._line.step_a
            if end > first and kinds[end - 1] in READING_KINDS:
                self._take(SampleKind(kinds[end - 1]), int(raw[end - 1]))
        return current_a

    def _take(self, kind: SampleKind, raw: int) -> None:
        if not raw:
            return
        self._last[kind].append(raw)
        zeros, references = (self._last[kind] for kind in READING_KINDS)
        if len(zeros) == len(references) == READINGS:
            self._line = self._line_of(sum(zeros) / READINGS, sum(references) / READINGS)

    def _raw(
        self, observations: Observations, kinds: NDArray[np.uint8], kind: SampleKind
    ) -> NDArray[np.uint16]:
        raw: NDArray[np.uint16] = observations[self.column]
        readings: NDArray[np.uint16] = raw[(kinds == kind) & (raw != 0)]
        return readings

    def _line_of(self, zero: float, reference: float) -> _Line:
        zero += self.offset
        if reference <= zero:
            raise MeasurementError(
                f"the calibration of the HVPM is invalid: {self.column} reads {reference:g} at its "
                f"reference, and {zero:g} at zero"
            )
        return _Line(zero, self.scale_a / (reference - zero))
