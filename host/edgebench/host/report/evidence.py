"""Small pictures of traces that show a cause of failed rules, with the trace's limit or levels.

The trace depends on the cause. Other programs: the CPU use of the model, with the CPU use of the
other programs on top. Heat: the temperature, and the limit at which the device throttles. A lowered
clock: the clock, and its nominal frequency. Varying latencies: the latencies and their levels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.report.charts import (
    ChartPanel,
    ChartReference,
    ChartTrace,
    TimeChart,
    Unit,
    latency_trace,
    packed,
    sensor_trace,
    spans_of,
)
from edgebench.host.result.run import Run
from edgebench.host.series.envelope import Floats, Points, even_edges
from edgebench.host.series.latency_line import latency_line
from edgebench.host.series.run_series import RunSeries, busiest_clock, hottest_sensor

MOST_INTERVALS = 240
"""Maximum number of intervals in the picture of the CPU use, about one for three pixels."""
_ALL_BUSY, _WORKER_CPU_S = "cpu.all.busy_ratio", "worker.cpu_s"


def evidence_strip(cause: Cause | None, series: RunSeries, run: Run) -> TimeChart | None:
    """The trace that shows a cause in a run; None if no trace shows it.

    Args:
        cause: The cause; None for a rule of another version.
        series: Traces of the run.
        run: The run.
    """
    draw = _STRIPS.get(cause) if cause is not None else None
    panel = draw(series, run) if draw is not None else None
    if panel is None:
        return None
    begin_s, end_s = _span(series)
    return TimeChart(
        begin_s=begin_s, end_s=end_s, panels=(panel,), spans=spans_of(series), is_strip=True
    )


def _span(series: RunSeries) -> tuple[float, float]:
    """Time span of all inferences or, without latencies, of all traces."""
    if series.latency is None or not len(series.latency.start_s):
        return series.span_s
    return float(series.latency.start_s[0]), float(series.latency.start_s[-1])


def _cpu_use(series: RunSeries, run: Run) -> ChartPanel | None:
    """Share of all CPUs that the model used, and on top of it the share of other processes."""
    busy, worker = series.sensors.get(_ALL_BUSY), series.sensors.get(_WORKER_CPU_S)
    cpu_count = sum(
        name.startswith("cpu.") and name.endswith(".busy_ratio") and name != _ALL_BUSY
        for name in series.sensors
    )
    if busy is None or worker is None or not cpu_count or len(busy) < 2 or len(worker) < 2:
        return None
    begin_s, end_s = _span(series)
    reading_s = float(np.median(np.diff(busy.time_s)))
    count = int(np.clip((end_s - begin_s) / max(reading_s, 1e-9), 1, MOST_INTERVALS))
    edges_s = even_edges(begin_s, end_s, count)
    own_s = np.diff(np.interp(edges_s, worker.time_s, worker.value))
    own = np.clip(own_s / np.diff(edges_s) / cpu_count, 0.0, 1.0)
    # A reading is the use since the reading before it.
    centre_s = (edges_s[:-1] + edges_s[1:]) / 2
    place = np.minimum(np.searchsorted(busy.time_s, centre_s), len(busy) - 1)
    total = np.maximum(busy.value[place], own)

    def stacked(name: str, low: Floats, high: Floats) -> ChartTrace:
        return ChartTrace(
            name=name,
            form="stack",
            count=count,
            begin_s=begin_s,
            end_s=end_s,
            low=packed(low),
            mean=packed(high),
            high=packed(high),
        )

    traces = (stacked("this model", np.zeros(count), own), stacked("others", own, total))
    return ChartPanel(title=f"Use of {cpu_count} CPUs", unit="ratio", traces=traces)


def _temperature(series: RunSeries, run: Run) -> ChartPanel | None:
    """Temperature of the hottest sensor, with the limit above which the device throttles."""
    hottest, thermal = hottest_sensor(series), run.metrics.thermal
    if hottest is None:
        return None
    limit_c = thermal.throttle_temp_c if thermal is not None else None
    return _panel("Temperature", "c", *hottest, limit_c, "throttles from")


def _clock(series: RunSeries, run: Run) -> ChartPanel | None:
    """Clock frequency of the busiest CPUs, with the nominal frequency."""
    clock, thermal = busiest_clock(series), run.metrics.thermal
    if clock is None:
        return None
    nominal_hz = thermal.nominal_freq_hz if thermal is not None else None
    return _panel("Clock", "hz", *clock, nominal_hz, "nominal")


def _panel(
    title: str, unit: Unit, name: str, points: Points, limit: float | None, limit_name: str
) -> ChartPanel:
    references = () if limit is None else (ChartReference(limit_name, limit),)
    trace = sensor_trace(name, points, MOST_INTERVALS)
    return ChartPanel(title=title, unit=unit, traces=(trace,), references=references)


def _levels(series: RunSeries, run: Run) -> ChartPanel | None:
    """Latency over time with its two levels, or else with the medians of tenths of the run."""
    latency, stability = series.latency, run.metrics.stability
    if latency is None or not latency.steady_ns.size:
        return None
    line = latency_line(latency)
    traces = [latency_trace(latency, 0)]
    references: tuple[ChartReference, ...] = ()
    low_ns, high_ns = line.limits.low_ns, line.limits.high_ns
    if stability is not None and stability.levels is not None:
        levels = stability.levels
        references = (
            ChartReference("fast level", levels.low_ns),
            ChartReference("slow level", levels.high_ns),
        )
        low_ns, high_ns = min(low_ns, levels.low_ns), max(high_ns, levels.high_ns)
    elif stability is not None and (blocks_ns := stability.block_p50_ns):
        edges_s = even_edges(*line.steady_span_s, len(blocks_ns))
        traces.append(
            ChartTrace(
                name=f"p50 of each of {len(blocks_ns)} parts of the run",
                form="windows",
                count=len(blocks_ns),
                time=packed(edges_s[:-1]),
                end=packed(edges_s[1:]),
                value=packed(np.array(blocks_ns)),
            )
        )
        low_ns, high_ns = min(low_ns, *blocks_ns), max(high_ns, *blocks_ns)
    return ChartPanel(
        title="Latency",
        unit="ns",
        traces=tuple(traces),
        low=low_ns,
        high=high_ns,
        references=references,
    )


def _memory(series: RunSeries, run: Run) -> ChartPanel | None:
    """Memory that was available to the model."""
    points = series.sensors.get("memory.available_bytes")
    if points is None or not len(points):
        return None
    return ChartPanel(
        title="Memory available",
        unit="bytes",
        traces=(sensor_trace("available", points, MOST_INTERVALS),),
        low=0.0,
        high=1.05 * float(np.nanmax(points.value)),
    )


_STRIPS: dict[Cause, Callable[[RunSeries, Run], ChartPanel | None]] = {
    Cause.TOO_MANY_THREADS: _cpu_use,
    Cause.CPU_LIMIT: _cpu_use,
    Cause.OTHER_PROGRAMS: _cpu_use,
    Cause.UNKNOWN_SLOWDOWN: _cpu_use,
    Cause.HEAT: _temperature,
    Cause.HOT_START: _temperature,
    Cause.POWER_SUPPLY: _clock,
    Cause.CLOCK_FREQUENCY: _clock,
    Cause.WARMING_UP: _levels,
    Cause.VARIATION: _levels,
    Cause.TOO_SHORT: _levels,
    Cause.MEMORY: _memory,
}
"""Function that draws the strip, keyed by cause; a cause that no trace shows is absent."""
