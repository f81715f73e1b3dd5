"""Chart data of a page, for the script that draws the charts.

Traces are embedded as base64 of little-endian float32, a third of the size of decimals. A trace
with more than two values per interval is reduced to the lowest, mean and highest value of each
interval, so a peak stays visible at any zoom. Latencies are reduced by intervals with the same
number of inferences, in several resolutions (`series/latency_line.py`). Time zero is the first
inference after the warm-up, as in `series`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgebench.host.result.units import format_ns
from edgebench.host.series.envelope import Envelope, Floats, Points, even_edges
from edgebench.host.series.latency_line import (
    OVERVIEW_COUNT,
    LatencyLine,
    above_count,
    distribution_limits,
    latency_line,
)
from edgebench.host.series.run_series import LatencySeries, PowerSeries, RunSeries, WindowSeries

MAX_INTERVALS = 8192
"""Maximum number of intervals of a trace in a report of a single run. In a run of ten minutes, an
interval is then 73 ms."""
FINER = 5
"""Each resolution of the latency has this many times as many intervals as the previous one. The
finest has as many intervals as the size limit of the page allows."""
LEAST_FINER = 2
"""Least ratio of the inferences per interval in a resolution to those in the next finer resolution.
If the ratio would be smaller, the finer resolution is left out: it would add bytes to the page, but
few details."""
MIN_INTERVALS = 256
SENSOR_INTERVALS = 2048
MAX_SENSORS = 6
"""Maximum number of traces in a sensor panel; more cannot be distinguished."""
MAX_OVERLAID = 6
"""Maximum number of overlaid distributions, which is the number of colours in style.css."""
BIN_COUNT = 80
"""Bars of a histogram."""
ECDF_COUNT = 257
"""Points of a cumulative distribution, evenly spaced in probability, including both ends."""
LOG_RATIO = 10.0
"""An axis is logarithmic if the highest value is more than this many times the lowest value."""

Unit = Literal["ns", "w", "c", "hz", "ratio", "count", "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartResolution:
    """Latencies in intervals of equally many inferences; columns are base64 of float32."""

    size: int
    """Number of inferences in each interval. If an interval has a single inference, only the column
    `p50` is filled, because the other columns would be equal to `p50`."""
    count: int
    time: str
    """Middle of each interval, seconds."""
    p50: str
    p10: str = ""
    p90: str = ""
    max: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartTrace:
    """A trace of a chart; each column is base64 text of float32 numbers."""

    name: str
    form: Literal["line", "band", "stack", "windows", "latency"]
    count: int
    time: str = ""
    """Times in seconds, which are the starts of windows if the trace has windows. Empty for a band
    or a stack, whose intervals have equal lengths."""
    end: str = ""
    """Ends of windows, seconds."""
    inferences: str = ""
    value: str = ""
    begin_s: float = 0.0
    end_s: float = 0.0
    low: str = ""
    mean: str = ""
    high: str = ""
    resolutions: tuple[ChartResolution, ...] = ()
    """Latencies in several resolutions, the coarsest first; the coarsest is drawn if the whole run
    is in view."""


@dataclass(frozen=True, slots=True)
class ChartReference:
    """A value that a panel marks, such as a limit."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPanel:
    """Traces that share a vertical axis."""

    title: str
    unit: Unit
    traces: tuple[ChartTrace, ...]
    low: float | None = None
    """Lower end of the axis; None selects the lowest value of the traces in view."""
    high: float | None = None
    """Upper end of the axis; None selects the highest value of the traces in view."""
    references: tuple[ChartReference, ...] = ()
    note: str = ""
    """Resolution of the embedded traces, and which traces were left out."""


@dataclass(frozen=True, slots=True)
class SensorPanel:
    """Sensors that share a panel."""

    title: str
    suffix: str
    unit: Unit


SENSOR_PANELS = (
    SensorPanel("Temperature", "temp_c", "c"),
    SensorPanel("Clock", "freq_hz", "hz"),
    SensorPanel("CPU busy", "busy_ratio", "ratio"),
)


@dataclass(frozen=True, slots=True)
class ChartSpan:
    """Shaded span behind the traces."""

    kind: str
    name: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeChart:
    """Stacked panels with a common time axis."""

    begin_s: float
    end_s: float
    panels: tuple[ChartPanel, ...]
    spans: tuple[ChartSpan, ...] = ()
    is_strip: bool = False
    """Whether the chart is a small picture in the text, which cannot be zoomed."""
    kind: Literal["time"] = "time"


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A percentile with its interval, in the unit of the chart."""

    name: str
    value: float
    low: float | None
    high: float | None
    group: int = 0
    """Index of the histogram that the mark belongs to."""


@dataclass(frozen=True, slots=True)
class ChartEcdf:
    """Cumulative distribution, as quantiles at evenly spaced probabilities from 0 to 1."""

    name: str
    quantiles: tuple[float, ...]
    group: int = 0
    """Index of the histogram that the curve belongs to."""


@dataclass(frozen=True, slots=True)
class ChartHistogram:
    """Number of latencies in each bar."""

    name: str
    counts: tuple[int, ...]
    below_count: int
    """Number of values below the first edge."""
    above_count: int
    """Number of values above the last edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionChart:
    """Histograms and cumulative distributions of latencies, nanoseconds."""

    is_log: bool
    edges: tuple[float, ...]
    histograms: tuple[ChartHistogram, ...]
    """The histogram of one subject, or the overlaid histograms of several subjects."""
    ecdfs: tuple[ChartEcdf, ...]
    marks: tuple[ChartMark, ...]
    note: str = ""
    """Text that says how many subjects are drawn; empty if all are drawn."""
    unit: Unit = "ns"
    kind: Literal["distribution"] = "distribution"


@dataclass(frozen=True, slots=True)
class ChartDot:
    """Configuration as a dot in a chart of two metrics."""

    name: str
    x: float
    y: float
    is_best: bool
    """Whether the configuration is on the Pareto front, as no other configuration dominates it."""
    group: int
    """Index of the configuration's device, which selects the symbol of the dot."""
    is_joined: bool
    """Whether the configuration is also on the Pareto front of only the two metrics of the
    chart."""
    accuracy: str
    """Accuracy; empty if it is a metric of the chart, or unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontChart:
    """Chart of configurations in two metrics, with a Pareto front that includes accuracy."""

    x_title: str
    x_unit: str
    y_title: str
    y_unit: str
    is_y_lower_better: bool
    accuracy_title: str
    """Name of the third metric; empty if there are only two metrics."""
    groups: tuple[str, ...]
    dots: tuple[ChartDot, ...]
    kind: Literal["front"] = "front"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPoint:
    """Point of a history: the runs that one command made."""

    name: str
    date: str
    value: float
    low: float | None
    """Lower bound of the interval computed from the runs' values; None for too few runs."""
    high: float | None
    is_suspect: bool
    is_shown: bool
    """Whether the point is among the results on this page."""
    changed: str
    """Conditions that changed since the previous point; empty if none did."""


@dataclass(frozen=True, slots=True)
class ChartLevel:
    """Level of a history: the points between two changes."""

    first: int
    count: int
    value: float
    text: str
    """Change from the previous level; empty for the first level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryChart:
    """History of a metric: points in order of time, with their levels."""

    title: str
    unit: str
    points: tuple[ChartPoint, ...]
    levels: tuple[ChartLevel, ...]
    kind: Literal["history"] = "history"


def time_charts(series: RunSeries, *, run_count: int = 1) -> list[TimeChart]:
    """Charts of all traces of a run; power without clock alignment is in a separate chart.

    Args:
        series: The traces.
        run_count: Number of runs on the page; they share the limit on the size of the page.
    """
    most = max(MIN_INTERVALS, MAX_INTERVALS // run_count)
    begin_s, end_s = series.span_s
    panels: list[ChartPanel] = []
    if series.latency is not None and series.latency.steady_ns.size:
        panels.append(_latency_panel(series.latency, most))
    if series.windows is not None and np.isfinite(series.windows.per_inference).any():
        panels.append(_window_panel(series.windows))
    power = _power_panel(series.power, most)
    if power is not None and series.power_apart is None:
        panels.append(power)
    edges_s = even_edges(begin_s, end_s, max(MIN_INTERVALS, SENSOR_INTERVALS // run_count))
    panels += _sensor_panels(series, edges_s)
    spans = spans_of(series)
    charts = []
    if panels or spans:
        charts.append(TimeChart(begin_s=begin_s, end_s=end_s, panels=tuple(panels), spans=spans))
    if power is not None and series.power_apart is not None:
        end_s = max(float(channel.end_s[-1]) for channel in series.power if len(channel.end_s))
        charts.append(TimeChart(begin_s=0.0, end_s=end_s, panels=(power,)))
    return charts


def spans_of(series: RunSeries) -> tuple[ChartSpan, ...]:
    """Shaded spans of a run, which are drawn behind its traces."""
    return tuple(
        ChartSpan(span.kind.value, span.name, span.begin_s, span.end_s) for span in series.spans
    )


def distribution_chart(
    latencies_ns: Sequence[tuple[str, Floats]], marks: Sequence[ChartMark]
) -> DistributionChart | None:
    """Distribution of the latencies of the runs of a subject; None without latencies.

    The histogram ends before the slowest latencies, because a few outliers would otherwise compress
    all other values. If a mark is beyond the end, the histogram is extended up to the mark, but to
    at most twice its width. `below_count` and `above_count` are the numbers of latencies outside
    the histogram.

    Args:
        latencies_ns: Name of each run and its latencies after the warm-up, nanoseconds, shape (n,).
        marks: Percentiles to mark.
    """
    counted = [(name, np.sort(values)) for name, values in latencies_ns if len(values)]
    if not counted:
        return None
    pooled = counted[0][1]
    if len(counted) > 1:
        pooled = np.sort(np.concatenate([values for _, values in counted]))
    ecdfs = tuple(ChartEcdf(name, _quantiles(values)) for name, values in counted)
    return _distribution([("", pooled)], ecdfs, marks)


def overlaid_chart(
    latencies_ns: Sequence[tuple[str, Floats]], marks: Sequence[ChartMark]
) -> DistributionChart | None:
    """Overlaid distributions of subjects; None if fewer than two subjects have latencies.

    Only the first `MAX_OVERLAID` subjects with latencies are drawn.

    Args:
        latencies_ns: Name of each subject and its latencies, nanoseconds, shape (n,).
        marks: Percentiles to mark; their groups are indexes of the subjects.
    """
    filled = [place for place, (_, values) in enumerate(latencies_ns) if len(values)]
    if len(filled) < 2:
        return None
    known = filled[:MAX_OVERLAID]
    counted = [(latencies_ns[place][0], np.sort(latencies_ns[place][1])) for place in known]
    ecdfs = tuple(
        ChartEcdf(name, _quantiles(values), group) for group, (name, values) in enumerate(counted)
    )
    shown = [replace(mark, group=known.index(mark.group)) for mark in marks if mark.group in known]
    chart = _distribution(counted, ecdfs, shown)
    return replace(
        chart, note=f"{len(known)} of {len(filled)} results" if len(filled) > len(known) else ""
    )


def _distribution(
    groups: Sequence[tuple[str, Floats]], ecdfs: tuple[ChartEcdf, ...], marks: Sequence[ChartMark]
) -> DistributionChart:
    """Chart of the histograms of groups; the values of each group are in ascending order."""
    ends = [distribution_limits(values) for _, values in groups]
    low, high = min(limits.low_ns for limits in ends), max(limits.high_ns for limits in ends)
    near = [mark.value for mark in marks if mark.value <= 2 * high - low]
    low, high = min([low, *near]), max([high, *near])
    is_log = low > 0 and high / low > LOG_RATIO
    edges = np.geomspace(low, high, BIN_COUNT + 1) if is_log else even_edges(low, high, BIN_COUNT)
    return DistributionChart(
        is_log=is_log,
        edges=tuple(map(float, edges)),
        histograms=tuple(
            ChartHistogram(
                name,
                tuple(map(int, np.histogram(values, edges)[0])),
                below_count=int(np.searchsorted(values, edges[0], side="left")),
                above_count=int(values.size - np.searchsorted(values, edges[-1], side="right")),
            )
            for name, values in groups
        ),
        ecdfs=ecdfs,
        marks=tuple(marks),
    )


def _quantiles(ordered: Floats) -> tuple[float, ...]:
    at = np.linspace(0.0, 1.0, ECDF_COUNT)
    return tuple(map(float, ordered[np.ceil(at * (len(ordered) - 1)).astype(int)]))


def _latency_panel(latency: LatencySeries, most: int) -> ChartPanel:
    """Panel of the latency; the vertical axis has the range of the whole run at any zoom."""
    line = latency_line(latency)
    total, above = len(latency.steady_ns), above_count(latency, line.limits)
    note = "each dot is an inference"
    if line.size > 1:
        note = (
            f"line: p50 of every {line.size:,} inferences; band: p10 to p90; dots: slowest "
            "inferences"
        )
    if above:
        highest = format_ns(float(latency.steady_ns.max()))
        note += f"; {above:,} of {total:,} inferences are above the axis, max {highest}"
    return ChartPanel(
        title="Latency",
        unit="ns",
        traces=(latency_trace(latency, most),),
        low=line.limits.low_ns,
        high=line.limits.high_ns,
        note=note,
    )


def latency_trace(latency: LatencySeries, most: int) -> ChartTrace:
    """Latencies in several resolutions, the finest with about `most` intervals or fewer."""
    resolutions = [_resolution(latency_line(latency))]
    count = OVERVIEW_COUNT
    while resolutions[-1].size > 1 and count < most:
        count = min(count * FINER, most)
        line = latency_line(latency, count)
        if LEAST_FINER * line.size > resolutions[-1].size:
            break
        resolutions.append(_resolution(line))
    return ChartTrace(
        name="latency", form="latency", count=resolutions[0].count, resolutions=tuple(resolutions)
    )


def _resolution(line: LatencyLine) -> ChartResolution:
    def unless_single(values: Floats) -> str:
        return "" if line.size == 1 else packed(values)

    return ChartResolution(
        size=line.size,
        count=len(line),
        time=packed(line.middle_s),
        p50=packed(line.p50_ns),
        p10=unless_single(line.p10_ns),
        p90=unless_single(line.p90_ns),
        max=unless_single(line.max_ns),
    )


def _window_panel(windows: WindowSeries) -> ChartPanel:
    """Time or instructions per inference of each window, drawn over the window."""
    kind = "Instructions" if windows.is_counted else "Time"
    trace = ChartTrace(
        name="windows",
        form="windows",
        count=len(windows),
        time=packed(windows.begin_s),
        end=packed(windows.end_s),
        value=packed(windows.per_inference),
        inferences=packed(windows.count),
    )
    note = f"{len(windows)} windows, {int(windows.count.sum()):,} inferences"
    if windows.is_counted:
        note += "; the counts include the instructions that print the start of a window"
    return ChartPanel(
        title=f"{kind} per inference, by window",
        unit="count" if windows.is_counted else "ns",
        traces=(trace,),
        note=note,
    )


def _power_panel(power: Sequence[PowerSeries], most: int) -> ChartPanel | None:
    """Panel with the power of each channel; None if no channel has a sample."""
    filled = [channel for channel in power if len(channel.begin_s)]
    if not filled:
        return None
    most = max(MIN_INTERVALS, most // len(filled))
    begin_s = min(float(channel.begin_s[0]) for channel in filled)
    end_s = max(float(channel.end_s[-1]) for channel in filled)
    edges_s = even_edges(begin_s, end_s, most)
    bands = [channel.envelope(edges_s) for channel in filled]
    traces = [_band(channel.channel, band) for channel, band in zip(filled, bands, strict=True)]
    note = f"lowest, mean and highest power of each interval of {_length((end_s - begin_s) / most)}"
    # Gaps where the meter lost samples.
    gaps_s = np.concatenate([channel.gaps_s[:, 1] - channel.gaps_s[:, 0] for channel in filled])
    gaps_s = gaps_s[gaps_s > 0]
    if gaps_s.size:
        gaps = "1 gap" if gaps_s.size == 1 else f"{gaps_s.size:,} gaps"
        note += f"; {gaps} without a sample, {_length(float(gaps_s.sum()))} in all, not drawn"
    return ChartPanel(title="Power", unit="w", traces=tuple(traces), note=note)


def panel_sensors(series: RunSeries, panel: SensorPanel) -> dict[str, Points]:
    """Sensors of a panel; if there are too many, those with the highest values."""
    named = {
        name.removesuffix(f".{panel.suffix}"): points
        for name, points in series.named(panel.suffix).items()
        if len(points)
    }
    if panel.unit == "ratio" and "cpu.all" in named:
        named = {"cpu.all": named["cpu.all"]}
    highest = sorted(named, key=lambda name: -float(np.nanmax(named[name].value)))
    return {name: named[name] for name in sorted(highest[:MAX_SENSORS])}


def _sensor_panels(series: RunSeries, edges_s: Floats) -> list[ChartPanel]:
    panels: list[ChartPanel] = []
    for panel in SENSOR_PANELS:
        if not (shown := panel_sensors(series, panel)):
            continue
        traces = [_trace(name, points, edges_s) for name, points in shown.items()]
        count = len(series.named(panel.suffix))
        note = ""
        if len(shown) == MAX_SENSORS < count:
            note = f"only the {len(shown)} of {count} sensors with the highest values"
        panels.append(
            ChartPanel(title=panel.title, unit=panel.unit, traces=tuple(traces), note=note)
        )
    return panels


def _trace(name: str, points: Points, edges_s: Floats) -> ChartTrace:
    """A trace with every point, or summarised if it has more than two values per interval."""
    if len(points) > 2 * (len(edges_s) - 1):
        return _band(name, points.envelope(edges_s))
    gaps = points.gaps()
    if gaps.size:  # a NaN in each gap interrupts the line
        middle_s = (points.time_s[gaps] + points.time_s[gaps + 1]) / 2
        points = Points(
            np.insert(points.time_s, gaps + 1, middle_s), np.insert(points.value, gaps + 1, np.nan)
        )
    return ChartTrace(
        name=name,
        form="line",
        count=len(points),
        time=packed(points.time_s),
        value=packed(points.value),
    )


def _band(name: str, envelope: Envelope) -> ChartTrace:
    return ChartTrace(
        name=name,
        form="band",
        count=envelope.count,
        begin_s=float(envelope.edges_s[0]),
        end_s=float(envelope.edges_s[-1]),
        low=packed(envelope.low),
        mean=packed(envelope.mean),
        high=packed(envelope.high),
    )


def sensor_trace(name: str, points: Points, most: int) -> ChartTrace:
    """The readings of a sensor, reduced to at most `most` intervals."""
    edges_s = even_edges(float(points.time_s[0]), float(points.time_s[-1]), most)
    return _trace(name, points, edges_s)


def packed(values: NDArray[Any]) -> str:
    """A column as base64 of little-endian float32."""
    return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")


def _length(step_s: float) -> str:
    """A duration in seconds with two digits.

    >>> _length(0.0734), _length(1.5e-6)
    ('73 ms', '1.5 µs')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if step_s >= size or unit == "µs":
            scaled = step_s / size
            places = max(0, 1 - math.floor(math.log10(scaled))) if scaled > 0 else 0
            return f"{scaled:.{min(places, 3)}f} {unit}"
    raise AssertionError("the last unit fits all values")
