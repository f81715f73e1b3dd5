"""The load code that the device played, located in the recorded power.

Theory of operation. The device alternates between active and idle according to a maximum-length
sequence, and records when each chip (element of the sequence) began. Such a sequence does not
correlate with a shifted copy of itself. So the correlation of the chips' mean powers with the code
has one peak. This peak may be seconds away from the position that another clock predicts.

Around the peak, every change between active and idle is a separate mark. Let P_a be the power
before the expected change, and P_b the power after it. Let E be the energy from half a chip (h)
before the expected change to half a chip after it. Then the change is late by

    d = (E - (P_a + P_b) · h) / (P_a - P_b)

The delay d is computed only from energy, and the energy is exact at any time. So the delay is
independent of the shape of the change and of the sample rate. A line through the marks is the
alignment. The spread of the marks is the error of the alignment. The time by which rises are later
than falls bounds the device's own delays.

Source: Golomb, Shift Register Sequences (1967), for the autocorrelation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds
from edgebench.host.analysis.energy.refusal import EnergyRefused
from edgebench.host.analysis.energy.sync.alignment import (
    Alignment,
    ClockLine,
    fit_line,
    residuals_ns,
)
from edgebench.host.analysis.energy.values import MAD_TO_SIGMA
from edgebench.host.result.energy import SyncMethod
from edgebench.host.result.reasons import alignment as reasons
from edgebench.protocol.record import LoadCode

SEARCH_NS = 5e9
"""Maximum error of the first guess, caused by the meter's buffers. The search extends this far."""
SEARCH_CHIPS = 6
"""Minimum distance to search, in chips, so that the best shift can be compared with others."""
MAX_GRID = 4_000_000
"""Maximum number of grid points (32 MB); only a code with an invalid record needs more."""
STEPS_PER_CHIP = 4
GRID_PER_CHIP = 40
"""Grid points per chip at which the energy is read; power counts as constant between two points."""
MIN_CORRELATION = {1: 0.85, 2: 0.7}
"""Maps the number of codes of a run (1 or 2) to their minimum correlation. The correlation of 31
chips with white noise has a standard deviation of 0.18, and the shifts that are tried span
500 chips. Noise is then taken for the code in one of a million searches for two codes, and in one
of 2000 searches for a single code."""
MIN_CORRELATION_EACH = 0.5
"""Minimum correlation of each code alone, at the shift that is best for both."""
RIVAL_PEAK_RATIO = 0.8
"""If a second peak is higher than this share of the best peak, the result is ambiguous."""
MIN_MARKS = 6
MIN_MARKS_RATIO = 0.5
"""Minimum share of the changes of a code that must be found at consistent times."""
WHOLE_RATIO = 0.8
"""Minimum length of a chip that gives marks, relative to the typical chip. A stall of the device
may shorten a chip."""
ONE_CODE_DRIFT = 50e-6
"""Error of the rate from arrivals, if no second code gives the rate."""
FLAT_RATIO = 0.2
"""A change of power that is smaller than this share of the typical change is not a mark."""
OUTLIER_FACTOR = 5.0
"""A mark is an outlier if its distance from the median exceeds this number of standard deviations.
The standard deviation is estimated from the median absolute deviation."""
CODE_COVERAGE = 2.0

Cumulative = Callable[[Nanoseconds], Floats]
"""Energy up to these meter times, joules; NaN outside the recording."""


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
        codes: Codes as they were played.
        cumulative: Energy of the meter's trace.
        guess: Line from the device's clock to the meter's, from any other method.
        span_ns: First and last device time for which the error must hold.
        drift: Relative error of the rate of the guess.
        search_ns: Maximum distance of the codes from the position given by the guess.

    Raises:
        MeasurementError: no code was played, or it is not found clearly.
    """
    if not codes:
        raise EnergyRefused(reasons.no_code_played())
    chip_ns = float(np.median(np.diff(codes[0].edges_ns)))
    search_ns = max(search_ns, SEARCH_CHIPS * chip_ns)
    traces = [CodeTrace.of(code, cumulative, guess, search_ns) for code in codes]
    line = guess.shifted(_peak_ns(traces, guess, search_ns))
    # The second pass starts from the result of the first; a third would change nothing.
    line, _ = _refined(traces, line, guess)
    line, marks = _refined(traces, line, guess)
    alignment = _judged(marks, line, traces)
    if len(codes) > 1:
        return alignment
    # A single code gives no rate: from the code to the far end, the rate of the guess is used.
    far_ns = max(abs(time_ns - line.reference_ns) for time_ns in span_ns)
    return replace(alignment, error_ns=alignment.error_ns + drift * far_ns, rate_error=drift)


@dataclass(frozen=True, slots=True, eq=False)
class CodeTrace:
    """A code, and the energy in the time around the code."""

    edges_ns: Nanoseconds
    is_busy: NDArray[np.bool_]
    grid_ns: Nanoseconds
    """Meter times at which the energy is known, evenly spaced."""
    grid_j: Floats

    @classmethod
    def of(
        cls, code: LoadCode, cumulative: Cumulative, guess: ClockLine, search_ns: float
    ) -> CodeTrace:
        """The code, and the energy up to `search_ns` before and after it.

        Raises:
            MeasurementError: the code is invalid, or nothing was recorded there.
        """
        edges_ns = np.array(code.edges_ns, np.int64)
        is_busy = np.array(code.is_busy, np.bool_)
        chips_ns = np.diff(edges_ns)
        if len(edges_ns) != len(is_busy) + 1 or len(is_busy) < MIN_MARKS or chips_ns.min() <= 0:
            raise EnergyRefused(reasons.code_damaged())
        first_ns, last_ns = (int(end) for end in guess.to_meter(edges_ns[[0, -1]]))
        step_ns = max(1, int(np.median(chips_ns)) // GRID_PER_CHIP)
        if (last_ns - first_ns + 2 * search_ns) / step_ns > MAX_GRID:
            raise EnergyRefused(reasons.code_too_long())
        grid_ns = np.arange(first_ns - int(search_ns), last_ns + int(search_ns), step_ns)
        grid_j = cumulative(grid_ns)
        is_known = ~np.isnan(grid_j)
        if not is_known.any():
            raise EnergyRefused(reasons.nothing_near_code())
        return cls(edges_ns, is_busy, grid_ns[is_known], grid_j[is_known])

    @property
    def changes(self) -> NDArray[np.bool_]:
        """For each boundary of two successive chips: whether the load changes, shape (n - 1,)."""
        changes: NDArray[np.bool_] = self.is_busy[1:] != self.is_busy[:-1]
        return changes

    @property
    def chip_ns(self) -> float:
        """Median duration of a chip."""
        return float(np.median(np.diff(self.edges_ns)))

    def energy_j(self, meter_ns: NDArray[np.float64] | Nanoseconds) -> Floats:
        """Energy up to these times; beyond the recording, the energy at its end."""
        energy_j: Floats = np.interp(meter_ns, self.grid_ns, self.grid_j)
        return energy_j

    def mean_w(self, begin_ns: Floats, end_ns: Floats) -> Floats:
        """Mean power between these times."""
        return (self.energy_j(end_ns) - self.energy_j(begin_ns)) / (end_ns - begin_ns) * 1e9

    def correlations(self, line: ClockLine, shifts_ns: Floats) -> Floats:
        """Correlation of the chips' mean powers with the code at each shift, shape (m,)."""
        edges = line.to_meter(self.edges_ns)[None, :] + shifts_ns[:, None]
        power_w = np.diff(self.energy_j(edges), axis=1) / np.diff(edges, axis=1)
        power_w -= power_w.mean(axis=1, keepdims=True)
        code = self.is_busy - self.is_busy.mean()
        scale = np.sqrt((power_w**2).sum(axis=1) * (code**2).sum())
        is_inside = (edges[:, 0] >= self.grid_ns[0]) & (edges[:, -1] <= self.grid_ns[-1])
        correlations = np.zeros(len(shifts_ns))
        np.divide(power_w @ code, scale, out=correlations, where=(scale > 0) & is_inside)
        return correlations


def _peak_ns(codes: Sequence[CodeTrace], guess: ClockLine, search_ns: float) -> float:
    """Shift at which the codes correlate best.

    Raises:
        MeasurementError: the codes are not found, or fit in two places.
    """
    chip_ns = codes[0].chip_ns
    steps = int(search_ns / chip_ns * STEPS_PER_CHIP)
    shifts_ns = np.arange(-steps, steps + 1) * (chip_ns / STEPS_PER_CHIP)
    each = np.array([code.correlations(guess, shifts_ns) for code in codes])
    mean = each.mean(axis=0)
    best = int(np.argmax(mean))
    limit = MIN_CORRELATION[min(len(codes), 2)]
    if mean[best] < limit or each[:, best].min() < MIN_CORRELATION_EACH:
        raise EnergyRefused(reasons.code_not_seen(correlation=float(mean[best]), limit=limit))
    rival = mean[np.abs(shifts_ns - shifts_ns[best]) > 2 * chip_ns].max(initial=0.0)
    if rival > RIVAL_PEAK_RATIO * mean[best]:
        raise EnergyRefused(
            reasons.code_in_two_places(correlation=float(mean[best]), rival=float(rival))
        )
    return float(shifts_ns[best])


def _refined(
    codes: Sequence[CodeTrace], line: ClockLine, guess: ClockLine
) -> tuple[ClockLine, _Marks]:
    """Line through the changes near `line`, and their marks; one code alone gives no rate."""
    each = [_marks_of(code, line) for code in codes]
    marks = _Marks(
        np.concatenate([edges.device_ns for edges in each]),
        np.concatenate([edges.meter_ns for edges in each]),
        np.concatenate([edges.is_rise for edges in each]),
    )
    if len(marks.device_ns) < MIN_MARKS:
        raise EnergyRefused(
            reasons.few_code_changes(seen_count=len(marks.device_ns), needed_count=MIN_MARKS)
        )
    # Keep only marks with a consistent offset: other processes on the device may be active.
    off_ns = residuals_ns(line, marks.device_ns, marks.meter_ns)
    off_ns -= np.median(off_ns)
    limit_ns = OUTLIER_FACTOR * MAD_TO_SIGMA * float(np.median(np.abs(off_ns)))
    keep = np.abs(off_ns) <= max(limit_ns, 1.0)
    marks = _Marks(marks.device_ns[keep], marks.meter_ns[keep], marks.is_rise[keep])
    slope = None if len(codes) > 1 else guess.slope
    return fit_line(marks.device_ns, marks.meter_ns, slope=slope), marks


def _marks_of(code: CodeTrace, line: ClockLine) -> _Marks:
    """Each change between active and idle, in device time and meter time."""
    is_change = code.changes
    inner = code.edges_ns[1:-1][is_change]
    is_rise = code.is_busy[1:][is_change]
    middle = line.to_meter(inner).astype(np.float64)
    half = code.chip_ns / 2
    # The power before and after a change is that of the far halves of its two chips, because the
    # change itself may lie in a near half.
    before_w = code.mean_w(middle - half, middle - half / 2)
    after_w = code.mean_w(middle + half / 2, middle + half)
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


def _judged(marks: _Marks, line: ClockLine, codes: Sequence[CodeTrace]) -> Alignment:
    """The line as an alignment, with its error (k = 2) at the ends of the span of the marks.

    Raises:
        MeasurementError: too few changes are found, or they are too faint.
    """
    count = len(marks.device_ns)
    expected = sum(int(code.changes.sum()) for code in codes)
    if count < max(MIN_MARKS, MIN_MARKS_RATIO * expected):
        raise EnergyRefused(reasons.code_changes_lost(seen_count=count, expected_count=expected))
    off_ns = residuals_ns(line, marks.device_ns, marks.meter_ns)
    spread_ns = float(off_ns.std(ddof=2))
    # The time by which rises are later than falls comes from the device's own delays.
    rises, falls = off_ns[marks.is_rise], off_ns[~marks.is_rise]
    lopsided_ns = abs(float(rises.mean() - falls.mean())) / 2 if len(rises) and len(falls) else 0.0
    # Half of the marks are at each end of the span.
    line_ns = CODE_COVERAGE * spread_ns * float(np.sqrt(2 / count)) + lopsided_ns
    chip_ns = codes[0].chip_ns
    error_ns = line_ns + chip_ns / GRID_PER_CHIP / np.sqrt(count)
    if error_ns > chip_ns / 2:
        raise EnergyRefused(reasons.faint_code(error_ns=float(error_ns), limit_ns=chip_ns / 2))
    return Alignment(SyncMethod.CODED_LOAD, line, float(error_ns), spread_ns, count)
