"""All traces of a stored run on one clock."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from edgebench.host.result.document import from_document
from edgebench.host.result.run import Run
from edgebench.host.result.thermal import ThermalResult, ThermalState
from edgebench.host.series.run_series import (
    PowerSeries,
    RunSeries,
    Span,
    SpanKind,
    read_series,
)
from edgebench.host.store.layout import QUERIES_FILE, RUN_FILE
from edgebench.protocol.errors import RunDamaged

RUNS = Path(__file__).parents[3] / "fixtures" / "runs" / "v7"
PLAIN, METERED = "20261123-031046-26335d6d", "20261123-031049-420b03bc"


def stored(name: str) -> tuple[Run, RunSeries]:
    """A stored run and its traces."""
    run = from_document(json.loads((RUNS / name / RUN_FILE).read_bytes()))
    return run, read_series(RUNS / name, run)


def test_latencies_that_count_are_those_of_the_result() -> None:
    """Otherwise a picture would show other inferences than the numbers, and contradict them."""
    run, series = stored(PLAIN)
    assert series.latency is not None
    assert run.metrics.latency_ns is not None
    steady_ns = series.latency.steady_ns
    assert len(steady_ns) == run.metrics.latency_ns.count
    assert steady_ns.max() == run.metrics.latency_ns.max
    assert (steady_ns.min(), steady_ns.mean()) == (
        run.metrics.latency_ns.min,
        pytest.approx(run.metrics.latency_ns.mean),
    )
    # Zero is the first counted inference; its inputs are copied before it is invoked.
    assert 0 <= series.latency.start_s[series.latency.warmup_count] < 1e-3
    assert (np.diff(series.latency.start_s) > 0).all()


def test_phases_follow_each_other_and_hold_the_inferences() -> None:
    """Otherwise a phase on another clock would be elsewhere on the axis."""
    _, series = stored(METERED)
    assert series.latency is not None
    phases = [span for span in series.spans if span.kind is SpanKind.PHASE]
    names = [span.name for span in phases]
    assert names.count("idle") == 2
    assert names.index("loading") < names.index("measuring")
    [measuring] = [span for span in phases if span.name == "measuring"]
    assert measuring.begin_s <= series.latency.start_s[series.latency.warmup_count]
    assert series.latency.start_s[-1] < measuring.end_s
    begin_s, end_s = series.span_s
    assert begin_s <= phases[0].begin_s < 0 < phases[-1].end_s <= end_s


def test_power_is_on_the_clock_of_the_run() -> None:
    """The picture's energy between the first and last inference is about that of the run."""
    run, series = stored(METERED)
    energy = run.metrics.energy
    assert energy is not None
    assert energy.power_w_mean is not None
    assert series.power_apart is None
    assert series.latency is not None
    [power] = series.power
    edges_s = np.array([0.0, float(series.latency.start_s[-1])])
    [mean_w] = power.envelope(edges_s).mean
    assert mean_w == pytest.approx(energy.power_w_mean, rel=0.05)


def test_power_that_was_not_aligned_is_apart_with_the_reason() -> None:
    """Otherwise a common axis would claim to know how much power each inference took."""
    run, _ = stored(METERED)
    assert run.metrics.energy is not None
    energy = replace(run.metrics.energy, sync=None, refused="synchronisation: no mark was seen")
    run = replace(run, metrics=replace(run.metrics, energy=energy))
    series = read_series(RUNS / METERED, run)
    assert series.power_apart == "synchronisation: no mark was seen"
    assert series.power[0].begin_s[0] == 0.0
    assert series.span_s[1] < 100


def test_throttled_stretches_are_spans() -> None:
    """Otherwise the run would state a ratio of throttling, but not its times."""
    run, _ = stored(PLAIN)
    thermal = ThermalResult(
        ThermalState.THROTTLED,
        "thermal",
        True,
        reason="hot",
        throttled_spans_s=((1.0, 2.5), (4.0, 5.0)),
    )
    run = replace(run, metrics=replace(run.metrics, thermal=thermal))
    spans = [
        span for span in read_series(RUNS / PLAIN, run).spans if span.kind is SpanKind.THROTTLED
    ]
    assert spans == [
        Span(SpanKind.THROTTLED, "thermal", 1.0, 2.5),
        Span(SpanKind.THROTTLED, "thermal", 4.0, 5.0),
    ]


def test_run_without_its_queries_still_has_the_other_traces(tmp_path: Path) -> None:
    """A run that failed has no queries."""
    copy = tmp_path / PLAIN
    shutil.copytree(RUNS / PLAIN, copy)
    (copy / QUERIES_FILE).unlink()
    run, _ = stored(PLAIN)
    series = read_series(copy, run)
    assert series.latency is None
    assert series.spans


def test_damaged_trace_is_reported(tmp_path: Path) -> None:
    """Otherwise half a picture would be taken for a whole picture."""
    copy = tmp_path / PLAIN
    shutil.copytree(RUNS / PLAIN, copy)
    (copy / QUERIES_FILE).write_bytes(b"PAR1")
    run, _ = stored(PLAIN)
    with pytest.raises(RunDamaged, match=r"queries\.parquet"):
        read_series(copy, run)


def test_interval_shorter_than_a_block_has_the_power_of_the_block() -> None:
    """Otherwise a recording of few samples would look like a row of gaps when zoomed in."""
    power = PowerSeries(
        "supply",
        begin_s=np.array([0.0, 1.0, 3.0]),
        end_s=np.array([1.0, 2.0, 4.0]),
        low_w=np.array([1.0, 2.0, 3.0]),
        mean_w=np.array([1.5, 2.5, 3.5]),
        high_w=np.array([2.0, 3.0, 4.0]),
    )
    found = power.envelope(np.linspace(0.0, 4.0, 9))
    np.testing.assert_allclose(
        found.mean, [1.5, 1.5, 2.5, 2.5, np.nan, np.nan, 3.5, 3.5]
    )  # Nothing was recorded from 2 to 3 s
    np.testing.assert_allclose(found.low[[0, 3, 7]], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(found.high[[0, 3, 7]], [2.0, 3.0, 4.0])


def test_mean_of_an_interval_is_that_of_its_time() -> None:
    """Blocks are weighted by their durations, not by their counts of samples."""
    power = PowerSeries(
        "supply",
        begin_s=np.array([0.0, 0.1]),
        end_s=np.array([0.1, 1.0]),
        low_w=np.array([10.0, 0.0]),
        mean_w=np.array([10.0, 0.0]),
        high_w=np.array([10.0, 0.0]),
    )
    np.testing.assert_allclose(power.envelope(np.array([0.0, 1.0])).mean, [1.0])


def test_inferences_out_of_order_are_damage(tmp_path: Path) -> None:
    """Otherwise a changed file would end `show` in an error that names no file."""
    directory = tmp_path / PLAIN
    shutil.copytree(RUNS / PLAIN, directory)
    table = pq.read_table(directory / QUERIES_FILE)
    pq.write_table(table[::-1], directory / QUERIES_FILE)
    run = from_document(json.loads((directory / RUN_FILE).read_bytes()))
    with pytest.raises(RunDamaged, match=f"^inferences are not in order of time: {directory}$"):
        read_series(directory, run)
