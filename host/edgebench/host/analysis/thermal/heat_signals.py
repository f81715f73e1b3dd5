"""The four signals that tell whether a device slowed down, each by window.

    I  indicator     the device itself says so: firmware bits, throttle counters, cooling devices
    F  frequency     under 0.97 of the baseline, on the model's own policy; or a lowered cap
    T  temperature   within 2 °C of where the device throttles, or above
    L  latency       median over 1.05 of the baseline, in at least 3 windows in a row

A window's frequency counts only where the model takes most of it: otherwise a governor idles.
Windows in which the model ran on another cluster than in the baseline have neither F nor L: another
kind of core is no slower clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.thermal.frequency import (
    Frequency,
    find_frequency,
    most_common,
    nominal_freq_hz,
)
from edgebench.host.analysis.thermal.indicators import Indication, find_indications, widened
from edgebench.host.analysis.thermal.telemetry import Floats, Telemetry
from edgebench.host.analysis.thermal.timeline import Timeline, Windows
from edgebench.protocol.thermal import Expectation

Flags = NDArray[np.bool_]

FREQ_LIMIT_RATIO = 0.97
LATENCY_LIMIT_RATIO = 1.05
TEMP_MARGIN_C = 2.0
LASTING = 3
"""Windows in a row with a higher latency, before it counts."""
BUSY_LIMIT_RATIO = 0.8
"""Share of a window that inferences take, for its frequency to say anything."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal by window, shape (k,)."""

    flags: Flags
    known: Flags
    """Windows in which anything was read that could have set it."""

    def covers(self, windows: Flags) -> bool:
        """Whether it is known in most of these windows, of which there are some."""
        return int(np.count_nonzero(self.known & windows)) * 2 > int(np.count_nonzero(windows))

    def explains(self, windows: Flags) -> bool:
        """Whether it is set in most of these windows, as far as it is known there."""
        there = np.count_nonzero(self.known & windows)
        return self.covers(windows) and np.count_nonzero(self.flags & windows) * 2 > there


@dataclass(frozen=True, slots=True)
class Clock(Signal):
    """What the frequency says: set where it, or its cap, was below the baseline."""

    is_measured: bool
    """There was a frequency to believe, not only a cap."""
    baseline_hz: float | None
    nominal_hz: float | None
    """What the device should run at."""


@dataclass(frozen=True, slots=True)
class Signals:
    """By window; None where no source tells."""

    indications: list[Indication]
    indicator: Signal | None
    clock: Clock | None
    temperature: Signal | None
    throttle_c: float | None
    """Where the device throttles: the lowest of what is known of its zones."""
    latency: Flags
    """Slower, and lasting."""
    slower: Flags
    """Slower, however shortly."""
    latency_ns: Floats
    """Shape (k,); NaN where no inference began."""
    baseline_ns: float
    baseline: Flags
    """The windows that the others are held against."""
    elsewhere_ratio: float
    """Share of the windows that say nothing, as the model ran on another kind of core, or moved."""

    @property
    def sources(self) -> dict[str, Signal]:
        """What could be looked at, by name."""
        there = {
            "indicators": self.indicator,
            "frequency": self.clock,
            "temperature": self.temperature,
        }
        return {name: signal for name, signal in there.items() if signal is not None}


def find_signals(
    timeline: Timeline,
    telemetry: Telemetry,
    expected: Expectation,
    windows: Windows,
    *,
    threads: int = 1,
) -> Signals:
    """Look at every window."""
    frequency = find_frequency(telemetry, expected, windows.edges_ns)
    is_at_home = _is_at_home(frequency)
    latency_ns = windows.latency_ns(timeline)
    is_known = ~np.isnan(latency_ns) & is_at_home
    baseline = _first(is_known, windows.baseline_count)
    baseline_ns = _baseline_ns(latency_ns[baseline])
    is_slower = (latency_ns > LATENCY_LIMIT_RATIO * baseline_ns) & is_known
    is_busy = _busy_ratio(timeline, telemetry, windows, threads) >= BUSY_LIMIT_RATIO
    temperature, throttle_c = _temperature(telemetry, expected, windows)
    is_hot = temperature.flags if temperature else None
    found = find_indications(telemetry, expected, windows.edges_ns, is_hot)
    nominal_hz = nominal_freq_hz(telemetry, expected, most_common(frequency.policy[baseline]))
    clock = _clock(frequency, baseline, is_busy & is_at_home, nominal_hz)
    return Signals(
        indications=found.indications,
        indicator=Signal(np.zeros_like(found.known), found.known) if found.known.any() else None,
        clock=clock,
        temperature=temperature,
        throttle_c=throttle_c,
        latency=_lasting(is_slower, is_known) | _evident(is_slower, clock, temperature),
        slower=is_slower,
        latency_ns=latency_ns,
        baseline_ns=baseline_ns,
        baseline=baseline,
        elsewhere_ratio=float(np.mean(~is_at_home)),
    )


def _first(flags: Flags, count: int) -> Flags:
    """The first so many windows that are set."""
    found = np.zeros_like(flags)
    found[np.flatnonzero(flags)[:count]] = True
    return found


def _evident(slower: Flags, clock: Clock | None, temperature: Signal | None) -> Flags:
    """Slower as the clock fell, and hot: that need not last to be believed."""
    if clock is None or temperature is None:
        return np.zeros_like(slower)
    evident: Flags = slower & clock.flags & temperature.flags
    return evident


def _busy_ratio(timeline: Timeline, telemetry: Telemetry, windows: Windows, threads: int) -> Floats:
    """By the inferences, or by CPU time: between short inferences there are gaps of their size."""
    ratio = windows.busy_ratio(timeline)
    cpu_s = telemetry.series.get("worker.cpu_s")
    return ratio if cpu_s is None else np.fmax(ratio, cpu_s.rates(windows.edges_ns) / threads)


def _baseline_ns(first_ns: Floats) -> float:
    """The lower quartile of the first windows: a warm-up that was left in makes some slow."""
    return float(np.quantile(first_ns, 0.25, method="lower")) if first_ns.size else math.nan


def _is_at_home(frequency: Frequency) -> Flags:
    """Windows in which the model ran on the cluster where it mostly ran, and on no other."""
    cluster = frequency.cluster
    home = most_common(cluster)
    is_elsewhere: Flags = (cluster != home) & ~np.isnan(cluster)
    return ~widened(is_elsewhere)


def _clock(
    frequency: Frequency, baseline: Flags, counts: Flags, nominal_hz: float | None
) -> Clock | None:
    baseline_hz = _baseline_hz(frequency.freq_hz, baseline & counts)
    cap_at_start_hz = _baseline_hz(frequency.cap_hz, baseline)
    if baseline_hz is None and cap_at_start_hz is None:
        return None
    flags, known = np.zeros_like(counts), np.zeros_like(counts)
    if frequency.cap_hz is not None and cap_at_start_hz is not None:
        flags |= frequency.cap_hz < FREQ_LIMIT_RATIO * cap_at_start_hz
        known |= ~np.isnan(frequency.cap_hz)
    if frequency.freq_hz is not None and baseline_hz is not None:
        # A cap that did not fall says nothing where the clock itself is not read any more.
        known = counts & ~np.isnan(frequency.freq_hz) | flags
        flags |= (frequency.freq_hz < FREQ_LIMIT_RATIO * baseline_hz) & counts
    return Clock(flags, known, baseline_hz is not None, baseline_hz, nominal_hz)


def _baseline_hz(values: Floats | None, where: Flags) -> float | None:
    if values is None:
        return None
    known = values[where][~np.isnan(values[where])]
    return float(np.median(known)) if known.size else None


def _temperature(
    telemetry: Telemetry, expected: Expectation, windows: Windows
) -> tuple[Signal | None, float | None]:
    """Windows in which a zone is near where it throttles, and where the first of them does."""
    found: Signal | None = None
    limits = []
    for name, series in telemetry.named("thermal.", ".temp_c").items():
        limit_c = _throttle_c(name, telemetry, expected)
        temp_c = series.medians(windows.edges_ns)
        if limit_c is None or np.isnan(temp_c).all():
            continue
        limits.append(limit_c)
        flags, known = temp_c >= limit_c - TEMP_MARGIN_C, ~np.isnan(temp_c)
        found = Signal(flags, known) if found is None else _either(found, flags, known)
    return found, min(limits, default=None)


def _either(one: Signal, flags: Flags, known: Flags) -> Signal:
    return Signal(one.flags | flags, one.known | known)


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


def _lasting(flags: Flags, is_known: Flags) -> Flags:
    """Only windows with enough neighbours of their kind; one that says nothing parts none."""
    found = np.zeros_like(flags)
    where = np.flatnonzero(is_known)
    for run in np.split(where, np.flatnonzero(np.diff(flags[where])) + 1):
        if run.size >= LASTING:
            found[run] = flags[run]
    return found


@dataclass(frozen=True, slots=True)
class Temperatures:
    """Of the hottest zone that matters, °C; None where nothing was read."""

    start_c: float | None = None
    max_c: float | None = None


def find_temperatures(
    telemetry: Telemetry, expected: Expectation, windows: Windows
) -> Temperatures:
    """The first reading of the run and the highest."""
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
        return Temperatures()
    return Temperatures(
        max(float(values[0]) for values in inside), max(float(values.max()) for values in inside)
    )
