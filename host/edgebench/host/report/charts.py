"""Chart data of a page, for the script that draws the charts.

Traces are embedded as base64 of little-endian float32, a third of the size of decimals. A trace
with more than two values per interval is embedded by interval, with the lowest, mean and highest
value, so a peak stays visible at any zoom. Times have no offset: zero is the first inference after
the warm-up, as in `series`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgebench.host.series.envelope import Envelope, Floats, Points, even_edges
from edgebench.host.series.run_series import PowerSeries, RunSeries, WindowSeries

MAX_INTERVALS = 8192
"""Number of intervals of a trace in a report of a single run: 73 ms each over ten minutes."""
MIN_INTERVALS = 256
SENSOR_INTERVALS = 2048
MAX_SENSORS = 6
"""Limit on the traces in a sensor panel: more cannot be distinguished."""
BIN_COUNT = 80
"""Bars of a histogram."""
ECDF_COUNT = 257
"""Points of a cumulative distribution, evenly spaced in probability, including both ends."""
LOG_RATIO = 10.0
"""Ratio of highest to lowest value above which an axis is logarithmic."""

Unit = Literal["ns", "w", "c", "hz", "ratio", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartTrace:
    """A line, a band, or the windows of a panel; columns are base64 of float32."""

    name: str
    form: Literal["points", "line", "band", "windows"]
    count: int
    time: str = ""
    """Times in seconds; for windows, their starts; empty for a band, which has even intervals."""
    end: str = ""
    """Ends of windows, seconds."""
    inferences: str = ""
    """Number of inferences in each window."""
    value: str = ""
    begin_s: float = 0.0
    end_s: float = 0.0
    low: str = ""
    mean: str = ""
    high: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPanel:
    """Traces that share a vertical axis."""

    title: str
    unit: Unit
    is_log: bool
    traces: tuple[ChartTrace, ...]
    note: str = ""
    """Resolution of the embedded traces, and traces that were left out."""


@dataclass(frozen=True, slots=True)
class SensorPanel:
    """Sensors that share a panel."""

    title: str
    suffix: str
    """Suffix of the sensors' names."""
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
    kind: Literal["time"] = "time"


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A percentile with its interval, in the unit of the chart."""

    name: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ChartEcdf:
    """Cumulative distribution of a run: quantiles at evenly spaced probabilities from 0 to 1."""

    name: str
    quantiles: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionChart:
    """Histogram and cumulative distribution of latencies, nanoseconds."""

    is_log: bool
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    below_count: int
    """Values below the first edge."""
    above_count: int
    """Values above the last edge."""
    ecdfs: tuple[ChartEcdf, ...]
    marks: tuple[ChartMark, ...]
    unit: Unit = "ns"
    kind: Literal["distribution"] = "distribution"


@dataclass(frozen=True, slots=True)
class ChartDot:
    """Configuration as a dot in a chart of two metrics."""

    name: str
    x: float
    y: float
    is_best: bool
    """Whether the configuration is on the Pareto front: no other configuration dominates it."""
    group: int
    """Index of the device, which selects the shape of the dot."""
    is_joined: bool
    """Whether it is also on the Pareto front of only the two metrics of the chart."""
    accuracy: str
    """Accuracy; empty if it is a metric of the chart, or unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontChart:
    """Configurations by two metrics, with the Pareto front of these metrics and accuracy."""

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
    """Point of a history: the runs of a command."""

    name: str
    date: str
    value: float
    low: float | None
    """Bounds of the interval between the runs; None for too few runs."""
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
    if series.latency is not None and len(series.latency.start_s):
        points = series.latency.points
        trace = _trace("latency", points, even_edges(begin_s, end_s, most), form="points")
        note = f"each of {len(points):,} inferences"
        if trace.form == "band":
            step = _length((trace.end_s - trace.begin_s) / trace.count)
            note = f"lowest, mean and highest of {len(points):,} inferences in each {step}; "
            note += "single inferences are not embedded"
        panels.append(_panel("Latency", "ns", [trace], [points.value], note))
    if series.windows is not None and np.isfinite(series.windows.per_inference).any():
        panels.append(_window_panel(series.windows))
    power = _power_panel(series.power, most)
    if power is not None and series.power_apart is None:
        panels.append(power)
    edges_s = even_edges(begin_s, end_s, max(MIN_INTERVALS, SENSOR_INTERVALS // run_count))
    panels += _sensor_panels(series, edges_s)
    spans = tuple(
        ChartSpan(span.kind.value, span.name, span.begin_s, span.end_s) for span in series.spans
    )
    charts = []
    if panels or spans:
        charts.append(TimeChart(begin_s=begin_s, end_s=end_s, panels=tuple(panels), spans=spans))
    if power is not None and series.power_apart is not None:
        end_s = max(float(one.end_s[-1]) for one in series.power if len(one.end_s))
        charts.append(TimeChart(begin_s=0.0, end_s=end_s, panels=(power,)))
    return charts


def distribution_chart(
    latencies_ns: Sequence[tuple[str, Floats]], marks: Sequence[ChartMark]
) -> DistributionChart | None:
    """Distribution of the latencies of the runs; None without latencies.

    The histogram extends a little beyond 99 % of the latencies, and to marks at up to twice that
    distance, because a few outliers would otherwise compress all other values. `below_count` and
    `above_count` are the numbers of latencies outside the histogram.

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
    low, high = (float(pooled[int(at * (pooled.size - 1))]) for at in (0.005, 0.99))
    margin = 0.25 * (high - low)
    low, high = max(low - margin, float(pooled[0])), min(high + margin, float(pooled[-1]))
    near = [mark.value for mark in marks if mark.value <= 2 * high - low]
    low, high = min([low, *near]), max([high, *near])
    if low >= high:
        low, high = low * 0.99, high * 1.01 + 1.0
    is_log = low > 0 and high / low > LOG_RATIO
    edges = np.geomspace(low, high, BIN_COUNT + 1) if is_log else even_edges(low, high, BIN_COUNT)
    counts, _ = np.histogram(pooled, edges)
    at = np.linspace(0.0, 1.0, ECDF_COUNT)
    ecdfs = tuple(
        ChartEcdf(name, tuple(map(float, values[np.ceil(at * (len(values) - 1)).astype(int)])))
        for name, values in counted
    )
    return DistributionChart(
        is_log=is_log,
        edges=tuple(map(float, edges)),
        counts=tuple(map(int, counts)),
        below_count=int(np.searchsorted(pooled, edges[0], side="left")),
        above_count=int(pooled.size - np.searchsorted(pooled, edges[-1], side="right")),
        ecdfs=ecdfs,
        marks=tuple(marks),
    )


def _window_panel(windows: WindowSeries) -> ChartPanel:
    """Time or instructions per inference of each window, drawn over the window."""
    kind = "Instructions" if windows.is_counted else "Time"
    trace = ChartTrace(
        name="windows",
        form="windows",
        count=len(windows),
        time=_packed(windows.begin_s),
        end=_packed(windows.end_s),
        value=_packed(windows.per_inference),
        inferences=_packed(windows.count),
    )
    note = f"{len(windows)} windows, {int(windows.count.sum()):,} inferences"
    if windows.is_counted:
        note += "; instructions that print the start of a window are included"
    return ChartPanel(
        title=f"{kind} per inference, by window",
        unit="count" if windows.is_counted else "ns",
        is_log=False,
        traces=(trace,),
        note=note,
    )


def _power_panel(power: Sequence[PowerSeries], most: int) -> ChartPanel | None:
    """Panel of the power by channel; None if no channel has a sample."""
    filled = [one for one in power if len(one.begin_s)]
    if not filled:
        return None
    most = max(MIN_INTERVALS, most // len(filled))
    begin_s = min(float(one.begin_s[0]) for one in filled)
    end_s = max(float(one.end_s[-1]) for one in filled)
    edges_s = even_edges(begin_s, end_s, most)
    bands = [one.envelope(edges_s) for one in filled]
    traces = [_band(one.channel, band) for one, band in zip(filled, bands, strict=True)]
    note = f"lowest, mean and highest power of each {_length((end_s - begin_s) / most)}"
    # Gaps where the meter lost samples.
    gaps_s = np.concatenate([one.gaps_s[:, 1] - one.gaps_s[:, 0] for one in filled])
    gaps_s = gaps_s[gaps_s > 0]
    if gaps_s.size:
        gaps = "1 gap" if gaps_s.size == 1 else f"{gaps_s.size:,} gaps"
        note += f"; {gaps} without a sample, {_length(float(gaps_s.sum()))} in all, not drawn"
    return _panel("Power", "w", traces, [one.high_w for one in filled], note)


def panel_sensors(series: RunSeries, panel: SensorPanel) -> dict[str, Points]:
    """Sensors of a panel; the sensors with the highest values if there are too many."""
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
        traces = [_trace(name, points, edges_s, form="line") for name, points in shown.items()]
        count = len(series.named(panel.suffix))
        note = f"the {len(shown)} highest of {count} sensors" if len(shown) == MAX_SENSORS else ""
        values = [points.value for points in shown.values()]
        panels.append(_panel(panel.title, panel.unit, traces, values, note))
    return panels


def _panel(
    title: str, unit: Unit, traces: list[ChartTrace], values: list[Floats], note: str
) -> ChartPanel:
    """Panel of traces; the axis is logarithmic if outliers would compress all other values."""
    ends = [
        end
        for value in values
        if len(value)
        for end in (np.fmin.reduce(value), np.fmax.reduce(value))
    ]
    finite = [float(end) for end in ends if np.isfinite(end)]
    is_log = (
        unit == "ns" and bool(finite) and min(finite) > 0 and max(finite) / min(finite) > LOG_RATIO
    )
    return ChartPanel(title=title, unit=unit, is_log=is_log, traces=tuple(traces), note=note)


def _trace(
    name: str, points: Points, edges_s: Floats, *, form: Literal["points", "line"]
) -> ChartTrace:
    """A trace point by point, or by interval if it has more than two values per interval."""
    if len(points) > 2 * (len(edges_s) - 1):
        return _band(name, points.envelope(edges_s))
    gaps = points.gaps() if form == "line" else np.empty(0, np.int64)
    if gaps.size:  # a NaN in each gap interrupts the line
        middle_s = (points.time_s[gaps] + points.time_s[gaps + 1]) / 2
        points = Points(
            np.insert(points.time_s, gaps + 1, middle_s), np.insert(points.value, gaps + 1, np.nan)
        )
    return ChartTrace(
        name=name,
        form=form,
        count=len(points),
        time=_packed(points.time_s),
        value=_packed(points.value),
    )


def _band(name: str, envelope: Envelope) -> ChartTrace:
    return ChartTrace(
        name=name,
        form="band",
        count=envelope.count,
        begin_s=float(envelope.edges_s[0]),
        end_s=float(envelope.edges_s[-1]),
        low=_packed(envelope.low),
        mean=_packed(envelope.mean),
        high=_packed(envelope.high),
    )


def _packed(values: NDArray[Any]) -> str:
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
