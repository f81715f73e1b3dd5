"""A code of work and rest that the device played, found again in the power that the meter saw.

Theory of operation. The device works and rests by a maximum-length sequence, and notes when each
chip really began. Such a sequence resembles itself at no other shift, so the correlation of the
chips' mean powers with the code has one peak, seconds away from where any other clock says if need
be. Around it, every change from rest to work or back is a mark of its own: with power P_a before
and P_b after, and the energy E of half a chip (h) on either side of where the change should be, it
is later by

    d = (E - (P_a + P_b) · h) / (P_a - P_b)

which needs no shape of the change, and works at any rate of sampling: all of it is energy, which
is exact at any time. A line through these marks is the alignment; their spread is its error, and
by how much the rises are later than the falls is a bound on what the device's own delays do.

Source: Golomb, Shift Register Sequences (1967), for the autocorrelation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds
from edgebench.host.analysis.energy.sync.alignment import (
    Alignment,
    ClockLine,
    SyncMethod,
    fit_line,
    residuals_ns,
)
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import LoadCode

SEARCH_NS = 5e9
"""How far the meter's buffers may have made the first guess wrong …"""
SEARCH_CHIPS = 6
"""… and at least so many chips, so that there are other shifts to hold the best one against."""
MAX_GRID = 4_000_000
"""Moments: 32 MB. A code that asks for more was not played as it says."""
STEPS_PER_CHIP = 4
GRID_PER_CHIP = 40
"""Times at which the energy is looked up, for a chip; between them power is taken for constant."""
MIN_CORRELATION = {1: 0.85, 2: 0.7}
"""By codes that are seen together: below, it is not the code that is seen. The correlation of 31
chips with white noise has a deviation of 0.18, and 500 shifts of a chip are tried: once in a
million such searches for two codes, once in 2000 for one, noise is taken for the code."""
MIN_CORRELATION_EACH = 0.5
"""Of each code alone, at the shift that is best for both."""
RIVAL_RATIO = 0.8
"""Another peak as high as this times the best one makes the answer a guess."""
MIN_MARKS = 6
MIN_MARKS_RATIO = 0.5
"""Of the changes of a code that must be seen, and agree about where they are."""
WHOLE_RATIO = 0.8
"""Of a chip: one that was cut short, as the device stalled before it, has no marks."""
ONE_CODE_DRIFT = 50e-6
"""By which arrivals may mistake the rate, where a second code does not tell it."""
FLAT_RATIO = 0.2
"""A change of less than this times the typical one is no mark."""
OUTLIER_FACTOR = 5.0
"""Times the median deviation, in standard deviations of a normal spread."""
_MAD_TO_SIGMA = 1.4826
COVERAGE = 2.0

Cumulative = Callable[[Nanoseconds], Floats]
"""Energy up to these meter times, joules; NaN outside of the recording."""


@dataclass(frozen=True, slots=True)
class _Marks:
    device_ns: Nanoseconds
    meter_ns: Nanoseconds
    is_rise: NDArray[np.bool_]


def align_code(
    codes: Sequence[LoadCode],
    cumulative: Cumulative,
    guess: ClockLine,
    *,
    span_ns: tuple[int, int],
    drift: float = ONE_CODE_DRIFT,
    search_ns: float = SEARCH_NS,
) -> Alignment:
    """Find the codes in the power.

    Args:
        codes: As they were played.
        cumulative: Energy of the meter's trace.
        guess: From the device's clock to the meter's, by any other way.
        span_ns: First and last device time for which the error has to hold.
        drift: By which the guess may mistake the rate.
        search_ns: The codes may be this far from there.

    Raises:
        MeasurementError: none was played, or it is not seen clearly.
    """
    if not codes:
        raise MeasurementError("the device played no code of work and rest")
    chip_ns = float(np.median(np.diff(codes[0].edges_ns)))
    search_ns = max(search_ns, SEARCH_CHIPS * chip_ns)
    local = [_Local.of(code, cumulative, guess, search_ns) for code in codes]
    line = guess.shifted(_peak_ns(local, guess, search_ns))
    # The second look starts from the first's answer, and is the last that changes anything.
    line, _ = _refined(local, line, guess)
    line, marks = _refined(local, line, guess)
    found = _judged(marks, line, local)
    if len(codes) > 1:
        return found
    # One code alone tells no rate: that of the guess is believed from here to the far end.
    far_ns = max(abs(time_ns - line.reference_ns) for time_ns in span_ns)
    return replace(found, error_ns=found.error_ns + drift * far_ns)


@dataclass(frozen=True, slots=True, eq=False)
class _Local:
    """One code, and the energy around it."""

    edges_ns: Nanoseconds
    is_busy: NDArray[np.bool_]
    grid_ns: Nanoseconds
    grid_j: Floats

    @classmethod
    def of(
        cls, code: LoadCode, cumulative: Cumulative, guess: ClockLine, search_ns: float
    ) -> _Local:
        edges_ns = np.array(code.edges_ns, np.int64)
        is_busy = np.array(code.is_busy, np.bool_)
        chips_ns = np.diff(edges_ns)
        if len(edges_ns) != len(is_busy) + 1 or len(is_busy) < MIN_MARKS or chips_ns.min() <= 0:
            raise MeasurementError("the device's account of its code is damaged")
        first_ns, last_ns = (int(end) for end in guess.to_meter(edges_ns[[0, -1]]))
        step_ns = max(1, int(np.median(chips_ns)) // GRID_PER_CHIP)
        if (last_ns - first_ns + 2 * search_ns) / step_ns > MAX_GRID:
            raise MeasurementError("the device's code is too long for its chips")
        grid_ns = np.arange(first_ns - int(search_ns), last_ns + int(search_ns), step_ns)
        grid_j = cumulative(grid_ns)
        is_known = ~np.isnan(grid_j)
        if not is_known.any():
            raise MeasurementError("the meter recorded nothing near the code")
        return cls(edges_ns, is_busy, grid_ns[is_known], grid_j[is_known])

    @property
    def changes(self) -> NDArray[np.bool_]:
        """Of each edge between two chips, whether work or rest begins there, shape (n - 1,)."""
        found: NDArray[np.bool_] = self.is_busy[1:] != self.is_busy[:-1]
        return found

    @property
    def chip_ns(self) -> float:
        return float(np.median(np.diff(self.edges_ns)))

    def energy_j(self, meter_ns: NDArray[np.float64] | Nanoseconds) -> Floats:
        """Up to these times; the last one known beyond the recording."""
        found: Floats = np.interp(meter_ns, self.grid_ns, self.grid_j)
        return found

    def correlations(self, line: ClockLine, shifts_ns: Floats) -> Floats:
        """Of the chips' mean powers with the code, at each shift, shape (m,)."""
        edges = line.to_meter(self.edges_ns)[None, :] + shifts_ns[:, None]
        power_w = np.diff(self.energy_j(edges), axis=1) / np.diff(edges, axis=1)
        power_w -= power_w.mean(axis=1, keepdims=True)
        code = self.is_busy - self.is_busy.mean()
        scale = np.sqrt((power_w**2).sum(axis=1) * (code**2).sum())
        is_inside = (edges[:, 0] >= self.grid_ns[0]) & (edges[:, -1] <= self.grid_ns[-1])
        found = np.zeros(len(shifts_ns))
        np.divide(power_w @ code, scale, out=found, where=(scale > 0) & is_inside)
        return found


def _peak_ns(codes: Sequence[_Local], guess: ClockLine, search_ns: float) -> float:
    """The shift at which the codes are seen best.

    Raises:
        MeasurementError: they are not seen, or in two places.
    """
    chip_ns = codes[0].chip_ns
    steps = int(search_ns / chip_ns * STEPS_PER_CHIP)
    shifts_ns = np.arange(-steps, steps + 1) * (chip_ns / STEPS_PER_CHIP)
    each = np.array([code.correlations(guess, shifts_ns) for code in codes])
    found = each.mean(axis=0)
    best = int(np.argmax(found))
    limit = MIN_CORRELATION[min(len(codes), 2)]
    if found[best] < limit or each[:, best].min() < MIN_CORRELATION_EACH:
        raise MeasurementError(
            f"the code of work and rest is not seen in the power: correlation {found[best]:.2f}, "
            f"limit {limit:g}"
        )
    rival = found[np.abs(shifts_ns - shifts_ns[best]) > 2 * chip_ns].max(initial=0.0)
    if rival > RIVAL_RATIO * found[best]:
        raise MeasurementError(
            f"the code of work and rest is seen in two places: correlation {found[best]:.2f} and "
            f"{rival:.2f}"
        )
    return float(shifts_ns[best])


def _refined(
    codes: Sequence[_Local], line: ClockLine, guess: ClockLine
) -> tuple[ClockLine, _Marks]:
    """The line through the changes near a line; one code alone tells no rate."""
    marks = _without_outliers(_marks(codes, line), line)
    slope = None if len(codes) > 1 else guess.slope
    return fit_line(marks.device_ns, marks.meter_ns, slope=slope), marks


def _marks(codes: Sequence[_Local], line: ClockLine) -> _Marks:
    """Where each change between work and rest is by the meter."""
    found = [_changes(code, line) for code in codes]
    return _Marks(
        np.concatenate([one.device_ns for one in found]),
        np.concatenate([one.meter_ns for one in found]),
        np.concatenate([one.is_rise for one in found]),
    )


def _changes(code: _Local, line: ClockLine) -> _Marks:
    is_change = code.changes
    inner = code.edges_ns[1:-1][is_change]
    is_rise = code.is_busy[1:][is_change]
    middle = line.to_meter(inner).astype(np.float64)
    half = code.chip_ns / 2
    # Power beside a change, from its own chips' far halves: near it, the change itself may lie.
    before_w = _mean_w(code, middle - half, middle - half / 2)
    after_w = _mean_w(code, middle + half / 2, middle + half)
    energy_nj = 1e9 * (code.energy_j(middle + half) - code.energy_j(middle - half))
    step_w = before_w - after_w
    chips_ns = np.diff(code.edges_ns)
    whole_ns = WHOLE_RATIO * code.chip_ns
    is_mark = (chips_ns[:-1][is_change] > whole_ns) & (chips_ns[1:][is_change] > whole_ns)
    is_mark &= (step_w < 0) == is_rise
    is_mark &= np.abs(step_w) > FLAT_RATIO * np.median(np.abs(step_w))
    late_ns = np.zeros(len(middle))
    np.divide(energy_nj - (before_w + after_w) * half, step_w, out=late_ns, where=is_mark)
    is_mark &= np.abs(late_ns) < half
    meter_ns = np.rint(middle + late_ns).astype(np.int64)
    return _Marks(inner[is_mark], meter_ns[is_mark], is_rise[is_mark])


def _mean_w(code: _Local, begin_ns: Floats, end_ns: Floats) -> Floats:
    return (code.energy_j(end_ns) - code.energy_j(begin_ns)) / (end_ns - begin_ns) * 1e9


def _without_outliers(marks: _Marks, line: ClockLine) -> _Marks:
    """The marks that agree about the offset; something else on the device may have worked, too."""
    if len(marks.device_ns) < MIN_MARKS:
        raise MeasurementError(
            f"{len(marks.device_ns)} changes of the load are seen, {MIN_MARKS} needed"
        )
    off_ns = residuals_ns(line, marks.device_ns, marks.meter_ns)
    off_ns -= np.median(off_ns)
    limit_ns = OUTLIER_FACTOR * _MAD_TO_SIGMA * float(np.median(np.abs(off_ns)))
    keep = np.abs(off_ns) <= max(limit_ns, 1.0)
    return _Marks(marks.device_ns[keep], marks.meter_ns[keep], marks.is_rise[keep])


def _judged(marks: _Marks, line: ClockLine, codes: Sequence[_Local]) -> Alignment:
    count = len(marks.device_ns)
    expected = sum(int(code.changes.sum()) for code in codes)
    if count < max(MIN_MARKS, MIN_MARKS_RATIO * expected):
        raise MeasurementError(f"{count} of {expected} changes of the load are seen")
    off_ns = residuals_ns(line, marks.device_ns, marks.meter_ns)
    spread_ns = float(off_ns.std(ddof=2))
    error_ns = _error_ns(off_ns, spread_ns, marks.is_rise) + _grid_ns(codes) / np.sqrt(count)
    if error_ns > codes[0].chip_ns / 2:
        raise MeasurementError(
            f"the code of work and rest is seen too dimly: error {error_ns / 1e6:.3g} ms, "
            f"limit {codes[0].chip_ns / 2e6:.3g} ms"
        )
    return Alignment(SyncMethod.CODED_LOAD, line, float(error_ns), spread_ns, count)


def _error_ns(off_ns: Floats, spread_ns: float, is_rise: NDArray[np.bool_]) -> float:
    """Of the line at the ends of its span, where half of the marks are at each; k = 2.

    By how much rises are later than falls is what the device's own delays do to both.
    """
    rises, falls = off_ns[is_rise], off_ns[~is_rise]
    lopsided_ns = abs(float(rises.mean() - falls.mean())) / 2 if len(rises) and len(falls) else 0.0
    return COVERAGE * spread_ns * float(np.sqrt(2 / len(off_ns))) + lopsided_ns


def _grid_ns(codes: Sequence[_Local]) -> float:
    return codes[0].chip_ns / GRID_PER_CHIP
