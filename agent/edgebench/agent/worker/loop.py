"""The timed loop.

Theory of operation. An inference has three spans: copying the inputs in, invoking the model,
copying the outputs out. A timestamp is taken after each span. The end of an inference is also the
start of the next inference, so that no time of the loop is lost. The loop does not log, allocate
arrays, sample or communicate. The calls are prepared before the loop, and the times are written,
block by block, to preallocated arrays of int64. A new block is allocated between two inferences.
The first inference of a block starts at a new timestamp, so that no latency includes the
allocation. The blocks are joined after the end of the loop. The loop pauses between two blocks in
two cases: the loop has real-time priority (see `realtime`), or a meter takes few instantaneous
samples (see `jitter`).

A request to stop arrives as a signal (see `stop`), and the complete inferences are kept. The end of
an inference is therefore written last, and marks the inference as complete.

The clock is CLOCK_MONOTONIC through `time.perf_counter_ns`, which telemetry and clock probes also
use.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from random import Random
from time import perf_counter_ns, sleep
from typing import Any

from edgebench.agent.worker.stop import STOP, StopRequested

BLOCK_INFERENCES = 65536
"""Number of inferences per block; the times of a block take 1.5 MiB. Allocating a block takes 0.1
to 1 ms, because the first access to new memory is slow."""
SPIN_NS = 300_000
"""Length of the last part of a wait, in which the loop polls the clock instead of sleeping. A sleep
may end late by up to this length.

Measured: of 400 sleeps of 2 ms on an idle Linux 6 machine, 95 % ended at most 0.12 ms late."""

FIRST_BLOCK_INFERENCES = 256
"""Inferences in the first block of a loop with pauses, and the least room of a later block. A later
block has room for twice as many inferences as ran in the previous block. Larger blocks would stay
mostly empty, and cost time and cache.
"""

LEAD_NS, LIST_NS = 1_000_000, 200
"""Time to compute a schedule of arrivals, as a fixed part and a part per arrival. Measured: 50 ns
per arrival."""
NO_LIMIT_NS = 2**63 - 1
"""Value of `max_duration_ns` that means no limit."""

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of an inference, prepared so that none takes an argument."""

    set_inputs: Sequence[Call]
    """Calls that copy a sample into the model, indexed by sample."""
    invoke: Call
    read_outputs: Call


@dataclass(frozen=True, slots=True)
class Pauses:
    """Pauses between two queries, for other tasks or as random gaps for a meter."""

    every_ns: int
    """Time from the end of a pause until the next pause is due; a query in progress ends first."""
    length_ns: int
    """Length of each pause, or the maximum length if the lengths are random."""
    random: Random | None = None
    """Generator of the lengths, uniform from 0 to `length_ns`; None: all pauses have the same
    length."""

    def next_ns(self) -> int:
        """Length of the next pause."""
        return self.length_ns if self.random is None else self.random.randrange(self.length_ns + 1)


@dataclass(frozen=True, slots=True)
class Times:
    """Times of the inferences in issue order, nanoseconds; columns as in the query trace."""

    scheduled_ns: array[int]
    start_ns: array[int]
    invoke_start_ns: array[int]
    invoke_end_ns: array[int]
    end_ns: array[int]
    sample: array[int]
    is_interrupted: bool = False
    paused_ns: int = 0
    """Total time of the loop's pauses, including the pause before the first inference."""

    def __len__(self) -> int:
        return len(self.end_ns)


@dataclass(slots=True)
class _Block:
    """Preallocated times of consecutive inferences; zero for inferences that have not run."""

    ready_ns: array[int]
    done_ns: array[int]
    end_ns: array[int]
    first: int
    """Position of the block's first sample in the order of the samples."""
    begin_ns: int = 0

    @classmethod
    def of(cls, size: int, first: int = 0) -> _Block:
        return cls(_zeros(size), _zeros(size), _zeros(size), first)

    def whole_count(self, group: int) -> int:
        """Number of inferences that belong to complete queries; a query has `group` inferences."""
        count = _complete_count(self.end_ns)
        return count - count % group

    def cut(self, count: int) -> None:
        """Keep the times of the first `count` inferences, and release the rest of the memory."""
        for times in (self.ready_ns, self.done_ns, self.end_ns):
            del times[count:]


def new_times() -> Times:
    """Empty columns of times, to which inferences are appended later."""
    return Times(_zeros(0), _zeros(0), _zeros(0), _zeros(0), _zeros(0), _zeros(0))


def run_closed(
    calls: Calls,
    order: Sequence[int],
    *,
    duration_ns: int,
    min_count: int,
    max_count: int,
    max_duration_ns: int = NO_LIMIT_NS,
    group: int = 1,
    is_one_query: bool = False,
    pauses: Sequence[Pauses] = (),
) -> Times:
    """Issue inferences until the least duration and number are reached, or a maximum is reached.

    If fewer than `min_count` inferences have run at the end of the least duration, the missing
    inferences run in extra blocks, which have no more room than these inferences need. So a block
    ends when the block is full or at its deadline. Inside a block, the loop checks nothing else.

    Args:
        calls: The inference.
        order: Order of the samples; repeated when it ends.
        duration_ns: Least duration.
        min_count: Least number of inferences.
        max_count: Largest number of inferences.
        max_duration_ns: Duration after which no further query is issued; at least `duration_ns`.
        group: Inferences in a query; only whole queries are issued.
        is_one_query: Whether all inferences form a single query, which is due at the start of the
            first inference.
        pauses: Pauses before the first query and between queries, each kind on its own schedule.
    """
    prepared = [calls.set_inputs[sample] for sample in order]
    size = _whole(min(BLOCK_INFERENCES, len(order)), group)
    max_count = _whole(max_count, group)
    min_count = min(max_count, _whole(min_count + group - 1, group))
    blocks: list[_Block] = []
    count, is_stopped = 0, False
    room = _whole(min(size, FIRST_BLOCK_INFERENCES), group) if pauses else size
    with _no_collection():
        paused_ns = sum(map(_pause, pauses))
        begin_ns = last_ns = perf_counter_ns()
        pause_due_ns = [begin_ns + pause.every_ns for pause in pauses]
        deadline_ns, limit_ns = begin_ns + duration_ns, begin_ns + max_duration_ns
        while not is_stopped and last_ns < limit_ns:
            is_timed = last_ns < deadline_ns
            left = (max_count if is_timed else min_count) - count
            if left <= 0:
                break
            first = count % size
            block = _Block.of(min(size - first, left, room), first)
            setters = prepared[first : first + len(block.end_ns)]
            blocks.append(block)
            try:
                with STOP.armed():
                    until_ns = deadline_ns if is_timed else limit_ns
                    _run_block(calls, setters, block, min([until_ns, *pause_due_ns]), group)
            except StopRequested:
                is_stopped = True
            if done := block.whole_count(group):
                count, last_ns = count + done, block.end_ns[done - 1]
            if pauses:
                room = min(size, _whole(max(2 * done, FIRST_BLOCK_INFERENCES), group))
            for place, pause in enumerate(pauses):
                if last_ns >= pause_due_ns[place] and not is_stopped:
                    block.cut(done)
                    paused_ns += _pause(pause)
                    pause_due_ns[place] = perf_counter_ns() + pause.every_ns
    times = _joined(blocks, order, group, is_stopped=is_stopped)
    times = replace(times, paused_ns=paused_ns)
    if is_one_query and len(times):
        times.scheduled_ns[:] = array("q", [times.start_ns[0]]) * len(times)
    return times


def run_scheduled(
    calls: Calls,
    order: Sequence[int],
    due_ns: Sequence[int],
    *,
    max_duration_ns: int = NO_LIMIT_NS,
) -> Times:
    """Issue an inference at each arrival of a schedule, or as soon after it as possible.

    If the device falls behind, queries wait, and the latency of each query counts from its arrival.
    If the maximum duration is reached before all queries have run, the loop counts as interrupted,
    because the missing queries would have had the longest latencies.

    Args:
        calls: The inference.
        order: Order of the samples; repeated when it ends.
        due_ns: Times of the arrivals, nanoseconds after the start, ascending.
        max_duration_ns: Duration after which no further query is issued.
    """
    count = len(due_ns)
    samples = array("q", islice(cycle(order), count))
    prepared = [calls.set_inputs[sample] for sample in samples]
    block, starts = _Block.of(count), _zeros(count)
    is_interrupted = False
    with _no_collection():
        # The start lies in the future, so that the list is complete before the first arrival.
        origin_ns = perf_counter_ns() + LEAD_NS + count * LIST_NS
        due = [origin_ns + after for after in due_ns]
        try:
            with STOP.armed():
                _run_arrivals(calls, prepared, due, starts, block, origin_ns + max_duration_ns)
        except StopRequested:
            is_interrupted = True
    done = _complete_count(block.end_ns)
    is_interrupted = is_interrupted or done < count
    return Times(
        array("q", due[:done]),
        starts[:done],
        block.ready_ns[:done],
        block.done_ns[:done],
        block.end_ns[:done],
        samples[:done],
        is_interrupted,
    )


def _run_block(
    calls: Calls,
    setters: Sequence[Call],
    block: _Block,
    deadline_ns: int,
    group: int,
) -> None:
    """Run the inferences of a block; end early after the first query that passes the deadline."""
    clock, invoke, read_outputs = perf_counter_ns, calls.invoke, calls.read_outputs
    ready_ns, done_ns, end_ns = block.ready_ns, block.done_ns, block.end_ns
    last = group - 1
    block.begin_ns = clock()
    for index, set_inputs in enumerate(setters):
        set_inputs()
        ready = clock()
        invoke()
        done = clock()
        read_outputs()
        end = clock()
        ready_ns[index] = ready
        done_ns[index] = done
        end_ns[index] = end
        if end >= deadline_ns and index % group == last:
            return


def _run_arrivals(
    calls: Calls,
    setters: Sequence[Call],
    due: Sequence[int],
    starts: array[int],
    block: _Block,
    limit_ns: int,
) -> None:
    """Run the inferences of a block, each at its arrival; end early after the time limit.

    The loop repeats the code of `_run_block`, because a shared function would add a call to the
    measured spans.
    """
    clock, invoke, read_outputs = perf_counter_ns, calls.invoke, calls.read_outputs
    ready_ns, done_ns, end_ns = block.ready_ns, block.done_ns, block.end_ns
    for index, set_inputs in enumerate(setters):
        begin = wait_until(due[index])
        set_inputs()
        ready = clock()
        invoke()
        done = clock()
        read_outputs()
        end = clock()
        starts[index] = begin
        ready_ns[index] = ready
        done_ns[index] = done
        end_ns[index] = end
        if end >= limit_ns:
            return


def wait_until(due_ns: int) -> int:
    """Wait until a time of the clock, and return the time after the wait.

    If the time has already passed, the function returns at once.
    """
    now_ns = perf_counter_ns()
    if due_ns - now_ns > SPIN_NS:
        sleep((due_ns - now_ns - SPIN_NS) / 1e9)
        now_ns = perf_counter_ns()
    while now_ns < due_ns:
        now_ns = perf_counter_ns()
    return now_ns


def _pause(pauses: Pauses) -> int:
    """Sleep for the length of the next pause, and return the time that passed, nanoseconds."""
    begin_ns = perf_counter_ns()
    sleep(pauses.next_ns() / 1e9)
    return perf_counter_ns() - begin_ns


@contextmanager
def _no_collection() -> Iterator[None]:
    """Exempt all living objects from garbage collection, and collect nothing inside the block."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _joined(
    blocks: Sequence[_Block], order: Sequence[int], group: int, *, is_stopped: bool
) -> Times:
    """Times of the complete queries of all blocks."""
    times = replace(new_times(), is_interrupted=is_stopped)
    samples = array("q", order[: max((b.first + len(b.end_ns) for b in blocks), default=0)])
    for block in blocks:
        if count := block.whole_count(group):
            starts = array("q", [block.begin_ns])
            starts.extend(block.end_ns[: count - 1])
            times.start_ns.extend(starts)
            times.scheduled_ns.extend(_first_of_each(starts, group))
            times.invoke_start_ns.extend(block.ready_ns[:count])
            times.invoke_end_ns.extend(block.done_ns[:count])
            times.end_ns.extend(block.end_ns[:count])
            times.sample.extend(samples[block.first : block.first + count])
    return times


def _first_of_each(starts: array[int], group: int) -> array[int]:
    """For each inference, the start of its query."""
    if group == 1:
        return starts
    return array("q", [starts[index - index % group] for index in range(len(starts))])


def _zeros(count: int) -> array[int]:
    return array("q", bytes(8 * count))


def _whole(count: int, group: int) -> int:
    """`count`, rounded down to a multiple of `group`, but at least `group`."""
    return max(count - count % group, group)


def _complete_count(ends: array[int]) -> int:
    """Number of inferences whose end time was written, found by bisection.

    Ends are written in order and are never zero.
    """
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if ends[middle] else (low, middle)
    return low
