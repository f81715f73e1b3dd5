"""The timed loop, on a clock that the test moves."""

from __future__ import annotations

import gc
import os
import signal
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.agent.worker import loop
from edgebench.agent.worker.loop import BLOCK_QUERIES, Times, run_single_stream
from edgebench.agent.worker.stop import StopSwitch


@dataclass
class Clock:
    """A clock that goes on by one at each look; a stop may come at any of them."""

    now_ns: int = 1000
    looks: int = 0
    stop_at_look: int | None = None

    def __call__(self) -> int:
        """Look at it."""
        self.looks += 1
        if self.looks == self.stop_at_look:
            os.kill(os.getpid(), signal.SIGTERM)
        self.now_ns += 1
        return self.now_ns


@dataclass
class Model:
    """A model that takes its time on the clock."""

    clock: Clock
    takes_ns: int
    calls: int = 0
    stop_in_call: int | None = None
    was_collecting: list[bool] = field(default_factory=list)

    def __call__(self) -> None:
        """One inference."""
        self.calls += 1
        self.was_collecting.append(gc.isenabled())
        if self.calls == self.stop_in_call:
            os.kill(os.getpid(), signal.SIGTERM)
        self.clock.now_ns += self.takes_ns


@pytest.fixture(autouse=True)
def _quiet_process() -> Iterator[None]:
    """The process gets its old handler back; the collector skips what the other tests left."""
    handler = signal.getsignal(signal.SIGTERM)
    gc.freeze()
    yield
    gc.unfreeze()
    signal.signal(signal.SIGTERM, handler)


def run(
    clock: Clock, model: Model, *, duration_ns: int, min_count: int, max_count: int, block: int = 4
) -> Times:
    """Run the loop with this clock, and with small blocks."""
    switch = StopSwitch()
    switch.install()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "STOP", switch)
        patch.setattr(loop, "perf_counter_ns", clock)
        patch.setattr(loop, "BLOCK_QUERIES", block)
        return run_single_stream(
            model, duration_ns=duration_ns, min_count=min_count, max_count=max_count
        )


def expected_count(clock: Clock, takes_ns: int, duration_ns: int, low: int, high: int) -> int:
    """The definition: enough queries and enough time, but never more than the maximum."""
    deadline_ns = clock.now_ns + 1 + duration_ns
    per_query_ns = takes_ns + 2  # each query looks at the clock twice
    until_deadline = -(-(deadline_ns - clock.now_ns - 1) // per_query_ns)
    return min(high, max(low, until_deadline, 1))


@given(
    takes_ns=st.integers(0, 50),
    duration_ns=st.integers(0, 1000),
    low=st.integers(0, 40),
    more=st.integers(0, 40),
    block=st.integers(1, 9),
)
def test_loop_ends_when_time_and_count_are_met_or_at_the_maximum(
    takes_ns: int, duration_ns: int, low: int, more: int, block: int
) -> None:
    """A run is too short, too long, or loses queries where one block ends and the next begins."""
    clock = Clock()
    model = Model(clock, takes_ns)
    count = expected_count(clock, takes_ns, duration_ns, low, low + more)
    times = run(
        clock, model, duration_ns=duration_ns, min_count=low, max_count=low + more, block=block
    )
    assert len(times) == len(times.start_ns) == len(times.end_ns) == model.calls == count
    assert not times.is_interrupted
    assert_in_order(times)
    assert [e - s for s, e in zip(times.start_ns, times.end_ns, strict=True)] == (
        [takes_ns + 1] * count
    )


def assert_in_order(times: Times) -> None:
    """No query starts before the one before has ended."""
    moments = [moment for pair in zip(times.start_ns, times.end_ns, strict=True) for moment in pair]
    assert moments == sorted(moments)


@given(stop_at_look=st.integers(1, 60), block=st.integers(1, 9))
def test_stop_at_any_moment_keeps_exactly_the_complete_queries(
    stop_at_look: int, block: int
) -> None:
    """An interrupted run loses a query, or keeps one that has no end."""
    clock = Clock(stop_at_look=stop_at_look)
    times = run(clock, Model(clock, 3), duration_ns=0, min_count=100, max_count=100, block=block)
    assert times.is_interrupted
    # The first look makes the deadline; then each query looks twice.
    assert len(times) == max(0, (stop_at_look - 2) // 2)
    assert_in_order(times)
    assert 0 not in times.end_ns


@given(stop_in_call=st.integers(1, 20), block=st.integers(1, 5))
def test_stop_inside_an_inference_drops_that_query_only(stop_in_call: int, block: int) -> None:
    """The query that was cut off counts as measured."""
    clock = Clock()
    model = Model(clock, 3, stop_in_call=stop_in_call)
    times = run(clock, model, duration_ns=0, min_count=20, max_count=20, block=block)
    assert times.is_interrupted
    assert len(times) == stop_in_call - 1


def test_stop_that_was_requested_before_the_loop_measures_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stop during the load is forgotten, and the run goes on to its end."""
    clock = Clock()
    switch = StopSwitch()
    switch.install()
    os.kill(os.getpid(), signal.SIGTERM)
    monkeypatch.setattr(loop, "STOP", switch)
    times = run_single_stream(Model(clock, 1), duration_ns=0, min_count=5, max_count=5)
    assert (len(times), times.is_interrupted) == (0, True)


@pytest.mark.parametrize("count", [BLOCK_QUERIES - 1, BLOCK_QUERIES, BLOCK_QUERIES + 1])
def test_block_boundary_loses_nothing(count: int) -> None:
    """The query at 65536 is lost, doubled, or zero; on the real clock with a real block."""
    times = run_single_stream(lambda: None, duration_ns=0, min_count=count, max_count=2 * count)
    assert len(times) == len(times.start_ns) == count
    assert_in_order(times)
    assert min(times.start_ns) > 0


def test_garbage_collection_rests_inside_the_loop_and_works_after_it() -> None:
    """A collection lands inside a query, or the worker never collects again."""
    clock = Clock()
    model = Model(clock, 1)
    run(clock, model, duration_ns=0, min_count=9, max_count=9)
    assert model.was_collecting == [False] * 9
    assert gc.isenabled()


def test_failing_inference_leaves_the_collector_working() -> None:
    """One model that raises leaves the process without garbage collection."""

    def fail() -> None:
        raise RuntimeError("the model is broken")

    with pytest.raises(RuntimeError, match="broken"):
        run_single_stream(fail, duration_ns=0, min_count=1, max_count=1)
    assert gc.isenabled()


def test_times_are_64_bit_integers() -> None:
    """Nanoseconds since boot overflow after two seconds."""
    times = run_single_stream(lambda: None, duration_ns=0, min_count=1, max_count=1)
    assert all(
        isinstance(column, array) and (column.typecode, column.itemsize) == ("q", 8)
        for column in (times.start_ns, times.end_ns)
    )
