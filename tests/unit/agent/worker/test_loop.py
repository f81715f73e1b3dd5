"""The timed loop, on a clock that the test moves."""

from __future__ import annotations

import gc
import os
import signal
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.agent.worker import loop
from edgebench.agent.worker.jitter import jitter_for
from edgebench.agent.worker.loop import (
    BLOCK_INFERENCES,
    NO_LIMIT_NS,
    SPIN_NS,
    Calls,
    Pauses,
    Times,
    run_closed,
    run_scheduled,
)
from edgebench.agent.worker.realtime import pauses_for
from edgebench.agent.worker.stop import StopSwitch
from edgebench.protocol.record import RealtimeLimit
from edgebench.protocol.spec import RunSpec


@dataclass
class Clock:
    """A clock that advances by one at each look; a stop may come at any of them."""

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

    def sleep(self, duration_s: float) -> None:
        """Pass over this time."""
        self.now_ns += round(duration_s * 1e9)


@dataclass
class Model:
    """A model whose inferences take time on the clock."""

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


def nothing() -> None:
    """A call that takes no time."""


def run(
    clock: Clock,
    model: Model,
    *,
    duration_ns: int,
    min_count: int,
    max_count: int,
    max_duration_ns: int = NO_LIMIT_NS,
    block: int = 4,
    group: int = 1,
    pauses: Sequence[Pauses] = (),
) -> Times:
    """Run the loop with this clock, and with small blocks."""
    switch = StopSwitch()
    switch.install()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "STOP", switch)
        patch.setattr(loop, "perf_counter_ns", clock)
        patch.setattr(loop, "sleep", clock.sleep)
        patch.setattr(loop, "BLOCK_INFERENCES", block)
        return run_closed(
            Calls([nothing], model, nothing),
            [0] * 64,
            duration_ns=duration_ns,
            min_count=min_count,
            max_count=max_count,
            max_duration_ns=max_duration_ns,
            group=group,
            pauses=pauses,
        )


@given(
    takes_ns=st.integers(1, 50),
    every_ns=st.integers(1, 400),
    length_ns=st.integers(100, 200),
    block=st.integers(1, 9),
    group=st.integers(1, 3),
)
def test_pauses_lie_between_queries_and_in_no_inference(
    takes_ns: int, every_ns: int, length_ns: int, block: int, group: int
) -> None:
    """Otherwise a latency would contain a pause, or the kernel would stop the loop after all."""
    clock = Clock()
    times = run(
        clock,
        Model(clock, takes_ns),
        duration_ns=2000,
        min_count=group,
        max_count=1000 * group,
        block=block,
        group=group,
        pauses=[Pauses(every_ns, length_ns)],
    )
    longest_ns = takes_ns + LOOKS
    spans_ns = [end - start for start, end in zip(times.start_ns, times.end_ns, strict=True)]
    assert max(spans_ns) <= longest_ns
    gaps_ns = [start - end for start, end in zip(times.start_ns[1:], times.end_ns, strict=False)]
    pauses = [(row + 1, gap_ns) for row, gap_ns in enumerate(gaps_ns) if gap_ns >= length_ns]
    assert all(row % group == 0 for row, _ in pauses)
    # The pause before the first inference lies in no gap, and one may follow the last.
    most_ns = (len(pauses) + 2) * (length_ns + 2)
    assert (len(pauses) + 1) * length_ns <= times.paused_ns <= most_ns
    firsts = [0, *(row for row, _ in pauses)]
    lasts = [*(row - 1 for row, _ in pauses), len(times) - 1]
    for first, last in zip(firsts, lasts, strict=True):
        issued_ns = times.end_ns[last] - times.start_ns[first]
        # A block of its own begins with one more look at the clock.
        assert issued_ns <= every_ns + group * (longest_ns + 1)


def test_random_pauses_have_lengths_by_their_seed() -> None:
    """Otherwise a loop would stay in step with a meter, or a run could not be repeated."""

    def gaps_ns(seed: str) -> list[int]:
        clock = Clock()
        pauses = Pauses(every_ns=50, length_ns=10_000, random=Random(seed))
        times = run(
            clock, Model(clock, 20), duration_ns=10**6, min_count=1, max_count=500, pauses=[pauses]
        )
        both = zip(times.start_ns[1:], times.end_ns, strict=False)
        return [gap for start, end in both if (gap := start - end) > LOOKS]

    gaps = gaps_ns("a run")
    assert gaps == gaps_ns("a run") != gaps_ns("another run")
    assert max(gaps) <= 10_000 + LOOKS
    assert min(gaps) < 2_500
    assert max(gaps) > 7_500


def test_gaps_do_not_replace_the_pauses_that_the_kernel_needs() -> None:
    """In each period of the kernel, the loop leaves the time that the kernel reserves."""
    ms, takes_ns = 10**6, 100_000
    limit = RealtimeLimit(0.95, 1.0)
    spec = RunSpec("litert", duration_s=4.0, idle_duration_s=5.0, jitter_s=1e-3)
    gaps = jitter_for(spec, "a run", takes_ns)
    pauses = pauses_for(limit, spec, takes_ns)
    assert gaps is not None
    assert pauses is not None
    clock = Clock()
    times = run(
        clock,
        Model(clock, takes_ns),
        duration_ns=4000 * ms,
        min_count=1,
        max_count=10**6,
        block=65_536,
        pauses=[gaps, pauses],
    )
    starts_ns, ends_ns = np.array(times.start_ns), np.array(times.end_ns)
    gaps_ns = starts_ns[1:] - ends_ns[:-1]
    left_ns = np.concatenate([[0], np.cumsum(gaps_ns)])
    moments_ns, left_ns = np.stack([starts_ns, ends_ns], 1).ravel(), np.repeat(left_ns, 2)
    begins_ns = np.arange(starts_ns[0], ends_ns[-1] - 1000 * ms, 10 * ms)
    begun_ns, over_ns = (
        np.interp(at_ns, moments_ns, left_ns) for at_ns in (begins_ns, begins_ns + 1000 * ms)
    )
    assert (over_ns - begun_ns).min() >= 50 * ms
    short_ns = gaps_ns[(gaps_ns > LOOKS) & (gaps_ns < 2 * ms)]
    assert len(short_ns) > 60, "random gaps between the pauses"
    assert (short_ns < 0.5 * ms).any()
    assert (short_ns > 0.5 * ms).any()


LOOKS = 3
"""Looks at the clock in one inference; a block begins with one more."""


@given(
    takes_ns=st.integers(0, 50),
    duration_ns=st.integers(0, 1000),
    low=st.integers(1, 40),
    more=st.integers(0, 40),
    block=st.integers(1, 9),
    group=st.integers(1, 4),
)
def test_loop_ends_when_time_and_count_are_met_or_at_the_maximum(
    takes_ns: int, duration_ns: int, low: int, more: int, block: int, group: int
) -> None:
    """Otherwise a run would be too short, too long, or lose inferences between two blocks."""
    clock = Clock()
    model = Model(clock, takes_ns)
    least, most = low * group, (low + more) * group
    begin_ns = clock.now_ns
    times = run(
        clock,
        model,
        duration_ns=duration_ns,
        min_count=least,
        max_count=most,
        block=block,
        group=group,
    )
    assert len(times) == model.calls
    assert len(times) % group == 0, "only whole queries are issued"
    assert least <= len(times) <= most
    assert not times.is_interrupted
    assert_in_order(times)
    deadline_ns = begin_ns + 1 + duration_ns
    assert times.end_ns[-1] >= deadline_ns or len(times) == most
    if len(times) > least:
        assert times.end_ns[-1 - group] < deadline_ns, "one query less would have been enough"
    spans = zip(times.invoke_start_ns, times.invoke_end_ns, strict=True)
    assert [end - begin for begin, end in spans] == [takes_ns + 1] * len(times)


@given(
    takes_ns=st.integers(0, 50),
    duration_ns=st.integers(0, 300),
    longer_ns=st.integers(1, 300),
    low=st.integers(1, 40),
    block=st.integers(1, 9),
    group=st.integers(1, 4),
)
def test_loop_ends_at_its_maximum_duration_with_whole_queries(
    takes_ns: int, duration_ns: int, longer_ns: int, low: int, block: int, group: int
) -> None:
    """Otherwise a slow model would hold the device for an hour, or a fast model be cut short."""
    clock = Clock()
    model = Model(clock, takes_ns)
    begin_ns = clock.now_ns + 1
    times = run(
        clock,
        model,
        duration_ns=duration_ns,
        min_count=low * group,
        max_count=1000 * group,
        max_duration_ns=duration_ns + longer_ns,
        block=block,
        group=group,
    )
    assert len(times) == model.calls
    assert len(times) % group == 0
    assert not times.is_interrupted
    assert_in_order(times)
    limit_ns = begin_ns + duration_ns + longer_ns
    assert len(times) >= low * group or times.end_ns[-1] >= limit_ns
    if len(times) > group:
        assert times.end_ns[-1 - group] < limit_ns, "no query is issued after the limit"


def columns(times: Times) -> list[array[int]]:
    """The times of all inferences."""
    return [times.start_ns, times.invoke_start_ns, times.invoke_end_ns, times.end_ns]


def assert_in_order(times: Times) -> None:
    """No span starts before the last has ended, and no time goes unseen inside a block."""
    moments = [moment for row in zip(*columns(times), strict=True) for moment in row]
    assert moments == sorted(moments)
    due = zip(times.scheduled_ns, times.start_ns, strict=True)
    assert all(scheduled <= start for scheduled, start in due)
    assert len(times.sample) == len(times)


@given(count=st.integers(1, 40), group=st.integers(1, 5), block=st.integers(5, 9))
def test_every_sample_of_a_query_is_due_when_its_query_is(
    count: int, group: int, block: int
) -> None:
    """Otherwise each sample of a multi-stream query would count from when it was issued."""
    clock = Clock()
    times = run(
        clock,
        Model(clock, 7),
        duration_ns=0,
        min_count=count * group,
        max_count=count * group,
        block=block,
        group=group,
    )
    for index in range(0, len(times), group):
        assert set(times.scheduled_ns[index : index + group]) == {times.start_ns[index]}


def test_end_of_one_inference_is_the_start_of_the_next() -> None:
    """Otherwise the loop's own work between two inferences would be in no latency at all."""
    clock = Clock()
    times = run(clock, Model(clock, 5), duration_ns=0, min_count=12, max_count=12, block=4)
    for index in range(1, 12):
        is_new_block = index % 4 == 0
        gap_ns = times.start_ns[index] - times.end_ns[index - 1]
        assert (gap_ns == 0) != is_new_block


def test_count_that_the_time_left_open_goes_on_with_the_next_sample() -> None:
    """Otherwise slow models would see the first samples twice, in each run in another place."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "perf_counter_ns", clock)
        patch.setattr(loop, "BLOCK_INFERENCES", 8)
        calls = Calls([nothing] * 8, Model(clock, 10), nothing)
        times = run_closed(calls, range(8), duration_ns=33, min_count=12, max_count=20)
    assert list(times.sample) == [*range(8), *range(4)]
    gaps_ns = [start - end for start, end in zip(times.start_ns[1:], times.end_ns, strict=False)]
    # A new block after the third inference, in which the time ends, and where the order does.
    assert [number for number, gap_ns in enumerate(gaps_ns, 1) if gap_ns] == [3, 8]


def test_offline_samples_are_all_due_at_the_start() -> None:
    """Otherwise an offline run would have as many queries as samples."""
    calls = Calls([nothing], nothing, nothing)
    times = run_closed(calls, [0] * 8, duration_ns=0, min_count=20, max_count=20, is_one_query=True)
    assert set(times.scheduled_ns) == {times.start_ns[0]}


def test_samples_are_set_in_the_order_that_is_written_down() -> None:
    """Otherwise the trace would name a sample other than the measured one."""
    seen: list[int] = []
    setters = [lambda number=number: seen.append(number) for number in range(3)]
    order = [2, 0, 1, 1, 0]
    times = run_closed(
        Calls(setters, nothing, nothing), order, duration_ns=0, min_count=12, max_count=12
    )
    assert seen == list(times.sample) == (order * 3)[:12]


@given(stop_at_look=st.integers(1, 60), block=st.integers(1, 9))
def test_stop_at_any_moment_keeps_exactly_the_complete_queries(
    stop_at_look: int, block: int
) -> None:
    """Otherwise an interrupted run would lose a query, or keep a query that has no end."""
    clock = Clock(stop_at_look=stop_at_look)
    times = run(clock, Model(clock, 3), duration_ns=0, min_count=100, max_count=100, block=block)
    assert times.is_interrupted
    # The first look makes the deadline, each block looks once, each inference three times.
    assert len(times) == complete_before(stop_at_look, block)
    assert_in_order(times)
    assert 0 not in times.end_ns


def complete_before(look: int, block: int) -> int:
    """Inferences that are complete when the clock is looked at for the n-th time."""
    left, count = look - 2, 0  # the look at the deadline, and this one
    while left > 0:
        inside = min(block, (left - 1) // LOOKS)
        count += inside
        left -= 1 + LOOKS * block
    return count


@given(stop_in_call=st.integers(1, 20), block=st.integers(1, 5))
def test_stop_inside_an_inference_drops_that_query_only(stop_in_call: int, block: int) -> None:
    """Otherwise the query that was cut off would count as measured."""
    clock = Clock()
    model = Model(clock, 3, stop_in_call=stop_in_call)
    times = run(clock, model, duration_ns=0, min_count=20, max_count=20, block=block)
    assert times.is_interrupted
    assert len(times) == stop_in_call - 1


def test_stop_that_was_requested_before_the_loop_measures_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a stop during the load would be forgotten, and the run go on to its end."""
    clock = Clock()
    switch = StopSwitch()
    switch.install()
    os.kill(os.getpid(), signal.SIGTERM)
    monkeypatch.setattr(loop, "STOP", switch)
    calls = Calls([nothing], Model(clock, 1), nothing)
    times = run_closed(calls, [0], duration_ns=0, min_count=5, max_count=5)
    assert (len(times), times.is_interrupted) == (0, True)


@pytest.mark.parametrize("count", [BLOCK_INFERENCES - 1, BLOCK_INFERENCES, BLOCK_INFERENCES + 1])
def test_block_boundary_loses_nothing(count: int) -> None:
    """Otherwise the inference at 65536 would be lost, doubled, or zero.

    This runs on the real clock with a real block.
    """
    calls = Calls([nothing], nothing, nothing)
    order = [0] * BLOCK_INFERENCES
    times = run_closed(calls, order, duration_ns=0, min_count=count, max_count=2 * count)
    assert len(times) == len(times.start_ns) == count
    assert_in_order(times)
    assert min(times.start_ns) > 0


def test_garbage_collection_rests_inside_the_loop_and_works_after_it() -> None:
    """Otherwise a collection would land inside a query, or the worker never collect again."""
    clock = Clock()
    model = Model(clock, 1)
    run(clock, model, duration_ns=0, min_count=9, max_count=9)
    assert model.was_collecting == [False] * 9
    assert gc.isenabled()


def test_failing_inference_leaves_the_collector_working() -> None:
    """Otherwise one model that raises would leave the process without garbage collection."""

    def fail() -> None:
        raise RuntimeError("the model is broken")

    with pytest.raises(RuntimeError, match="broken"):
        run_closed(Calls([nothing], fail, nothing), [0], duration_ns=0, min_count=1, max_count=1)
    assert gc.isenabled()


def test_times_are_64_bit_integers() -> None:
    """Otherwise nanoseconds since boot would overflow after two seconds."""
    calls = Calls([nothing], nothing, nothing)
    times = run_closed(calls, [0], duration_ns=0, min_count=1, max_count=1)
    assert all(
        isinstance(column, array) and (column.typecode, column.itemsize) == ("q", 8)
        for column in columns(times)
    )


def test_queries_that_arrive_during_a_stall_count_from_their_arrival(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a stall of 100 ms at 100 queries a second would delay one query only.

    That is coordinated omission.
    """
    clock = Clock()

    def pass_time(seconds: float) -> None:
        clock.now_ns += round(seconds * 1e9)

    monkeypatch.setattr(loop, "perf_counter_ns", clock)
    monkeypatch.setattr(loop, "sleep", pass_time)
    monkeypatch.setattr(loop, "SPIN_NS", 100)
    calls_made = 0

    def stall_once() -> None:
        nonlocal calls_made
        calls_made += 1
        if calls_made == 21:
            pass_time(0.1)

    due_ns = [number * 10_000_000 for number in range(60)]
    times = run_scheduled(Calls([nothing], stall_once, nothing), [0], due_ns)
    late = [end - due for due, end in zip(times.scheduled_ns, times.end_ns, strict=True)]
    assert len(times) == 60
    over = [latency for latency in late if latency > 5_000_000]
    assert len(over) == 10
    # The stall is worked off in the order of arrival: each query is 10 ms less late than the last.
    assert over[0] >= 100_000_000
    assert over == sorted(over, reverse=True)


def test_server_that_falls_behind_ends_at_its_maximum_duration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a device that takes a second per query would work off an hour of arrivals."""
    clock = Clock()
    model = Model(clock, 1000)
    monkeypatch.setattr(loop, "perf_counter_ns", clock)
    due_ns = [number * 10 for number in range(60)]
    times = run_scheduled(Calls([nothing], model, nothing), [0], due_ns, max_duration_ns=5000)
    assert len(times) == model.calls == len(times.start_ns) == 5
    assert times.is_interrupted, "the latest queries are not among them"


def test_query_is_never_issued_before_it_is_due() -> None:
    """Otherwise a wait would end early, and a latency would be negative."""
    due_ns = [number * 700_000 for number in range(50)]
    times = run_scheduled(Calls([nothing], nothing, nothing), [0], due_ns)
    assert_in_order(times)
    gaps = [b - a for a, b in pairwise(times.scheduled_ns)]
    assert gaps == [700_000] * 49
    assert SPIN_NS < 700_000, "the sleep is part of this test"


def test_stop_in_a_schedule_keeps_what_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an interrupted server run would lose all, or keep queries that never came."""
    switch = StopSwitch()
    switch.install()
    monkeypatch.setattr(loop, "STOP", switch)
    model = Model(Clock(), 0, stop_in_call=5)
    times = run_scheduled(Calls([nothing], model, nothing), [0], [0] * 20)
    assert times.is_interrupted
    assert len(times) == len(times.start_ns) == len(times.sample) == 4
