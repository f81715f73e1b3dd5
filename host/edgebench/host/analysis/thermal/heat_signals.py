"""Four signals that tell whether a device slowed down, each by window.

    I  indicator     the device itself says so: firmware bits, throttle counters, cooling devices
    F  frequency     below 0.97 of the baseline, on the model's own policy; or a lowered cap
    T  temperature   within 2 °C of where the device throttles, or above
    L  latency       median above 1.05 of the baseline, in at least 3 windows in a row

A window's frequency counts only where the model keeps the CPU busy: otherwise a governor idles.
Windows in which the model ran on another cluster than in the baseline have neither F nor L:
another kind of core is no slower clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgebench.host.analysis.thermal.frequency import (
    Frequency,
    find_frequency,
    most_common,
    nominal_freq_hz,
)
from edgebench.host.analysis.thermal.indicators import Indication, find_indications, widened
from edgebench.host.analysis.thermal.telemetry import Floats, TelemetryTrace, WindowMask
from edgebench.host.analysis.thermal.timeline import Timeline, Windows
from edgebench.protocol.thermal import Expectation

FREQ_LIMIT_RATIO = 0.97
LATENCY_LIMIT_RATIO = 1.05
TEMP_MARGIN_C = 2.0
LASTING = 3
"""Windows in a row with a higher latency, before it counts."""
BUSY_LIMIT_RATIO = 0.8
"""Share of a window that inferences take, for its frequency to say anything."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal by window."""

    is_set: WindowMask
    known: WindowMask
    """Windows in which anything was read that could have set it."""

    def covers(self, windows: WindowMask) -> bool:
        """Whether it is known in most of these windows, of which there are some."""
        return int(np.count_nonzero(self.known & windows)) * 2 > int(np.count_nonzero(windows))

    def explains(self, windows: WindowMask) -> bool:
        """Whether it is set in most of these windows, as far as it is known there."""
        there = np.count_nonzero(self.known & windows)
        return self.covers(windows) and np.count_nonzero(self.is_set & windows) * 2 > there


@dataclass(frozen=True, slots=True)
class FrequencySignal(Signal):
    """Set where the frequency, or its cap, was below the baseline."""

    is_measured: bool
    """Whether there was a frequency to believe, not only a cap."""
    baseline_hz: float | None
    nominal_hz: float | None
    """Frequency that the device should run at."""


@dataclass(frozen=True, slots=True)
class Signals:
    """All signals by window; None where no source tells."""

    indications: list[Indication]
    indicator: Signal | None
    frequency: FrequencySignal | None
    temperature: Signal | None
    throttle_c: float | None
    """Temperature at which the device throttles: the lowest of what is known of its zones."""
    latency: WindowMask
    """Windows with a higher latency that lasts."""
    slower: WindowMask
    """Windows with a higher latency, however short."""
    latency_ns: Floats
    """Latency, shape (k,); NaN where no inference began."""
    baseline_ns: float
    baseline: WindowMask
    """Windows that the others are compared with."""
    elsewhere_ratio: float
    """Share of the windows that say nothing, as the model ran on another kind of core, or moved."""

    @property
    def sources(self) -> dict[str, Signal]:
        """Signals that could be read, by name."""
        signals = {
            "indicators": self.indicator,
            "frequency": self.frequency,
            "temperature": self.temperature,
        }
        return {name: signal for name, signal in signals.items() if signal is not None}


def find_signals(
    timeline: Timeline,
    telemetry: TelemetryTrace,
    expected: Expectation,
    windows: Windows,
    *,
    threads: int = 1,
) -> Signals:
    """Look at every window."""
    frequency = find_frequency(telemetry, expected, windows.edges_ns)
    home = most_common(frequency.cluster)
    is_home = ~widened((frequency.cluster != home) & ~np.isnan(frequency.cluster))

    latency_ns = windows.latency_ns(timeline)
    is_known = ~np.isnan(latency_ns) & is_home
    baseline = np.zeros_like(is_known)
    baseline[np.flatnonzero(is_known)[: windows.baseline_count]] = True
    baseline_ns = math.nan
    if baseline.any():
        # The lower quartile: a warm-up that was left in makes some of these windows slow.
        baseline_ns = float(np.quantile(latency_ns[baseline], 0.25, method="lower"))
    is_slower = (latency_ns > LATENCY_LIMIT_RATIO * baseline_ns) & is_known

    busy_ratio = windows.busy_ratio(timeline)
    if (cpu_s := telemetry.series.get("worker.cpu_s")) is not None:
        # Between short inferences there are gaps as long as they are; CPU time has none.
        busy_ratio = np.fmax(busy_ratio, cpu_s.rates(windows.edges_ns) / threads)
    nominal_hz = nominal_freq_hz(telemetry, expected, most_common(frequency.policy[baseline]))
    is_busy = (busy_ratio >= BUSY_LIMIT_RATIO) & is_home
    clock = _frequency_signal(frequency, baseline, is_busy, nominal_hz)

    temperature, throttle_c = _temperature_signal(telemetry, expected, windows)
    is_hot = temperature.is_set if temperature else None
    found = find_indications(telemetry, expected, windows.edges_ns, is_hot)
    latency = _lasting(is_slower, is_known)
    if clock is not None and temperature is not None:
        # Slower, hot and with a slower clock: that need not last to be believed.
        latency |= is_slower & clock.is_set & temperature.is_set
    return Signals(
        indications=found.indications,
        indicator=Signal(np.zeros_like(found.known), found.known) if found.known.any() else None,
        frequency=clock,
        temperature=temperature,
        throttle_c=throttle_c,
        latency=latency,
        slower=is_slower,
        latency_ns=latency_ns,
        baseline_ns=baseline_ns,
        baseline=baseline,
        elsewhere_ratio=float(np.mean(~is_home)),
    )


def _frequency_signal(
    frequency: Frequency, baseline: WindowMask, is_busy: WindowMask, nominal_hz: float | None
) -> FrequencySignal | None:
    baseline_hz = _median_hz(frequency.freq_hz, baseline & is_busy)
    cap_at_start_hz = _median_hz(frequency.cap_hz, baseline)
    if baseline_hz is None and cap_at_start_hz is None:
        return None
    is_set, known = np.zeros_like(is_busy), np.zeros_like(is_busy)
    if frequency.cap_hz is not None and cap_at_start_hz is not None:
        is_set |= frequency.cap_hz < FREQ_LIMIT_RATIO * cap_at_start_hz
        known |= ~np.isnan(frequency.cap_hz)
    if frequency.freq_hz is not None and baseline_hz is not None:
        # A cap that did not fall says nothing where the clock itself is not read any more.
        known = is_busy & ~np.isnan(frequency.freq_hz) | is_set
        is_set |= (frequency.freq_hz < FREQ_LIMIT_RATIO * baseline_hz) & is_busy
    return FrequencySignal(is_set, known, baseline_hz is not None, baseline_hz, nominal_hz)


def _median_hz(values: Floats | None, where: WindowMask) -> float | None:
    if values is None:
        return None
    known = values[where][~np.isnan(values[where])]
    return float(np.median(known)) if known.size else None


def _temperature_signal(
    telemetry: TelemetryTrace, expected: Expectation, windows: Windows
) -> tuple[Signal | None, float | None]:
    """Windows in which a zone is near where it throttles, and where the first of them does."""
    is_set, known = np.zeros(windows.count, np.bool_), np.zeros(windows.count, np.bool_)
    limits = []
    for name, series in telemetry.named("thermal.", ".temp_c").items():
        limit_c = _throttle_c(name, telemetry, expected)
        temp_c = series.medians(windows.edges_ns)
        if limit_c is None or np.isnan(temp_c).all():
            continue
        limits.append(limit_c)
        is_set |= temp_c >= limit_c - TEMP_MARGIN_C
        known |= ~np.isnan(temp_c)
    return (Signal(is_set, known), min(limits)) if limits else (None, None)


def _throttle_c(sensor: str, telemetry: TelemetryTrace, expected: Expectation) -> float | None:
    """Where a zone begins to throttle: the kernel's own trip, where the profile trusts that."""
    trip_c = telemetry.constants.get(f"{sensor.removesuffix('.temp_c')}.throttle_c")
    zone = expected.zone(_zone_type(sensor))
    if zone is None:
        # An unknown board: a trip that is bound to something that slows down is telling.
        return trip_c if not expected.zones else None
    return trip_c if zone.trips_in_sysfs and trip_c is not None else zone.throttle_c


def _zone_type(sensor: str) -> str:
    return sensor.removeprefix("thermal.").removesuffix(".temp_c").rpartition(".")[0]


def _lasting(windows: WindowMask, is_known: WindowMask) -> WindowMask:
    """Windows with enough neighbours of their kind; a window that says nothing parts none."""
    lasting = np.zeros_like(windows)
    where = np.flatnonzero(is_known)
    for row in np.split(where, np.flatnonzero(np.diff(windows[where])) + 1):
        if row.size >= LASTING:
            lasting[row] = windows[row]
    return lasting


def start_and_max_temp_c(
    telemetry: TelemetryTrace, expected: Expectation, windows: Windows
) -> tuple[float | None, float | None]:
    """First reading of the run and the highest, of the hottest zone that matters."""
    every = telemetry.named("thermal.", ".temp_c")
    # A board may have a dummy that always says 100 °C.
    known = [series for name, series in every.items() if expected.zone(_zone_type(name))]
    begin, end = windows.edges_ns[0], windows.edges_ns[-1]
    inside = [
        series.value[(series.time_ns >= begin) & (series.time_ns <= end)]
        for series in known or every.values()
    ]
    inside = [values for values in inside if values.size]
    if not inside:
        return None, None
    return max(float(values[0]) for values in inside), max(float(one.max()) for one in inside)
