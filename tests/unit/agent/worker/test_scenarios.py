"""How queries are issued: the seed decides, and arrivals are a Poisson process."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from edgebench.agent.worker.loop import Calls, Times
from edgebench.agent.worker.scenarios import (
    NS_PER_S,
    ORDER_LENGTH,
    arrivals,
    run_scenario,
    run_warmup,
    sample_order,
)
from edgebench.protocol.errors import UsageError
from edgebench.protocol.spec import MAX_ARRIVALS, RunSpec, Scenario

DOUBT = 1e-6
"""The seeds are fixed: a test that passes once passes always."""


def spec(scenario: Scenario = Scenario.SINGLE_STREAM, **fields: Any) -> RunSpec:
    """A short run."""
    qps = 1000.0 if scenario is Scenario.SERVER else None
    start = {
        "duration_s": 1e-3,
        "min_query_count": 20,
        "warmup_query_count": 0,
        "warmup_duration_s": 0.0,
        "target_qps": qps,
    }
    return RunSpec("tflite", scenario=scenario, **(start | fields))


def served(**fields: Any) -> RunSpec:
    """A run in the server scenario."""
    return spec(Scenario.SERVER, **fields)


def test_same_seed_gives_the_same_order_and_another_seed_another() -> None:
    """Otherwise a run could not be repeated, or the seed would do nothing."""
    orders = [sample_order(spec(seed=seed), 16) for seed in (0, 0, 1, 2**63 - 1)]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) == 3
    assert len(orders[0]) == ORDER_LENGTH


def test_same_seed_gives_the_same_arrivals_and_another_seed_others() -> None:
    """Otherwise a server run could not be repeated, or all would have the same luck."""
    moments = [arrivals(served(seed=seed)) for seed in (0, 0, 1)]
    assert moments[0] == moments[1] != moments[2]


def test_order_and_arrivals_have_chance_of_their_own() -> None:
    """Otherwise samples would depend on arrivals: large images always after long pauses."""
    run = served(duration_s=60.0)
    gaps = np.diff(arrivals(run))
    samples = np.array(sample_order(run, 16))[1 : len(gaps) + 1]
    assert abs(np.corrcoef(gaps[: len(samples)], samples)[0, 1]) < 0.02


@pytest.mark.parametrize("sample_count", [1, 2, 16, 1000])
def test_every_sample_comes_equally_often(sample_count: int) -> None:
    """Otherwise the last sample would never come, or the first one twice as often."""
    counts = Counter(sample_order(spec(seed=3), sample_count))
    assert set(counts) == set(range(sample_count))
    assert sample_count == 1 or chisquare(list(counts.values())).pvalue > DOUBT


@pytest.mark.parametrize("qps", [0.5, 7.0, 1000.0, 250_000.0])
def test_arrivals_have_their_rate_and_exponential_gaps(qps: float) -> None:
    """Otherwise queries would come like a clock, or twice as often as requested."""
    run = served(target_qps=qps, duration_s=20_000 / qps, seed=5)
    moments = np.array(arrivals(run), dtype=np.float64) / NS_PER_S
    gaps = np.diff(moments, prepend=0.0)
    # The mean of n exponential gaps is within 5 standard errors of 1/sqrt(n).
    assert gaps.mean() * qps == pytest.approx(1.0, abs=5 / len(gaps) ** 0.5)
    assert kstest(gaps * qps, "expon").pvalue > DOUBT
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 5 / len(gaps) ** 0.5


@given(
    qps=st.floats(0.1, 1e5),
    duration_s=st.floats(1e-3, 2.0),
    count=st.integers(1, 3000),
    seed=st.integers(0, 1000),
)
def test_arrivals_are_enough_for_both_time_and_count(
    qps: float, duration_s: float, count: int, seed: int
) -> None:
    """Otherwise a server run would end before its time, or with fewer queries than it needs."""
    run = served(target_qps=qps, duration_s=duration_s, min_query_count=count, seed=seed)
    moments = arrivals(run)
    assert all(isinstance(moment, int) for moment in moments[:3])
    assert moments[0] >= 0
    assert all(one <= other for one, other in pairwise(moments))
    assert len(moments) >= count
    assert moments[-1] >= duration_s * NS_PER_S - 1
    # And not many more: without the last arrival, time or count is not met.
    assert len(moments) == count or moments[-2] <= duration_s * NS_PER_S


@pytest.mark.parametrize(
    "fields",
    [
        {"target_qps": 1e6, "duration_s": 4.1},
        {"target_qps": 100.0, "duration_s": 5e5},
        {"min_query_count": MAX_ARRIVALS + 1, "max_query_count": 2**40},
        {"target_qps": 1000.0, "duration_s": 1.0, "max_query_count": 999},
    ],
    ids=str,
)
def test_too_many_arrivals_are_refused_before_anything_starts(fields: dict[str, Any]) -> None:
    """Otherwise a device would be measured for an hour, and run out of memory or of schedule."""
    with pytest.raises(UsageError, match="choose a shorter duration"):
        served(**fields)


def test_arrivals_end_at_the_maximum_duration() -> None:
    """Otherwise a thousand queries at one a second would take a quarter of an hour.

    The limit is a minute.
    """
    limited = served(target_qps=10.0, duration_s=1.0, min_query_count=1000, max_duration_s=6.0)
    due_ns = arrivals(limited)
    assert 40 <= len(due_ns) <= 80
    assert due_ns[-1] < 6e9
    assert due_ns == arrivals(replace(limited, max_duration_s=None))[: len(due_ns)]
    assert len(arrivals(served(target_qps=0.001, duration_s=0.1, max_duration_s=0.1))) == 1


def test_arrivals_end_at_the_maximum() -> None:
    """Otherwise chance would make one query more than the device may hold."""
    for seed in range(20):
        run = served(target_qps=1000.0, duration_s=1.0, max_query_count=1000, seed=seed)
        assert len(arrivals(run)) <= 1000


class Counting:
    """A model that counts its calls."""

    def __init__(self, sample_count: int) -> None:
        self.set: list[int] = []
        self.invoke_count = 0
        self.read_count = 0
        self.calls = Calls(
            [self._setter(number) for number in range(sample_count)], self._invoke, self._read
        )

    def _setter(self, number: int) -> Any:
        return lambda: self.set.append(number)

    def _invoke(self) -> None:
        self.invoke_count += 1

    def _read(self) -> None:
        self.read_count += 1


def run(found: RunSpec, sample_count: int = 4) -> tuple[Times, Counting]:
    """Run the scenario on a model that counts."""
    model = Counting(sample_count)
    return run_scenario(model.calls, found), model


FIELDS: dict[Scenario, dict[str, Any]] = {
    Scenario.SINGLE_STREAM: {},
    Scenario.MULTI_STREAM: {"samples_per_query": 3},
    Scenario.SERVER: {},
    Scenario.OFFLINE: {},
}


@pytest.mark.parametrize("scenario", list(Scenario))
def test_each_scenario_has_a_row_for_each_inference(scenario: Scenario) -> None:
    """Otherwise an inference would be missing from the trace, or another sample be recorded."""
    found = spec(scenario, **FIELDS[scenario])
    times, model = run(found)
    count = len(times)
    assert count == model.invoke_count == model.read_count == len(model.set)
    assert list(times.sample) == model.set == sample_order(found, 4)[:count]
    assert count >= 20 * (3 if scenario is Scenario.MULTI_STREAM else 1)
    assert len({len(column) for column in (times.scheduled_ns, times.start_ns, times.sample)}) == 1


def test_single_stream_is_due_when_it_starts() -> None:
    """Otherwise a single stream would have a schedule, and fall behind it."""
    # Twenty queries in one block, however slow the machine is: what is missing is another block.
    times, _ = run(spec(duration_s=60.0, min_query_count=1, max_query_count=20))
    assert len(times) == 20
    assert times.scheduled_ns == times.start_ns
    assert list(times.start_ns[1:]) == list(times.end_ns[:-1])


@pytest.mark.parametrize("size", [1, 3, 8, 50])
def test_multi_stream_is_due_with_its_first_sample(size: int) -> None:
    """Otherwise a query would not be whole, or its later samples would not wait for the first."""
    times, _ = run(spec(Scenario.MULTI_STREAM, samples_per_query=size, min_query_count=5))
    assert len(times) % size == 0
    assert len(times) >= 5 * size
    for first in range(0, len(times), size):
        assert set(times.scheduled_ns[first : first + size]) == {times.start_ns[first]}


def test_multi_stream_at_the_maximum_is_whole() -> None:
    """Otherwise the limit on inferences would cut the last query."""
    found = spec(
        Scenario.MULTI_STREAM,
        samples_per_query=8,
        min_query_count=1,
        max_query_count=30,
        duration_s=60.0,
    )
    assert len(run(found)[0]) == 24


def test_offline_is_due_at_once() -> None:
    """Otherwise offline samples would be queries of their own."""
    times, _ = run(spec(Scenario.OFFLINE))
    assert set(times.scheduled_ns) == {times.start_ns[0]}


def test_server_keeps_to_its_schedule() -> None:
    """Otherwise queries would come when the device is free, not when they are due."""
    found = served(target_qps=5000.0, duration_s=0.02)
    times, _ = run(found)
    wanted = np.diff(arrivals(found))
    assert np.array_equal(np.diff(times.scheduled_ns), wanted)
    assert all(due <= start for due, start in zip(times.scheduled_ns, times.start_ns, strict=True))


@pytest.mark.parametrize("scenario", list(Scenario))
def test_warm_up_is_the_same_loop_in_every_scenario(scenario: Scenario) -> None:
    """Otherwise a server would warm up for a minute at one query a second."""
    found = (
        replace(spec(scenario), warmup_query_count=7, target_qps=None)
        if (scenario is not Scenario.SERVER)
        else served(warmup_query_count=7, target_qps=1.0, duration_s=1.0)
    )
    times = run_warmup(Counting(4).calls, found)
    assert len(times) == 7
    assert times.scheduled_ns == times.start_ns
