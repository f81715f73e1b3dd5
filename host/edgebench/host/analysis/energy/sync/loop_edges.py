"""The start and end of the loop, located in the recorded power.

Theory of operation. The device is idle right before the warm-up and right after the timed loop, and
active in between. So the power rises and falls with the loop, at a known distance. The position of
the rise and the fall is searched like that of a load code. Then each of the two is a mark, located
by the energy around it (load_code.py). Other changes of the power are unknown beforehand. So the
error of a mark is estimated from times without a change of the load: in the middle of the loop, and
while the device is idle. The computation is that of a mark. Without a disturbance, both marks are
late by the same time. Half of the difference between their delays is part of the error.

This method needs a weaker signal than a load code, but gives only two marks and no rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds
from edgebench.host.analysis.energy.refusal import EnergyRefused
from edgebench.host.analysis.energy.sync.alignment import Alignment, ClockLine
from edgebench.host.analysis.energy.sync.load_code import (
    MIN_CORRELATION,
    SEARCH_NS,
    CodeTrace,
    Cumulative,
)
from edgebench.host.result.energy import SyncMethod
from edgebench.host.result.reasons import alignment as reasons
from edgebench.protocol.record import LoadCode

MAX_SEARCHED = 20_000_000
"""Maximum number of combinations of a shift and a piece of time, each of some 60 bytes."""
HALF_OF_LOOP = 8
"""Divisor of the loop's duration. The power on each side of a mark is evaluated over the quotient,
or over the idle time if that is shorter. So enough positions remain in the loop to estimate the
fluctuation."""
MIN_HALF_SAMPLES = 4
"""Minimum number of samples on each side of a mark. A meter that takes fewer samples is too slow to
resolve a change."""
NEAR_CHIPS = 3
"""Number of pieces at each end of the loop that count separately in the search. Each of these
pieces is as long as the idle piece outside the loop. The middle of the loop counts as a single
piece, regardless of its length."""
RIVAL_FACTOR, RIVAL_LEFT = 4.0, 0.1
"""Every position but the best must leave at least this share of the variance unexplained:
`RIVAL_FACTOR` times the share at the best position, and at least `RIVAL_LEFT`. Otherwise the result
is ambiguous, because other activity may be as long as the loop."""
EDGE_COVERAGE = 3.0
"""Coverage factor k of the fluctuation, which is estimated from few positions in a short loop."""
EARLY_NS = 5e6
"""Maximum negative shift. No sample arrives early, but the first guess may be wrong by this
much."""


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """Times of the device around the warm-up and the timed loop, device clock."""

    rise_ns: tuple[int, int]
    """First and last time at which the activity may have begun."""
    fall_ns: tuple[int, int]
    """First and last time at which the activity may have ended."""
    quiet_ns: int
    """Duration for which the device is idle after the loop."""
    idle_ns: tuple[tuple[int, int], ...]
    """Windows in which the device is idle."""
    code_ns: tuple[tuple[int, int], ...]
    """Windows of the load codes, which the meter may record too faintly to find."""

    @property
    def marks_ns(self) -> Nanoseconds:
        """Middle of the interval of the rise, and of the interval of the fall, shape (2,)."""
        return np.array([sum(self.rise_ns) // 2, sum(self.fall_ns) // 2])

    @property
    def open_ns(self) -> float:
        """Error of the marks: half the longer of the intervals `rise_ns` and `fall_ns`."""
        return max(end - begin for begin, end in (self.rise_ns, self.fall_ns)) / 2


def align_loop(
    loop: LoopTimes,
    cumulative: Cumulative,
    guess: ClockLine,
    *,
    span_ns: tuple[int, int],
    drift: float,
    sample_ns: float,
) -> Alignment:
    """Find the loop in the power.

    Args:
        loop: Times of the device.
        cumulative: Energy of the meter's trace.
        guess: Line from the device's clock to the meter's, from the arrival of the samples.
        span_ns: First and last device time for which the error must hold.
        drift: Relative error of the rate of the guess.
        sample_ns: Time that a sample of the meter represents.

    Raises:
        MeasurementError: the loop is not found, or not clearly.
    """
    rise_ns, fall_ns = (int(mark) for mark in loop.marks_ns)
    half_ns = min(loop.quiet_ns, (fall_ns - rise_ns) // HALF_OF_LOOP)
    if half_ns < MIN_HALF_SAMPLES * sample_ns:
        raise EnergyRefused(reasons.slow_meter())
    # Covers the whole run, from the earliest possible first sample to the latest last sample.
    trace = CodeTrace.of(_as_code(loop, half_ns), cumulative, guess, _search_ns(loop))
    line = guess.shifted(_peak_ns(trace, loop, guess, half_ns))
    edges = _Edges(trace, half_ns)
    # The second pass starts from the result of the first; a third would change nothing.
    for _ in range(2):
        late_ns, step_w = edges.at(line.to_meter(loop.marks_ns))
        line = line.shifted(float(late_ns.mean()))
    late_ns, step_w = edges.at(line.to_meter(loop.marks_ns))
    if not step_w[0] < 0 < step_w[1]:
        raise EnergyRefused(reasons.loop_has_no_edges())
    noise_ns = edges.noise_j(loop, line) / float(np.abs(step_w).min()) * 1e9
    apart_ns = float(abs(late_ns[1] - late_ns[0]))
    if max(EDGE_COVERAGE * noise_ns, apart_ns) > half_ns / 2:
        raise EnergyRefused(
            reasons.faint_loop(
                apart_ns=apart_ns, fluctuation_ns=EDGE_COVERAGE * noise_ns, limit_ns=half_ns / 2
            )
        )
    middle_ns = (rise_ns + fall_ns) // 2
    far_ns = max(abs(time_ns - middle_ns) for time_ns in span_ns)
    error_ns = apart_ns / 2 + EDGE_COVERAGE * noise_ns + loop.open_ns + drift * far_ns
    return Alignment(SyncMethod.LOOP, line, error_ns, apart_ns / 2, len(late_ns), drift)


def _search_ns(loop: LoopTimes) -> float:
    """Distance to search; it must include the idle windows around the loop."""
    marks_ns = loop.marks_ns
    reach_ns = (max(marks_ns[0] - begin, end - marks_ns[1]) for begin, end in loop.idle_ns)
    return SEARCH_NS + max((float(distance_ns) for distance_ns in reach_ns), default=0.0)


def _as_code(loop: LoopTimes, half_ns: int) -> LoadCode:
    """The loop in the form of a load code that is idle, active and idle again."""
    rise_ns, fall_ns = (int(mark) for mark in loop.marks_ns)
    near_ns = half_ns * np.arange(-1, NEAR_CHIPS + 1)
    edges_ns = np.concatenate([rise_ns + near_ns, (fall_ns - near_ns)[::-1]])
    is_busy = [False, *(True for _ in range(2 * NEAR_CHIPS + 1)), False]
    return LoadCode(tuple(edges_ns.tolist()), tuple(is_busy))


def _peak_ns(trace: CodeTrace, loop: LoopTimes, guess: ClockLine, half_ns: int) -> float:
    """Shift at which the active loop and the idle windows fit best.

    Raises:
        MeasurementError: the loop is not found, or fits in two places.
    """
    shifts_ns = np.arange(-EARLY_NS - half_ns, SEARCH_NS, half_ns / 4)
    pieces = [
        np.arange(begin_ns, end_ns - half_ns + 1, half_ns) for begin_ns, end_ns in loop.idle_ns
    ]
    begins_ns = np.concatenate([trace.edges_ns[:-1], *pieces])
    ends_ns = np.concatenate([trace.edges_ns[1:], *(piece + half_ns for piece in pieces)])
    if len(shifts_ns) * len(begins_ns) > MAX_SEARCHED:
        raise EnergyRefused(reasons.short_loop(loop_s=half_ns * 2 / 1e9))
    is_busy = np.zeros(len(begins_ns), np.bool_)
    is_busy[: len(trace.is_busy)] = trace.is_busy
    first, last = (
        guess.to_meter(ends)[None, :] + shifts_ns[:, None] for ends in (begins_ns, ends_ns)
    )
    is_recorded = (first >= trace.grid_ns[0]) & (last <= trace.grid_ns[-1])
    power_w = np.where(is_recorded, trace.mean_w(first, last), np.nan)
    explained = _explained(power_w, is_busy, needed=len(trace.is_busy))
    best = int(np.argmax(explained))
    limit = MIN_CORRELATION[1] ** 2
    if explained[best] < limit:
        raise EnergyRefused(
            reasons.loop_not_seen(explained_ratio=float(explained[best]), limit_ratio=limit)
        )
    rival = float(explained[np.abs(shifts_ns - shifts_ns[best]) > 2 * half_ns].max(initial=0.0))
    if 1 - rival < max(RIVAL_LEFT, RIVAL_FACTOR * (1 - explained[best])):
        raise EnergyRefused(
            reasons.loop_in_two_places(explained_ratio=float(explained[best]), rival_ratio=rival)
        )
    return float(shifts_ns[best])


def _explained(power_w: Floats, is_busy: NDArray[np.bool_], needed: int) -> Floats:
    """Share of the power's variance that the loop's times explain at each shift, shape (m,).

    All active pieces together have the same weight as all idle pieces together. The share is 0 at a
    shift where the power falls instead of rising, or where any of the first `needed` pieces was not
    recorded.

    Args:
        power_w: Mean power of each piece at each shift, shape (m, n); NaN if not recorded.
        is_busy: Whether each piece is active, shape (n,).
        needed: Number of pieces at the start, all of which must have been recorded.
    """
    is_known = ~np.isnan(power_w)
    power_w = np.where(is_known, power_w, 0.0)
    busy, idle = is_known & is_busy, is_known & ~is_busy
    weight = busy / np.maximum(busy.sum(axis=1, keepdims=True), 1) / 2
    weight += idle / np.maximum(idle.sum(axis=1, keepdims=True), 1) / 2
    rise_w = 2 * (weight * power_w * np.where(is_busy, 1.0, -1.0)).sum(axis=1)
    mean_w = (weight * power_w).sum(axis=1)
    variance = (weight * (power_w - mean_w[:, None]) ** 2).sum(axis=1)
    explained = np.zeros(len(power_w))
    is_whole = is_known[:, :needed].all(axis=1) & (rise_w > 0)
    np.divide(rise_w**2 / 4, variance, out=explained, where=is_whole & (variance > 0))
    return explained


@dataclass(frozen=True, slots=True, eq=False)
class _Edges:
    """Changes of the power, located by the energy of half a window on either side."""

    trace: CodeTrace
    half_ns: int

    def at(self, meter_ns: Nanoseconds) -> tuple[Floats, Floats]:
        """Delay of each change relative to `meter_ns`, and the fall of the power at the change."""
        excess_j, step_w = self._excess_j(meter_ns)
        late_ns = np.zeros(len(meter_ns))
        np.divide(1e9 * excess_j, step_w, out=late_ns, where=step_w != 0)
        return late_ns, step_w

    def noise_j(self, loop: LoopTimes, line: ClockLine) -> float:
        """Standard deviation of the energy around a mark, from positions without a change.

        One half of a mark's window is in the loop, and the other half is where the device is idle.

        Raises:
            MeasurementError: there is no such position.
        """
        spans = ((loop.rise_ns[1], loop.fall_ns[0]),), (*loop.idle_ns, *loop.code_ns)
        squares: list[float] = []
        for windows in spans:
            places = np.concatenate([*self._places(windows, line), np.zeros(0, np.int64)])
            if not len(places):
                raise EnergyRefused(reasons.no_steady_loop())
            excess_j, _ = self._excess_j(places)
            squares.append(float(np.mean(excess_j**2)))
        return float(np.sqrt(sum(squares) / 2))

    def _places(
        self, windows: tuple[tuple[int, int], ...], line: ClockLine
    ) -> Iterator[Nanoseconds]:
        """Recorded meter times inside these device windows."""
        first_ns, last_ns = int(self.trace.grid_ns[0]), int(self.trace.grid_ns[-1])
        for window in windows:
            begin_ns, end_ns = (int(time) for time in line.to_meter(window))
            begin_ns, end_ns = max(begin_ns, first_ns), min(end_ns, last_ns)
            yield np.arange(begin_ns + self.half_ns, end_ns - self.half_ns + 1, self.half_ns // 2)

    def _excess_j(self, meter_ns: Nanoseconds) -> tuple[Floats, Floats]:
        middle, half = meter_ns.astype(np.float64), float(self.half_ns)
        # The power before and after a change is that of the far halves, because the change itself
        # may lie in a near half.
        before_w = self.trace.mean_w(middle - half, middle - half / 2)
        after_w = self.trace.mean_w(middle + half / 2, middle + half)
        energy_j = self.trace.energy_j(middle + half) - self.trace.energy_j(middle - half)
        return energy_j - (before_w + after_w) * half / 1e9, before_w - after_w
