"""Did the device slow down, when, and why?

Theory of operation. A run is cut into windows of 1 to 5 s. The first windows, at least 5 s, are the
baseline. Four signals are looked at in every window (see heat_signals): I, what the device itself
says; F, its frequency; T, its temperature; L, the latency.

    I     F     T     L      verdict
    yes   any   any   any    throttled:<cause of the indicator>, certain
    –     yes   yes   yes    throttled:thermal, probable; also where no frequency can be believed
    –     no    yes   yes    throttled:hidden (firmware, idle injection)
    –     yes   no    yes    frequency_limited:power_limit; :unknown where nothing tells of heat
    –     no    no    yes    interference: not thermal; unknown where not enough can be looked at
    –     any   any   no     not_throttled, if there was anything to look at
    nothing to look at       unknown; never "not throttled"

A signal explains a slower latency only if it is there in most of the slower windows; one that was
not read in most of them says nothing. Interference is what is left when everything else is out: it
takes a frequency that can be believed and either a temperature with a known limit or an indicator.

Source: benchexec (counters); node_exporter; the combination with the latency is our own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from edgebench.host.analysis.latency.summary import LatencySummary, summarize
from edgebench.host.analysis.latency.warmup import find_steady_state
from edgebench.host.analysis.thermal.heat_signals import (
    Flags,
    Signals,
    Temperatures,
    find_signals,
    find_temperatures,
)
from edgebench.host.analysis.thermal.indicators import widened
from edgebench.host.analysis.thermal.telemetry import Nanoseconds, Telemetry
from edgebench.host.analysis.thermal.timeline import (
    Timeline,
    Windows,
    cut_into_windows,
    window_length_s,
)
from edgebench.protocol.thermal import Expectation

MIN_WINDOWS = 8
SUSTAINED_SHARE = 0.2
"""The last part of a run, which stands for what the device can sustain."""


class ThermalState(str, Enum):
    """What can be said of a run."""

    THROTTLED = "throttled"
    FREQUENCY_LIMITED = "frequency_limited"
    INTERFERENCE = "interference"
    NOT_THROTTLED = "not_throttled"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Throttling:
    """The answer, with its numbers; None where the run is too short for them."""

    state: ThermalState
    cause: str | None
    """thermal, undervoltage, overcurrent, power_limit, hidden, unknown; None without throttling."""
    is_certain: bool
    """The device itself says so."""
    reason: str
    """One line."""
    start_temp_c: float | None = None
    throttle_temp_c: float | None = None
    """Where the device throttles; None: nobody knows."""
    max_temp_c: float | None = None
    onset_s: float | None = None
    """From the start of the measurement to the first sign."""
    peak_latency_ns: float | None = None
    """The lower quartile of the baseline's windows; None where that is throttled already."""
    sustained_latency_ns: float | None = None
    """Median of the windows in the last fifth."""
    peak_throughput_per_s: float | None = None
    """Inferences a second in the first 5 s, with what lies between them."""
    sustained_throughput_per_s: float | None = None
    """In the last fifth."""
    retention_ratio: float | None = None
    """Peak latency over sustained latency: the share of the speed that is kept."""
    throttled_ratio: float | None = None
    """Share of the windows with a sign."""
    latency_ns_before: LatencySummary | None = None
    """The headline, before the onset."""
    latency_ns_after: LatencySummary | None = None
    """After it; only the steady part, where it became steady."""
    is_baseline_cool: bool | None = None
    """Whether the run began below where the device throttles; None: nobody knows."""
    baseline_freq_hz: float | None = None
    nominal_freq_hz: float | None = None
    """What the device should run at; below it from the start is a slow governor, no onset."""

    @property
    def verdict(self) -> str:
        """State and cause as one word."""
        return f"{self.state.value}:{self.cause}" if self.cause else self.state.value


def find_throttling(
    timeline: Timeline, telemetry: Telemetry, expected: Expectation, *, threads: int = 1
) -> Throttling:
    """Judge one run; `timeline` without the warm-up."""
    windows = cut_into_windows(timeline)
    signals = find_signals(timeline, telemetry, expected, windows, threads=threads)
    if windows.count < MIN_WINDOWS:
        found = _too_short(signals, timeline, windows)
    else:
        found = _with_numbers(_decide(signals, windows), signals, timeline, windows)
    return _with_conditions(found, signals, find_temperatures(telemetry, expected, windows))


def _too_short(signals: Signals, timeline: Timeline, windows: Windows) -> Throttling:
    """Of a run of seconds only an indicator says anything."""
    if signals.indications:
        return _indicated(signals)
    return _unknown(
        f"{windows.length_s * windows.count:.2f} s are too short to see a device slow down, "
        f"{MIN_WINDOWS * window_length_s(timeline) + 1:.0f} s behind the warm-up would do"
    )


def _indicated(signals: Signals) -> Throttling:
    first = signals.indications[0]
    others = sorted({one.cause for one in signals.indications} - {first.cause})
    more = f"; also {', '.join(others)}" if others else ""
    return Throttling(ThermalState.THROTTLED, first.cause, True, f"{first.detail}{more}")


def _decide(signals: Signals, windows: Windows) -> Throttling:
    if signals.indications:
        return _indicated(signals)
    if not signals.sources:
        return _unknown("no temperature, frequency or indicator can be read here")
    if not signals.latency.any():
        return _not_slower(signals, windows)
    slow = signals.latency
    if signals.temperature is not None and signals.temperature.explains(slow):
        return _hot(signals)
    return _slower_without_heat(signals)


def _not_slower(signals: Signals, windows: Windows) -> Throttling:
    everywhere = np.ones(windows.count, np.bool_)
    looked = [name for name, signal in signals.sources.items() if signal.covers(everywhere)]
    if not looked:
        return _unknown("what the device shows was read in less than half of the run")
    if signals.elsewhere_ratio > 0.5:
        return _unknown("the model moved between kinds of cores for most of the run")
    if _ends_slower(signals):
        return _unknown("the latency grew only at the very end: measure longer to know why")
    reason = f"the latency did not grow; looked at {', '.join(looked)}"
    if signals.elsewhere_ratio > 0:
        reason += f"; {signals.elsewhere_ratio:.0%} of the run was on another kind of core"
    return Throttling(ThermalState.NOT_THROTTLED, None, False, reason)


def _ends_slower(signals: Signals) -> bool:
    """Whether the last window is slower, for which there is a sign of a reason."""
    signs = [signal.flags[-1] for signal in (signals.clock, signals.temperature) if signal]
    return bool(signals.slower[-1] and any(signs))


def _hot(signals: Signals) -> Throttling:
    reason, cause, clock = "hot, and the latency grew", "thermal", signals.clock
    if clock is not None and clock.explains(signals.latency):
        reason += " as the clock fell"
    elif clock is not None and clock.is_measured and clock.covers(signals.latency):
        reason, cause = f"{reason}, while the clock that is told did not fall", "hidden"
    return Throttling(ThermalState.THROTTLED, cause, False, reason)


def _slower_without_heat(signals: Signals) -> Throttling:
    clock, slow = signals.clock, signals.latency
    tells_of_heat = any(
        signal is not None and signal.covers(slow)
        for signal in (signals.temperature, signals.indicator)
    )
    if clock is not None and clock.explains(slow):
        cause = "power_limit" if tells_of_heat else "unknown"
        what = "it is not heat" if tells_of_heat else "no temperature tells why"
        reason = f"the clock fell, and {what}"
        return Throttling(ThermalState.FREQUENCY_LIMITED, cause, False, reason)
    if clock is None or not clock.is_measured or not clock.covers(slow):
        return _unknown("the latency grew, and no frequency that can be believed tells why")
    if not tells_of_heat:
        return _unknown("the latency grew, and nothing here tells of heat")
    reason = "the latency grew, without heat and without a slower clock"
    return Throttling(ThermalState.INTERFERENCE, None, False, reason)


def _unknown(reason: str) -> Throttling:
    return Throttling(ThermalState.UNKNOWN, None, False, reason)


def _with_conditions(found: Throttling, signals: Signals, temps: Temperatures) -> Throttling:
    """Temperatures and clock, however short the run."""
    heat, clock = signals.temperature, signals.clock
    is_cool = None
    if heat is not None and (heat.known & signals.baseline).any():
        is_cool = not bool((heat.flags & signals.baseline).any())
    return replace(
        found,
        start_temp_c=temps.start_c,
        max_temp_c=temps.max_c,
        throttle_temp_c=signals.throttle_c,
        is_baseline_cool=is_cool,
        baseline_freq_hz=clock.baseline_hz if clock else None,
        nominal_freq_hz=clock.nominal_hz if clock else None,
    )


def _with_numbers(
    found: Throttling, signals: Signals, timeline: Timeline, windows: Windows
) -> Throttling:
    is_slowed = found.state in (ThermalState.THROTTLED, ThermalState.FREQUENCY_LIMITED)
    signs = _signs(signals) if is_slowed else np.zeros(windows.count, np.bool_)
    onset = int(np.argmax(signs)) if signs.any() else None
    before, after = _around(timeline, windows, onset)
    first, last = windows.baseline_count, max(1, round(SUSTAINED_SHARE * windows.count))
    known_ns = signals.latency_ns[-last:][~np.isnan(signals.latency_ns[-last:])]
    sustained_ns = float(np.median(known_ns)) if known_ns.size else None
    # Throttled from the start, there is no undisturbed speed that anything could be a share of.
    has_peak = not _is_most(signs, signals.baseline)
    return replace(
        found,
        onset_s=None if onset is None else onset * windows.length_s,
        peak_latency_ns=signals.baseline_ns if has_peak else None,
        sustained_latency_ns=sustained_ns,
        peak_throughput_per_s=windows.throughput_per_s(timeline, 0, first) if has_peak else None,
        sustained_throughput_per_s=windows.throughput_per_s(
            timeline, windows.count - last, windows.count
        ),
        retention_ratio=signals.baseline_ns / sustained_ns if sustained_ns and has_peak else None,
        throttled_ratio=float(np.mean(signs)),
        latency_ns_before=before,
        latency_ns_after=after,
    )


def _is_most(flags: Flags, of: Flags) -> bool:
    return int(np.count_nonzero(flags & of)) * 2 > int(np.count_nonzero(of))


def _signs(signals: Signals) -> Flags:
    """Windows in which the device is slower for the reason that was found.

    A latency that grew before and apart from it, as by a neighbour at the start, is none of them.
    """
    reasons = np.zeros_like(signals.latency)
    for indication in signals.indications:
        reasons |= indication.windows
    others = [signals.latency]
    if signals.clock is not None:
        others.append(signals.clock.flags & widened(reasons | signals.latency))
    if not signals.indications:
        hot = signals.temperature.flags if signals.temperature is not None else reasons
        reasons = signals.latency & np.logical_or.reduce([hot, *others[1:]])
    signs = reasons.copy()
    for flags in others:
        signs |= _touching(flags, widened(reasons))
    return signs


def _touching(flags: Flags, anchors: Flags) -> Flags:
    """The rows of windows that reach into one of the anchors."""
    edges = np.flatnonzero(np.diff(flags)) + 1
    found = np.zeros_like(flags)
    for row in np.split(np.arange(len(flags)), edges):
        if flags[row[0]] and anchors[row].any():
            found[row] = True
    return found


def _around(
    timeline: Timeline, windows: Windows, onset: int | None
) -> tuple[LatencySummary | None, LatencySummary | None]:
    """The latency before the onset, and the steady part of what came after."""
    if onset is None:
        return None, None
    cut = int(np.searchsorted(timeline.start_ns, windows.edges_ns[onset]))
    before, after = timeline.invoke_ns[:cut], timeline.invoke_ns[cut:]
    steady = after[find_steady_state(after).first_steady_index or 0 :]
    return _summary(before), _summary(steady)


def _summary(invoke_ns: Nanoseconds) -> LatencySummary | None:
    return summarize(invoke_ns) if invoke_ns.size else None
