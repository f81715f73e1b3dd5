"""Energy of a board from the pulses of its timestamp pin, without the board's clock.

Theory of operation. In MLPerf Tiny's energy mode, a board pulls a pin low before the first
inference and after the last inference of an `infer`. The pin is connected to a digital input of the
meter. So the ends of each window are on the meter's clock and need no alignment. The energy per
inference is the energy between two edges, divided by the number of inferences.

Edges are assigned to windows by their order. Every `infer` makes two edges. The board makes other
edges when it starts, on a `timestamp` command, and in windows that are not counted, all before the
counted windows. So the last edges of the recording belong to the counted windows, two to each.

A lost edge shifts all earlier edges, so that pauses are taken for windows. Edges are refused in
these cases:

- Most windows, or most pauses, differ in length from the intervals between the board's lines of
  text. These intervals are measured when the lines arrive at the bridge.
- The pauses are as long as the windows. Shifted edges would then fit, too.
- By the meter's clock, the time per inference in a window differs from the median of all windows.
  Then one of the first edges was lost, and most windows are right.

Single lines of text may arrive late by seconds on a busy machine. So the bridge's clock is used
only to refuse edges, by a generous limit, and not to select edges.

The reported energy is that of the median window, as the benchmark's rules require: five windows of
at least ten seconds.

Source: MLPerf Tiny, benchmark/runner (energy between the last two events over the count, median of
five) and its rules. The time of an edge that the meter samples is uncertain by one sample interval
on either side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgebench.host.analysis.energy.in_step import refuse_few_instants
from edgebench.host.analysis.energy.integrate import Nanoseconds
from edgebench.host.analysis.energy.plausible.screen import screen
from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.analysis.energy.refusal import EnergyRefused
from edgebench.host.analysis.energy.run import (
    ENERGY_ERRORS,
    metered_result,
    with_gross,
    with_refusal,
)
from edgebench.host.analysis.energy.site import Site, site_in
from edgebench.host.analysis.energy.sync.alignment import Alignment, ClockLine
from edgebench.host.analysis.energy.uncertainty import EnergyWindow, MeterErrors, UncertainValue
from edgebench.host.analysis.energy.windows import AlignedTrace
from edgebench.host.result.energy import EdgeWindow, EnergyResult, SyncMethod
from edgebench.host.result.facts import EnergyRequest
from edgebench.host.result.reasons import alignment as reasons
from edgebench.host.result.reasons.energy import idle_unknown
from edgebench.protocol.record import RunRecord, TargetRecord

LATE_S = 2.0
"""Maximum delay of most lines of text after their edges, on a busy machine; see `LATE_RATIO`."""
LATE_RATIO = 0.5
"""Maximum delay of most lines of text as a share of a window's duration. It prevents a pause from
being taken for a window. The smaller of this limit and `LATE_S` applies."""
FEWEST_WINDOWS = 2
"""Minimum number of windows. Two windows have a pause between them, but a single window could
itself be a pause."""
MAX_STARTS = 10_000
"""Maximum number of inferences whose starts are placed evenly for the in-step check."""


@dataclass(frozen=True, slots=True)
class PulsedWindow:
    """Window of inferences that starts and ends with a pulse, as the bridge observed it."""

    count: int
    began_ns: int
    """Arrival of the line of text before the window's first pulse, by the bridge's clock."""
    ended_ns: int
    """Arrival of the line of text after the window's second pulse, by the bridge's clock."""
    pace_ns: int | None = None
    """Interval of the inferences if audio triggers them. The audio may play in only a part of the
    window. None if the inferences run back to back."""


@dataclass(frozen=True, slots=True)
class PulsedEnergy:
    """Energy of a window."""

    window: PulsedWindow
    edges_ns: tuple[int, int]
    """Ends of the window, meter clock."""
    measured: EnergyWindow
    energy_j_per_inference: UncertainValue

    @property
    def duration_s(self) -> float:
        """Time between the edges of the window, by the meter's clock."""
        return (self.edges_ns[1] - self.edges_ns[0]) / 1e9


@dataclass(frozen=True, slots=True)
class PulsedResult:
    """Energy of several windows of a model."""

    site: Site
    windows: tuple[PulsedEnergy, ...]
    """Ordered by time."""

    @property
    def median(self) -> PulsedEnergy:
        """Window with the median energy per inference; for an even number, the lower median."""
        ranked = sorted(self.windows, key=lambda window: window.energy_j_per_inference.value)
        return ranked[(len(ranked) - 1) // 2]


def find_pulsed_energy(
    record: RunRecord, target: TargetRecord, power: PowerTrace | None, request: EnergyRequest
) -> EnergyResult:
    """Energy of a run on a board in energy mode, or the reason why the energy is refused.

    The durations of the windows are reported even if their energy is refused.
    """
    try:
        # A board may take the same power all the time: its edges show that it ran.
        screening = None if power is None else screen(power, record.expected.power)
    except ENERGY_ERRORS as exc:
        return with_refusal(EnergyResult(meter=request.meter), exc, record.run_id)
    result = metered_result(record, screening, request)
    if screening is None:
        return result
    power = screening.power
    windows = [
        PulsedWindow(window.count, window.begin_ns, window.end_ns, target.pace_ns)
        for window in target.windows
    ]
    try:
        _refuse_without_pulses(target, power)
        edge_input, edges_ns = find_edges(windows, power.falling_edges(), _period_ns(power))
        durations_s = (np.diff(edges_ns)[:, 0] / 1e9).tolist()
        result = replace(
            result,
            edge_input=edge_input,
            edge_windows=tuple(
                EdgeWindow(inference_count=window.count, duration_s=duration_s)
                for window, duration_s in zip(windows, durations_s, strict=True)
            ),
        )
        if result.refused is not None:
            return result
        pulsed = pulsed_energy(power, windows, edges_ns)
        median = pulsed.median
        return with_gross(
            replace(
                result,
                boundary=pulsed.site.boundary,
                channels=pulsed.site.channels,
                edge_windows=tuple(
                    replace(edge, energy_j_per_inference=window.energy_j_per_inference.value)
                    for edge, window in zip(result.edge_windows, pulsed.windows, strict=True)
                ),
                net_refusal=(idle_unknown(),),
            ),
            MeterErrors(power.header.uncertainty),
            median.measured,
            median.window.count,
            mean_s=median.duration_s / median.window.count,
            battery_capacity_j=request.battery_capacity_j,
            board=record.expected.power,
        )
    except ENERGY_ERRORS as exc:
        return result if result.refused is not None else with_refusal(result, exc, record.run_id)


def _refuse_without_pulses(target: TargetRecord, power: PowerTrace) -> None:
    """Refuse a recording that lacks the pulses that mark windows, even if it has edges."""
    if any(window.ticks is not None for window in target.windows):
        raise EnergyRefused(reasons.performance_mode(firmware=target.firmware.name))
    if target.is_interrupted:
        raise EnergyRefused(reasons.stopped_in_window())
    if not power.header.capability.digital_count:
        raise EnergyRefused(reasons.no_digital_input())


def _period_ns(power: PowerTrace) -> float:
    """Interval of the meter's samples."""
    return 1e9 / power.header.capability.rate_hz


def pulsed_energy(
    power: PowerTrace, windows: Sequence[PulsedWindow], edges_ns: Nanoseconds
) -> PulsedResult:
    """Energy per inference of each window, between edges on the meter's clock.

    Args:
        power: Recording with a digital input.
        windows: Windows in order of time.
        edges_ns: Edges of these windows, as returned by `find_edges`, shape (windows, 2).

    Raises:
        MeasurementError: a window has no energy.
    """
    refuse_few_instants(power.header.capability)
    site = site_in(power)
    # Windows and trace share a clock: the only error is the position of an edge in a sample.
    line = ClockLine(0, 0.0)
    same = Alignment(SyncMethod.EDGE, line, _period_ns(power), mark_count=edges_ns.size)
    trace = AlignedTrace(power, site, same)
    errors = MeterErrors(power.header.uncertainty)
    energies: list[PulsedEnergy] = []
    for window, (begin, end) in zip(windows, edges_ns.tolist(), strict=True):
        measured = trace.window(begin, end)
        starts = np.linspace(begin, end, min(window.count, MAX_STARTS), endpoint=False)
        in_step_j = trace.in_step_j(starts.astype(np.int64), (begin, end))
        measured = replace(
            measured,
            in_step_j=math.hypot(measured.in_step_j, in_step_j),
            count_j=_count_j(window, end - begin, measured.energy_j),
        )
        gross = errors.gross_per_inference(measured, window.count)
        energies.append(PulsedEnergy(window, (begin, end), measured, gross))
    return PulsedResult(site, tuple(energies))


def _count_j(window: PulsedWindow, duration_ns: int, energy_j: float) -> float:
    """Standard uncertainty of a window's energy due to time outside its inferences, J.

    Neither an audio frame that is cut off at an end of the window nor time without audio is counted
    as an inference. The energy of that time is between zero and the average. The uncertain time is
    at least one frame, half of it at either end.
    """
    if window.pace_ns is None:
        return 0.0
    open_ns = max(window.pace_ns, abs(duration_ns - window.count * window.pace_ns))
    return energy_j * open_ns / duration_ns / math.sqrt(3)


def find_edges(
    windows: Sequence[PulsedWindow], edges: Mapping[int, Nanoseconds], period_ns: float
) -> tuple[int, Nanoseconds]:
    """Find the digital input with the pulses, and the windows' edges, shape (windows, 2).

    Args:
        windows: Windows in order of time.
        edges: Falling edges by digital input, meter clock, ascending.
        period_ns: Sample interval of the meter. If a pin is connected to two inputs, their edges
            differ by at most two intervals.

    Raises:
        MeasurementError: no input has the pulses, two inputs have different pulses that fit, or the
            pauses are as long as the windows.
    """
    if len(windows) < FEWEST_WINDOWS:
        raise EnergyRefused(
            reasons.few_windows(window_count=len(windows), needed_count=FEWEST_WINDOWS)
        )
    counts = np.array([window.count for window in windows], np.float64)
    lines_ns = np.array([(window.began_ns, window.ended_ns) for window in windows], np.int64)
    stated_ns, stated_pauses_ns = _durations(lines_ns)
    window_ns = float(np.median(stated_ns))
    allowed_ns = min(LATE_S * 1e9, LATE_RATIO * window_ns)
    fitting: dict[int, Nanoseconds] = {}
    for number, times in edges.items():
        if len(times) < lines_ns.size:
            continue
        pairs = times[len(times) - lines_ns.size :].reshape(-1, 2)
        durations_ns, pauses_ns = _durations(pairs)
        each_ns = durations_ns / counts
        off_ns = (
            np.median(np.abs(durations_ns - stated_ns)),
            np.median(np.abs(pauses_ns - stated_pauses_ns)),
            np.max(np.abs(each_ns - np.median(each_ns)) * counts),
        )
        if max(off_ns) <= allowed_ns:
            fitting[number] = pairs
    if not fitting:
        counted = ", ".join(f"input {number}: {len(times)}" for number, times in edges.items())
        raise EnergyRefused(
            reasons.window_pulses_not_seen(
                pulse_count=lines_ns.size,
                window_count=len(windows),
                window_s=window_ns / 1e9,
                allowed_s=allowed_ns / 1e9,
                edges=counted,
            )
        )
    number, pairs = next(iter(fitting.items()))
    for other, its_pairs in fitting.items():
        if np.abs(its_pairs - pairs).max() > 2 * period_ns:
            raise EnergyRefused(reasons.two_inputs_fit(number=number, other=other))
    durations_ns, pauses_ns = _durations(pairs)
    # If all these windows were pauses, their lengths would fit the pauses by the lines; if some
    # windows were pauses, the lengths would fit the other pauses.
    for pause_ns in (float(np.median(stated_pauses_ns)), float(np.median(pauses_ns))):
        if abs(float(np.median(durations_ns)) - pause_ns) <= allowed_ns:
            raise EnergyRefused(
                reasons.pauses_like_windows(
                    window_s=window_ns / 1e9, pause_s=pause_ns / 1e9, allowed_s=allowed_ns / 1e9
                )
            )
    return number, pairs


def _durations(pairs: Nanoseconds) -> tuple[Nanoseconds, Nanoseconds]:
    """Lengths of windows, shape (n,), and of the pauses between them, shape (n - 1,)."""
    return pairs[:, 1] - pairs[:, 0], pairs[1:, 0] - pairs[:-1, 1]
