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

from edgebench.host.analysis.frequency import (
    Frequency,
    find_frequency,
    most_common,
    nominal_freq_hz,
)
from edgebench.host.analysis.indicators import Indication, find_indications
from edgebench.host.analysis.telemetry import Floats, Telemetry
from edgebench.host.analysis.timeline import Timeline, Windows
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
class Clock:
    """What the frequency says."""

    flags: Flags
    """Windows in which it, or its cap, was below the baseline."""
    is_measured: bool
    """There was a frequency to believe, not only a cap."""
    baseline_hz: float | None
    nominal_hz: float | None
    """What the device should run at."""


@dataclass(frozen=True, slots=True)
class Signals:
    """By window; None where no source tells."""

    indications: list[Indication]
    has_indicator: bool
    clock: Clock | None
    temperature: Flags | None
    latency: Flags
    median_ns: Floats
    """Latency, shape (k,); NaN where no inference began."""
    baseline_ns: float

    @property
    def sources(self) -> tuple[str, ...]:
        """What could be looked at."""
        there = {
            "indicators": self.has_indicator,
            "frequency": self.clock is not None,
            "temperature": self.temperature is not None,
        }
        return tuple(name for name, is_there in there.items() if is_there)


def find_signals(
    timeline: Timeline, telemetry: Telemetry, expected: Expectation, windows: Windows
) -> Signals:
    """Look at every window."""
    first = windows.baseline_count
    frequency = find_frequency(telemetry, expected, windows.edges_ns)
    is_at_home = _is_at_home(frequency, first)
    median_ns = windows.median_latency_ns(timeline)
    baseline_ns = _baseline_ns(median_ns[:first])
    is_slower = (median_ns > LATENCY_LIMIT_RATIO * baseline_ns) & is_at_home
    is_busy = _busy_ratio(timeline, telemetry, windows) >= BUSY_LIMIT_RATIO
    is_hot = _is_hot(telemetry, expected, windows)
    found = find_indications(telemetry, expected, windows.edges_ns, is_hot)
    return Signals(
        indications=found.indications,
        has_indicator=found.has_source,
        clock=_clock(
            frequency,
            first,
            is_busy & is_at_home,
            nominal_freq_hz(telemetry, expected, most_common(frequency.policy[:first])),
        ),
        temperature=is_hot,
        latency=_lasting(is_slower, is_known=~np.isnan(median_ns)),
        median_ns=median_ns,
        baseline_ns=baseline_ns,
    )


def _busy_ratio(timeline: Timeline, telemetry: Telemetry, windows: Windows) -> Floats:
    """By the inferences, or by CPU time: between short inferences there are gaps of their size."""
    ratio = windows.busy_ratio(timeline)
    cpu_s = telemetry.series.get("worker.cpu_s")
    return ratio if cpu_s is None else np.fmax(ratio, cpu_s.rates(windows.edges_ns))


def _baseline_ns(first_ns: Floats) -> float:
    """The lower quartile of the first windows: a warm-up that was left in makes some slow."""
    known = first_ns[~np.isnan(first_ns)]
    return float(np.quantile(known, 0.25, method="lower")) if known.size else math.nan


def _is_at_home(frequency: Frequency, first: int) -> Flags:
    """Windows in which the model ran on the cluster where it ran in the baseline."""
    cluster = frequency.cluster
    home = most_common(cluster[:first])
    same: Flags = (cluster == home) | np.isnan(cluster) | math.isnan(home)
    return same


def _clock(
    frequency: Frequency, first: int, counts: Flags, nominal_hz: float | None
) -> Clock | None:
    freq_hz, cap_hz = frequency.freq_hz, frequency.cap_hz
    baseline_hz = _baseline_hz(freq_hz, counts, first)
    cap_at_start_hz = _baseline_hz(cap_hz, np.ones_like(counts), first)
    if baseline_hz is None and cap_at_start_hz is None:
        return None
    flags = np.zeros_like(counts)
    if freq_hz is not None and baseline_hz is not None:
        flags |= (freq_hz < FREQ_LIMIT_RATIO * baseline_hz) & counts
    if cap_hz is not None and cap_at_start_hz is not None:
        flags |= cap_hz < FREQ_LIMIT_RATIO * cap_at_start_hz
    return Clock(flags, baseline_hz is not None, baseline_hz, nominal_hz)


def _baseline_hz(values: Floats | None, counts: Flags, first: int) -> float | None:
    if values is None:
        return None
    known = values[:first][counts[:first] & ~np.isnan(values[:first])]
    return float(np.median(known)) if known.size else None


def _is_hot(telemetry: Telemetry, expected: Expectation, windows: Windows) -> Flags | None:
    """Windows in which a zone is near where it throttles."""
    flags: Flags | None = None
    for name, series in telemetry.named("thermal.", ".temp_c").items():
        limit_c = _throttle_c(name, telemetry, expected)
        temp_c = series.medians(windows.edges_ns)
        if limit_c is None or np.isnan(temp_c).all():
            continue
        is_hot = temp_c >= limit_c - TEMP_MARGIN_C
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
