"""Detection of slowdowns of the device, with their onset and their cause.

Theory of operation. A run is cut into windows of 1 to 5 s. The baseline is the windows of the first
5 s: at most a quarter of all windows, but at least two windows. Five signals are read in every
window (see heat_signals): I, the reports of the device; F, its frequency; M, the clock of its
memory; T, its temperature; L, the latency.

    I     F     M     T     L      verdict
    yes   any   any   any   any    throttled:<cause of the indicator>, certain
    –     yes   any   yes   yes    throttled:thermal, probable; also without a trusted frequency
    –     no    yes   yes   yes    throttled:thermal, probable
    –     no    no    yes   yes    throttled:hidden (firmware, idle injection)
    –     yes   any   no    yes    frequency_limited:power_limit; :unknown without a signal of heat
    –     no    yes   no    yes    frequency_limited:memory_clock, also without a signal of heat
    –     no    no    no    yes    interference: not thermal; unknown if too few signals can be read
    –     any   any   any   no     not_throttled if any signal was read; also if the model was
                                   slower on another type of core, which is reported separately
    no signal read           unknown; never "not throttled"

A signal that was not read in most of the slower windows is ignored. A signal explains a higher
latency only if it is set in most of the slower windows in which it was read. Interference is the
remaining cause when all others are excluded: it requires a trusted frequency, and a temperature
with a known limit or an indicator.

A device that slows down in short cycles does not have three slow windows in a row. If no slowdown
lasts, the run is analysed again in slices, and the same table applies to a latency that is
repeatedly higher. If heat and clock do not explain the higher latency, the latency counts only with
enough slow slices: at least a fifth of the slices from the first to the last slow slice.

Source: benchexec (counters); node_exporter; the combination with the latency is edgebench's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from edgebench.host.analysis.latency.summary import summarize
from edgebench.host.analysis.latency.warmup import find_steady_state
from edgebench.host.analysis.thermal.delegation import find_delegation
from edgebench.host.analysis.thermal.heat_signals import (
    EXPLAINED_LIMIT_RATIO,
    LATENCY_LIMIT_RATIO,
    Signals,
    find_recurring_signals,
    find_signals,
    start_and_max_temp_c,
)
from edgebench.host.analysis.thermal.indicators import widened
from edgebench.host.analysis.thermal.telemetry import TelemetryTrace, WindowMask
from edgebench.host.analysis.thermal.timeline import (
    Timeline,
    Windows,
    cut_into_windows,
    window_length_s,
)
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons import thermal
from edgebench.host.result.thermal import (
    MEMORY_CLOCK,
    POWER_LIMIT,
    UNKNOWN_CAUSE,
    ThermalResult,
    ThermalState,
)
from edgebench.protocol.record import OperatorPlacement
from edgebench.protocol.thermal import Expectation

MIN_WINDOWS = 8
UNEXPLAINED_SHARE = 0.2
"""Slow slices of unknown cause count if they are at least this share of the slices from the first
to the last slow slice. Housekeeping tasks of the system slow down a smaller share of the slices."""
SUSTAINED_SHARE = 0.2
"""Share of a run, at its end, that represents the sustained performance."""


def find_throttling(
    timeline: Timeline,
    telemetry: TelemetryTrace,
    expected: Expectation,
    *,
    threads: int = 1,
    placement: Iterable[OperatorPlacement] = (),
) -> ThermalResult:
    """Thermal result of a run.

    Args:
        timeline: Inferences, without the warm-up.
        telemetry: Trace of the run.
        expected: Profile of the device.
        threads: Threads of the model.
        placement: Number of operators of each kind in each place (CPU or delegate), as the runtime
            reports it.
    """
    delegation = find_delegation(placement, telemetry, expected)
    windows = cut_into_windows(timeline)
    signals = find_signals(
        timeline, telemetry, expected, windows, threads=threads, delegation=delegation
    )
    clock = signals.frequency
    freq_change_ratio = clock.change_ratio if clock and windows.count >= MIN_WINDOWS else None
    if windows.count >= MIN_WINDOWS:
        result = _explained(signals)
        if result.state is ThermalState.NOT_THROTTLED:
            found = find_recurring_signals(
                timeline, telemetry, expected, windows, threads=threads, delegation=delegation
            )
            if found is not None and _is_slowdown(again := _explained(found[1]), found[1]):
                result, (windows, signals) = again, found
        result = _with_numbers(result, signals, timeline, windows)
    elif signals.indications:
        result = _indicated(signals)
    else:
        result = _unknown(
            thermal.too_short_for_throttling(
                duration_s=windows.length_s * windows.count,
                needed_s=MIN_WINDOWS * window_length_s(timeline) + 1,
            )
        )
    heat, clock = signals.temperature, signals.frequency
    is_baseline_cool = None
    if heat is not None and (heat.known & signals.baseline).any():
        is_baseline_cool = not bool((heat.is_set & signals.baseline).any())
    start_c, max_c = start_and_max_temp_c(telemetry, expected, windows)
    return replace(
        result,
        start_temp_c=start_c,
        max_temp_c=max_c,
        throttle_temp_c=signals.throttle_c,
        is_baseline_cool=is_baseline_cool,
        baseline_freq_hz=clock.baseline_hz if clock else None,
        nominal_freq_hz=clock.nominal_hz if clock else None,
        freq_change_ratio=freq_change_ratio,
    )


def _is_slowdown(result: ThermalResult, signals: Signals) -> bool:
    """Whether the slow slices (half seconds) have a known cause, or are too many to ignore."""
    slow = np.flatnonzero(signals.latency)
    return result.is_slowed or len(slow) >= UNEXPLAINED_SHARE * (slow[-1] - slow[0] + 1)


def _explained(signals: Signals) -> ThermalResult:
    """State, cause and reason of the verdict, by the rows of the module's table."""
    if signals.indications:
        return _indicated(signals)
    if not signals.sources:
        return _unknown(thermal.no_thermal_signal())
    slow, clock, heat = signals.latency, signals.frequency, signals.temperature
    memory = signals.memory
    if not slow.any():
        return _not_slower(signals)
    is_repeated = signals.is_sliced
    has_slower_clock = clock is not None and clock.explains(slow)
    is_clock_known = clock is not None and clock.is_measured and clock.covers(slow)
    if heat is not None and heat.explains(slow):
        return _hot(signals, has_slower_clock, is_clock_known)
    is_heat_known = any(
        signal is not None and signal.covers(slow) for signal in (heat, signals.indicator)
    )
    if has_slower_clock:
        cause = POWER_LIMIT if is_heat_known else UNKNOWN_CAUSE
        reason = thermal.clock_fell(is_heat_known=is_heat_known)
        return ThermalResult(ThermalState.FREQUENCY_LIMITED, cause, False, (reason,))
    if memory is not None:
        reason = thermal.memory_clock_fell(
            is_repeated=is_repeated,
            name=memory.name,
            fast_hz=memory.fast_hz,
            slow_hz=memory.slow_hz,
        )
        return ThermalResult(ThermalState.FREQUENCY_LIMITED, MEMORY_CLOCK, False, (reason,))
    if not is_clock_known:
        return _unknown(thermal.slower_without_frequency(is_repeated=is_repeated))
    if not is_heat_known:
        return _unknown(thermal.slower_without_temperature(is_repeated=is_repeated))
    reason = thermal.slower_without_cause(is_repeated=is_repeated)
    return ThermalResult(ThermalState.INTERFERENCE, None, False, (reason,))


def _hot(signals: Signals, has_slower_clock: bool, is_clock_known: bool) -> ThermalResult:
    """Result for a device that was hot when it was slower."""
    memory, cause = signals.memory, "thermal"
    if memory is not None and not has_slower_clock:
        reason = thermal.hot_with_slower_memory(
            is_repeated=signals.is_sliced,
            name=memory.name,
            fast_hz=memory.fast_hz,
            slow_hz=memory.slow_hz,
        )
    else:
        has_fallen = has_slower_clock if has_slower_clock or is_clock_known else None
        reason = thermal.hot_and_slower(is_repeated=signals.is_sliced, has_clock_fallen=has_fallen)
        cause = "hidden" if has_fallen is False else cause
    return ThermalResult(ThermalState.THROTTLED, cause, False, (reason,))


def _indicated(signals: Signals) -> ThermalResult:
    first = signals.indications[0]
    others = sorted({indication.cause for indication in signals.indications} - {first.cause})
    also = (thermal.other_causes(causes=", ".join(others)),) if others else ()
    return ThermalResult(ThermalState.THROTTLED, first.cause, True, (first.reason, *also))


def _not_slower(signals: Signals) -> ThermalResult:
    everywhere = np.ones_like(signals.latency)
    read = [name for name, signal in signals.sources.items() if signal.covers(everywhere)]
    if not read:
        return _unknown(thermal.thermal_signals_too_rare())
    moved = signals.moved
    if moved is not None and moved.ratio > 0.5:
        return _unknown(thermal.between_core_types())
    signs = [signal.is_set[-1] for signal in (signals.frequency, signals.temperature) if signal]
    if signals.slower[-1] and any(signs):
        return _unknown(thermal.slower_at_the_end())
    reasons = [_growth(signals), thermal.thermal_signals_read(signals=", ".join(read))]
    reasons += signals.indicated_elsewhere
    if moved is not None:
        reasons.append(
            thermal.on_another_core_type(share_ratio=moved.ratio, latency_ratio=moved.latency_ratio)
        )
    return ThermalResult(ThermalState.NOT_THROTTLED, None, False, tuple(reasons))


def _growth(signals: Signals) -> Reason:
    """Reason that states the rise of the latency, on the type of core that the model used most."""
    known_ns = signals.latency_ns[signals.is_home & ~np.isnan(signals.latency_ns)]
    last = known_ns[-max(1, round(SUSTAINED_SHARE * len(known_ns))) :]
    growth = float(np.median(last)) / signals.baseline_ns if last.size else 1.0
    has_moved = signals.moved is not None
    if EXPLAINED_LIMIT_RATIO < growth <= LATENCY_LIMIT_RATIO:
        return thermal.slightly_slower(
            growth_ratio=growth - 1, limit_ratio=LATENCY_LIMIT_RATIO - 1, has_moved=has_moved
        )
    return thermal.not_slower(has_moved=has_moved)


def _unknown(reason: Reason) -> ThermalResult:
    return ThermalResult(ThermalState.UNKNOWN, None, False, (reason,))


def _with_numbers(
    result: ThermalResult, signals: Signals, timeline: Timeline, windows: Windows
) -> ThermalResult:
    """Add to a result the onset, and the latency and throughput before and after the onset."""
    signs = _signs(signals) if result.is_slowed else np.zeros(windows.count, np.bool_)
    onset = before = after = None
    if signs.any():
        onset = int(np.argmax(signs))
        cut = int(np.searchsorted(timeline.start_ns, windows.edges_ns[onset]))
        early_ns, late_ns = timeline.invoke_ns[:cut], timeline.invoke_ns[cut:]
        steady_ns = late_ns[find_steady_state(late_ns).first_steady_index or 0 :]
        before = summarize(early_ns) if early_ns.size else None
        after = summarize(steady_ns) if steady_ns.size else None
    first, last = windows.baseline_count, max(1, round(SUSTAINED_SHARE * windows.count))
    sustained_ns = _sustained_ns(signals, signs, last)
    # A device that is throttled from the start has no undisturbed speed to compare with.
    slow_count = int(np.count_nonzero(signs & signals.baseline))
    baseline_count = int(np.count_nonzero(signals.baseline))
    has_peak = baseline_count > 0 and slow_count * 2 <= baseline_count
    return replace(
        result,
        onset_s=None if onset is None else onset * windows.length_s,
        peak_latency_ns=signals.baseline_ns if has_peak else None,
        sustained_latency_ns=sustained_ns,
        peak_throughput_per_s=windows.throughput_per_s(timeline, 0, first) if has_peak else None,
        sustained_throughput_per_s=windows.throughput_per_s(
            timeline, windows.count - last, windows.count
        ),
        retention_ratio=signals.baseline_ns / sustained_ns if sustained_ns and has_peak else None,
        throttled_ratio=float(np.mean(signs)),
        throttled_spans_s=tuple(
            (float(first) * windows.length_s, float(last) * windows.length_s)
            for first, last in _rows(signs)
        ),
        moved_ratio=signals.moved.ratio if signals.moved else 0.0,
        moved_latency_ratio=signals.moved.latency_ratio if signals.moved else None,
        latency_ns_before=before,
        latency_ns_after=after,
    )


def _sustained_ns(signals: Signals, signs: WindowMask, count: int) -> float | None:
    """Latency in the last windows; None if the model then ran mostly on an unusual type of core.

    On another type of core, the latency cannot be compared with that of the first windows.
    """
    is_last = np.zeros_like(signals.is_home)
    is_last[-count:] = ~np.isnan(signals.latency_ns[-count:])
    known = is_last & signals.is_home
    if not known.any() or np.count_nonzero(known) * 2 < np.count_nonzero(is_last):
        return None
    # A median ignores intermittent slowdowns.
    is_mixed = 0 < np.count_nonzero(signs & known) * 2 < np.count_nonzero(known)
    middle = np.mean if signals.is_sliced or is_mixed else np.median
    return float(middle(signals.latency_ns[known]))


def _signs(signals: Signals) -> WindowMask:
    """Windows in which the device is slower for the detected reason.

    An earlier increase of the latency that has another reason, such as other load at the start of
    the run, is not a sign of this slowdown.
    """
    reasons = np.zeros_like(signals.latency)
    for indication in signals.indications:
        reasons |= indication.windows
    others = [signals.latency]
    near = widened(reasons | signals.latency)
    clocks = (signals.frequency, signals.memory)
    others += [clock.is_set & near for clock in clocks if clock is not None]
    if not signals.indications:
        hot = signals.temperature.is_set if signals.temperature is not None else reasons
        reasons = signals.latency & np.logical_or.reduce([hot, *others[1:]])
    signs, anchors = reasons.copy(), widened(reasons)
    for windows in others:
        # A row of slow windows counts as a whole if it overlaps or adjoins a window with a reason.
        edges = np.flatnonzero(np.diff(windows)) + 1
        for row in np.split(np.arange(len(windows)), edges):
            if windows[row[0]] and anchors[row].any():
                signs[row] = True
    return signs


def _rows(windows: WindowMask) -> list[tuple[int, int]]:
    """First window of each sequence of consecutive true windows, and first window after it."""
    changes = np.flatnonzero(np.diff(np.concatenate([[False], windows, [False]])))
    return [(int(first), int(last)) for first, last in changes.reshape(-1, 2)]
