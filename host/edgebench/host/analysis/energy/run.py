"""Energy of a run, in joules per inference, gross and net, or the reason for its refusal.

Theory of operation. A run has windows on the device's clock: idle before, load, warm-up, timed
inferences, idle after. Each window is aligned with the meter's trace. The gross energy per
inference is the energy of the window of timed inferences, divided by the number of timed
inferences. Net energy subtracts the mean idle power before and after the run.

    energy-delay product   gross energy per inference · mean time of an inference
    inferences per joule   1 / gross energy
    battery                capacity / gross energy, capacity / mean power: assumes no other load, no
                           losses, and the stated capacity

A recording that cannot be trusted gives no energy.

Source: MLPerf Tiny, benchmark/runner (energy between two marks over the count of inferences);
Horowitz, Indermaur & Gonzalez, Low-power digital design (1994), for the energy-delay product.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.checks import check_recording
from edgebench.host.analysis.energy.in_step import refuse_few_instants
from edgebench.host.analysis.energy.plausible.bounds import ceiling_w, refused_power
from edgebench.host.analysis.energy.plausible.screen import (
    Screening,
    screen,
    without_contradictions,
)
from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.analysis.energy.refusal import EnergyRefused, WindowTooShort, reasons_of
from edgebench.host.analysis.energy.seen import AlignedRun, look_at_meter
from edgebench.host.analysis.energy.site import Site, site_in
from edgebench.host.analysis.energy.sync.alignment import ClockLine
from edgebench.host.analysis.energy.sync.choose import RunClocks, find_sync
from edgebench.host.analysis.energy.trace import trace_file, trace_line
from edgebench.host.analysis.energy.uncertainty import (
    COVERAGE,
    U95_LIMIT_RATIO,
    EnergyWindow,
    MeterErrors,
    UncertainValue,
    without_gaps,
)
from edgebench.host.analysis.energy.windows import (
    AlignedTrace,
    TimedQueries,
    idle_windows,
    in_a_row,
    loop_times,
    phase_window,
)
from edgebench.host.result.energy import (
    BatteryLife,
    EnergyResult,
    PhaseEnergy,
    QueryEnergy,
    SyncMethod,
)
from edgebench.host.result.facts import EnergyRequest
from edgebench.host.result.reason import about
from edgebench.host.result.reasons import energy as reasons
from edgebench.host.result.reasons.alignment import clocks_not_aligned
from edgebench.protocol.clock import ClockModel
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import Event, Phase, RunRecord, WorkerRecord
from edgebench.protocol.thermal import ExpectedPower

IDLE_WINDOWS = 2
"""Number of idle windows needed for a net energy; one window shows no changes of idle power."""
ENERGY_ERRORS = (MeasurementError, ArithmeticError, LookupError, ValueError, TypeError)
"""Exceptions that lead to a refused energy of a run, while its other results are kept."""
NEGATIVE_IDLE_RATIO = 0.01
"""Most negative idle power that is accepted, relative to the power of the timed inferences. The
true idle power is not negative, so a negative reading shows an offset of at least its own size."""
EDGE_QUERIES = 1000
"""Number of inferences at whose ends the power is read; all inferences if the run has fewer."""
logger = logging.getLogger(__name__)


def find_energy(
    record: RunRecord,
    worker: WorkerRecord,
    timed: TimedQueries,
    power: PowerTrace | None,
    clock: ClockModel | None,
    request: EnergyRequest,
) -> EnergyResult:
    """Energy of a run, or the reason why the energy is refused."""
    try:
        screening = None if power is None else screen(power, record.expected.power, is_loaded=True)
    except ENERGY_ERRORS as exc:
        return with_refusal(EnergyResult(meter=request.meter), exc, record.run_id)
    result = metered_result(record, screening, request)
    if screening is None or result.refused is not None:
        return result
    try:
        power = screening.power
        if not power.header.capability.is_uniform:
            refuse_few_instants(power.header.capability)
        site = site_in(power)
        result = replace(result, boundary=site.boundary, channels=site.channels)
        load_ns = phase_window(record.events, Phase.LOADING) or timed.window_ns
        times = [*load_ns, *timed.window_ns, *chain(*idle_windows(record.events))]
        span_ns, loop = (min(times), max(times)), loop_times(record.events, timed, worker.sync)
        place = trace_line(request.trace) if request.trace else None
        clocks = RunClocks(clock, record.metered is not None, span_ns, loop, place)
        sync = find_sync(power, site.channels[0], worker.sync, clocks, request.sync)
        result = replace(result, sync=sync.result)
        if sync.best is None:
            refusal = (clocks_not_aligned(), *sync.result.refusal)
            return replace(result, refusal=refusal, refused_by="energy_sync")
        is_coded = sync.result.method is SyncMethod.CODED_LOAD
        codes = worker.sync.codes if is_coded and place is None else ()
        idles_ns = idle_windows(record.events)
        loop_ns = timed.window_ns
        screening = _without_contradictions(screening, site, sync.best.line, idles_ns, loop_ns)
        power = screening.power
        run = AlignedRun(
            alignment=sync.best,
            idles_ns=idles_ns,
            loop_ns=loop_ns,
            inference_count=timed.count,
            codes=codes,
        )
        seen = look_at_meter(power, site.channels, run)
        trace = AlignedTrace(
            power,
            site,
            sync.best,
            seen,
            ceiling_w=ceiling_w(power, record.expected.power),
            left_out=screening.left_out,
        )
        trace = trace.with_unsampled(timed.window_ns, idles_ns, worker.sync.codes)
        return _with_numbers(result, trace, record, timed, request.battery_capacity_j)
    except ENERGY_ERRORS as exc:
        return with_refusal(result, exc, record.run_id)


def _without_contradictions(
    screening: Screening[PowerTrace],
    site: Site,
    line: ClockLine,
    idles_ns: Sequence[tuple[int, int]],
    loop_ns: tuple[int, int],
) -> Screening[PowerTrace]:
    """The recording without the samples that contradict the phases of the run."""
    on_meter_ns = line.to_meter(list(chain(*idles_ns, loop_ns))).tolist()
    *windows_ns, window_ns = zip(on_meter_ns[::2], on_meter_ns[1::2], strict=True)
    return without_contradictions(screening, site.channels, windows_ns, window_ns)


def metered_result(
    record: RunRecord, screening: Screening[PowerTrace] | None, request: EnergyRequest
) -> EnergyResult:
    """Facts and checks of the meter, without energy, or the reason why the energy is refused."""
    if screening is None:
        # The host that collected the run is not the host with the meter.
        reason = reasons.recorded_elsewhere()
        if record.metered is not None:
            trouble = record.metered.trouble
            reason = reasons.stated(text=trouble) if trouble else reasons.nothing_recorded()
        return EnergyResult(meter=request.meter, refusal=(reason,), refused_by="meter")
    power = screening.power
    info, facts = power.header.info, power.header.facts
    result = EnergyResult(
        meter=" ".join(part for part in (info.vendor, info.model, info.serial) if part),
        supply_v=facts.get("supply_v"),
        settings_sha256=hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest(),
        checks=(*check_recording(power.header, power.loss, power.flags), *screening.checks),
        trace=trace_file(request.trace, power.header) if request.trace else None,
    )
    if failed := [check for check in result.checks if check.is_passed is False]:
        why = about(failed[0].id, failed[0].reasons)
        return replace(result, refusal=why, refused_by="meter")
    return result


def with_refusal(result: EnergyResult, error: Exception, run_id: str) -> EnergyResult:
    """The result with an exception, one of `ENERGY_ERRORS`, as the reason for the refusal."""
    if isinstance(error, MeasurementError):
        return replace(result, refusal=reasons_of(error), refused_by="energy")
    # A damaged recording or a bug must not discard the latencies.
    logger.error("energy of run %s", run_id, exc_info=error)
    reason = reasons.not_computed(error=type(error).__name__, text=str(error))
    return replace(result, refusal=(reason,), refused_by="energy")


def with_gross(
    result: EnergyResult,
    errors: MeterErrors,
    window: EnergyWindow,
    inference_count: int,
    *,
    mean_s: float,
    battery_capacity_j: float | None,
    board: ExpectedPower | None,
) -> EnergyResult:
    """The result with the gross energy of a window and derived quantities.

    Args:
        result: Facts and checks of the meter.
        errors: Errors of the meter.
        window: Window of the inferences.
        inference_count: Number of inferences in the window.
        mean_s: Mean time of an inference, for the energy-delay product.
        battery_capacity_j: Capacity that the user stated, if any.
        board: Possible powers of the device; None if they are unknown.

    Raises:
        MeasurementError: the energy is not a number, negative or too uncertain, or no board takes
            this power.
    """
    gross, power_w = errors.gross_per_inference(window, inference_count), errors.mean_power(window)
    if not math.isfinite(gross.value + gross.u95_absolute):
        raise EnergyRefused(reasons.energy_not_a_number())
    if gross.value + gross.u95_absolute < 0:
        raise EnergyRefused(reasons.negative_energy(energy_j=gross.value))
    impossible = refused_power(power_w.value, result.boundary or "", board)
    if impossible is not None:
        raise EnergyRefused(impossible)
    _refuse_uncertain(gross)
    per_s = inference_count / window.duration_s
    return replace(
        result,
        gross_j_per_inference=gross.value,
        u95_absolute_j=gross.u95_absolute,
        u95_comparative_j=gross.u95_comparative,
        components_j=gross.components,
        common_j=gross.common,
        coverage_factor=COVERAGE,
        power_w_mean=power_w.value,
        power_w_mean_u95_absolute=power_w.u95_absolute,
        inferences_per_j=1 / gross.value,
        inferences_per_s_per_w=per_s / power_w.value,
        duration_s=window.duration_s,
        inference_count=inference_count,
        energy_delay_js=gross.value * mean_s,
        energy_delay_u95_absolute_js=gross.u95_absolute * mean_s,
        battery=_battery(gross, power_w, battery_capacity_j),
    )


def _refuse_uncertain(energy: UncertainValue) -> None:
    """Refuse an energy of unknown order of magnitude.

    Raises:
        EnergyRefused: the expanded uncertainty exceeds `U95_LIMIT_RATIO` of the energy, or the
            energy is not positive.
    """
    limit_j = max(0.0, U95_LIMIT_RATIO * energy.value)
    if energy.value <= 0 or energy.u95_absolute > limit_j:
        raise EnergyRefused(
            reasons.energy_uncertain(
                energy_j=energy.value,
                u95_j=energy.u95_absolute,
                limit_j=limit_j,
                component=energy.largest_component,
                is_of_instrument=energy.is_of_instrument,
            )
        )


def _with_numbers(
    result: EnergyResult,
    trace: AlignedTrace,
    record: RunRecord,
    timed: TimedQueries,
    battery_capacity_j: float | None,
) -> EnergyResult:
    """The result with all quantities from the trace.

    Raises:
        MeasurementError: the timed window has no usable energy.
    """
    errors = MeterErrors((*trace.power.header.uncertainty, *trace.seen.terms))
    window = _steady_window(trace, timed)
    if timed.has_gaps:
        idle_w = _idle_w(trace, record.events)
        window = without_gaps(window, timed.gaps_s, idle_w)
        result = replace(result, gaps_s=timed.gaps_s)
    result = with_gross(
        result,
        errors,
        window,
        timed.count,
        mean_s=timed.mean_s,
        battery_capacity_j=battery_capacity_j,
        board=record.expected.power,
    )
    peak_w = trace.peak_w(*timed.window_ns)
    load_ns = phase_window(record.events, Phase.LOADING)
    warmup_starts_ns = timed.queries.start_ns[: timed.first_row]
    result = replace(
        result,
        power_w_peak=peak_w,
        power_w_peak_u95_absolute=None if peak_w is None else errors.sample_u95_w(peak_w, window),
        phases={
            "load": _phase(trace, errors, load_ns, np.zeros(0, np.int64)),
            "warmup": _phase(trace, errors, timed.warmup_ns, warmup_starts_ns),
            "steady": _phase_energy(errors, window),
        },
        per_query=_per_query(trace, errors, record, timed),
    )
    return _with_net(result, trace, errors, window, record.events)


def _steady_window(trace: AlignedTrace, timed: TimedQueries) -> EnergyWindow:
    """Window of the timed inferences.

    Raises:
        MeasurementError: as for `AlignedTrace.window`. If the window is too short, the error also
            states the settling time.
    """
    starts_ns = timed.queries.start_ns[timed.first_row :]
    try:
        window = trace.window(*timed.window_ns)
        return _with_loop(trace, window, starts_ns, timed.window_ns, timed.stretch_count)
    except WindowTooShort as exc:
        if not timed.settling_s:
            raise
        settling = reasons.settling(settling_s=timed.settling_s)
        raise WindowTooShort(*exc.reasons, settling) from None


def _with_loop(
    trace: AlignedTrace,
    window: EnergyWindow,
    starts_ns: NDArray[np.int64],
    window_ns: tuple[int, int],
    stretch_count: int = 1,
) -> EnergyWindow:
    """The window, plus the uncertainty from inferences that are in step with the samples."""
    loop_j = trace.in_step_j(starts_ns, window_ns, stretch_count)
    return replace(window, in_step_j=math.hypot(window.in_step_j, loop_j))


def _idle_w(trace: AlignedTrace, events: Sequence[Event]) -> float:
    """Lowest mean power of the recorded idle windows; 0 if no idle window was recorded."""
    powers_w: list[float] = []
    for begin_ns, end_ns in idle_windows(events):
        with suppress(MeasurementError):
            idle = trace.window(begin_ns, end_ns)
            powers_w.append(idle.energy_j / idle.duration_s)
    return min(powers_w, default=0.0)


def _with_net(
    result: EnergyResult,
    trace: AlignedTrace,
    errors: MeterErrors,
    window: EnergyWindow,
    events: Sequence[Event],
) -> EnergyResult:
    """The result with the idle power, and with the net energy or the reason for its refusal.

    Raises:
        MeasurementError: the idle power is negative.
    """
    try:
        idles = [trace.window(*times) for times in idle_windows(events)]
    except MeasurementError as exc:
        return replace(result, net_refusal=reasons_of(exc))
    if len(idles) < IDLE_WINDOWS:
        return replace(result, net_refusal=(reasons.idle_on_one_side(),))
    powers_w = [idle.energy_j / idle.duration_s for idle in idles]
    idle = replace(in_a_row(idles), drift_w=max(powers_w) - min(powers_w))
    idle_w = errors.mean_power(idle)
    # Errors other than an offset may make the reading negative; an offset that makes it negative
    # exceeds the idle power by an unknown amount.
    scatter_w = errors.without_offset().mean_power(idle).u95_absolute
    lowest_w = -max(NEGATIVE_IDLE_RATIO * (result.power_w_mean or 0.0), scatter_w)
    if idle_w.value < lowest_w:
        negative = reasons.negative_idle(power_w_idle=idle_w.value, limit_w=lowest_w)
        raise EnergyRefused(negative)
    result = replace(
        result,
        power_w_idle=idle_w.value,
        power_w_idle_u95_absolute=idle_w.u95_absolute,
        power_w_idle_before=powers_w[0],
        power_w_idle_after=powers_w[-1],
    )
    net = errors.net_per_inference(window, idle, result.inference_count or 1)
    if net.value + net.u95_absolute < 0:
        return replace(result, net_refusal=(reasons.idle_above_run(),))
    # The net energy is between zero and the gross energy. As a small difference of two powers, it
    # may have a large uncertainty relative to itself, but a small uncertainty relative to the gross
    # energy.
    limit_j = U95_LIMIT_RATIO * (result.gross_j_per_inference or 0.0)
    if net.u95_absolute > limit_j:
        uncertain = reasons.net_uncertain(
            energy_j=net.value,
            u95_j=net.u95_absolute,
            limit_j=limit_j,
            limit_ratio=U95_LIMIT_RATIO,
            component=net.largest_component,
        )
        return replace(result, net_refusal=(uncertain,))
    return replace(
        result,
        net_j_per_inference=net.value,
        net_u95_absolute_j=net.u95_absolute,
        net_u95_comparative_j=net.u95_comparative,
        net_components_j=net.components,
        net_common_j=net.common,
    )


def _phase(
    trace: AlignedTrace,
    errors: MeterErrors,
    times: tuple[int, int] | None,
    starts_ns: NDArray[np.int64],
) -> PhaseEnergy:
    """Energy of a phase; `starts_ns` are the starts of the inferences in it."""
    if times is None:
        return PhaseEnergy(refusal=(reasons.no_such_phase(),))
    try:
        window = trace.window(*times)
        return _phase_energy(errors, _with_loop(trace, window, starts_ns, times))
    except MeasurementError as exc:
        return PhaseEnergy(
            refusal=reasons_of(exc),
            is_too_short=isinstance(exc, WindowTooShort),
            duration_s=(times[1] - times[0]) / 1e9,
        )


def _phase_energy(errors: MeterErrors, window: EnergyWindow) -> PhaseEnergy:
    energy = errors.gross_per_inference(window, 1)
    _refuse_uncertain(energy)
    return PhaseEnergy(
        energy_j=energy.value,
        u95_absolute_j=energy.u95_absolute,
        duration_s=window.duration_s,
        power_w_mean=window.energy_j / window.duration_s,
    )


def _per_query(
    trace: AlignedTrace, errors: MeterErrors, record: RunRecord, timed: TimedQueries
) -> QueryEnergy:
    """Percentiles of the energy of single inferences, or the reason why only a mean is known."""
    if not record.spec.scenario.traits.is_single:
        overlap = reasons.queries_overlap(scenario=record.spec.scenario.value)
        return QueryEnergy(refusal=(overlap,))
    begin_ns = timed.queries.start_ns[timed.first_row :]
    end_ns = timed.queries.end_ns[timed.first_row :]
    typical_s = float(np.median(end_ns - begin_ns)) / 1e9
    if typical_s < trace.min_window_s:
        too_short = reasons.inference_too_short(
            inference_s=typical_s,
            resolution_s=trace.min_window_s,
            sync_error_s=trace.alignment.error_ns / 1e9,
        )
        return QueryEnergy(refusal=(too_short,))
    try:
        # The inferences at the 50th and 90th percentile, by nearest rank.
        ranked = np.argsort(trace.energies_j(begin_ns, end_ns))
        rows = [ranked[max(0, math.ceil(ratio * len(ranked)) - 1)] for ratio in (0.5, 0.9)]
        windows = [trace.window(int(begin_ns[row]), int(end_ns[row])) for row in rows]
        p50, p90 = (errors.gross_per_inference(window, 1) for window in windows)
        for energy in (p50, p90):
            _refuse_uncertain(energy)
    except MeasurementError as exc:
        return QueryEnergy(refusal=reasons_of(exc))
    some = slice(None, None, max(1, len(begin_ns) // EDGE_QUERIES))
    edge_powers_w = trace.edge_powers_w(begin_ns[some], end_ns[some])
    return QueryEnergy(
        count=len(begin_ns),
        p50_j=p50.value,
        p50_u95_absolute_j=p50.u95_absolute,
        p90_j=p90.value,
        p90_u95_absolute_j=p90.u95_absolute,
        u95_edges_j=COVERAGE * float(errors.edges_j(edge_powers_w, trace.edge_error_s).max()),
    )


def _battery(
    gross: UncertainValue, power_w: UncertainValue, capacity_j: float | None
) -> BatteryLife | None:
    if capacity_j is None:
        return None
    return BatteryLife(
        capacity_j=capacity_j,
        inference_count=capacity_j / gross.value,
        duration_s=capacity_j / power_w.value,
        u95_ratio=gross.u95_absolute / gross.value,
    )
