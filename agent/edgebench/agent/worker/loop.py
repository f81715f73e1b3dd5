"""The timed loop.

Theory of operation. Nothing logs, allocates, samples or talks between the two clock reads of a
query. Times go into preallocated arrays of int64, one block after another; a new block is
allocated between queries, never inside one. A request to stop arrives as a signal (see `stop`):
whatever was complete by then is kept.

The clock is CLOCK_MONOTONIC by way of `time.perf_counter_ns`, the clock that telemetry and clock
probes use too.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from edgebench.agent.worker.stop import STOP, StopRequested

BLOCK_QUERIES = 65536
"""Queries per block: 1 MiB of times, allocated in about 0.1 ms."""


@dataclass(frozen=True, slots=True)
class Times:
    """Start and end of each query, in issue order, nanoseconds."""

    start_ns: array[int]
    end_ns: array[int]
    is_interrupted: bool

    def __len__(self) -> int:
        return len(self.end_ns)


def run_single_stream(
    invoke: Callable[[], Any], *, duration_ns: int, min_count: int, max_count: int
) -> Times:
    """Issue one query after another until time and count are both met, or `max_count` is."""
    times = Times(array("q"), array("q"), is_interrupted=False)
    block = _new_block(min(BLOCK_QUERIES, max_count))
    gc.collect()
    gc.disable()
    deadline_ns = perf_counter_ns() + duration_ns
    try:
        while len(block.end_ns):
            need = max(0, min_count - len(times))
            try:
                with STOP.armed():
                    _run_block(invoke, block.start_ns, block.end_ns, need, deadline_ns)
            except StopRequested:
                return _joined(times, block, is_interrupted=True)
            times = _joined(times, block)
            is_done = len(times) >= min_count and times.end_ns[-1] >= deadline_ns
            block = _new_block(0 if is_done else min(BLOCK_QUERIES, max_count - len(times)))
    finally:
        gc.enable()
    return times


def _run_block(
    invoke: Callable[[], Any],
    starts: array[int],
    ends: array[int],
    need: int,
    deadline_ns: int,
) -> None:
    """Fill the block, or end early once `need` queries are done and the deadline has passed."""
    clock = perf_counter_ns
    for index in range(len(ends)):
        begin = clock()
        invoke()
        end = clock()
        starts[index] = begin
        ends[index] = end
        if end >= deadline_ns and index + 1 >= need:
            return


def _new_block(size: int) -> Times:
    return Times(array("q", bytes(8 * size)), array("q", bytes(8 * size)), is_interrupted=False)


def _joined(times: Times, block: Times, *, is_interrupted: bool = False) -> Times:
    """The complete queries of a block behind the ones before."""
    count = _complete_count(block.end_ns)
    times.start_ns.extend(block.start_ns[:count])
    times.end_ns.extend(block.end_ns[:count])
    return Times(times.start_ns, times.end_ns, is_interrupted)


def _complete_count(ends: array[int]) -> int:
    """Queries whose end was written: times are never zero, and are filled from the front."""
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if ends[middle] else (low, middle)
    return low
