"""Five signals that show whether a device slowed down, each by window.

    I  indicator     reported by the device: firmware bits, throttle counters, cooling devices
    F  frequency     below 0.97 of the baseline, on the model's own policy or accelerator; or a
                     lowered cap
    M  memory        the clock of the memory or of a bus to it, below 0.97 of the same clock in the
                     windows whose latency is not raised
    T  temperature   within 2 °C of the throttle temperature, or above it
    L  latency       above 1.05 of the baseline, in at least 3 windows in a row

A device may slow down in cycles. A cycle that is shorter than three windows does not raise the
latency of three windows in a row. If the slow part takes a quarter of each window, the slow part
does not raise a median either. So a run without a lasting slowdown is analysed again in slices of
half a second, with means in place of medians. L is then a latency that is repeatedly higher.

A smaller increase counts if its cause is known. If the latency is 2 % higher in windows that are
hot and have a lower clock, heat has raised the latency.

The baselines of frequency and latency come from the same windows, because a turbo or a cool chip
may last for only two of the five seconds of the baseline.

A window's frequency counts only if the model keeps the CPU busy, because governors lower the clock
of an idle CPU. In some windows, the model may run on another cluster than in the baseline. Such
windows have neither F nor L, because another type of core is not a slower clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgebench.host.analysis.thermal.delegation import Delegation
from edgebench.host.analysis.thermal.frequency import (
    Frequency,
    find_frequency,
    most_common,
    nominal_freq_hz,
)
from edgebench.host.analysis.thermal.indicators import (
    Indication,
    ModelPlace,
    find_indications,
    widened,
)
from edgebench.host.analysis.thermal.memory_clock import memory_clocks
from edgebench.host.analysis.thermal.telemetry import Floats, Series, TelemetryTrace, WindowMask
from edgebench.host.analysis.thermal.timeline import WINDOW_S, Timeline, Windows, cut_into_slices
from edgebench.host.result.reason import Reason
from edgebench.protocol.thermal import Expectation

FREQ_DROP_LIMIT_RATIO = 0.97
LATENCY_LIMIT_RATIO = 1.05
BASELINE_QUANTILE = 0.25
"""Quantile of the values of the baseline's windows that is used as the value of the baseline. The
median is not used, because some of the windows may be slow: a warm-up may not have ended yet, or a
turbo may have ended already."""
EXPLAINED_LIMIT_RATIO = 1.02
"""Smallest increase of the latency that counts if heat and a lower clock explain it. The mean of
the middle half of a window repeats to well within 1 % on a quiet device."""
NOISE_LIMIT = 5.0
"""A window counts as slower if it exceeds the lower quartile of the baseline by this many standard
deviations. The quartile is 0.7 standard deviations below the mean, and may be 2 standard deviations
below it by chance in a baseline of two windows. If the latencies vary by less than about 10 %,
`LATENCY_LIMIT_RATIO` remains the limit."""
STEP_QUARTILE = 0.4506
"""Lower quartile of the absolute difference between two normal variables, divided by their standard
deviation."""
CYCLE_S = 30.0
"""Longest cycle to detect: governors of skin temperature act in tens of seconds."""
RECURRING_SHARE = 0.1
"""Minimum share of slow slices (parts of half a second) in a cycle. A clock that is a third lower
in less than a tenth of the time costs less than 5 %."""
RECURRING_S, RECURRING_RUN_SHARE = 3.0, 0.02
"""Minimum total time of all slow parts, s, and their minimum share of the run.

The minimum share equals that of a lasting level in the search for the warm-up.
"""
CHANGE_QUANTILE = 0.95
"""Quantile of all windows' clock changes that is reported, so that short changes do not count."""
TEMP_MARGIN_C = 2.0
LASTING = 3
"""Number of windows in a row in which the latency must be higher to count as lasting."""
BUSY_LIMIT_RATIO = 0.8
"""The frequency of a window counts if inferences take at least this share of the window."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal by window."""

    is_set: WindowMask
    known: WindowMask
    """Windows in which readings decide whether the signal is set."""

    def covers(self, windows: WindowMask) -> bool:
        """Whether the signal is known in most of these windows; False without windows."""
        return int(np.count_nonzero(self.known & windows)) * 2 > int(np.count_nonzero(windows))

    def explains(self, windows: WindowMask) -> bool:
        """Whether the signal is known in most of the windows, and set in most of these."""
        there = np.count_nonzero(self.known & windows)
        return self.covers(windows) and np.count_nonzero(self.is_set & windows) * 2 > there


@dataclass(frozen=True, slots=True)
class FrequencySignal(Signal):
    """A signal that is set in windows whose frequency, or frequency cap, was below the baseline."""

    is_measured: bool
    """Whether the run has a trusted frequency, not only a cap."""
    baseline_hz: float | None
    nominal_hz: float | None
    change_ratio: float | None
    """95th percentile of the windows' relative distance from the baseline; None if not measured."""


@dataclass(frozen=True, slots=True)
class MemorySignal(Signal):
    """A signal that is set in windows with a lower clock of the memory, or of a bus to it."""

    name: str
    """Name under /sys/class/devfreq."""
    fast_hz: float
    """Clock in windows whose latency is not raised."""
    slow_hz: float
    """Clock in windows whose latency is raised."""


@dataclass(frozen=True, slots=True)
class Move:
    """Time that the model spent on a type of core other than the one that it used most."""

    ratio: float
    """Share of windows on the other type of core, including windows in which the model moved."""
    latency_ratio: float | None
    """Latency on the other type of core divided by the latency on the usual type. None if the model
    never stayed on the other type of core for a whole window."""


@dataclass(frozen=True, slots=True)
class Signals:
    """All signals by window; a signal is None if no source reports it."""

    indications: list[Indication]
    indicator: Signal | None
    frequency: FrequencySignal | None
    memory: MemorySignal | None
    """Clock of the memory that explains the latency; None if there is none."""
    temperature: Signal | None
    throttle_c: float | None
    """Temperature at which the device throttles, as the lowest known limit of its zones."""
    latency: WindowMask
    """Windows with a higher latency that lasts."""
    slower: WindowMask
    """Windows with a higher latency, including short periods."""
    latency_ns: Floats
    """Latency, shape (k,); NaN where no inference began."""
    baseline_ns: float
    baseline: WindowMask
    """Windows of the baseline, shape (k,)."""
    is_home: WindowMask
    """Windows in which the model stayed on the type of core that it ran on most."""
    moved: Move | None
    """Time on another type of core; None if the model did not move."""
    is_sliced: bool
    """Whether the windows are slices, in which a repeatedly higher latency sets the signal L."""
    indicated_elsewhere: tuple[Reason, ...]
    """Reports of the device about parts that the model did not run on."""

    @property
    def sources(self) -> dict[str, Signal]:
        """Signals that could be read, by name."""
        signals = {
            "indicators": self.indicator,
            "frequency": self.frequency,
            "temperature": self.temperature,
        }
        return {name: signal for name, signal in signals.items() if signal is not None}


@dataclass(frozen=True, slots=True)
class _Latencies:
    """Latency of every window, and its baseline."""

    latency_ns: Floats
    is_known: WindowMask
    """Windows that have a latency, and in which the model ran on the cluster of the baseline."""
    is_slower: WindowMask
    baseline: WindowMask
    baseline_ns: float

    @classmethod
    def of(
        cls, timeline: Timeline, windows: Windows, is_home: WindowMask, *, is_sliced: bool
    ) -> _Latencies:
        """The latency of each window or slice. Slices have means, which show short slowdowns.

        Args:
            timeline: Queries of the run.
            windows: The windows.
            is_home: Windows in which the model ran on the cluster of the baseline.
            is_sliced: Whether the windows are slices.
        """
        dips_ns = windows.latency_with_dips_ns(timeline) if is_sliced else None
        latency_ns = windows.latency_ns(timeline) if dips_ns is None else dips_ns
        is_known = ~np.isnan(latency_ns) & is_home
        baseline = np.zeros_like(is_known)
        baseline[np.flatnonzero(is_known)[: windows.baseline_count]] = True
        baseline_ns, limit_ns = _baseline_and_limit_ns(latency_ns, baseline)
        is_slower = (latency_ns > limit_ns) & is_known
        return cls(latency_ns, is_known, is_slower, baseline, baseline_ns)


def find_signals(
    timeline: Timeline,
    telemetry: TelemetryTrace,
    expected: Expectation,
    windows: Windows,
    *,
    threads: int = 1,
    delegation: Delegation | None = None,
    is_sliced: bool = False,
) -> Signals:
    """Signals of every window, from medians or, if the windows are slices, from means."""
    reading = Series.means if is_sliced else Series.medians
    frequency = find_frequency(telemetry, expected, windows.edges_ns, reading, delegation)
    home = most_common(frequency.cluster)
    is_away = (frequency.cluster != home) & ~np.isnan(frequency.cluster)
    is_home = ~widened(is_away)
    times = _Latencies.of(timeline, windows, is_home, is_sliced=is_sliced)
    latency_ns, is_known, is_slower = times.latency_ns, times.is_known, times.is_slower
    is_busy = (_busy_ratio(timeline, telemetry, windows, threads) >= BUSY_LIMIT_RATIO) & is_home
    # The same estimator as for the latency, because a turbo may end within the first window.
    early = find_frequency(telemetry, expected, windows.edges_ns, Series.midmeans, delegation)
    nominal_hz = _nominal_hz(telemetry, expected, frequency, times.baseline, delegation)
    clock = _frequency_signal(frequency, early, times, is_busy, nominal_hz)
    temperature, throttle_c = _temperature_signal(telemetry, expected, windows)
    is_raised = (latency_ns > EXPLAINED_LIMIT_RATIO * times.baseline_ns) & is_known
    place = ModelPlace(
        policy=frequency.policy,
        is_one_thread=threads == 1,
        delegation=delegation,
        is_affected=is_raised if clock is None else is_raised | clock.is_set,
    )
    is_hot = temperature.is_set if temperature else None
    indications = find_indications(telemetry, expected, windows.edges_ns, is_hot, place)
    latency = (
        _recurring_and_high(times, windows)
        if is_sliced
        else _slow_for_long(is_slower, is_raised, is_known, clock, temperature)
    )
    known = indications.known
    clocks_hz = {
        name: reading(series, windows.edges_ns)
        for name, series in memory_clocks(telemetry, delegation is not None).items()
    }
    return Signals(
        indications=indications.indications,
        indicator=Signal(np.zeros_like(known), known) if known.any() else None,
        frequency=clock,
        memory=_memory_signal(clocks_hz, slow=latency, fast=is_known & is_busy & ~is_slower),
        temperature=temperature,
        throttle_c=throttle_c,
        latency=latency,
        slower=is_slower,
        latency_ns=latency_ns,
        baseline_ns=times.baseline_ns,
        baseline=times.baseline,
        is_home=is_home,
        moved=_move(latency_ns, is_home, is_away),
        is_sliced=is_sliced,
        indicated_elsewhere=indications.elsewhere,
    )


def _nominal_hz(
    telemetry: TelemetryTrace,
    expected: Expectation,
    frequency: Frequency,
    baseline: WindowMask,
    delegation: Delegation | None,
) -> float | None:
    """Clock of the processor without throttling; for an accelerator, its cap in the baseline."""
    if delegation is not None:
        return _median_hz(frequency.cap_hz, baseline)
    return nominal_freq_hz(telemetry, expected, most_common(frequency.policy[baseline]))


def _recurring_and_high(times: _Latencies, windows: Windows) -> WindowMask:
    """Slow slices that recur, or no slices if those in between are hardly faster."""
    latency = _recurring(times.is_slower, times.is_known, windows)
    return latency & _stands_out(latency, times.latency_ns, times.is_known)


def _slow_for_long(
    is_slower: WindowMask,
    is_raised: WindowMask,
    is_known: WindowMask,
    clock: Signal | None,
    temperature: Signal | None,
) -> WindowMask:
    """Windows whose higher latency lasts, or has heat with a lower clock as its cause."""
    latency = _lasting(is_slower, is_known)
    if clock is not None and temperature is not None:
        # A slower window that is hot and has a lower clock counts without lasting.
        is_explained = clock.is_set & temperature.is_set
        latency |= is_slower & is_explained
        latency |= _lasting(is_raised & is_explained, is_known)
    return latency


def _baseline_and_limit_ns(latency_ns: Floats, baseline: WindowMask) -> tuple[float, float]:
    """Latency of the baseline, and limit above which a window is slower; NaN without a baseline."""
    if not baseline.any():
        return math.nan, math.nan
    baseline_ns = float(np.quantile(latency_ns[baseline], BASELINE_QUANTILE, method="lower"))
    # Standard deviation of a window, by the differences between neighbours. The lower quartile of
    # the differences is insensitive to a trend, and to steps in up to half of them.
    steps_ns = np.abs(np.diff(latency_ns))
    steps_ns = steps_ns[~np.isnan(steps_ns)]
    noise_ns = NOISE_LIMIT * (
        float(np.quantile(steps_ns, 0.25)) / STEP_QUARTILE if steps_ns.size else 0.0
    )
    return baseline_ns, max(LATENCY_LIMIT_RATIO * baseline_ns, baseline_ns + noise_ns)


def _busy_ratio(
    timeline: Timeline, telemetry: TelemetryTrace, windows: Windows, threads: int
) -> Floats:
    """Share of each window in which the model kept its threads busy."""
    busy_ratio = windows.busy_ratio(timeline)
    if (cpu_s := telemetry.series.get("worker.cpu_s")) is not None:
        # Gaps between short inferences are as long as the inferences; CPU time has no gaps.
        busy_ratio = np.fmax(busy_ratio, cpu_s.rates(windows.edges_ns) / threads)
    return busy_ratio


def find_recurring_signals(
    timeline: Timeline,
    telemetry: TelemetryTrace,
    expected: Expectation,
    windows: Windows,
    *,
    threads: int = 1,
    delegation: Delegation | None = None,
) -> tuple[Windows, Signals] | None:
    """Slices of a run and their signals; None unless the latency rises again and again."""
    steps_ns = [np.diff(series.time_ns) for series in telemetry.series.values()]
    reading_s = min(
        (float(np.median(step_ns)) / 1e9 for step_ns in steps_ns if step_ns.size), default=0.0
    )
    slices = cut_into_slices(timeline, windows, reading_s)
    if slices is None:
        return None
    signals = find_signals(
        timeline,
        telemetry,
        expected,
        slices,
        threads=threads,
        delegation=delegation,
        is_sliced=True,
    )
    return (slices, signals) if signals.latency.any() else None


def _move(latency_ns: Floats, is_home: WindowMask, is_away: WindowMask) -> Move | None:
    if is_home.all():
        return None
    home_ns, away_ns = latency_ns[is_home], latency_ns[is_away]
    home_ns, away_ns = home_ns[~np.isnan(home_ns)], away_ns[~np.isnan(away_ns)]
    ratio = None
    if home_ns.size and away_ns.size:
        ratio = float(np.median(away_ns) / np.median(home_ns))
    return Move(float(np.mean(~is_home)), ratio)


def _recurring(is_slower: WindowMask, is_known: WindowMask, slices: Windows) -> WindowMask:
    """Slow slices that recur, or that last without a break as long as a lasting slowdown."""
    nowhere = np.zeros_like(is_slower)
    where = np.flatnonzero(is_known)
    if not where.size:
        return nowhere
    width = 2 * round(CYCLE_S / 2 / slices.length_s) + 1
    around = np.ones(min(width, len(is_slower)))
    slow_count = np.convolve(is_slower, around, "same")
    known_count = np.convolve(is_known, around, "same")
    recurring = is_slower & (slow_count >= RECURRING_SHARE * known_count)
    rows = np.split(where, np.flatnonzero(np.diff(recurring[where])) + 1)
    lengths = [len(row) for row in rows if recurring[row[0]]]
    slow_s = sum(lengths) * slices.length_s
    is_long_enough = slow_s >= max(RECURRING_S, RECURRING_RUN_SHARE * slices.duration_s)
    lasts = max(lengths, default=0) * slices.length_s >= LASTING * WINDOW_S[1]
    return recurring if is_long_enough and (len(lengths) >= LASTING or lasts) else nowhere


def _stands_out(slow: WindowMask, latency_ns: Floats, is_known: WindowMask) -> bool:
    """Whether the slices between the slow slices are faster by at least the limit of a slowdown.

    A latency that rose to about the limit, and stayed there, crosses it repeatedly by chance.
    """
    where = np.flatnonzero(slow)
    if not where.size:
        return False
    between = ~slow & is_known
    between[: where[0]] = between[where[-1] + 1 :] = False
    if np.count_nonzero(between) < RECURRING_SHARE * where.size:
        return True
    slow_ns, between_ns = np.median(latency_ns[slow]), np.median(latency_ns[between])
    return bool(slow_ns > LATENCY_LIMIT_RATIO * between_ns)


def _fast_hz(freq_hz: Floats | None, latency_ns: Floats, baseline: WindowMask) -> float | None:
    """Clock in the fastest quarter of the baseline's windows; None if it was not read there."""
    read = baseline if freq_hz is None else baseline & ~np.isnan(freq_hz)
    if not read.any():
        return None
    limit_ns = np.quantile(latency_ns[read], BASELINE_QUANTILE, method="lower")
    return _median_hz(freq_hz, read & (latency_ns <= limit_ns))


def _memory_signal(
    clocks_hz: dict[str, Floats], *, slow: WindowMask, fast: WindowMask
) -> MemorySignal | None:
    """Signal of the clock that fell most from fast to slow windows; None if no clock fell.

    Args:
        clocks_hz: Maps each memory and bus to its clock by window, shape (k,), NaN where not read.
        slow: Windows with a higher latency that lasts.
        fast: Other windows in which the model kept the processor busy.
    """
    signals = []
    for name, freq_hz in clocks_hz.items():
        fast_hz, slow_hz = _median_hz(freq_hz, fast), _median_hz(freq_hz, slow)
        if fast_hz is None or slow_hz is None:
            continue
        is_set = freq_hz < FREQ_DROP_LIMIT_RATIO * fast_hz
        signal = MemorySignal(is_set, ~np.isnan(freq_hz), name, fast_hz, slow_hz)
        if signal.explains(slow):
            signals.append(signal)
    return min(signals, key=lambda signal: signal.slow_hz / signal.fast_hz, default=None)


def _frequency_signal(
    frequency: Frequency,
    early: Frequency,
    times: _Latencies,
    is_busy: WindowMask,
    nominal_hz: float | None,
) -> FrequencySignal | None:
    baseline_hz = _fast_hz(early.freq_hz, times.latency_ns, times.baseline & is_busy)
    cap_at_start_hz = _fast_hz(early.cap_hz, times.latency_ns, times.baseline)
    if baseline_hz is None and cap_at_start_hz is None:
        return None
    is_set, known = np.zeros_like(is_busy), np.zeros_like(is_busy)
    change_ratio = None
    if frequency.cap_hz is not None and cap_at_start_hz is not None:
        is_set |= frequency.cap_hz < FREQ_DROP_LIMIT_RATIO * cap_at_start_hz
        known |= ~np.isnan(frequency.cap_hz)
    if frequency.freq_hz is not None and baseline_hz is not None:
        # Without readings of the clock, only a fallen cap counts.
        known = is_busy & ~np.isnan(frequency.freq_hz) | is_set
        is_set |= (frequency.freq_hz < FREQ_DROP_LIMIT_RATIO * baseline_hz) & is_busy
        read_hz = frequency.freq_hz[is_busy & ~np.isnan(frequency.freq_hz)]
        if read_hz.size and baseline_hz > 0:
            changes = np.abs(read_hz / baseline_hz - 1)
            change_ratio = float(np.quantile(changes, CHANGE_QUANTILE, method="lower"))
    is_measured = baseline_hz is not None
    return FrequencySignal(is_set, known, is_measured, baseline_hz, nominal_hz, change_ratio)


def _median_hz(values: Floats | None, where: WindowMask) -> float | None:
    if values is None:
        return None
    known = values[where][~np.isnan(values[where])]
    return float(np.median(known)) if known.size else None


def _temperature_signal(
    telemetry: TelemetryTrace, expected: Expectation, windows: Windows
) -> tuple[Signal | None, float | None]:
    """Windows in which a zone is near its throttle temperature, and the lowest of these limits."""
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
    """Temperature at which a zone throttles: the kernel's trip point if the profile trusts it."""
    trip_c = telemetry.constants.get(f"{sensor.removesuffix('.temp_c')}.throttle_c")
    zone = expected.zone(_zone_type(sensor))
    if zone is None:
        # On an unknown board, the trip point counts: a device that slows the chip is bound to it.
        return trip_c if not expected.zones else None
    return trip_c if zone.trips_in_sysfs and trip_c is not None else zone.throttle_c


def _zone_type(sensor: str) -> str:
    return sensor.removeprefix("thermal.").removesuffix(".temp_c").rpartition(".")[0]


def _lasting(windows: WindowMask, is_known: WindowMask) -> WindowMask:
    """Windows in rows of `LASTING` or more with the signal; unread windows do not end a row."""
    lasting = np.zeros_like(windows)
    where = np.flatnonzero(is_known)
    for row in np.split(where, np.flatnonzero(np.diff(windows[where])) + 1):
        if row.size >= LASTING:
            lasting[row] = windows[row]
    return lasting


def start_and_max_temp_c(
    telemetry: TelemetryTrace, expected: Expectation, windows: Windows
) -> tuple[float | None, float | None]:
    """Start temperature and highest temperature of the run, each in the hottest relevant zone."""
    every = telemetry.named("thermal.", ".temp_c")
    # A board may have a dummy zone that always reads 100 °C.
    known = [series for name, series in every.items() if expected.zone(_zone_type(name))]
    begin, end = windows.edges_ns[0], windows.edges_ns[-1]
    inside = [
        series.value[(series.time_ns >= begin) & (series.time_ns <= end)]
        for series in known or every.values()
    ]
    inside = [values for values in inside if values.size]
    if not inside:
        return None, None
    return max(float(values[0]) for values in inside), max(float(values.max()) for values in inside)
