"""Data of charts: which parts of a trace are embedded, and which are lost."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

from edgebench.host.report.charts import (
    ChartMark,
    ChartTrace,
    distribution_chart,
    overlaid_chart,
    time_charts,
)
from edgebench.host.report.trace_table import trace_tables
from edgebench.host.series.envelope import Floats, Points
from edgebench.host.series.run_series import (
    LatencySeries,
    PowerSeries,
    RunSeries,
    Span,
    SpanKind,
    WindowSeries,
)
from edgebench.protocol.plain import to_plain


def unpacked(text: str) -> Floats:
    """Column of a chart."""
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64)


def latency_trace(latency_ns: Floats, step_s: float = 1e-3) -> ChartTrace:
    """The trace of inferences at a steady pace."""
    start_s = np.arange(len(latency_ns)) * step_s
    [chart] = time_charts(RunSeries(latency=LatencySeries(start_s, latency_ns, 0)))
    [trace] = chart.panels[0].traces
    return trace


def test_short_trace_is_embedded_whole() -> None:
    """Otherwise a run of a thousand inferences would be shown by percentiles at any zoom."""
    latency_ns = 1e5 + np.arange(1000.0)
    trace = latency_trace(latency_ns)
    overview, whole = trace.resolutions
    assert (overview.size, whole.size) == (5, 1)
    assert unpacked(whole.p50) == pytest.approx(latency_ns, rel=1e-6)
    assert unpacked(whole.time)[:-1] == pytest.approx((np.arange(999) + 0.5) * 1e-3, abs=1e-6)
    assert (whole.p10, whole.p90, whole.max) == ("", "", ""), "they are the same"


def test_peak_of_a_long_trace_is_not_averaged_away() -> None:
    """Otherwise the picture would be flat although one inference of 600,000 took a second."""
    latency_ns = np.full(600_000, 1e5)
    latency_ns[123_456] = 1e9
    trace = latency_trace(latency_ns)
    for resolution in trace.resolutions:
        highest = unpacked(resolution.max)
        place = int(np.argmax(highest))
        assert highest[place] == 1e9
        half_s = 0.5e-3 * resolution.size + 1e-5  # and the steps of a float32
        assert unpacked(resolution.time)[place] == pytest.approx(123.456, abs=half_s)
        assert unpacked(resolution.p50).max() == 1e5
    assert [one.count for one in trace.resolutions] == pytest.approx([240, 1200, 6000], rel=0.01)


@pytest.mark.parametrize(
    ("run_count", "expected"),
    [
        (1, [240, 1200, 6000]),
        (2, [240, 1200, 4096]),
        (8, [240, 1024]),
        (32, [240]),
    ],
)
def test_zoom_has_as_many_intervals_as_the_page_has_room_for(
    run_count: int, expected: list[int]
) -> None:
    """Otherwise zooming would show nothing finer on a page with a set of seven runs or more."""
    start_s = np.arange(600_000) * 1e-3
    series = RunSeries(latency=LatencySeries(start_s, np.full(600_000, 1e5), 0))
    [chart] = time_charts(series, run_count=run_count)
    [trace] = chart.panels[0].traces
    counts = [one.count for one in trace.resolutions]
    assert counts == pytest.approx(expected, rel=0.02)


def test_single_inferences_are_seen_up_to_the_limit() -> None:
    """Otherwise the limit of 8,192, which docs/report.md states, would not be reached."""
    assert latency_trace(1e5 + np.arange(8192.0)).resolutions[-1].size == 1
    assert latency_trace(1e5 + np.arange(8193.0)).resolutions[-1].size > 1


def test_axis_of_the_latency_shows_the_steady_part() -> None:
    """Otherwise one second in a run of 0.1 ms would make its line flat, or be left out silently."""
    latency_ns = np.full(20_000, 1e5)
    latency_ns[123] = 1e9
    start_s = np.arange(20_000) * 1e-3
    [chart] = time_charts(RunSeries(latency=LatencySeries(start_s, latency_ns, 0)))
    [panel] = chart.panels
    assert (panel.low, panel.high) == (0.975e5, 1.025e5)
    assert "; 1 of 20,000 inferences are above the axis, max 1.00 s" in panel.note


def test_distributions_of_several_subjects_have_the_same_axis() -> None:
    """Otherwise the faster of two models could seem to be the slower one."""
    draw = np.random.default_rng(1)
    fast, slow = draw.normal(1e6, 1e4, 5000), draw.normal(1.2e6, 1e4, 200)
    marks = [ChartMark("1. p50", 1e6, None, None, 0), ChartMark("3. p50", 1.2e6, None, None, 2)]
    chart = overlaid_chart([("1. a", fast), ("2. b", np.zeros(0)), ("3. c", slow)], marks)
    assert chart is not None
    assert [one.name for one in chart.histograms] == ["1. a", "3. c"]
    assert [mark.group for mark in chart.marks] == [0, 1]
    centres = (np.array(chart.edges[1:]) + np.array(chart.edges[:-1])) / 2
    for one, values in zip(chart.histograms, (fast, slow), strict=True):
        total = sum(one.counts)
        assert total + one.below_count + one.above_count == len(values)
        assert np.dot(centres, one.counts) / total == pytest.approx(values.mean(), rel=0.01)
    assert chart.note == ""
    assert overlaid_chart([("1. a", fast), ("2. b", np.zeros(0))], marks) is None


def test_distributions_that_are_left_out_are_counted() -> None:
    """Otherwise nine results would seem to be six."""
    named = [(f"{place}. a", np.arange(1.0, 9.0)) for place in range(1, 10)]
    chart = overlaid_chart([*named, ("10. b", np.zeros(0))], [])
    assert chart is not None
    assert [one.name for one in chart.histograms] == [name for name, _ in named[:6]]
    assert chart.note == "6 of 9 results"


def test_gap_of_a_sensor_is_a_gap() -> None:
    """Otherwise a line would cross the time in which nothing was read."""
    time_s = np.concatenate([np.arange(10.0), 100 + np.arange(10.0)])
    series = RunSeries(sensors={"cpu.temp_c": Points(time_s, np.full(20, 50.0))})
    [chart] = time_charts(series)
    assert int(np.isnan(unpacked(chart.panels[0].traces[0].value)).sum()) == 1


def test_power_of_another_clock_has_an_axis_of_its_own() -> None:
    """Otherwise power would stand next to unrelated latencies."""
    begin_s = np.arange(10.0)
    watts = np.full(10, 2.0)
    power = (PowerSeries("main", begin_s, begin_s + 1, watts, watts, watts),)
    latency = LatencySeries(np.arange(5.0), np.full(5, 1e5), 0)
    together = time_charts(RunSeries(latency=latency, power=power))
    assert [[panel.title for panel in chart.panels] for chart in together] == [["Latency", "Power"]]
    apart = time_charts(RunSeries(latency=latency, power=power, power_apart="no alignment"))
    assert [[panel.title for panel in chart.panels] for chart in apart] == [["Latency"], ["Power"]]


def test_power_is_not_drawn_where_samples_were_lost() -> None:
    """Otherwise a line would cross half a second in which the power is unknown."""
    begin_s, watts = np.arange(10.0), np.arange(10.0)
    power = PowerSeries("main", begin_s, begin_s + 1, watts, watts, watts, np.array([[3.2, 3.7]]))
    [chart] = time_charts(RunSeries(power=(power,)))
    [panel] = chart.panels
    [trace] = panel.traces
    assert "; 1 gap without a sample, 500 ms in all, not drawn" in panel.note
    step_s = (trace.end_s - trace.begin_s) / trace.count
    for column in (trace.low, trace.mean, trace.high):
        is_lost = np.isnan(unpacked(column))
        [ends] = np.flatnonzero(np.diff(is_lost.astype(int))).reshape(1, 2) + 1
        assert ends * step_s == pytest.approx([3.2, 3.7], abs=step_s)
    [table] = trace_tables(RunSeries(power=(power,)))
    assert len(table.rows) == 20


def test_peak_of_a_block_with_lost_samples_is_kept() -> None:
    """The samples on both sides of a gap are one block; the gap does not remove its peak."""
    mean_w, high_w = np.array([1.0, 2.0, 1.0]), np.array([1.0, 9.0, 1.0])
    begin_s = np.arange(3, dtype=np.float64)
    gaps_s = np.array([[1.05, 1.95]])
    power = PowerSeries("main", begin_s, begin_s + 1.0, mean_w, mean_w, high_w, gaps_s)
    envelope = power.envelope(np.linspace(0.0, 3.0, 31))
    assert np.isnan(envelope.mean[11:19]).all()
    assert np.nanmax(envelope.high) == 9.0
    assert not np.isnan(envelope.mean[[10, 19]]).any(), "there are samples in these"


def test_far_percentile_leaves_room_for_the_latencies() -> None:
    """Otherwise a p99.9 of five times the median would squeeze all bars into the first tenth."""
    latency_ns = np.random.default_rng(1).normal(8e3, 300, 10_000)
    marks = [ChartMark("p50", 8e3, None, None), ChartMark("p99.9", 38e3, 33e3, 45e3)]
    chart = distribution_chart([("run", latency_ns)], marks)
    assert chart is not None
    assert chart.edges[-1] < 10e3


def test_histogram_counts_every_latency_once() -> None:
    """Otherwise the bars would silently add up to less than all."""
    latency_ns = np.random.default_rng(1).lognormal(11, 0.3, 10_000)
    latency_ns[0] = 1e10
    mark = ChartMark("p50", float(np.median(latency_ns)), None, None)
    chart = distribution_chart([("run", latency_ns)], [mark])
    assert chart is not None
    [bars] = chart.histograms
    assert sum(bars.counts) + bars.below_count + bars.above_count == 10_000
    assert bars.above_count >= 1
    quantiles = chart.ecdfs[0].quantiles
    assert (quantiles[0], quantiles[-1]) == (latency_ns.min(), latency_ns.max())
    assert quantiles[len(quantiles) // 2] == pytest.approx(np.median(latency_ns), rel=0.01)


@pytest.mark.parametrize("values", [np.full(50, 7.0), np.zeros(3), np.array([5.0])])
def test_latencies_that_are_equal_have_a_distribution(values: Floats) -> None:
    """Otherwise a clock of 10 ms, with equal latencies, would end the page in a traceback."""
    chart = distribution_chart([("run", values)], [])
    assert chart is not None
    assert sum(chart.histograms[0].counts) == len(values)


def test_run_without_traces_has_no_chart() -> None:
    """Otherwise a failed run would break its page."""
    assert time_charts(RunSeries()) == []
    assert distribution_chart([], []) is None


@pytest.mark.parametrize("is_counted", [True, False])
def test_windows_of_a_board_are_drawn_with_their_counts(is_counted: bool) -> None:
    """Otherwise a microcontroller that timed only windows would have an empty page."""
    begin_s: Floats = np.array([0.0, 1.0, 2.0])
    end_s: Floats = begin_s + 0.9
    each = np.array([1e6, 1.1e6, 0.9e6])
    windows = WindowSeries(begin_s, end_s, np.array([900, 800, 1000], np.int64), each, is_counted)
    series = RunSeries(windows=windows)
    [chart] = time_charts(replace(series, spans=(Span(SpanKind.WINDOW, "1", 0.0, 0.9),)))
    [panel] = chart.panels
    assert panel.unit == ("count" if is_counted else "ns")
    [trace] = panel.traces
    assert unpacked(trace.value) == pytest.approx(each)
    assert unpacked(trace.inferences) == pytest.approx([900, 800, 1000])
    [table] = trace_tables(series)
    assert [row[3] for row in table.rows] == ["900", "800", "1,000"]
    assert len(table.columns) == len(table.rows[0])


def test_window_without_a_time_is_in_the_table_only() -> None:
    """Otherwise a board in energy mode, which reports no time, would have its windows at zero."""
    at_s, nothing = np.array([0.0]), np.array([np.nan])
    series = RunSeries(
        windows=WindowSeries(at_s, at_s + 1.0, np.array([10], np.int64), nothing, False)
    )
    assert time_charts(series) == []
    [table] = trace_tables(series)
    assert table.rows[0][3:] == ("10", "—")


def test_ten_minutes_are_less_than_three_megabytes() -> None:
    """A page stays small enough for mail: 600,000 inferences, 60 million samples, 14 sensors."""
    draw = np.random.default_rng(3)
    time_s = np.linspace(0, 600, 1 << 17)
    power_w = 2 + draw.random(len(time_s))
    power = PowerSeries("main", time_s[:-1], time_s[1:], power_w[1:], power_w[1:], power_w[1:] + 1)
    sensor_s = np.arange(6000) / 10
    sensors = {
        f"zone{number}.{suffix}": Points(sensor_s, draw.random(6000) * 1e9)
        for number in range(5)
        for suffix in ("temp_c", "freq_hz", "busy_ratio")
    }
    latency = LatencySeries(np.arange(600_000) / 1000, 1e5 + 1e4 * draw.random(600_000), 0)
    series = RunSeries(latency=latency, power=(power,), sensors=sensors)
    size = len(json.dumps([to_plain(time_chart) for time_chart in time_charts(series)]))
    assert size < 2_000_000, "the rest of a page is less than a megabyte"
    assert {panel.title for time_chart in time_charts(series) for panel in time_chart.panels} >= {
        *("Latency", "Power", "Temperature", "Clock", "CPU busy")
    }
