"""Energy of a board by the pulses of its timestamp pin alone, without any clock of the board.

Theory of operation. In MLPerf Tiny's energy mode a board pulls a pin low before the first and after
the last inference of an `infer`, and the pin is a digital input of the meter. So the ends of each
window are on the meter's own clock, and nothing has to be aligned: energy between two edges over
the number of inferences.

Which edges are which windows follows from their order. Every `infer` makes two; the board makes
others when it starts, when it is asked for a `timestamp`, and in windows that are not counted, all
before the windows that are. So the windows have the last edges of the recording, two each. A lost
edge shifts all that come before it, so that pauses stand for windows. So most windows are as long
as the lines that the bridge read are apart, or the energy is refused. Single lines may be late by
seconds on a busy machine, and this is all that the bridge's clock is good for.

The reported energy is that of the median window, as the benchmark's rules ask: five windows, ten
seconds each or more.

Source: MLPerf Tiny, benchmark/runner (energy between the last two events over the count, median of
five) and its rules; edges that the meter samples: a sample's interval on either side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgebench.host.analysis.energy.in_step import refuse_few_instants
from edgebench.host.analysis.energy.integrate import Nanoseconds
from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.analysis.energy.run import (
    ENERGY_ERRORS,
    metered_result,
    with_gross,
    with_refusal,
)
from edgebench.host.analysis.energy.site import Site, site_in
from edgebench.host.analysis.energy.sync.alignment import Alignment, ClockLine
from edgebench.host.analysis.energy.uncertainty import EnergyWindow, MeterErrors, UncertainValue
from edgebench.host.analysis.energy.windows import AlignedTrace, in_words
from edgebench.host.result.energy import EdgeWindow, EnergyResult, SyncMethod
from edgebench.host.result.facts import EnergyRequest
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import RunRecord, TargetRecord

LATE_S = 2.0
"""Lateness of most lines, beside the edges that they belong to, on a machine that is busy …"""
LATE_RATIO = 0.5
"""… but no larger share of a window: a pause is not to be taken for one."""
MAX_STARTS = 10_000
"""Most inferences whose starts are laid out evenly, to see whether a meter is in step with them."""


@dataclass(frozen=True, slots=True)
class PulsedWindow:
    """Window of inferences whose ends are pulses, as the bridge knows it."""

    count: int
    """Inferences in it."""
    began_ns: int
    """When the line before its first pulse came, bridge clock."""
    ended_ns: int
    """When the line behind its second pulse came, bridge clock."""


@dataclass(frozen=True, slots=True)
class PulsedEnergy:
    """Energy of one window."""

    window: PulsedWindow
    edges_ns: tuple[int, int]
    """Its ends, meter clock."""
    measured: EnergyWindow
    energy_j_per_inference: UncertainValue

    @property
    def duration_s(self) -> float:
        """Time between its edges, by the meter."""
        return (self.edges_ns[1] - self.edges_ns[0]) / 1e9


@dataclass(frozen=True, slots=True)
class PulsedResult:
    """Energy of several windows of one model."""

    site: Site
    input_number: int
    """Digital input that has the pulses."""
    windows: tuple[PulsedEnergy, ...]
    """In order of time."""

    @property
    def median(self) -> PulsedEnergy:
        """Window with the median energy per inference; of an even number, the lower one."""
        ranked = sorted(self.windows, key=lambda one: one.energy_j_per_inference.value)
        return ranked[(len(ranked) - 1) // 2]


def find_pulsed_energy(
    record: RunRecord, target: TargetRecord, power: PowerTrace | None, request: EnergyRequest
) -> EnergyResult:
    """Energy of a run on a board in energy mode, or why there is none."""
    result = metered_result(record, power, request)
    if power is None or result.refused is not None:
        return result
    if (reason := _why_none(target, power)) is not None:
        return replace(result, refused=reason, refused_by="energy")
    windows = [PulsedWindow(one.count, one.begin_ns, one.end_ns) for one in target.windows]
    try:
        pulsed = pulsed_energy(power, windows)
        median = pulsed.median
        result = replace(
            result,
            boundary=pulsed.site.boundary,
            channels=pulsed.site.channels,
            edge_input=pulsed.input_number,
            edge_windows=tuple(
                EdgeWindow(
                    inference_count=one.window.count,
                    duration_s=one.duration_s,
                    energy_j_per_inference=one.energy_j_per_inference.value,
                )
                for one in pulsed.windows
            ),
            net_refused="nobody knows when the board was idle: it has no clock that is aligned",
        )
        return with_gross(
            result,
            MeterErrors(power.header.uncertainty),
            median.measured,
            median.window.count,
            mean_s=median.duration_s / median.window.count,
            battery_capacity_j=request.battery_capacity_j,
        )
    except ENERGY_ERRORS as exc:
        return with_refusal(result, exc, record.run_id)


def _why_none(target: TargetRecord, power: PowerTrace) -> str | None:
    """Why no pulses of the windows are in a recording, whatever edges it has."""
    if any(one.ticks is not None for one in target.windows):
        return (
            f"{target.firmware.name} is in performance mode: it makes no pulses that a meter could "
            "see, and no clock of it is aligned with the meter's"
        )
    if target.is_interrupted:
        return "the run was stopped in a window, whose pulses nobody can tell from the others"
    if not power.header.capability.digital_count:
        return (
            "this meter records no digital input, by which the pulses of the board are seen "
            "(an LPM01A does with format=ascii,events=fal)"
        )
    return None


def pulsed_energy(power: PowerTrace, windows: Sequence[PulsedWindow]) -> PulsedResult:
    """Energy per inference of each window, by the meter's own edges.

    Args:
        power: Recording with a digital input.
        windows: Windows in order of time.

    Raises:
        MeasurementError: no input has the pulses, or a window has no energy.
    """
    refuse_few_instants(power.header.capability)
    site = site_in(power)
    period_ns = 1e9 / power.header.capability.rate_hz
    number, edges_ns = find_edges(windows, power.falling_edges(), period_ns)
    # Windows and trace are of one clock: all that is open is where in a sample an edge was.
    same = Alignment(SyncMethod.EDGE, ClockLine(0, 0.0), period_ns, mark_count=edges_ns.size)
    trace = AlignedTrace(power, site, same)
    errors = MeterErrors(power.header.uncertainty)
    energies: list[PulsedEnergy] = []
    for window, (begin, end) in zip(windows, edges_ns.tolist(), strict=True):
        measured = trace.window(begin, end)
        starts = np.linspace(begin, end, min(window.count, MAX_STARTS), endpoint=False)
        in_step_j = trace.in_step_j(starts.astype(np.int64), (begin, end))
        measured = replace(measured, in_step_j=math.hypot(measured.in_step_j, in_step_j))
        gross = errors.gross_per_inference(measured, window.count)
        energies.append(PulsedEnergy(window, (begin, end), measured, gross))
    return PulsedResult(site, number, tuple(energies))


def find_edges(
    windows: Sequence[PulsedWindow], edges: Mapping[int, Nanoseconds], period_ns: float
) -> tuple[int, Nanoseconds]:
    """Digital input that has the pulses, and the edges of the windows, shape (windows, 2).

    Args:
        windows: Windows in order of time.
        edges: Falling edges by digital input, meter clock, ascending.
        period_ns: Interval of the meter's samples: edges of one pin on two inputs differ by less.

    Raises:
        MeasurementError: no input has them, or two have others.
    """
    if not windows:
        raise MeasurementError("there was no window with pulses")
    told_ns = np.array([one.ended_ns - one.began_ns for one in windows], np.int64)
    fitting = {
        number: pairs
        for number, times in edges.items()
        if (pairs := _last_pairs(times, told_ns)) is not None
    }
    if not fitting:
        counted = ", ".join(f"input {number}: {len(times)}" for number, times in edges.items())
        raise MeasurementError(
            f"no digital input has the {2 * len(windows)} pulses of {len(windows)} windows, as far "
            f"apart as most of the board's lines, {in_words(float(np.median(told_ns)) / 1e9)} "
            f"(falling edges: {counted or 'none'})"
        )
    number, pairs = next(iter(fitting.items()))
    for other, its_pairs in fitting.items():
        if np.abs(its_pairs - pairs).max() > 2 * period_ns:
            raise MeasurementError(
                f"inputs {number} and {other} both have pulses that fit the windows, at other times"
            )
    return number, pairs


def _last_pairs(times: Nanoseconds, told_ns: Nanoseconds) -> Nanoseconds | None:
    """The last edges, two for each window; None: there are fewer, or they are not the windows'."""
    count = 2 * len(told_ns)
    if len(times) < count:
        return None
    pairs = times[len(times) - count :].reshape(-1, 2)
    durations_ns = pairs[:, 1] - pairs[:, 0]
    longest_ns = max(float(np.median(durations_ns)), float(np.median(told_ns)))
    is_alike = np.median(np.abs(durations_ns - told_ns)) <= min(
        LATE_S * 1e9, LATE_RATIO * longest_ns
    )
    return pairs if is_alike else None
