"""The query trace: impossible values are refused, and each scenario has its own latency."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.host.analysis.latency.queries import Queries
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.spec import RunSpec, Scenario, samples_per_query

COLUMNS = ("scheduled_ns", "start_ns", "invoke_start_ns", "invoke_end_ns", "end_ns", "sample")


def trace(count: int = 12, **columns: list[int]) -> Queries:
    """Return inferences of 70 ns, back to back: 10 in, 50 invocation, 10 out."""
    start = 1000 + 70 * np.arange(count, dtype=np.int64)
    found = Queries(start, start, start + 10, start + 60, start + 70, start * 0, 0)
    given_columns: dict[str, Any] = {
        name: np.array(column, np.int64) for name, column in columns.items()
    }
    return replace(found, **given_columns)


def with_change(queries: Queries, column: str, row: int, by_ns: int) -> Queries:
    """Return a trace with one number changed."""
    values = getattr(queries, column).copy()
    values[row] += by_ns
    return replace(queries, **{column: values})


def spec(scenario: Scenario, **fields: Any) -> RunSpec:
    """Return the specification of a run in this scenario."""
    qps = 10.0 if scenario is Scenario.SERVER else None
    return RunSpec("tflite", scenario=scenario, target_qps=qps, **fields)


def test_good_traces_are_believed() -> None:
    """Otherwise every run would be refused."""
    trace().check()
    trace(0).check()
    trace(1).check()
    served = replace(trace(), scheduled_ns=trace().start_ns - 500)
    served.check()


@pytest.mark.parametrize("row", [0, 5, 11])
@pytest.mark.parametrize(
    ("column", "by_ns"),
    [
        ("start_ns", 11),
        ("invoke_start_ns", -11),
        ("invoke_start_ns", 51),
        ("invoke_end_ns", -51),
        ("invoke_end_ns", 11),
        ("end_ns", -11),
    ],
)
def test_span_that_ends_before_it_starts_is_refused(column: str, by_ns: int, row: int) -> None:
    """Otherwise a clock that went backwards would give negative latencies, and a fine minimum."""
    with pytest.raises(MeasurementError, match="the device clock went backwards"):
        with_change(trace(), column, row, by_ns).check()


@pytest.mark.parametrize(
    ("column", "row", "time_ns"),
    [("scheduled_ns", 0, -(2**63) + 1), ("end_ns", 11, 2**63 - 1)],
)
def test_time_that_no_clock_shows_is_refused(column: str, row: int, time_ns: int) -> None:
    """Otherwise the difference of two times would overflow, and a latency would be negative."""
    made = trace()
    getattr(made, column)[row] = time_ns
    with pytest.raises(MeasurementError, match="a time beyond the range of a clock"):
        made.check()


@pytest.mark.parametrize(("column", "row", "by_ns"), [("end_ns", 4, 1), ("start_ns", 5, -1)])
def test_inferences_that_overlap_are_refused(column: str, row: int, by_ns: int) -> None:
    """Otherwise two inferences at a time would be counted as if one model could do that."""
    with pytest.raises(MeasurementError, match="not in order"):
        with_change(trace(), column, row, by_ns).check()


@pytest.mark.parametrize("row", [0, 11])
def test_query_that_started_before_it_was_due_is_refused(row: int) -> None:
    """Otherwise a server run would have latencies that are shorter than the model."""
    with pytest.raises(MeasurementError, match="started before it was due"):
        with_change(trace(), "scheduled_ns", row, 1).check()


def test_query_that_was_due_before_the_last_one_is_refused() -> None:
    """Otherwise a row of the schedule could be set back, and its latency would grow."""
    with pytest.raises(MeasurementError, match="due before its predecessor"):
        with_change(trace(), "scheduled_ns", 5, -71).check()


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_of_different_length_are_refused(column: str) -> None:
    """Otherwise a trace that lost part of a column would be computed from misaligned rows."""
    short = replace(trace(), **{column: getattr(trace(), column)[:-1]})
    with pytest.raises(MeasurementError, match="different length"):
        short.check()


def test_latency_of_a_single_stream_is_from_start_to_outputs() -> None:
    """Otherwise end to end would leave out the copying of inputs or outputs."""
    found = trace().query_ns(spec(Scenario.SINGLE_STREAM), 2)
    assert found is not None
    assert found.tolist() == [70] * 10
    assert trace().invoke_ns.tolist() == [50] * 12


def test_latency_of_a_server_counts_from_the_schedule() -> None:
    """Otherwise a stall would hide the queries that it delayed: coordinated omission."""
    queries = trace(4, scheduled_ns=[1000, 1001, 1002, 1210])
    found = queries.query_ns(spec(Scenario.SERVER), 0)
    assert found is not None
    assert found.tolist() == [70, 139, 208, 70]


@given(groups=st.integers(0, 6), size=st.integers(1, 5), warmup=st.integers(0, 7))
def test_latency_of_a_multi_stream_is_until_its_last_sample(
    groups: int, size: int, warmup: int
) -> None:
    """Otherwise queries would be cut at the wrong place, each with a part of its neighbour."""
    count = warmup + groups * size
    start = trace(count).start_ns
    due = start.copy()
    for first in range(warmup, count, size):
        due[first : first + size] = start[first]
    run = spec(Scenario.MULTI_STREAM, samples_per_query=size)
    found = replace(trace(count), scheduled_ns=due).query_ns(run, warmup)
    assert found is not None
    assert found.tolist() == [70 * size] * groups


def test_part_of_a_query_at_the_end_is_not_counted() -> None:
    """Otherwise an interrupted query of three samples would pass for a fast query of eight."""
    run = spec(Scenario.MULTI_STREAM, samples_per_query=8)
    found = trace(8 + 3).query_ns(run, 0)
    assert found is not None
    assert found.tolist() == [8 * 70]
    few = trace(3).query_ns(run, 0)
    assert few is not None
    assert few.tolist() == []


def test_offline_has_no_latency_of_a_query() -> None:
    """Otherwise one query of a minute would be reported as a latency."""
    assert trace().query_ns(spec(Scenario.OFFLINE), 0) is None


@pytest.mark.parametrize("scenario", list(Scenario))
def test_only_multi_stream_queries_have_several_samples(scenario: Scenario) -> None:
    """Otherwise the setting of another scenario would divide the latencies of this one."""
    expected = 5 if scenario is Scenario.MULTI_STREAM else 1
    assert samples_per_query(spec(scenario, samples_per_query=5)) == expected
