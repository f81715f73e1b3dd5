"""Did the device slow down, when, and why?

Theory of operation. A run is cut into windows of 1 to 5 s. The first windows, at least 5 s, are the
baseline. Four signals are looked at in every window:

    I  indicator     the device itself says so: firmware bits, throttle counters, cooling devices
    F  frequency     under 0.97 of the baseline, on the model's own policy; or a lowered cap
    T  temperature   within 2 °C of where the device throttles, or above
    L  latency       median over 1.05 of the baseline, in at least 3 windows in a row

    I     F     T     L      verdict
    yes   any   any   any    throttled:<cause of the indicator>, certain
    –     any   yes   yes    throttled:thermal, probable, where F or no frequency can be believed
    –     no    yes   yes    throttled:hidden (firmware, idle injection)
    –     yes   no    yes    frequency_limited:power_limit, or :unknown
    –     no    no    yes    interference: not thermal
    –     any   any   no     not_throttled, if there was anything to look at
    nothing to look at       unknown; never "not throttled"

Windows in which the model ran on another policy than in the baseline, as after a migration between
clusters, have neither F nor L: another core is no slower clock.

Source: benchexec (counters); node_exporter; the combination with the latency is our own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.frequency import Frequency, find_frequency
from edgebench.host.analysis.indicators import Indication, find_indications
from edgebench.host.analysis.telemetry import (
    Floats,
    Nanoseconds,
    Telemetry,
    window_medians,
    window_sums,
)
from edgebench.protocol.thermal import Expectation

Flags = NDArray[np.bool_]

WINDOW_S = (1.0, 5.0)
WINDOWS = 60
"""About so many in a run, between the shortest and the longest window."""
BASELINE_S = 5.0
BASELINE_SHARE_MAX = 0.25
MIN_WINDOWS = 8
FREQ_LIMIT_RATIO = 0.97
LATENCY_LIMIT_RATIO = 1.05
TEMP_MARGIN_C = 2.0
LASTING = 3
"""Windows in a row with a higher latency, before it counts."""
BUSY_LIMIT_RATIO = 0.8
"""Share of a window that inferences take, for its frequency to say anything."""
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
    """The answer, with its numbers."""

    state: ThermalState
    cause: str | None
    """thermal, undervoltage, overcurrent, power_limit, hidden, unknown; None without throttling."""
    is_certain: bool
    reason: str
    """One line."""
    onset_s: float | None
    """From the start of the measurement to the first sign."""
    peak_latency_ns: float | None
    """Median of the baseline."""
    sustained_latency_ns: float | None
    """Median of the last fifth."""
    retention_ratio: float | None
    """Throughput at the end over that at the start."""
    throttled_ratio: float | None
    """Share of the windows with a sign."""
    latency_ns_before: float | None
    """Median before the onset."""
    latency_ns_after: float | None
    """Median after it."""
    start_temp_c: float | None
    max_temp_c: float | None
    is_baseline_cool: bool | None
    """Whether the run began below where the device throttles; None: nobody knows."""

    @property
    def verdict(self) -> str:
        """State and cause as one word."""
        return f"{self.state.value}:{self.cause}" if self.cause else self.state.value


@dataclass(frozen=True, slots=True)
class Timeline:
    """When each inference began and how long it took, on the device's clock."""

    start_ns: Nanoseconds
    """Ascending, shape (n,)."""
    invoke_ns: Nanoseconds
    """Shape (n,)."""


def find_throttling(timeline: Timeline, telemetry: Telemetry, expected: Expectation) -> Throttling:
    """Judge one run; `timeline` without the warm-up."""
    edges_ns = _edges(timeline)
    signals = _signals(timeline, telemetry, expected, edges_ns)
    temps = _temperatures(telemetry, expected, edges_ns)
    if len(edges_ns) - 1 < MIN_WINDOWS:
        return _too_short(signals, temps, edges_ns)
    return _judge(signals, temps, timeline, edges_ns)


@dataclass(frozen=True, slots=True)
class _Signals:
    """By window; None where no source tells."""

    indications: list[Indication]
    has_indicator: bool
    frequency: Flags | None
    temperature: Flags | None
    latency: Flags
    median_ns: Floats
    baseline_ns: float

    @property
    def has_source(self) -> bool:
        return self.has_indicator or self.frequency is not None or self.temperature is not None


def _edges(timeline: Timeline) -> Nanoseconds:
    begin = int(timeline.start_ns[0])
    end = int(timeline.start_ns[-1] + timeline.invoke_ns[-1])
    length_ns = 1e9 * min(max((end - begin) / 1e9 / WINDOWS, WINDOW_S[0]), WINDOW_S[1])
    count = max(1, int((end - begin) // length_ns))
    return (begin + np.arange(count + 1) * length_ns).astype(np.int64)


def _baseline_count(edges_ns: Nanoseconds) -> int:
    windows = len(edges_ns) - 1
    wanted = math.ceil(BASELINE_S * 1e9 / float(edges_ns[1] - edges_ns[0]))
    return max(2, min(wanted, int(BASELINE_SHARE_MAX * windows)))


def _signals(
    timeline: Timeline, telemetry: Telemetry, expected: Expectation, edges_ns: Nanoseconds
) -> _Signals:
    first = _baseline_count(edges_ns)
    frequency = find_frequency(telemetry, edges_ns, is_request=expected.is_freq_a_request)
    is_same_policy = _is_same_policy(frequency, first, len(edges_ns) - 1)
    median_ns = window_medians(timeline.start_ns, timeline.invoke_ns.astype(np.float64), edges_ns)
    baseline_ns = _baseline_ns(median_ns[:first])
    is_slower = (median_ns > LATENCY_LIMIT_RATIO * baseline_ns) & is_same_policy
    busy = window_sums(timeline.start_ns, timeline.invoke_ns.astype(np.float64), edges_ns)
    is_busy = busy >= BUSY_LIMIT_RATIO * np.diff(edges_ns)
    found = find_indications(telemetry, expected, edges_ns)
    return _Signals(
        indications=found.indications,
        has_indicator=found.has_source,
        frequency=_slow_clock(frequency, first, is_busy & is_same_policy),
        temperature=_is_hot(telemetry, expected, edges_ns),
        latency=_lasting(is_slower),
        median_ns=median_ns,
        baseline_ns=baseline_ns,
    )


def _baseline_ns(first_ns: Floats) -> float:
    """The lower quartile of the first windows: a warm-up that was left in makes some slow."""
    known = first_ns[~np.isnan(first_ns)]
    return float(np.quantile(known, 0.25, method="lower")) if known.size else math.nan


def _is_same_policy(frequency: Frequency | None, first: int, count: int) -> Flags:
    """Windows in which the model ran where it ran in the baseline."""
    if frequency is None or np.isnan(frequency.policy).all():
        return np.ones(count, np.bool_)
    known = frequency.policy[:first][~np.isnan(frequency.policy[:first])]
    if not known.size:
        return np.ones(count, np.bool_)
    values, counts = np.unique(known, return_counts=True)
    home = values[np.argmax(counts)]
    same: Flags = (frequency.policy == home) | np.isnan(frequency.policy)
    return same


def _slow_clock(frequency: Frequency | None, first: int, counts: Flags) -> Flags | None:
    if frequency is None:
        return None
    flags = np.zeros(len(counts), np.bool_)
    is_any = False
    for values, needs_load in ((frequency.freq_hz, True), (frequency.cap_hz, False)):
        if values is None or np.isnan(values[:first]).all():
            continue
        is_any = True
        baseline = float(np.nanmedian(values[:first]))
        is_slow = values < FREQ_LIMIT_RATIO * baseline
        flags |= is_slow & counts if needs_load else is_slow
    return flags if is_any else None


def _is_hot(telemetry: Telemetry, expected: Expectation, edges_ns: Nanoseconds) -> Flags | None:
    """Windows in which a zone is near where it throttles."""
    flags: Flags | None = None
    for name, series in telemetry.named("thermal.", ".temp_c").items():
        limit_c = _throttle_c(name, telemetry, expected)
        if limit_c is None:
            continue
        is_hot = series.medians(edges_ns) >= limit_c - TEMP_MARGIN_C
        flags = is_hot if flags is None else flags | is_hot
    return flags


def _throttle_c(sensor: str, telemetry: Telemetry, expected: Expectation) -> float | None:
    """Where a zone begins to throttle: the kernel's own trip, where the profile trusts that."""
    trip_c = telemetry.constants.get(f"{sensor.removesuffix('.temp_c')}.throttle_c")
    zone = expected.zone(_zone_type(sensor))
    if zone is None:
        # An unknown board: a trip that is bound to something that slows down is telling.
        return trip_c if not expected.zones else None
    return trip_c if zone.trips_in_sysfs and trip_c is not None else zone.throttle_c


def _zone_type(sensor: str) -> str:
    return sensor.removeprefix("thermal.").removesuffix(".temp_c").rpartition(".")[0]


def _lasting(flags: Flags) -> Flags:
    """Only windows that have enough neighbours of their kind."""
    found = np.zeros_like(flags)
    begin = None
    for i, is_set in enumerate([*flags, False]):
        if is_set and begin is None:
            begin = i
        elif not is_set and begin is not None:
            if i - begin >= LASTING:
                found[begin:i] = True
            begin = None
    return found


@dataclass(frozen=True, slots=True)
class _Temperatures:
    start_c: float | None
    max_c: float | None


def _temperatures(
    telemetry: Telemetry, expected: Expectation, edges_ns: Nanoseconds
) -> _Temperatures:
    every = telemetry.named("thermal.", ".temp_c")
    # A board may have a dummy that always says 100 °C.
    known = [series for name, series in every.items() if expected.zone(_zone_type(name))]
    zones = known or list(every.values())
    inside = [
        series.value[(series.time_ns >= edges_ns[0]) & (series.time_ns <= edges_ns[-1])]
        for series in zones
    ]
    inside = [values for values in inside if values.size]
    if not inside:
        return _Temperatures(None, None)
    return _Temperatures(
        max(float(values[0]) for values in inside), max(float(values.max()) for values in inside)
    )


def _too_short(signals: _Signals, temps: _Temperatures, edges_ns: Nanoseconds) -> Throttling:
    """Of a run of seconds only an indicator says anything."""
    length_s = float(edges_ns[-1] - edges_ns[0]) / 1e9
    if signals.indications:
        first = signals.indications[0]
        return _answer(ThermalState.THROTTLED, first.cause, first.detail, temps, is_certain=True)
    return _answer(
        ThermalState.UNKNOWN,
        None,
        f"{length_s:.1f} s are too short to see a device slow down, "
        f"{MIN_WINDOWS * WINDOW_S[0]:g} s would do",
        temps,
    )


def _judge(
    signals: _Signals, temps: _Temperatures, timeline: Timeline, edges_ns: Nanoseconds
) -> Throttling:
    state, cause, reason, is_certain = _decide(signals)
    is_slowed = state in (ThermalState.THROTTLED, ThermalState.FREQUENCY_LIMITED)
    signs = _signs(signals, edges_ns) if is_slowed else np.zeros(len(edges_ns) - 1, np.bool_)
    onset_s = float(np.argmax(signs)) * _window_s(edges_ns) if signs.any() else None
    before, after = _around(timeline, edges_ns[0], onset_s)
    last = max(1, round(SUSTAINED_SHARE * len(signals.median_ns)))
    sustained = signals.median_ns[-last:]
    sustained_ns = float(np.nanmedian(sustained)) if not np.isnan(sustained).all() else None
    return _answer(
        state,
        cause,
        reason,
        temps,
        is_certain=is_certain,
        onset_s=onset_s,
        peak_latency_ns=signals.baseline_ns,
        sustained_latency_ns=sustained_ns,
        retention_ratio=signals.baseline_ns / sustained_ns if sustained_ns else None,
        throttled_ratio=float(np.mean(signs)),
        latency_ns_before=before,
        latency_ns_after=after,
        is_baseline_cool=_is_baseline_cool(signals, edges_ns),
    )


def _decide(signals: _Signals) -> tuple[ThermalState, str | None, str, bool]:
    """State, cause, reason, and whether the device itself says so."""
    if signals.indications:
        first = signals.indications[0]
        others = sorted({one.cause for one in signals.indications} - {first.cause})
        more = f"; also {', '.join(others)}" if others else ""
        return ThermalState.THROTTLED, first.cause, f"{first.detail}{more}", True
    is_slower = bool(signals.latency.any())
    is_hot = signals.temperature is not None and _meet(signals.temperature, signals.latency)
    has_clock = signals.frequency is not None
    is_slow_clock = signals.frequency is not None and _meet(signals.frequency, signals.latency)
    if not is_slower:
        return _not_slower(signals)
    if is_hot and (is_slow_clock or not has_clock):
        reason = "hot, and the latency grew" + (" as the clock fell" if is_slow_clock else "")
        return ThermalState.THROTTLED, "thermal", reason, False
    if is_hot:
        reason = "hot, and the latency grew, while the clock that is told did not fall"
        return ThermalState.THROTTLED, "hidden", reason, False
    if is_slow_clock:
        cause = "power_limit" if signals.temperature is not None else "unknown"
        return ThermalState.FREQUENCY_LIMITED, cause, "the clock fell, and it is not heat", False
    if not signals.has_source:
        reason = "the latency grew, and no sensor tells why"
        return ThermalState.UNKNOWN, None, reason, False
    reason = "the latency grew, without heat and without a slower clock"
    return ThermalState.INTERFERENCE, None, reason, False


def _not_slower(signals: _Signals) -> tuple[ThermalState, str | None, str, bool]:
    if not signals.has_source:
        reason = "no temperature, frequency or indicator can be read here"
        return ThermalState.UNKNOWN, None, reason, False
    seen = [
        name
        for name, is_there in (
            ("indicators", signals.has_indicator),
            ("frequency", signals.frequency is not None),
            ("temperature", signals.temperature is not None),
        )
        if is_there
    ]
    reason = f"the latency did not grow; looked at {', '.join(seen)}"
    return ThermalState.NOT_THROTTLED, None, reason, False


def _meet(one: Flags, other: Flags) -> bool:
    """Whether two signals are there at the same time, in most of the shorter one's windows."""
    both = int(np.count_nonzero(one & other))
    return both * 2 >= min(np.count_nonzero(one), np.count_nonzero(other)) and both > 0


def _signs(signals: _Signals, edges_ns: Nanoseconds) -> Flags:
    """Windows in which anything says that the device is slower."""
    signs = signals.latency.copy()
    for indication in signals.indications:
        signs |= indication.windows
    if signals.frequency is not None and signs.any():
        # A clock that fell a window before the latency was seen to grow belongs to it.
        signs |= signals.frequency & np.logical_or.reduce(
            [signs, np.roll(signs, -1), np.roll(signs, 1)]
        )
    return signs


def _is_baseline_cool(signals: _Signals, edges_ns: Nanoseconds) -> bool | None:
    if signals.temperature is None:
        return None
    return not bool(signals.temperature[: _baseline_count(edges_ns)].any())


def _around(
    timeline: Timeline, begin_ns: int, onset_s: float | None
) -> tuple[float | None, float | None]:
    """Medians before and after the onset."""
    if onset_s is None:
        return None, None
    is_after = timeline.start_ns >= begin_ns + onset_s * 1e9
    parts = timeline.invoke_ns[~is_after], timeline.invoke_ns[is_after]
    before, after = (float(np.median(part)) if part.size else None for part in parts)
    return before, after


def _window_s(edges_ns: Nanoseconds) -> float:
    return float(edges_ns[1] - edges_ns[0]) / 1e9


def _answer(
    state: ThermalState,
    cause: str | None,
    reason: str,
    temps: _Temperatures,
    *,
    is_certain: bool = False,
    onset_s: float | None = None,
    peak_latency_ns: float | None = None,
    sustained_latency_ns: float | None = None,
    retention_ratio: float | None = None,
    throttled_ratio: float | None = None,
    latency_ns_before: float | None = None,
    latency_ns_after: float | None = None,
    is_baseline_cool: bool | None = None,
) -> Throttling:
    return Throttling(
        state=state,
        cause=cause,
        is_certain=is_certain,
        reason=reason,
        onset_s=onset_s,
        peak_latency_ns=peak_latency_ns,
        sustained_latency_ns=sustained_latency_ns,
        retention_ratio=retention_ratio,
        throttled_ratio=throttled_ratio,
        latency_ns_before=latency_ns_before,
        latency_ns_after=latency_ns_after,
        start_temp_c=temps.start_c,
        max_temp_c=temps.max_c,
        is_baseline_cool=is_baseline_cool,
    )
