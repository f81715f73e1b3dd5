"""Calibration of a Monsoon HVPM: from raw values of its two converters to amperes.

Both converters measure the main current simultaneously: fine, up to some ten milliamperes, and
coarse, over the whole range. Every 1.25 s both sample their zero and their reference once; the
means of the last five readings of each calibrate the values that follow:

    current = (raw - zero - offset) · scale / (reference - zero - offset)

in mA, for the fine converter in µA; offset and scale are stored in the unit. Values before the
fifth readings are calibrated by the first five.

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
"""Number of readings of zero and of reference that are averaged."""
FINE_END = 64_000
"""Raw value at and above which the fine converter is not used."""
COARSE_END = 65_535
"""Raw value at which the coarse converter saturates."""
READING_KINDS = (SampleKind.ZERO, SampleKind.REFERENCE)


@dataclass(frozen=True, slots=True)
class _Line:
    """Raw value at 0 A, and amperes per step."""

    zero: float
    step_a: float


def _readings() -> dict[SampleKind, deque[int]]:
    return {kind: deque(maxlen=READINGS) for kind in READING_KINDS}


@dataclass(slots=True)
class Converter:
    """Calibration of a converter."""

    column: str
    """Field of its raw values in an observation."""
    scale_a: float
    offset: float
    _line: _Line | None = None
    _last: dict[SampleKind, deque[int]] = field(default_factory=_readings)

    def count(self, observations: Observations, kinds: NDArray[np.uint8]) -> int:
        """Number of zero or of reference readings among these, whichever is smaller."""
        return min(len(self._raw(observations, kinds, kind)) for kind in READING_KINDS)

    def begin(self, observations: Observations, kinds: NDArray[np.uint8]) -> None:
        """Calibrate with the first five readings among these, or fewer if there are no more.

        Raises:
            MeasurementError: the reference is not above zero.
        """
        zeros, references = (
            self._raw(observations, kinds, kind)[:READINGS] for kind in READING_KINDS
        )
        self._line = self._line_of(float(zeros.mean()), float(references.mean()))

    def current_a(self, observations: Observations, kinds: NDArray[np.uint8]) -> Floats:
        """Current of each observation, shape (n,); includes new readings in the calibration.

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
