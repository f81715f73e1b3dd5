"""All traces of a run on a common clock.

Zero is the start of the first inference after the warm-up, on the device's clock. The meter's
recording is on the same axis if its clock was aligned with the device's clock. Otherwise the
recording has a separate time axis, which starts at its first sample, and `power_apart` states the
reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.sync.alignment import ClockLine
from edgebench.host.analysis.windows import inference_times_ns
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.run import Run
from edgebench.host.series.envelope import Envelope, Floats, Points
from edgebench.host.store.files import read_queries, read_query_columns, read_record, read_telemetry
from edgebench.host.store.layout import POWER_FILE, QUERIES_FILE
from edgebench.host.store.power_file import PowerFile
from edgebench.host.store.power_outline import read_outline
from edgebench.protocol.errors import RunDamaged
from edgebench.protocol.record import IDLE_ENDED, Event, Phase, RunRecord, TargetRecord, Window
from edgebench.protocol.spec import samples_per_query

_ENDS = {phase.value for phase in Phase} | {IDLE_ENDED}
"""Kinds of events that end a phase."""
_CLOCKS = ("arm_freq_hz", "freq_hz_average", "freq_hz_hardware", "freq_hz")
"""Suffixes of the names of clock sensors, the most trustworthy first."""


class SpanKind(Enum):
    """Kind of a span: a phase of the run, a window of a target, or throttling."""

    PHASE = "phase"
    WINDOW = "window"
    """Several inferences that a target times as a whole."""
    THROTTLED = "throttled"


@dataclass(frozen=True, slots=True)
class Span:
    """A named interval of time in a run."""

    kind: SpanKind
    name: str
    """Name of the phase, number of the window, or cause of the throttling."""
    begin_s: float
    end_s: float
    facts: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    """Counts that the device reported for a window; empty for other spans. Start and end of a
    window are times at which messages of the device arrived on the host."""


@dataclass(frozen=True, slots=True, eq=False)
class LatencySeries:
    """Latency of each inference, including the warm-up."""

    start_s: Floats
    """Start of each invocation, shape (n,)."""
    latency_ns: Floats
    """Duration of each invocation, shape (n,)."""
    warmup_count: int
    """Number of warm-up inferences at the beginning."""

    @property
    def points(self) -> Points:
        """Latency over time as `Points`."""
        return Points(self.start_s, self.latency_ns)

    @property
    def steady_ns(self) -> Floats:
        """Latencies after the warm-up."""
        return self.latency_ns[self.warmup_count :]


@dataclass(frozen=True, slots=True, eq=False)
class WindowSeries:
    """Windows of inferences that a target timed as a whole; all columns have shape (k,)."""

    begin_s: Floats
    """Start of each window, on the clock of the machine that drives the target."""
    end_s: Floats
    count: NDArray[np.int64]
    """Inferences in each window."""
    per_inference: Floats
    """If `is_counted`, number of instructions per inference; otherwise time per inference on the
    target's counter, in nanoseconds. NaN if the target reported neither."""
    is_counted: bool
    """Whether `per_inference` is in instructions, as on an emulator that counts them."""

    def __len__(self) -> int:
        return len(self.begin_s)


@dataclass(frozen=True, slots=True, eq=False)
class QuerySeries:
    """Queries after the warm-up, for runs whose queries have several inferences or a due time."""

    due_s: Floats
    """Time at which each query's latency begins, shape (q,)."""
    end_s: Floats
    """Time of each query's last output, shape (q,)."""


@dataclass(frozen=True, slots=True, eq=False)
class PowerSeries:
    """Power of a meter's channel in blocks of samples; all columns have shape (k,)."""

    channel: str
    begin_s: Floats
    end_s: Floats
    low_w: Floats
    mean_w: Floats
    high_w: Floats
    gaps_s: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    """Start and end of each interval without a sample, shape (g, 2); a block may include such an
    interval."""

    def envelope(self, edges_s: Floats) -> Envelope:
        """Lowest, mean and highest power of each interval, for a chart.

        A block belongs to the interval that contains the block's midpoint. An interval that
        contains no midpoint lies within a longer block, and has that block's values. An interval
        within a gap has no values, even if a block includes the interval.

        Args:
            edges_s: Edges, ascending, shape (k + 1,), k >= 1.
        """
        middle_s = (self.begin_s + self.end_s) / 2
        is_gap = self._is_gap(edges_s)
        if is_gap.any():
            place = np.searchsorted(edges_s, middle_s, side="right") - 1
            is_lost = is_gap[np.clip(place, 0, len(is_gap) - 1)]
            middle_s[is_lost] = self.begin_s[is_lost]
        low = Points(middle_s, self.low_w).envelope(edges_s).low
        high = Points(middle_s, self.high_w).envelope(edges_s).high
        weight_s = self.end_s - self.begin_s
        energy_j = Points(middle_s, self.mean_w * weight_s).envelope(edges_s)
        time_s = Points(middle_s, weight_s).envelope(edges_s)
        with np.errstate(invalid="ignore"):
            mean = energy_j.mean / time_s.mean
        centre_s = (edges_s[:-1] + edges_s[1:]) / 2
        block = np.searchsorted(self.begin_s, centre_s, side="right") - 1
        is_open = np.isnan(mean) & (block >= 0)
        is_open[is_open] = centre_s[is_open] < self.end_s[block[is_open]]
        for values, own in ((low, self.low_w), (mean, self.mean_w), (high, self.high_w)):
            values[is_open] = own[block[is_open]]
            values[is_gap] = np.nan
        return Envelope(edges_s, low, mean, high)

    def _is_gap(self, edges_s: Floats) -> NDArray[np.bool_]:
        """Whether each interval is within a gap, shape (k,)."""
        if not len(self.gaps_s):
            return np.zeros(len(edges_s) - 1, np.bool_)
        gap = np.searchsorted(self.gaps_s[:, 0], edges_s[:-1], side="right") - 1
        is_gap: NDArray[np.bool_] = (gap >= 0) & (edges_s[1:] <= self.gaps_s[gap, 1])
        return is_gap


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeries:
    """Everything that a run recorded over time; times are seconds on the device's clock."""

    latency: LatencySeries | None = None
    """Latencies; None if inferences were not timed individually, or the run has no latency."""
    queries: QuerySeries | None = None
    """Queries; None if a query consists of a single inference or of all inferences, or if queries
    have no latency."""
    windows: WindowSeries | None = None
    """Windows; None if the device is not a target, or if the run has no windows."""
    sensors: Mapping[str, Points] = field(default_factory=dict[str, Points])
    """Maps the name of each sensor, which ends with the unit, to its telemetry."""
    spans: tuple[Span, ...] = ()
    power: tuple[PowerSeries, ...] = ()
    """Channels whose powers add up to the power from which the energy of the run is computed. If no
    such channels are recorded in the result, all channels that have samples."""
    power_apart: str | None = None
    """Why the power has a separate time axis; None if it is on the run's axis."""

    def named(self, suffix: str) -> dict[str, Points]:
        """Sensors whose names have this suffix, such as `temp_c`."""
        return {name: points for name, points in self.sensors.items() if name.endswith(suffix)}

    @property
    def span_s(self) -> tuple[float, float]:
        """Earliest start and latest end of all traces on the clock of the run."""
        times = [time_s for span in self.spans for time_s in (span.begin_s, span.end_s)]
        if self.latency is not None and len(self.latency.start_s):
            times += [float(self.latency.start_s[0]), float(self.latency.start_s[-1])]
        for points in self.sensors.values():
            times += [float(points.time_s[0]), float(points.time_s[-1])]
        if self.power_apart is None:
            for channel in self.power:
                if len(channel.begin_s):
                    times += [float(channel.begin_s[0]), float(channel.end_s[-1])]
        return (min(times), max(times)) if times else (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class PowerDetail:
    """Limits on the number of power blocks, for uses that need more resolution than a chart."""

    rate_hz: float
    """Maximum number of blocks per second."""
    count: int
    """Maximum number of blocks of a channel."""


def sensor_title(name: str) -> str:
    """Name of a temperature or clock sensor, without its unit and without `thermal` or `cpufreq`.

    >>> sensor_title("thermal.cpu-thermal.temp_c"), sensor_title("cpufreq.policy0.freq_hz")
    ('cpu-thermal', 'policy0')
    """
    return name.rpartition(".")[0].removeprefix("thermal.").removeprefix("cpufreq.")


def hottest_sensor(series: RunSeries) -> tuple[str, Points] | None:
    """The sensor with the highest temperature, with its name."""
    sensors = {name: readings for name, readings in series.named("temp_c").items() if len(readings)}
    if not sensors:
        return None
    name = max(sensors, key=lambda name: float(sensors[name].value.max()))
    return sensor_title(name), sensors[name]


def busiest_clock(series: RunSeries) -> tuple[str, Points] | None:
    """The clock with the highest mean frequency, with its name; usually of the busiest CPUs.

    Only clocks of the most trusted kind that has readings are considered; see `_CLOCKS`.
    """
    for suffix in _CLOCKS:
        clocks = {
            name: readings for name, readings in series.named(suffix).items() if len(readings)
        }
        if clocks:
            name = max(clocks, key=lambda name: float(clocks[name].value.mean()))
            return sensor_title(name), clocks[name]
    return None


def read_series(directory: Path, run: Run, detail: PowerDetail | None = None) -> RunSeries:
    """All traces of a stored run.

    Args:
        directory: Directory of the run.
        run: The run in it.
        detail: Limits on the blocks that are computed from all power samples. If None, the stored
            outline is read; its resolution is sufficient for a chart.

    Raises:
        RunDamaged: a file of the run is not readable.
    """
    record = read_record(directory)
    times = _RunTimes(directory, run, record)
    power, apart = _power(directory, run.metrics.energy, times.zero_ns, detail)
    ends = [event for event in record.events if event.kind in _ENDS]
    return RunSeries(
        latency=times.latency(),
        queries=times.queries(run),
        windows=times.windows(),
        sensors={
            name: Points((series.time_ns - times.zero_ns) / 1e9, series.value)
            for name, series in read_telemetry(directory, record.telemetry).series.items()
        },
        spans=(
            *[
                Span(
                    SpanKind.PHASE,
                    event.kind,
                    (event.time_ns - times.zero_ns) / 1e9,
                    (following.time_ns - times.zero_ns) / 1e9,
                )
                for event, following in pairwise(ends)
                if event.kind != IDLE_ENDED
            ],
            *times.window_spans(),
            *_throttled(run),
        ),
        power=power,
        power_apart=apart,
    )


class _RunTimes:
    """The times that the device recorded, relative to the zero of the run's time axis."""

    def __init__(self, directory: Path, run: Run, record: RunRecord) -> None:
        self._target = record.target
        self._is_timed = run.metrics.instructions_per_inference is None
        self._directory = directory
        self._has_queries = (directory / QUERIES_FILE).exists()
        self._first_row = run.metrics.warmup.query_count if run.metrics.warmup else 0
        self.zero_ns = self._zero_ns(record.events)

    def _zero_ns(self, events: Sequence[Event]) -> int:
        if self._has_queries:
            [start_ns] = read_query_columns(self._directory, "start_ns")
            if len(start_ns) > self._first_row:
                return int(start_ns[self._first_row])
        if self._target is not None and self._target.windows:
            return self._target.windows[0].begin_ns
        return events[0].time_ns if events else 0

    def latency(self) -> LatencySeries | None:
        series = self._latency()
        # The analysis has checked the times, but the file may have changed since.
        if series is not None and np.any(series.start_s[1:] < series.start_s[:-1]):
            raise RunDamaged(f"inferences are not in order of time: {self._directory}")
        return series

    def _latency(self) -> LatencySeries | None:
        if self._has_queries:
            begin_ns, end_ns = read_query_columns(
                self._directory, "invoke_start_ns", "invoke_end_ns"
            )
            # In place, because an hour has millions of inferences.
            end_ns -= begin_ns
            begin_ns -= self.zero_ns
            return LatencySeries(begin_ns / 1e9, end_ns.astype(np.float64), self._first_row)
        if self._target is None or not self._target.inference_ticks or not self._is_timed:
            return None
        return _target_latency(self._target, self.zero_ns)

    def queries(self, run: Run) -> QuerySeries | None:
        is_single = run.spec.scenario.traits.is_single
        if run.metrics.end_to_end_ns is None or is_single or not self._has_queries:
            return None
        trace, first = read_queries(self._directory), self._first_row
        if (took_ns := trace.query_ns(run.spec, first)) is None:
            return None
        group = samples_per_query(run.spec)
        due_ns = trace.scheduled_ns[first::group][: len(took_ns)]
        due_s = (due_ns - self.zero_ns) / 1e9
        return QuerySeries(due_s, (due_ns + took_ns - self.zero_ns) / 1e9)

    def windows(self) -> WindowSeries | None:
        target = self._target
        if target is None or not target.windows:
            return None
        emulator = target.firmware.emulator
        instruction_ns = None if emulator is None else emulator.instruction_ns
        # Without instruction counts, an emulator's time is the time of the machine that it runs on.
        is_meaningful = emulator is None or instruction_ns is not None
        times_s = [window.duration_s if is_meaningful else None for window in target.windows]
        each_ns = [
            math.nan if time_s is None else time_s * 1e9 / max(1, window.count)
            for time_s, window in zip(times_s, target.windows, strict=True)
        ]
        return WindowSeries(
            begin_s=np.array([(window.begin_ns - self.zero_ns) / 1e9 for window in target.windows]),
            end_s=np.array([(window.end_ns - self.zero_ns) / 1e9 for window in target.windows]),
            count=np.array([window.count for window in target.windows], np.int64),
            per_inference=np.array(each_ns) / (instruction_ns or 1.0),
            is_counted=instruction_ns is not None,
        )

    def window_spans(self) -> list[Span]:
        target = self._target
        if target is None:
            return []
        first_rows = np.cumsum([0, *(window.count for window in target.windows)])
        return [
            Span(
                SpanKind.WINDOW,
                str(number),
                (window.begin_ns - self.zero_ns) / 1e9,
                (window.end_ns - self.zero_ns) / 1e9,
                _window_facts(target, window, int(first_rows[number - 1])),
            )
            for number, window in enumerate(target.windows, 1)
        ]


def _window_facts(target: TargetRecord, window: Window, first: int) -> dict[str, str]:
    """Counter values that the target reported for a window, and that the run's numbers use."""
    facts = {"inferences": str(window.count)}
    if window.ticks is not None and window.tick_rate_hz is not None:
        facts |= {"ticks": str(window.ticks), "tick_rate_hz": f"{window.tick_rate_hz:.17g}"}
    if own := target.inference_ticks[first : first + window.count]:
        facts["inference_ticks"] = " ".join(map(str, own))
        facts["inference_tick_rate_hz"] = f"{target.firmware.tick_rate_hz or 0:.17g}"
    if (emulator := target.firmware.emulator) is not None and emulator.instruction_ns:
        facts["instruction_ns"] = f"{emulator.instruction_ns:.17g}"
    return facts


def _target_latency(target: TargetRecord, zero_ns: int) -> LatencySeries | None:
    """Inferences that the target timed, placed end to end from the start of each window.

    Inferences of streaming firmware start at a fixed interval instead.
    """
    latency_ns = inference_times_ns(target)
    if latency_ns is None or not target.windows:
        return None
    starts: list[Floats] = []
    first = 0
    for window in target.windows:
        own_ns = latency_ns[first : first + window.count]
        pace_ns = own_ns if target.pace_ns is None else np.full_like(own_ns, target.pace_ns)
        starts.append((window.begin_ns - zero_ns + np.cumsum(pace_ns) - pace_ns) / 1e9)
        first += window.count
    start_s = np.concatenate(starts)
    return LatencySeries(start_s, latency_ns[: len(start_s)].astype(np.float64), 0)


def _throttled(run: Run) -> list[Span]:
    thermal = run.metrics.thermal
    if thermal is None:
        return []
    cause = thermal.cause or thermal.state.value
    return [
        Span(SpanKind.THROTTLED, cause, begin_s, end_s)
        for begin_s, end_s in thermal.throttled_spans_s
    ]


@dataclass(frozen=True, slots=True)
class MeterAxis:
    """Mapping from the meter's clock to the time axis of a run."""

    channels: tuple[str, ...]
    """Channels whose powers add up to the power from which the energy of the run is computed. If no
    such channels are recorded in the result, all channels that have samples."""
    line: ClockLine
    zero_ns: int
    """Zero of the axis on the device's clock or, without an alignment, on the meter's clock."""
    apart: str | None
    """Why the axis starts at the meter's first sample; None if the axis is the run's time axis."""

    @classmethod
    def of(cls, file: PowerFile, energy: EnergyResult, zero_ns: int) -> MeterAxis:
        """Compute the axis of a recording.

        Args:
            file: The recording.
            energy: Energy of the run, with the alignment of the clocks.
            zero_ns: Zero of the run on the device's clock.
        """
        names = energy.channels or tuple(
            channel.name for channel in file.header.capability.channels
        )
        names = tuple(name for name in names if file.facts.of(name))
        sync = energy.sync
        if sync is None or sync.reference_ns is None or sync.offset_ns is None:
            apart = energy.refused or "the meter's clock was not aligned with the device's clock"
            zero_ns = min((file.span_ns(name)[0] for name in names), default=0)
            return cls(names, ClockLine(zero_ns, 0.0), zero_ns, apart)
        line = ClockLine(sync.reference_ns, sync.offset_ns, (sync.slope_ppm or 0.0) / 1e6)
        return cls(names, line, zero_ns, None)

    def seconds(self, meter_ns: NDArray[np.int64]) -> Floats:
        """Convert times of the meter's clock to this axis; the shape stays the same."""
        return (self.line.to_device(meter_ns) - self.zero_ns) / 1e9

    def meter_ns(self, time_s: float) -> int:
        """Convert a time of this axis to the meter's clock."""
        return int(self.line.to_meter(self.zero_ns + round(time_s * 1e9)))


def read_power_samples(
    directory: Path, run: Run, begin_s: float | None, end_s: float | None
) -> dict[str, Points]:
    """Map each channel to every sample of the meter between two times of the run.

    Args:
        directory: Directory of the run.
        run: The run in it.
        begin_s: First time; None selects the start of the recording.
        end_s: Last time; None selects the end of the recording.

    Raises:
        RunDamaged: a file of the run is not readable.
    """
    energy = run.metrics.energy
    if energy is None or not (directory / POWER_FILE).exists():
        return {}
    file = PowerFile.open(directory)
    axis = MeterAxis.of(file, energy, _RunTimes(directory, run, read_record(directory)).zero_ns)
    begin_ns, end_ns = (
        None if time_s is None else axis.meter_ns(time_s) for time_s in (begin_s, end_s)
    )
    samples = {name: file.samples(name, begin_ns, end_ns) for name in axis.channels}
    return {
        name: Points(axis.seconds(time_ns), watts) for name, (time_ns, watts) in samples.items()
    }


def _power(
    directory: Path, energy: EnergyResult | None, zero_ns: int, detail: PowerDetail | None
) -> tuple[tuple[PowerSeries, ...], str | None]:
    """Channels of the meter, and the reason for a separate time axis, if there is one."""
    if energy is None or not (directory / POWER_FILE).exists():
        return (), None
    file = PowerFile.open(directory)
    axis = MeterAxis.of(file, energy, zero_ns)
    outlines = [
        (name, read_outline(file, name, _finest(file, name, detail))) for name in axis.channels
    ]
    channels = (
        PowerSeries(
            name,
            axis.seconds(outline.begin_ns),
            axis.seconds(outline.end_ns),
            outline.low_w,
            outline.mean_w,
            outline.high_w,
            axis.seconds(file.gaps_ns(name)),
        )
        for name, outline in outlines
    )
    return tuple(channels), axis.apart


def _finest(file: PowerFile, channel: str, detail: PowerDetail | None) -> int | None:
    """Maximum number of blocks of a channel; None selects the stored outline."""
    if detail is None:
        return None
    begin_ns, end_ns = file.span_ns(channel)
    return max(1, min(detail.count, int((end_ns - begin_ns) / 1e9 * detail.rate_hz)))
