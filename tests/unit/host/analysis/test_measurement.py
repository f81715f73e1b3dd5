"""The numbers of a run: what is cut as warm-up, and what each scenario has to report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.records import answers, latencies, queries_of, run_record, worker_record

from edgebench.host.analysis.latency import early_stopping
from edgebench.host.analysis.latency.queries import Queries
from edgebench.host.analysis.latency.warmup import SteadyClass
from edgebench.host.analysis.measurement import (
    Measurement,
    Traces,
    measure_traces,
)
from edgebench.host.result.facts import HostFacts
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import CheckFacts, RealtimeLimit, WorkerRecord
from edgebench.protocol.spec import Engine, RunSpec, Scenario

SLOW_COUNT = 203
"""Not a whole number of multi-stream queries."""


def noisy(level_ns: float, count: int, seed: int) -> NDArray[np.int64]:
    """Return latencies around a level with 1 % of noise."""
    draw = np.random.default_rng(seed)
    return (level_ns * (1 + 0.01 * draw.standard_normal(count))).astype(np.int64)


def slow_start(count: int = 1200) -> NDArray[np.int64]:
    """Return latencies of which the first `SLOW_COUNT` take twice as long."""
    return np.concatenate([noisy(200_000, SLOW_COUNT, 1), noisy(100_000, count - SLOW_COUNT, 2)])


def spec(scenario: Scenario, **fields: Any) -> RunSpec:
    """Return the specification of a run in this scenario."""
    qps = 10.0 if scenario is Scenario.SERVER else None
    start = {"duration_s": 0.01, "min_query_count": 10, "target_qps": qps}
    return RunSpec("tflite", scenario=scenario, **(start | fields))


def measure(queries: Queries, run: RunSpec, worker: WorkerRecord | None = None) -> Measurement:
    """Return the numbers of these queries."""
    worker = worker or worker_record(queries.invoke_ns)
    record = replace(run_record(worker), spec=run)
    return measure_traces(record, worker, Traces(queries, answers()))


def test_warm_up_beyond_the_issued_one_is_cut() -> None:
    """Otherwise the median would include the 200 warm-up queries needed where 10 were requested."""
    found = measure(queries_of(slow_start()), spec(Scenario.SINGLE_STREAM))
    assert found.steady.steady_class is SteadyClass.WARMUP
    assert abs(found.first_row - SLOW_COUNT) <= 3
    assert found.invoke.max < 150_000
    assert found.query_count == len(found.invoke_ns) == 1200 - found.first_row
    assert found.warmup_ns == int(slow_start()[: found.first_row].sum())


def test_issued_warm_up_is_cut_where_none_is_found() -> None:
    """Otherwise a flat run would count its warm-up."""
    found = measure(queries_of(noisy(1e5, 500, 3), 40), spec(Scenario.SINGLE_STREAM))
    assert found.steady.steady_class is SteadyClass.FLAT
    assert found.first_row == 40
    assert found.span_ns == int(noisy(1e5, 500, 3)[40:].sum())
    assert found.throughput_per_s == pytest.approx(460e9 / found.span_ns)


@pytest.mark.parametrize(("paused_s", "excluded_ns"), [(0.0, 0), (0.06, 60_000_000)])
def test_pauses_of_a_real_time_loop_take_no_throughput(paused_s: float, excluded_ns: int) -> None:
    """Otherwise a run of real-time priority would be 6 % slower by its throughput alone."""
    latency_ns = noisy(1e5, 500, 3)
    found = queries_of(latency_ns, 40)
    later_ns = np.where(np.arange(500) < 300, 0, 60_000_000)
    later = replace(
        found,
        scheduled_ns=found.scheduled_ns + later_ns,
        start_ns=found.start_ns + later_ns,
        invoke_start_ns=found.invoke_start_ns + later_ns,
        invoke_end_ns=found.invoke_end_ns + later_ns,
        end_ns=found.end_ns + later_ns,
    )
    worker = worker_record(latency_ns)
    realtime = RealtimeLimit(0.95, 1.0, paused_s)
    paused = replace(worker, scheduling=replace(worker.scheduling, realtime=realtime))
    of_run = measure(later, spec(Scenario.SINGLE_STREAM), paused)
    assert of_run.span_ns == int(latency_ns[40:].sum()) + 60_000_000 - excluded_ns


@pytest.mark.parametrize("size", [2, 5, 8, 64])
def test_warm_up_is_cut_at_a_whole_query(size: int) -> None:
    """Otherwise a multi-stream query would be cut in two, and shift all that follow."""
    warmup = 10
    count = warmup + size * ((1200 - warmup) // size)
    latency_ns = slow_start(count)
    queries = queries_of(latency_ns, warmup)
    due = queries.start_ns.copy()
    for first in range(warmup, count, size):
        due[first : first + size] = due[first]
    found = measure(
        replace(queries, scheduled_ns=due), spec(Scenario.MULTI_STREAM, samples_per_query=size)
    )
    assert found.steady.steady_class is SteadyClass.WARMUP
    assert (found.first_row - warmup) % size == 0
    assert SLOW_COUNT - 3 <= found.first_row < SLOW_COUNT + 3 + size
    assert found.query_ns is not None
    assert len(found.query_ns) == found.query_count == (count - found.first_row) // size
    totals = latency_ns[found.first_row :].reshape(-1, size).sum(axis=1)
    assert found.query_ns.tolist() == totals.tolist()


def served(timed: NDArray[np.int64], warmup: NDArray[np.int64], gap_ns: int) -> Queries:
    """Return a server run: warm-up at once, then one query every `gap_ns`."""
    begin = queries_of(warmup, len(warmup))
    due = begin.end_ns[-1] + gap_ns * np.arange(1, len(timed) + 1)
    ends = np.empty(len(timed), np.int64)
    free = 0
    for index, takes in enumerate(timed):
        free = ends[index] = max(free, due[index]) + takes
    starts = ends - timed
    columns = {
        "scheduled_ns": due,
        "start_ns": starts,
        "invoke_start_ns": starts,
        "invoke_end_ns": ends,
        "end_ns": ends,
        "sample": np.zeros(len(timed), np.int64),
    }
    joined = {
        name: np.concatenate([getattr(begin, name), values]) for name, values in columns.items()
    }
    return Queries(**joined, warmup_count=len(warmup))


def test_steady_state_of_a_server_run_is_looked_for_without_its_warm_up() -> None:
    """Otherwise a warm-up without gaps would be faster, and the run be called slowed down."""
    queries = served(noisy(150_000, 600, 4), noisy(100_000, 400, 5), 1_000_000)
    found = measure(queries, spec(Scenario.SERVER))
    assert found.steady.steady_class is SteadyClass.FLAT
    assert found.first_row == 400
    assert found.query_count == 600


def test_warm_up_within_a_server_run_is_counted_from_its_first_row() -> None:
    """Otherwise the position inside the timed part would be taken for that in the whole trace."""
    queries = served(slow_start(1000), noisy(100_000, 400, 5), 1_000_000)
    found = measure(queries, spec(Scenario.SERVER))
    assert found.steady.steady_class is SteadyClass.WARMUP
    assert abs(found.first_row - 400 - SLOW_COUNT) <= 3


def test_queries_behind_a_stall_are_late_in_a_server_run() -> None:
    """Otherwise a 100 ms stall at 100 queries/s would be one slow query: coordinated omission."""
    timed = noisy(1_000_000, 500, 6)
    timed[250] = 100_000_000
    found = measure(served(timed, noisy(1e6, 10, 7), 10_000_000), spec(Scenario.SERVER))
    assert found.query_ns is not None
    late = found.query_ns[found.query_ns > 5_000_000]
    assert 10 <= len(late) <= 12
    # Each query due 10 ms later waited 10 ms less, and 1 ms for the query before it.
    assert np.diff(late).tolist() == pytest.approx([-9_000_000] * (len(late) - 1), rel=0.02)
    assert int(np.count_nonzero(found.invoke_ns > 5_000_000)) == 1


@pytest.mark.parametrize(
    ("target_latency_s", "over", "is_met"), [(0.0011, 0, True), (0.0005, 990, False)]
)
def test_server_target_is_judged_by_early_stopping(
    target_latency_s: float, over: int, is_met: bool
) -> None:
    """Otherwise a target would be met by the point estimate of too few queries."""
    queries = served(noisy(1_000_000, 1000, 8), noisy(1e6, 10, 7), 10_000_000)
    run = spec(Scenario.SERVER, target_latency_s=target_latency_s)
    found = measure(queries, run).early_stopping
    assert found.over_latency_count is not None
    assert abs(found.over_latency_count - over) <= 10
    assert found.is_target_met is is_met
    assert (found.p90_ns, found.p99_ns) == (None, None)


def test_server_without_a_target_has_no_early_stopping() -> None:
    """Otherwise a target of nothing would be failed by every query."""
    queries = served(noisy(1e6, 100, 8), noisy(1e6, 10, 7), 10_000_000)
    found = measure(queries, spec(Scenario.SERVER)).early_stopping
    assert (found.over_latency_count, found.is_target_met) == (None, None)


def test_early_stopping_estimates_are_those_of_the_queries_that_count() -> None:
    """Otherwise the estimate would include the warm-up, or invocations without the copying."""
    queries = queries_of(latencies(1000))
    longer = replace(queries, end_ns=queries.end_ns, invoke_end_ns=queries.end_ns - 1_000)
    found = measure(longer, spec(Scenario.SINGLE_STREAM))
    ordered = np.sort(latencies(1000)[found.first_row :])
    assert found.early_stopping.p90_ns == early_stopping.estimate(ordered, 0.9)
    assert found.early_stopping.p99_ns == early_stopping.estimate(ordered, 0.99)
    assert found.early_stopping.over_latency_count is None
    few = measure(queries_of(latencies(50)), spec(Scenario.SINGLE_STREAM)).early_stopping
    assert (few.p90_ns, few.p99_ns) == (None, None)


def test_offline_has_throughput_and_no_end_to_end() -> None:
    """Otherwise one query of everything would be given a median."""
    found = measure(queries_of(latencies()), spec(Scenario.OFFLINE))
    assert (found.query, found.query_ns) == (None, None)
    assert found.early_stopping.p90_ns is None
    assert found.query_count == len(latencies()) - found.first_row
    assert found.throughput_per_s == pytest.approx(found.query_count * 1e9 / found.span_ns)


def test_server_run_by_loadgen_has_no_end_to_end() -> None:
    """Otherwise the call would be taken for the arrival, and the waiting be left out."""
    run = spec(Scenario.SERVER, engine=Engine.LOADGEN, target_latency_s=0.1)
    found = measure(queries_of(latencies()), run)
    assert (found.query, found.query_ns) == (None, None)
    assert found.early_stopping.is_target_met is None
    assert found.query_count == len(latencies()) - found.first_row


@pytest.mark.parametrize("log", [None, "", ':::MLLOG {"key": "a", "value": 1}\n', ":::MLLOG {cut"])
def test_loadgen_that_was_stopped_leaves_a_measurement_without_its_result(log: str | None) -> None:
    """Otherwise Ctrl-C in a run by LoadGen would keep every query, but no host could store them."""
    worker = worker_record(latencies())
    record = replace(run_record(worker), spec=spec(Scenario.SINGLE_STREAM, engine=Engine.LOADGEN))
    traces = Traces(queries_of(latencies()), answers(), loadgen_log=log)
    found = measure_traces(record, worker, traces)
    assert found.loadgen is None
    assert found.query_count == len(latencies()) - found.first_row


def test_other_scenarios_by_loadgen_have_an_end_to_end() -> None:
    """Otherwise a single stream by LoadGen would report less than its trace."""
    found = measure(queries_of(latencies()), spec(Scenario.SINGLE_STREAM, engine=Engine.LOADGEN))
    assert found.query is not None


def test_trace_of_another_length_than_the_record_is_refused() -> None:
    """Otherwise half a trace would be computed, and look fine."""
    with pytest.raises(MeasurementError, match="500 rows, the worker reports 499"):
        measure(
            queries_of(latencies()), spec(Scenario.SINGLE_STREAM), worker_record(latencies(499))
        )


def test_trace_of_warm_up_alone_is_refused() -> None:
    """Otherwise the warm-up would be reported, since there is nothing else."""
    with pytest.raises(MeasurementError, match="no query was measured"):
        measure(queries_of(latencies(), 500), spec(Scenario.SINGLE_STREAM))


def test_answers_without_a_named_reference_are_not_compared() -> None:
    """Otherwise a worker that died before naming its reference would be judged by an unknown."""
    worker = replace(worker_record(latencies()), check=CheckFacts(reference_error="killed"))
    found = measure(queries_of(latencies()), spec(Scenario.SINGLE_STREAM), worker)
    assert found.quality.agreement is None


def test_accuracy_needs_answers_labels_and_a_metric() -> None:
    """Otherwise a run without a data set would have an accuracy, or a run with one would not."""
    worker = worker_record(latencies())
    given = {"dataset.0": np.eye(10, dtype=np.int8)[[1, 2, 3]]}
    labels = {"y": np.array([1, 2, 4])}
    run = run_record(worker)

    def found(*parts: Any) -> float | None:
        traces = Traces(queries_of(latencies()), *parts)
        accuracy = measure_traces(run, worker, traces).quality.accuracy
        return accuracy.value if accuracy else None

    facts = HostFacts("digits", "top1")
    assert found(given, labels, facts) == pytest.approx(2 / 3)
    assert found(given, {}, facts) is None
    assert found({}, labels, facts) is None
    assert found(given, labels, HostFacts()) is None
