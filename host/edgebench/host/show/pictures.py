"""Pictures of a run for the terminal: a line for the latency distribution and one per trace.

All traces share the time axis, and each column represents the same length of time. The height of a
column is the median of its latencies or, for other traces, the mean of its values. The numbers
after a line are the values of its lowest and highest column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from edgebench.host.result.metrics import METRICS
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import format_ns, format_watts
from edgebench.host.series.envelope import Floats, Points, even_edges
from edgebench.host.series.latency_line import (
    AxisLimits,
    distribution_limits,
    latency_line,
    shared_limits,
)
from edgebench.host.series.run_series import RunSeries, SpanKind, busiest_clock, hottest_sensor
from edgebench.host.show.names import LEAST_NAME_WIDTH, short_names
from edgebench.host.show.tables import text
from edgebench.protocol.record import Phase
from edgebench.protocol.text import printable

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-~=+*#"
"""ASCII characters that replace the blocks on a terminal without Unicode."""
NAME_WIDTH, RANGE_WIDTH = 14, 34
"""Widths of the texts to the left and right of a picture: its name and its range."""
LEAST_WIDTH, MOST_WIDTH = 16, 72
"""Limits on the width of a picture."""
MOST_OVERLAID = 6
"""Maximum number of distributions that are drawn one above another."""
HELD_INTERVALS = 3.0
"""A reading is drawn until the next reading, but at most for this many sampling intervals; then the
trace has a gap."""
_MARKED = ("p50", "p90", "p99")
_DRAWN = {Phase.IDLE.value, Phase.WARMING_UP.value, Phase.MEASURING.value}
"""Phases on the time axis; earlier phases can be long and have no traces."""


def run_picture(series: RunSeries, run: Run, width: int, *, has_unicode: bool) -> list[Table]:
    """Distribution of the latencies, then latency, power, temperature and clock over time.

    For an invalid run, only temperature and clock are drawn.

    Args:
        series: Traces of the run.
        run: The run.
        width: Width of the terminal.
        has_unicode: Whether the terminal can show blocks.
    """
    glyphs = BLOCKS if has_unicode else PLAIN
    columns = min(MOST_WIDTH, max(LEAST_WIDTH, width - NAME_WIDTH - RANGE_WIDTH))
    table = _table()
    is_shown = not run.verdict.is_refused and run.metrics.profile is None
    latency = series.latency if is_shown else None
    if latency is not None and latency.steady_ns.size > 1:
        _add_distribution(table, latency.steady_ns, _marks(run), columns, glyphs)
    # Start and end of the time that is drawn, in seconds.
    drawn = [span for span in series.spans if span.kind is SpanKind.WINDOW or span.name in _DRAWN]
    times = [time_s for span in drawn for time_s in (span.begin_s, span.end_s)]
    if series.latency is not None and len(series.latency.start_s):
        times += [float(series.latency.start_s[0]), float(series.latency.start_s[-1])]
    begin_s, end_s = axis = (min(times), max(times)) if times else (0.0, 0.0)
    if end_s <= begin_s:
        return [table] if table.rows else []
    edges_s = even_edges(begin_s, end_s, columns)
    if latency is not None and latency.steady_ns.size:
        line = latency_line(latency)
        drawn_ns = line.by_column(edges_s)
        table.add_row(
            "latency p50",
            sparkline(drawn_ns, glyphs, line.line_limits),
            _reach(drawn_ns, format_ns),
        )
    lines: list[tuple[str, Floats, Callable[[float], str], str]] = []
    energy = run.metrics.energy
    has_power = is_shown and series.power and series.power_apart is None
    if has_power and energy is not None and energy.refused is None:
        power_w = np.sum([channel.envelope(edges_s).mean for channel in series.power], axis=0)
        lines.append(("power", power_w, format_watts, energy.boundary or ""))
    for name, sensor, shown in (
        ("temperature", hottest_sensor(series), "{:.1f} °C".format),
        ("clock", busiest_clock(series), lambda hz: f"{hz / 1e9:.2f} GHz"),
    ):
        if sensor is not None:
            lines.append((name, _by_column(sensor[1], edges_s), shown, sensor[0]))
    for name, values, shown, of in lines:
        if reach := _reach(values, shown):
            table.add_row(name, sparkline(values, glyphs), text(f"{reach}{of and f', {of}'}"))
    if any(span.kind is SpanKind.THROTTLED for span in series.spans):
        table.add_row("throttled", _throttled(series, edges_s, glyphs), "")
    if table.rows:
        ends = [f"{time_s:.0f} s" if abs(time_s) >= 100 else f"{time_s:.2g} s" for time_s in axis]
        gap = columns - sum(map(len, ends))
        scale = f"each column is {(end_s - begin_s) / columns:.2g} s"
        table.add_row("time", f"{ends[0]}{' ' * gap}{ends[1]}", scale)
    return [table] if table.rows else []


def set_picture(
    run_set: RunSet, series: Sequence[RunSeries], width: int, *, has_unicode: bool
) -> list[Table]:
    """Distribution of the latencies of all counted runs, then their latency over time.

    Args:
        run_set: The set.
        series: Traces of the counted runs.
        width: Width of the terminal.
        has_unicode: Whether the terminal can show blocks.
    """
    glyphs = BLOCKS if has_unicode else PLAIN
    columns = min(MOST_WIDTH, max(LEAST_WIDTH, width - NAME_WIDTH - RANGE_WIDTH))
    table = _table()
    known = [run.latency.steady_ns for run in series if run.latency is not None]
    if known:
        marks = [
            (name, summary.median)
            for name in _MARKED
            if (summary := run_set.metrics.get(f"latency_ns.{name}")) is not None and summary.ci95
        ]
        _add_distribution(table, np.concatenate(known), marks, columns, glyphs)
    # The runs in succession, each with the same number of columns.
    lines = [
        latency_line(run.latency) for run in series if run.latency and run.latency.steady_ns.size
    ]
    width = (columns + 1) // len(lines) - 1 if lines else 0
    if len(lines) > 1 and width > 0:
        drawn_ns = [line.by_column(even_edges(*line.steady_span_s, width)) for line in lines]
        every_ns = np.concatenate(drawn_ns)
        limits = shared_limits(lines, has_band=False)
        runs = " ".join(sparkline(values, glyphs, limits) for values in drawn_ns)
        table.add_row("p50, each run", runs, _reach(every_ns, format_ns))
    return [table] if table.rows else []


def overlaid_picture(
    sets: Sequence[tuple[RunSet, Sequence[RunSeries]]], width: int, *, has_unicode: bool
) -> list[Table]:
    """Distributions of the latencies of several sets on a common axis, with the p50 of each.

    The list is empty if fewer than two sets, or more than `MOST_OVERLAID`, have latencies.

    Args:
        sets: Sets that are not refused, each with the traces of its counted runs.
        width: Width of the terminal.
        has_unicode: Whether the terminal can show blocks.
    """
    glyphs = BLOCKS if has_unicode else PLAIN
    columns = min(MOST_WIDTH, max(LEAST_WIDTH, width - NAME_WIDTH - RANGE_WIDTH))
    pooled = [
        (run_set, np.concatenate([np.zeros(0), *known]))
        for run_set, series in sets
        for known in [[run.latency.steady_ns for run in series if run.latency is not None]]
    ]
    pooled = [(run_set, latency_ns) for run_set, latency_ns in pooled if latency_ns.size]
    if not 2 <= len(pooled) <= MOST_OVERLAID:
        return []
    limits = [distribution_limits(latency_ns) for _, latency_ns in pooled]
    ends = min(limit.low_ns for limit in limits), max(limit.high_ns for limit in limits)
    table = _table()
    medians = [run_set.metrics.get("latency_ns.p50") for run_set, _ in pooled]
    labels = ["" if p50 is None else f", p50 {format_ns(p50.median)}" for p50 in medians]
    models = [printable(run_set.model) for run_set, _ in pooled]
    room = max(RANGE_WIDTH - max(map(len, labels)), LEAST_NAME_WIDTH)
    short = short_names(models, room)
    names = models if short is None else short.names
    for number, (_, latency_ns) in enumerate(pooled):
        counts, _ = np.histogram(latency_ns, columns, ends)
        heights = np.where(counts > 0, counts.astype(np.float64), np.nan)
        title = "" if number else "distribution"
        label = text(f"{names[number]}{labels[number]}")
        table.add_row(title, sparkline(heights, glyphs), label)
    low, high = map(format_ns, ends)
    table.add_row("", f"{low}{' ' * max(1, columns - len(low) - len(high))}{high}", "")
    return [table]


def sparkline(values: Floats, glyphs: str = BLOCKS, limits: AxisLimits | None = None) -> str:
    """A line with a character per value, higher for larger values, and a space for NaN.

    Args:
        values: The values.
        glyphs: Characters in order of height.
        limits: Values of the lowest and the highest character. None selects the smallest and the
            largest value.

    >>> sparkline(np.array([1.0, 2.0, np.nan, 8.0])), sparkline(np.array([3.0, 3.0]), PLAIN)
    ('▁▂ █', '__')
    """
    known = values[~np.isnan(values)]
    if not known.size:
        return " " * values.size
    low, reach = known.min(), np.ptp(known)
    parts = (values - low) / (reach or 1.0) if limits is None else limits.places(values)
    levels = np.nan_to_num(parts) * (len(glyphs) - 1)
    return "".join(
        " " if np.isnan(value) else glyphs[round(float(level))]
        for value, level in zip(values, levels, strict=True)
    )


def marks_line(places: Sequence[tuple[str, int]], width: int) -> str:
    """Names below their columns; a name that would touch the previous name is left out.

    >>> marks_line([("p50", 2), ("p90", 4), ("p99", 19)], 20)
    '  ^p50          p99^'
    """
    line = ""
    for name, column in places:
        label = f"^{name}" if column + len(name) < width else f"{name}^"
        begin = column if label[0] == "^" else column - len(name)
        if begin >= len(line) + bool(line):
            line = line.ljust(begin) + label
    return line


def _table() -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _marks(run: Run) -> list[tuple[str, float]]:
    """Names and values of the percentiles that have an interval, and in any case the median."""
    metrics = [(name, METRICS[f"latency_ns.{name}"]) for name in _MARKED]
    return [
        (name, value)
        for name, metric in metrics
        if (value := metric.value(run)) is not None
        and (name == "p50" or metric.interval(run) is not None)
    ]


def _add_distribution(
    table: Table, latency_ns: Floats, marks: Sequence[tuple[str, float]], columns: int, glyphs: str
) -> None:
    """Add the rows of a histogram, whose axis ends where the tail of the latencies begins."""
    if float(latency_ns.min()) == float(latency_ns.max()):
        return
    limits = distribution_limits(latency_ns)
    low_ns, high_ns = limits.low_ns, limits.high_ns
    counts, _ = np.histogram(latency_ns, columns, (low_ns, high_ns))
    heights = np.where(counts > 0, counts.astype(np.float64), np.nan)
    reach = f"{format_ns(low_ns)} .. {format_ns(high_ns)}"
    if (highest_ns := float(latency_ns.max())) > high_ns:
        reach += f", max {format_ns(highest_ns)}"
    table.add_row("distribution", sparkline(heights, glyphs), reach)
    scale = (columns - 1) / (high_ns - low_ns)
    places = [
        (name, round((value - low_ns) * scale))
        for name, value in marks
        if low_ns <= value <= high_ns
    ]
    table.add_row("", marks_line(places, columns), "")


def _reach(values: Floats, shown: Callable[[float], str]) -> str:
    """Lowest and highest value as text; empty without a value."""
    known = values[~np.isnan(values)]
    if not known.size:
        return ""
    low, high = shown(float(known.min())), shown(float(known.max()))
    return low if low == high else f"{low} .. {high}"


def _by_column(points: Points, edges_s: Floats) -> Floats:
    """Mean of each column; a reading is valid until the next reading."""
    mean = points.envelope(edges_s).mean
    if len(points) < 2:
        return mean
    centre_s = (edges_s[:-1] + edges_s[1:]) / 2
    before = np.searchsorted(points.time_s, centre_s, side="right") - 1
    age_s = centre_s - points.time_s[np.maximum(before, 0)]
    held_s = HELD_INTERVALS * float(np.median(np.diff(points.time_s)))
    is_held = np.isnan(mean) & (before >= 0) & (age_s <= held_s)
    return np.where(is_held, points.value[np.maximum(before, 0)], mean)


def _throttled(series: RunSeries, edges_s: Floats, glyphs: str) -> Text:
    """Line that marks the columns in which the device throttled."""
    is_throttled = np.zeros(len(edges_s) - 1, np.bool_)
    for span in series.spans:
        if span.kind is SpanKind.THROTTLED:
            is_throttled |= (edges_s[:-1] < span.end_s) & (edges_s[1:] > span.begin_s)
    return Text("".join(glyphs[-1] if is_slow else " " for is_slow in is_throttled), style="red")
