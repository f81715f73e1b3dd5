"""Data of charts: what is embedded of a trace, and what is lost."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from edgebench.host.report.charts import (
    MAX_INTERVALS,
    ChartMark,
    ChartTrace,
    distribution_chart,
    time_charts,
)
from edgebench.host.series.envelope import Floats, Points
from edgebench.host.series.run_series import LatencySeries, PowerSeries, RunSeries


def unpacked(text: str) -> Floats:
    """Column of a chart."""
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64)


def latency_trace(latency_ns: Floats, step_s: float = 1e-3) -> ChartTrace:
    """The trace of inferences at an even pace."""
    start_s = np.arange(len(latency_ns)) * step_s
    [chart] = time_charts(RunSeries(latency=LatencySeries(start_s, latency_ns, 0)))
    [trace] = chart.panels[0].traces
    return trace


def test_short_trace_is_embedded_whole() -> None:
    """A run of a hundred inferences is shown by means."""
    latency_ns = 1e5 + np.arange(100.0)
    trace = latency_trace(latency_ns)
    assert trace.form == "points"
    assert unpacked(trace.value) == pytest.approx(latency_ns, rel=1e-6)
    assert unpacked(trace.time) == pytest.approx(np.arange(100) * 1e-3, abs=1e-6)


def test_peak_of_a_long_trace_is_not_averaged_away() -> None:
    """One inference of 600,000 took a second, and the picture is flat."""
    latency_ns = np.full(600_000, 1e5)
    latency_ns[123_456] = 1e9
    trace = latency_trace(latency_ns)
    assert (trace.form, trace.count) == ("band", MAX_INTERVALS)
    high = unpacked(trace.high)
    place = int(np.argmax(high))
    assert high[place] == 1e9
    begin_s = trace.begin_s + place * (trace.end_s - trace.begin_s) / trace.count
    assert begin_s == pytest.approx(123.456, abs=0.1)
    assert unpacked(trace.low).max() == 1e5


def test_gap_of_a_sensor_is_a_gap() -> None:
    """A line across the time in which nothing was read."""
    time_s = np.concatenate([np.arange(10.0), 100 + np.arange(10.0)])
    series = RunSeries(sensors={"cpu.temp_c": Points(time_s, np.full(20, 50.0))})
    [chart] = time_charts(series)
    assert int(np.isnan(unpacked(chart.panels[0].traces[0].value)).sum()) == 1


def test_power_of_another_clock_has_an_axis_of_its_own() -> None:
    """Power beside latencies that it does not belong to."""
    begin_s = np.arange(10.0)
    watts = np.full(10, 2.0)
    power = (PowerSeries("main", begin_s, begin_s + 1, watts, watts, watts),)
    latency = LatencySeries(np.arange(5.0), np.full(5, 1e5), 0)
    together = time_charts(RunSeries(latency=latency, power=power))
    assert [[one.title for one in chart.panels] for chart in together] == [["Latency", "Power"]]
    apart = time_charts(RunSeries(latency=latency, power=power, power_apart="no alignment"))
    assert [[one.title for one in chart.panels] for chart in apart] == [["Latency"], ["Power"]]


def test_histogram_counts_every_latency_once() -> None:
    """Bars that add up to less than all, and nobody says so."""
    latency_ns = np.random.default_rng(1).lognormal(11, 0.3, 10_000)
    latency_ns[0] = 1e10
    mark = ChartMark("p50", float(np.median(latency_ns)), None, None)
    chart = distribution_chart([("run", latency_ns)], [mark])
    assert chart is not None
    assert sum(chart.counts) + chart.below_count + chart.above_count == 10_000
    assert chart.above_count >= 1
    quantiles = chart.ecdfs[0].quantiles
    assert (quantiles[0], quantiles[-1]) == (latency_ns.min(), latency_ns.max())
    assert quantiles[len(quantiles) // 2] == pytest.approx(np.median(latency_ns), rel=0.01)


@pytest.mark.parametrize("values", [np.full(50, 7.0), np.zeros(3), np.array([5.0])])
def test_latencies_that_are_equal_have_a_distribution(values: Floats) -> None:
    """A clock of 10 ms makes all latencies equal, and the page of the run a traceback."""
    chart = distribution_chart([("run", values)], [])
    assert chart is not None
    assert sum(chart.counts) == len(values)


def test_run_without_traces_has_no_chart() -> None:
    """A failed run breaks its page."""
    assert time_charts(RunSeries()) == []
    assert distribution_chart([], []) is None
