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

Interference is what is left when everything else is out: it takes a frequency that can be believed
and either a temperature with a known limit or an indicator.

Source: benchexec (counters); node_exporter; the combination with the latency is our own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from edgebench.host.analysis.heat_signals import (
    Flags,
    Signals,
    Temperatures,
    find_signals,
    find_temperatures,
)
from edgebench.host.analysis.indicators import widened
from edgebench.host.analysis.latency import LatencySummary, summarize
from edgebench.host.analysis.telemetry import Nanoseconds, Telemetry
from edgebench.host.analysis.timeline import Timeline, Windows, cut_into_windows, window_length_s
from edgebench.host.analysis.warmup import find_steady_state
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
    max_temp_c: float | None = None
    onset_s: float | None = None
    """From the start of the measurement to the first sign."""
    peak_latency_ns: float | None = None
    """The lower quartile of the baseline's medians."""
    sustained_latency_ns: float | None = None
    """Median of the medians in the last fifth."""
    peak_throughput_per_s: float | None = None
    """Inferences a second in the baseline, with what lies between them."""
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


def find_throttling(timeline: Timeline, telemetry: Telemetry, expected: Expectation) -> Throttling:
    """Judge one run; `timeline` without the warm-up."""
    windows = cut_into_windows(timeline)
    signals = find_signals(timeline, telemetry, expected, windows)
    temps = find_temperatures(telemetry, expected, windows)
    if windows.count < MIN_WINDOWS:
        return _with_temperatures(_too_short(signals, timeline, windows), temps)
    decided = _with_temperatures(_decide(signals), temps)
    return _with_clock(_with_numbers(decided, signals, timeline, windows), signals)


def _too_short(signals: Signals, timeline: Timeline, windows: Windows) -> Throttling:
    """Of a run of seconds only an indicator says anything."""
    if signals.indications:
        return _indicated(signals)
    return Throttling(
        ThermalState.UNKNOWN,
        None,
        is_certain=False,
        reason=f"{windows.length_s * windows.count:.1f} s are too short to see a device slow "
        f"down, {MIN_WINDOWS * window_length_s(timeline):.0f} s would do",
    )


def _indicated(signals: Signals) -> Throttling:
    first = signals.indications[0]
    others = sorted({one.cause for one in signals.indications} - {first.cause})
    more = f"; also {', '.join(others)}" if others else ""
    return Throttling(ThermalState.THROTTLED, first.cause, True, f"{first.detail}{more}")


def _decide(signals: Signals) -> Throttling:
    if signals.indications:
        return _indicated(signals)
    if not signals.sources:
        return _unknown("no temperature, frequency or indicator can be read here")
    if not signals.latency.any():
        reason = f"the latency did not grow; looked at {', '.join(signals.sources)}"
        return Throttling(ThermalState.NOT_THROTTLED, None, False, reason)
    if signals.temperature is not None and _meet(signals.temperature, signals.latency):
        return _hot(signals)
    return _slower_without_heat(signals)


def _hot(signals: Signals) -> Throttling:
    reason, cause = "hot, and the latency grew", "thermal"
    if signals.clock is not None and _meet(signals.clock.flags, signals.latency):
        reason += " as the clock fell"
    elif signals.clock is not None and signals.clock.is_measured:
        reason, cause = f"{reason}, while the clock that is told did not fall", "hidden"
    return Throttling(ThermalState.THROTTLED, cause, False, reason)


def _slower_without_heat(signals: Signals) -> Throttling:
    clock = signals.clock
    tells_of_heat = signals.temperature is not None or signals.has_indicator
    if clock is not None and _meet(clock.flags, signals.latency):
        cause = "power_limit" if tells_of_heat else "unknown"
        what = "it is not heat" if tells_of_heat else "no temperature tells why"
        reason = f"the clock fell, and {what}"
        return Throttling(ThermalState.FREQUENCY_LIMITED, cause, False, reason)
    if clock is None or not clock.is_measured:
        return _unknown("the latency grew, and no frequency that can be believed tells why")
    if not tells_of_heat:
        return _unknown("the latency grew, and nothing here tells of heat")
    reason = "the latency grew, without heat and without a slower clock"
    return Throttling(ThermalState.INTERFERENCE, None, False, reason)


def _unknown(reason: str) -> Throttling:
    return Throttling(ThermalState.UNKNOWN, None, False, reason)


def _meet(one: Flags, other: Flags) -> bool:
    """Whether two signals are there at the same time, in most of the shorter one's windows."""
    both = int(np.count_nonzero(one & other))
    return both * 2 >= min(np.count_nonzero(one), np.count_nonzero(other)) and both > 0


def _with_temperatures(found: Throttling, temps: Temperatures) -> Throttling:
    return replace(found, start_temp_c=temps.start_c, max_temp_c=temps.max_c)


def _with_clock(found: Throttling, signals: Signals) -> Throttling:
    if signals.clock is None:
        return found
    return replace(
        found,
        baseline_freq_hz=signals.clock.baseline_hz,
        nominal_freq_hz=signals.clock.nominal_hz,
    )


def _with_numbers(
    found: Throttling, signals: Signals, timeline: Timeline, windows: Windows
) -> Throttling:
    is_slowed = found.state in (ThermalState.THROTTLED, ThermalState.FREQUENCY_LIMITED)
    signs = _signs(signals) if is_slowed else np.zeros(windows.count, np.bool_)
    onset = int(np.argmax(signs)) if signs.any() else None
    before, after = _around(timeline, windows, onset)
    first, last = windows.baseline_count, max(1, round(SUSTAINED_SHARE * windows.count))
    known_ns = signals.median_ns[-last:][~np.isnan(signals.median_ns[-last:])]
    sustained_ns = float(np.median(known_ns)) if known_ns.size else None
    return replace(
        found,
        onset_s=None if onset is None else onset * windows.length_s,
        peak_latency_ns=signals.baseline_ns,
        sustained_latency_ns=sustained_ns,
        peak_throughput_per_s=windows.throughput_per_s(timeline, 0, first),
        sustained_throughput_per_s=windows.throughput_per_s(
            timeline, windows.count - last, windows.count
        ),
        retention_ratio=signals.baseline_ns / sustained_ns if sustained_ns else None,
        throttled_ratio=float(np.mean(signs)),
        latency_ns_before=before,
        latency_ns_after=after,
        is_baseline_cool=_is_baseline_cool(signals, windows),
    )


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
        hot = signals.temperature if signals.temperature is not None else reasons
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


def _is_baseline_cool(signals: Signals, windows: Windows) -> bool | None:
    if signals.temperature is None:
        return None
    return not bool(signals.temperature[: windows.baseline_count].any())


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
