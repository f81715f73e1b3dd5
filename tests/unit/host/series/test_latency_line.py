"""The line of the latency: on every surface its median is the p50 that is printed beside it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from support.hot_runs import Device, simulate
from support.series import known_series, steady
from support.simulated_sets import KINDS, LEVEL_NS
from support.tools import need_shared

from edgebench.host.analysis.latency.summary import summarize
from edgebench.host.report.charts import time_charts
from edgebench.host.result.document import from_document
from edgebench.host.series.envelope import Floats, even_edges
from edgebench.host.series.latency_line import (
    OVERVIEW_COUNT,
    above_count,
    latency_line,
    middle_of,
)
from edgebench.host.series.run_series import LatencySeries, RunSeries, read_series
from edgebench.host.show.notebook import _picture
from edgebench.host.show.pictures import BLOCKS, sparkline
from edgebench.host.show.plot import plot_run
from edgebench.protocol.errors import EdgebenchError
from edgebench.simulation.controllers import Nothing, Progressive, StepWise

FIXTURES = Path(__file__).parents[3] / "fixtures" / "runs"
TOLERANCE = 0.01


def of_latencies(latency_ns: Floats, warmup_count: int = 0) -> LatencySeries:
    """Inferences one right after another."""
    end_s = np.cumsum(latency_ns) / 1e9
    return LatencySeries(end_s - latency_ns / 1e9, latency_ns, warmup_count)


def stored_runs() -> Iterator[tuple[str, LatencySeries, float]]:
    """Latencies of the stored runs that print a p50, with this p50."""
    for path in sorted(FIXTURES.glob("*/*/run.json")):
        try:
            run = from_document(json.loads(path.read_text()))
        except EdgebenchError:
            continue  # of a version that is migrated in the store only
        latency, printed = read_series(path.parent, run).latency, run.metrics.latency_ns
        if latency is not None and printed is not None and printed.p50 is not None:
            yield path.parent.name, latency, printed.p50


def simulated_runs() -> Iterator[tuple[str, LatencySeries, float]]:
    """Runs that throttle, change levels, warm up, drift and have outliers, with their p50."""
    series: dict[str, LatencySeries] = {}
    for name, launches in KINDS.items():
        launch = next(islice(launches(np.random.default_rng([3, *name.encode()])), 1))
        series[name] = of_latencies(np.round(LEVEL_NS * np.exp(launch.logs)))
    for name in ("warmup", "slowdown", "no_steady", "throttle"):
        series[name] = of_latencies(np.round(known_series(name) * 1e6))
    for kind in ("normal", "lognormal", "student", "pareto", "bimodal", "dependent"):
        for count in (30, 300, 20_000):
            drawn = steady(np.random.default_rng([5, count]), count, kind, 0.05)
            series[f"{kind}, {count}"] = of_latencies(drawn.astype(np.float64))
    for controller in (Progressive(), StepWise(), Nothing()):
        hot = simulate(Device(controller=controller), seconds=600.0, seed=1).timeline
        latency = LatencySeries(hot.start_ns / 1e9, hot.invoke_ns.astype(np.float64), 100)
        series[type(controller).__name__] = latency
    for name, latency in series.items():
        printed = summarize(latency.steady_ns.astype(np.int64)).p50
        if printed is not None:
            yield name, latency, printed


@cache
def known_runs() -> list[tuple[str, LatencySeries, float]]:
    """All runs."""
    return [*stored_runs(), *simulated_runs()]


def terminal(latency: LatencySeries) -> float:
    """Median of the columns of the sparkline, each with the weight of its inferences."""
    line = latency_line(latency)
    edges_s = even_edges(*line.steady_span_s, 52)
    drawn_ns = line.by_column(edges_s)
    counts, _ = np.histogram(latency.start_s[latency.warmup_count :], edges_s)
    return middle_of(np.repeat(drawn_ns, np.where(np.isnan(drawn_ns), 0, counts)))


def report(latency: LatencySeries) -> float:
    """Median of the line in the data of the report's chart."""
    [chart] = time_charts(RunSeries(latency=latency))
    [trace] = chart.panels[0].traces
    drawn_ns = np.frombuffer(base64.b64decode(trace.resolutions[0].p50), "<f4").astype(np.float64)
    return middle_of(drawn_ns[latency_line(latency).warmup_count :])


def notebook(latency: LatencySeries) -> float:
    """Median of the line in the notebook's image."""
    [data] = re.findall(r"base64,([^\"]+)", _picture([latency]))
    drawn = ElementTree.fromstring(base64.b64decode(data))
    [path] = [each for each in drawn.iter() if each.get("class") == "p50"]
    heights = [float(point.split()[1]) for point in re.split("[ML]", path.attrib["d"])[1:]]
    limits = latency_line(latency).limits
    places = (140 - np.array(heights)) / 120
    return middle_of(limits.low_ns + places * (limits.high_ns - limits.low_ns))


def figure(latency: LatencySeries) -> float:
    """Median of the line in the figure."""
    run = from_document(json.loads(next(FIXTURES.glob("v7/*/run.json")).read_text()))
    [axes] = plot_run(run, RunSeries(latency=latency)).axes
    drawn_ms = np.asarray(axes.lines[0].get_ydata(), np.float64)
    return 1e6 * middle_of(drawn_ms[latency_line(latency).warmup_count :])


def test_median_of_the_drawn_line_is_the_printed_p50() -> None:
    """Otherwise the line would lie above the number beside it, as a line of means does."""
    off_by = {
        (name, surface.__name__): abs(surface(latency) / p50_ns - 1)
        for name, latency, p50_ns in known_runs()
        for surface in (report, notebook)
    }
    assert len(off_by) >= 2 * 50
    assert {which: off for which, off in off_by.items() if off > TOLERANCE} == {}


def test_sparkline_has_the_printed_p50_in_its_middle() -> None:
    """Columns of a few inferences are less exact, by less than a step of the characters."""
    for name, latency, p50_ns in known_runs():
        limits = latency_line(latency).line_limits
        step_ns = (limits.high_ns - limits.low_ns) / (len(BLOCKS) - 1)
        least_ns = step_ns if len(latency.steady_ns) < 1000 else 0.0
        assert abs(terminal(latency) - p50_ns) <= max(TOLERANCE * p50_ns, least_ns), name


@pytest.mark.parametrize("name", ["steady_digits_int8_litert", "switching_digits_fp32_litert"])
def test_median_of_a_real_line_is_its_p50(name: str) -> None:
    """Otherwise only runs of fixtures and simulations would be drawn as they are printed.

    Half of the inferences of the third trace, switching_digits_int8_onnx, are on each of two
    levels, so that its median is any value between them.
    """
    from pyarrow import parquet

    table = parquet.read_table(need_shared(f"known_answers/traces/{name}.parquet"))
    begin_ns, end_ns = (table[f"invoke_{end}_ns"].to_numpy() for end in ("start", "end"))
    latency = LatencySeries(begin_ns / 1e9, (end_ns - begin_ns).astype(np.float64), 100)
    p50_ns = middle_of(latency.steady_ns)
    for surface in (terminal, report, notebook):
        assert surface(latency) == pytest.approx(p50_ns, rel=TOLERANCE)


def test_figure_has_the_same_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a figure would show another latency than the page."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    for _, latency, p50_ns in known_runs()[::20]:
        assert figure(latency) == pytest.approx(p50_ns, rel=TOLERANCE)


def slower_half(ratio: float, noise: float, outliers: int = 0) -> LatencySeries:
    """20,000 inferences of 1 ms, the second half slower, with outliers of a hundred times."""
    draw = np.random.default_rng(1)
    latency_ns = 1e6 * np.exp(noise * draw.standard_normal(20_000))
    latency_ns[10_000:] *= ratio
    latency_ns[draw.choice(20_000, outliers, replace=False)] *= 100
    return of_latencies(latency_ns)


@pytest.mark.parametrize("outliers", [0, 200])
@pytest.mark.parametrize("ratio", [1.05, 0.95, 1.2, 2.0])
def test_shift_is_seen_below_outliers(ratio: float, outliers: int) -> None:
    """Otherwise throttling of 21 % would be a flat line under a spike of 100 ms."""
    latency = slower_half(ratio, 0.02, outliers)
    line = latency_line(latency)
    first, second = (middle_of(half) for half in np.array_split(line.p50_ns, 2))
    height = line.limits.places(np.array([first, second]))
    assert abs(height[1] - height[0]) > 0.25
    drawn = sparkline(line.by_column(even_edges(*line.steady_span_s, 40)), BLOCKS, line.line_limits)
    assert BLOCKS.index(drawn[30]) != BLOCKS.index(drawn[10])


def test_single_slow_interval_does_not_set_the_axis() -> None:
    """Otherwise a pause of a second would hide a shift of 5 % in the rest of the run."""
    latency = slower_half(1.05, 0.01)
    latency.latency_ns[4_000:4_100] *= 20
    line = latency_line(latency)
    assert line.limits.high_ns <= 1.6 * line.median_ns
    assert above_count(latency, line.limits) == 100


def test_noise_is_flat() -> None:
    """Otherwise noise of 0.1 % would look like mountains."""
    line = latency_line(slower_half(1.0, 0.001))
    assert np.ptp(line.limits.places(line.p50_ns)) < 0.05


@pytest.mark.parametrize("count", [1, 2, 239, 240, 241, 481, 100_003])
def test_every_inference_is_in_one_interval(count: int) -> None:
    """Otherwise the last inferences would not be drawn, or an interval be empty."""
    latency = of_latencies(np.arange(1.0, count + 8), warmup_count=7)
    line = latency_line(latency)
    assert len(line) - line.warmup_count <= OVERVIEW_COUNT
    assert line.size % 2 == 1
    assert line.max_ns[-1] == count + 7
    assert line.begin_s[line.warmup_count] == latency.start_s[7]
    assert np.all(np.diff(line.max_ns) > 0)
    assert not np.isnan(line.by_column(even_edges(*line.steady_span_s, 30))).any()


def test_clock_of_coarse_steps_has_an_axis() -> None:
    """Otherwise a median of 0 ns would divide by zero."""
    line = latency_line(of_latencies(np.zeros(50)))
    assert line.limits.places(line.p50_ns).tolist() == [0.5] * 50


def test_ten_thousand_warm_ups_are_few_intervals() -> None:
    """Otherwise a run with a long warm-up would be a page of several megabytes."""
    assert len(latency_line(of_latencies(np.full(10_100, 1e6), 10_000))) <= 2 * OVERVIEW_COUNT
