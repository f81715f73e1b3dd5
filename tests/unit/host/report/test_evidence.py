"""Strips of evidence: each cause that a trace shows has its trace, with its limit or levels."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pytest
from support.reported import METERED, PLAIN, reported, runs_of_set, stored_run

from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.report.charts import ChartPanel
from edgebench.host.report.evidence import evidence_strip
from edgebench.host.report.page import run_page, run_report
from edgebench.host.report.subject import ReportedRun
from edgebench.host.result.latency import LatencyLevels, Stability
from edgebench.host.result.run import Run
from edgebench.host.result.thermal import ThermalResult, ThermalState
from edgebench.host.series.envelope import Floats, Points
from edgebench.host.series.run_series import LatencySeries, RunSeries

TIME_S = np.arange(-1.0, 21.0, 0.5)


def series() -> RunSeries:
    """20 s in which the model uses one of two CPUs, and others the second half of the other."""
    is_disturbed = TIME_S >= 10
    start_s = np.arange(0.0, 20.0, 0.001)
    return RunSeries(
        latency=LatencySeries(start_s, np.where(start_s < 10, 1e6, 1.2e6), 0),
        sensors={
            "cpu.all.busy_ratio": Points(TIME_S, np.where(is_disturbed, 0.9, 0.5)),
            "cpu.0.busy_ratio": Points(TIME_S, np.full(len(TIME_S), 1.0)),
            "cpu.1.busy_ratio": Points(TIME_S, np.where(is_disturbed, 0.8, 0.0)),
            "worker.cpu_s": Points(TIME_S, TIME_S + 2.0),
            "thermal.cpu.0.temp_c": Points(TIME_S, 50 + TIME_S),
            "cpufreq.policy0.freq_hz": Points(TIME_S, np.where(is_disturbed, 1.2e9, 1.5e9)),
            "memory.available_bytes": Points(TIME_S, np.full(len(TIME_S), 2.0**30)),
        },
    )


def run() -> Run:
    """A run with a limit of the temperature, a nominal clock and ten blocks."""
    stored = stored_run(PLAIN)
    thermal = ThermalResult(
        state=ThermalState.THROTTLED,
        cause="thermal",
        is_certain=True,
        throttle_temp_c=80.0,
        nominal_freq_hz=1.8e9,
    )
    blocks_ns = tuple(np.linspace(1e6, 1.2e6, 10).tolist())
    stability = Stability(iqr_ratio=0.1, block_p50_ns=blocks_ns, block_range_ratio=0.2, levels=None)
    return replace(stored, metrics=replace(stored.metrics, thermal=thermal, stability=stability))


def panel_of(cause: Cause, of: Run | None = None) -> ChartPanel:
    """Panel of a cause's strip."""
    strip = evidence_strip(cause, series(), of or run())
    assert strip is not None
    assert strip.is_strip
    assert (strip.begin_s, strip.end_s) == pytest.approx((0.0, 20.0), abs=0.01)
    [panel] = strip.panels
    return panel


def unpacked(text: str) -> Floats:
    """Column of a trace."""
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64)


def test_use_of_others_is_on_top_of_the_models() -> None:
    """Otherwise 90 % of two CPUs could be the model's own two threads."""
    ours, others = panel_of(Cause.OTHER_PROGRAMS).traces
    assert (ours.name, others.name) == ("this model", "others")
    assert unpacked(ours.high) == pytest.approx(0.5)
    assert unpacked(others.low) == pytest.approx(unpacked(ours.high))
    total = unpacked(others.high)
    assert total[: len(total) // 2 - 1] == pytest.approx(0.5)
    assert total[len(total) // 2 + 1 :] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("cause", "name", "value"),
    [
        (Cause.HEAT, "throttles from", 80.0),
        (Cause.HOT_START, "throttles from", 80.0),
        (Cause.CLOCK_FREQUENCY, "nominal", 1.8e9),
        (Cause.POWER_SUPPLY, "nominal", 1.8e9),
    ],
)
def test_sensor_is_drawn_with_its_limit(cause: Cause, name: str, value: float) -> None:
    """Otherwise a reader could not see whether 70 °C or 1.2 GHz explain the result."""
    [reference] = panel_of(cause).references
    assert (reference.name, reference.value) == (name, value)


def test_unknown_limit_is_not_drawn() -> None:
    """Otherwise a board without a known limit would have a line at an invented one."""
    without = replace(run(), metrics=replace(run().metrics, thermal=None))
    assert panel_of(Cause.HEAT, without).references == ()


def test_levels_of_varying_latencies_are_drawn() -> None:
    """Otherwise "switching between 1.00 and 1.20 ms" would be two numbers without a picture."""
    latency, blocks = panel_of(Cause.VARIATION).traces
    assert latency.form == "latency"
    assert unpacked(blocks.value) == pytest.approx(np.linspace(1e6, 1.2e6, 10))
    stability = run().metrics.stability
    assert stability is not None
    levels = LatencyLevels(0.9e6, 1.4e6, 0.5, 0.2, 0.2)
    switching = replace(stability, levels=levels)
    panel = panel_of(
        Cause.WARMING_UP, replace(run(), metrics=replace(run().metrics, stability=switching))
    )
    assert [reference.value for reference in panel.references] == [0.9e6, 1.4e6]
    assert panel.low is not None
    assert panel.high is not None
    assert panel.low <= 0.9e6
    assert panel.high >= 1.4e6


@pytest.mark.parametrize("cause", [*Cause, None])
def test_run_without_traces_has_no_strip(cause: Cause | None) -> None:
    """Otherwise the page of a run without telemetry would be a traceback."""
    assert evidence_strip(cause, RunSeries(), run()) is None


def test_page_has_the_strips_beside_their_causes() -> None:
    """Otherwise the evidence would have to be searched in the traces below."""
    page = run_report(reported(METERED))
    listed = page[page.index('<ol class="causes">') : page.index("</ol>")]
    assert 'data-chart="evidence-1-1"' in listed
    assert "others" in listed


def test_strip_of_a_set_is_that_of_its_worst_run() -> None:
    """Otherwise the picture could be of the only run that was not disturbed."""
    busy = stored_run(METERED)
    runs = [replace(member, verdict=busy.verdict) for member in runs_of_set(stored_run(METERED))]
    [load] = [rule for rule in busy.verdict.failures if rule.id == "cpu_pressure"]
    assert load.value is not None
    worse = replace(load, value=2 * load.value)
    rules = tuple(worse if rule is load else rule for rule in busy.verdict.rules)
    runs[3] = replace(runs[3], verdict=replace(busy.verdict, rules=rules))
    directory = reported(METERED)[0].directory
    [subject] = run_page([ReportedRun(member, directory) for member in runs]).subjects
    assert subject.strips[0].run_id == runs[3].run_id
