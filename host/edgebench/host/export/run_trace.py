"""Trace of a run for both trace formats, with slices, counters and facts on one clock.

Zero is the earliest time of the trace, and times are whole nanoseconds. A slice is a named
interval; the slices of a track do not overlap. A counter keeps its value until the next value.
Neither format can express a missing value, so a gap is shown as a slice.

Slices are never downsampled. Power is downsampled to blocks: at most `MAX_RATE_HZ` blocks per
second and `MAX_BLOCKS` in all for each channel. A value is the mean of a block; the lowest and the
highest sample of each block are on separate tracks. The facts of the run include the length of a
block. The trace of an invalid run has only its facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edgebench.host.export.exported import ExportedRun, exported_numbers, reasons
from edgebench.host.result.measured import ProfileResult
from edgebench.host.result.run import Run
from edgebench.host.series.envelope import Floats
from edgebench.host.series.run_series import (
    PowerDetail,
    PowerSeries,
    QuerySeries,
    RunSeries,
    SpanKind,
    read_series,
)
from edgebench.protocol.text import printable

Nanoseconds = NDArray[np.int64]
MAX_RATE_HZ = 10_000.0
MAX_BLOCKS = 1 << 20
"""Maximum number of values in a power track; over an hour, this is 291 per second."""
INFERENCE, WARM_UP, NO_READING = "inference", "warm-up inference", "no reading"
"""Names of slices."""
_UNITS = {"temp_c": "°C", "freq_hz": "Hz", "_ratio": "ratio", "_w": "W", "_v": "V", "_a": "A"}
"""Maps the suffix of a sensor's name to its unit."""
_TRACKS = {SpanKind.PHASE: "phases", SpanKind.WINDOW: "windows", SpanKind.THROTTLED: "throttled"}


@dataclass(frozen=True, slots=True, eq=False)
class SliceGroup:
    """Consecutive slices with the same name; columns have shape (n,)."""

    name: str
    begin_ns: Nanoseconds
    end_ns: Nanoseconds
    facts: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def single(
        cls, name: str, begin_ns: int, end_ns: int, facts: Mapping[str, str] | None = None
    ) -> SliceGroup:
        """Group with a single slice."""
        return cls(name, np.array([begin_ns], np.int64), np.array([end_ns], np.int64), facts or {})


@dataclass(frozen=True, slots=True, eq=False)
class SliceTrack:
    """A row of slices, in order of time."""

    name: str
    groups: tuple[SliceGroup, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CounterTrack:
    """A value over time; columns have shape (n,), and every value is finite."""

    name: str
    unit: str
    time_ns: Nanoseconds
    value: Floats


@dataclass(frozen=True, slots=True, eq=False)
class RunTrace:
    """A run as a trace."""

    title: str
    facts: Mapping[str, str]
    end_ns: int
    slices: tuple[SliceTrack, ...] = ()
    counters: tuple[CounterTrack, ...] = ()


def run_trace_of(exported_run: ExportedRun) -> RunTrace:
    """The trace of a run.

    Raises:
        RunDamaged: a file of the run is not readable.
    """
    run, facts = exported_run.run, _facts(exported_run.run)
    title = f"{printable(run.model.name)} on {printable(run.device.name)}: {facts['label']}"
    if run.verdict.is_refused:
        return RunTrace(title, facts, 0)
    series = read_series(exported_run.directory, run, PowerDetail(MAX_RATE_HZ, MAX_BLOCKS))
    # A channel with fewer than two samples has no block.
    series = replace(
        series, power=tuple(channel for channel in series.power if len(channel.begin_s))
    )
    begin_s, end_s = series.span_s
    clock = _TraceClock(round(begin_s * 1e9))
    queries, waiting = _queries(series.queries, clock)
    tracks: list[SliceTrack] = []
    for kind, name in _TRACKS.items():
        groups = [
            SliceGroup.single(
                printable(span.name), clock.at(span.begin_s), clock.at(span.end_s), span.facts
            )
            for span in sorted(series.spans, key=lambda span: span.begin_s)
            if span.kind is kind
        ]
        if groups:
            tracks.append(SliceTrack(name, tuple(groups)))
    slices = [*queries, *_inferences(run, series, clock), *tracks]
    slices += _gaps(series, clock)
    if run.metrics.profile is not None:
        slices.append(_operators(run, run.metrics.profile, clock))
    counters = [*waiting, *_power(series, clock)]
    for name, points in series.sensors.items():
        unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
        track = CounterTrack(printable(name), unit, clock.times(points.time_s), points.value)
        counters.append(track)
    ends_ns = [int(group.end_ns[-1]) for track in slices for group in track.groups]
    return RunTrace(
        title,
        {**facts, **_clock_facts(series, clock)},
        max([clock.at(end_s), *ends_ns]),
        tuple(slices),
        tuple(counters),
    )


@dataclass(frozen=True, slots=True)
class _TraceClock:
    """Conversion from the clock of the series to nanoseconds of the trace."""

    begin_ns: int
    """Earliest time of the trace, on the clock of the series."""

    def times(self, time_s: Floats) -> Nanoseconds:
        time_ns: Nanoseconds = np.rint(time_s * 1e9).astype(np.int64) - self.begin_ns
        return time_ns

    def at(self, time_s: float) -> int:
        return round(time_s * 1e9) - self.begin_ns


def _facts(run: Run) -> dict[str, str]:
    """Facts and numbers of a run as text; an invalid run has no numbers."""
    facts = {
        "run_id": run.run_id,
        "label": run.marks.label,
        "reasons": "; ".join(reasons(run.verdict)),
        "created_utc": run.created_utc,
        "model": run.model.name,
        "model_sha256": run.model.sha256 or "",
        "device": f"{run.device.name}, {run.device.soc}, {run.device.os}",
        "runtime": f"{run.runtime.name} {run.runtime.version}",
        "delegates_used": ", ".join(run.runtime.delegates_used),
        "scenario": f"{run.spec.scenario.value}, {run.spec.threads} thread(s)",
    }
    for number in exported_numbers(run):
        bounds = "" if number.interval is None else f", 95 %: {number.interval[0]:.6g}"
        bounds += "" if number.interval is None else f" to {number.interval[1]:.6g}"
        facts[number.metric.path] = f"{number.value:.9g}{bounds}"
    return {name: printable(text) for name, text in facts.items()}


def _clock_facts(series: RunSeries, clock: _TraceClock) -> dict[str, str]:
    """Start of the first query on the trace's clock, and the block length of the power."""
    facts = {"first_query_ns": str(-clock.begin_ns)}
    if series.power_apart is not None:
        facts["power"] = printable(
            f"left out, because it is not on the device's clock: {series.power_apart}"
        )
    elif series.power:
        lengths_s = np.concatenate([channel.end_s - channel.begin_s for channel in series.power])
        middle_s = float(np.median(lengths_s))
        facts["power"] = (
            "mean, lowest and highest power of each block of samples; the median length of a block "
            f"is {middle_s:.3g} s"
        )
    return facts


def _inferences(run: Run, series: RunSeries, clock: _TraceClock) -> list[SliceTrack]:
    """Track of single inferences; empty if the run has no latency."""
    latency = series.latency
    if latency is None or run.metrics.latency_ns is None or not len(latency.start_s):
        return []
    begin_ns = clock.times(latency.start_s)
    end_ns = clock.times(latency.start_s + latency.latency_ns / 1e9)
    warm, counted = slice(latency.warmup_count), slice(latency.warmup_count, None)
    groups = [
        SliceGroup(name, begin_ns[rows], end_ns[rows])
        for name, rows in ((WARM_UP, warm), (INFERENCE, counted))
        if len(begin_ns[rows])
    ]
    return [SliceTrack("inferences", tuple(groups))]


def _queries(
    queries: QuerySeries | None, clock: _TraceClock
) -> tuple[list[SliceTrack], list[CounterTrack]]:
    """Track of queries or, if queries overlap, a counter of the pending queries."""
    if queries is None or not len(queries.due_s):
        return [], []
    due_ns, end_ns = clock.times(queries.due_s), clock.times(queries.end_s)
    if (due_ns[1:] >= end_ns[:-1]).all():
        return [SliceTrack("queries", (SliceGroup("query", due_ns, end_ns),))], []
    time_ns = np.concatenate([end_ns, due_ns])
    changes = np.repeat([-1.0, 1.0], [len(end_ns), len(due_ns)])
    order = np.argsort(time_ns, kind="stable")  # at equal times, ends come before arrivals
    count = np.cumsum(changes[order])
    return [], [CounterTrack("queries due and not done", "", time_ns[order], count)]


def _operators(run: Run, profile: ProfileResult, clock: _TraceClock) -> SliceTrack:
    """Track of a synthetic inference, composed of the median time of each operator.

    The name of the track includes the marks of the device (`simulated`, `emulated`). If an emulator
    counts instructions, the times are virtual and are left out of the facts.
    """
    groups: list[SliceGroup] = []
    begin_ns = -clock.begin_ns
    for operator in profile.operators:
        end_ns = begin_ns + round(operator.typical_ns)
        facts = {
            "name": printable(operator.name),
            "place": printable(operator.place),
            "count": str(operator.count),
            "total_ns": str(operator.total_ns),
        }
        if operator.instructions is not None:
            facts["instructions"] = f"{operator.instructions:g}"
            del facts["total_ns"]
        groups.append(SliceGroup.single(printable(operator.operator), begin_ns, end_ns, facts))
        begin_ns = end_ns
    name = ", ".join(["operators, median times laid end to end", *run.marks.device])
    if any(operator.instructions is not None for operator in profile.operators):
        name += ": virtual time, in proportion to the instructions"
    return SliceTrack(name, tuple(groups))


def _power(series: RunSeries, clock: _TraceClock) -> Iterable[CounterTrack]:
    """Mean power of each channel, with the extremes if any block has several samples."""
    if series.power_apart is not None:
        return
    for channel in series.power:
        name = f"power {printable(channel.channel)}"
        yield _power_track(name, channel, channel.mean_w, clock)
        if (channel.low_w != channel.high_w).any():
            yield _power_track(f"{name}, lowest", channel, channel.low_w, clock)
            yield _power_track(f"{name}, highest", channel, channel.high_w, clock)


def _gaps(series: RunSeries, clock: _TraceClock) -> Iterable[SliceTrack]:
    """Gaps without a reading; the power counter and the energy integral continue across gaps."""
    for channel in series.power if series.power_apart is None else ():
        # Samples that are NaN may precede the first finite sample.
        within_s = np.clip(channel.gaps_s, channel.begin_s[:1], channel.end_s[-1:])
        yield from _gap_track(f"power {printable(channel.channel)}", within_s, clock)
    for name, points in series.sensors.items():
        gaps = points.gaps()
        ends_s = np.stack([points.time_s[gaps], points.time_s[gaps + 1]], axis=1)
        yield from _gap_track(printable(name), ends_s, clock)


def _gap_track(counter: str, gaps_s: Floats, clock: _TraceClock) -> Iterable[SliceTrack]:
    gaps_s = gaps_s[gaps_s[:, 0] < gaps_s[:, 1]]
    if len(gaps_s):
        group = SliceGroup(NO_READING, clock.times(gaps_s[:, 0]), clock.times(gaps_s[:, 1]))
        yield SliceTrack(f"{counter}, gaps", (group,))


def _power_track(
    name: str, series: PowerSeries, value_w: Floats, clock: _TraceClock
) -> CounterTrack:
    """Track of block values, each at the start of its block; the last is repeated at the end."""
    time_s = np.append(series.begin_s, series.end_s[-1:])
    return CounterTrack(name, "W", clock.times(time_s), np.append(value_w, value_w[-1:]))
