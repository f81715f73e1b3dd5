"""Traces of a run as tables, for screen readers and for print."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgebench.host.report.charts import SENSOR_PANELS, panel_sensors
from edgebench.host.result.units import ABSENT, format_instructions, format_ns, format_watts
from edgebench.host.series.envelope import Envelope, even_edges
from edgebench.host.series.latency_line import latency_line
from edgebench.host.series.run_series import RunSeries, WindowSeries
from edgebench.protocol.percent import format_percent

ROW_COUNT = 20
"""Number of intervals in a table."""


@dataclass(frozen=True, slots=True)
class TraceTable:
    """A trace as a table, with a row for each window, or for each interval of time."""

    title: str
    rows: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...] = ("from", "lowest", "mean", "highest")


def trace_tables(series: RunSeries) -> list[TraceTable]:
    """A table for each trace in the charts of this run."""
    edges_s = even_edges(*series.span_s, ROW_COUNT)
    tables: list[TraceTable] = []
    if series.latency is not None and series.latency.steady_ns.size:
        # The percentiles of the line of the chart, for fewer intervals of inferences.
        line = latency_line(series.latency, ROW_COUNT)
        columns = zip(line.begin_s, line.p10_ns, line.p50_ns, line.p90_ns, line.max_ns, strict=True)
        rows = [
            (f"{begin_s:.4f} s", *(_shown(value, "ns") for value in values))
            for begin_s, *values in columns
        ]
        title = f"Latency of {line.size:,} inferences each"
        tables.append(TraceTable(title, tuple(rows), ("from", "p10", "p50", "p90", "highest")))
    if series.windows is not None:
        tables.append(_window_table(series.windows))
    for channel in series.power:
        if len(channel.begin_s):
            own_s = edges_s
            if series.power_apart is not None:
                own_s = even_edges(float(channel.begin_s[0]), float(channel.end_s[-1]), ROW_COUNT)
            tables.append(_table(f"Power, {channel.channel}", channel.envelope(own_s), "w"))
    for panel in SENSOR_PANELS:
        for name, points in panel_sensors(series, panel).items():
            tables.append(_table(f"{panel.title}, {name}", points.envelope(edges_s), panel.unit))
    return tables


def _window_table(windows: WindowSeries) -> TraceTable:
    def took(value: float) -> str:
        if not np.isfinite(value):
            return ABSENT
        return format_instructions(value) if windows.is_counted else format_ns(value)

    columns = zip(windows.begin_s, windows.end_s, windows.count, windows.per_inference, strict=True)
    rows = [
        (str(number), f"{begin_s:.4f} s", f"{end_s:.4f} s", f"{count:,}", took(each))
        for number, (begin_s, end_s, count, each) in enumerate(columns, 1)
    ]
    what = "instructions" if windows.is_counted else "time"
    headings = ("window", "begin", "end", "inferences", f"{what} per inference")
    return TraceTable("Windows", tuple(rows), headings)


def _table(title: str, envelope: Envelope, unit: str) -> TraceTable:
    rows = [
        (f"{begin_s:.4f} s", _shown(low, unit), _shown(mean, unit), _shown(high, unit))
        for begin_s, low, mean, high in zip(
            envelope.edges_s[:-1], envelope.low, envelope.mean, envelope.high, strict=True
        )
    ]
    return TraceTable(title, tuple(rows))


def _shown(value: float, unit: str) -> str:
    if not np.isfinite(value):
        return ABSENT
    if unit == "ns":
        return format_ns(value)
    if unit == "w":
        return format_watts(value)
    if unit == "hz":
        return f"{value / 1e9:.3f} GHz"
    return f"{value:.1f} °C" if unit == "c" else format_percent(value, 1)
