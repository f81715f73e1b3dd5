"""The timed loop.

Theory of operation. Nothing logs, allocates, samples or talks between the two clock reads of a
query. Times go into preallocated arrays of int64, one block after another; a new block is
allocated between queries, never inside one. A request to stop arrives as a signal whose handler
raises `StopRequested`: whatever was complete by then is kept.

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

BLOCK_QUERIES = 65536
"""Queries per block: 1 MiB of times, allocated in about 0.1 ms."""


class StopRequested(BaseException):
    """Raised by the signal handler that ends a loop early; no `except Exception` may eat it."""


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
    start_ns, end_ns = array("q"), array("q")
    is_interrupted = False
    deadline_ns = perf_counter_ns() + duration_ns
    gc.collect()
    gc.disable()
    try:
        while len(end_ns) < max_count and not (
            len(end_ns) >= min_count and perf_counter_ns() >= deadline_ns
        ):
            size = min(BLOCK_QUERIES, max_count - len(end_ns))
            need = max(0, min_count - len(end_ns))
            starts, ends = array("q", bytes(8 * size)), array("q", bytes(8 * size))
            try:
                count = _run_block(invoke, starts, ends, need, deadline_ns)
            except StopRequested:
                is_interrupted = True
                count = _complete_count(ends)
            start_ns.extend(starts[:count])
            end_ns.extend(ends[:count])
            if is_interrupted:
                break
    finally:
        gc.enable()
    return Times(start_ns, end_ns, is_interrupted)


def _run_block(
    invoke: Callable[[], Any],
    starts: array[int],
    ends: array[int],
    need: int,
    deadline_ns: int,
) -> int:
    """Fill the block, or end early once `need` queries are done and the deadline has passed."""
    clock = perf_counter_ns
    for index in range(len(ends)):
        begin = clock()
        invoke()
        end = clock()
        starts[index] = begin
        ends[index] = end
        if end >= deadline_ns and index + 1 >= need:
            break
    return index + 1


def _complete_count(ends: array[int]) -> int:
    """Queries whose end was written: times are never zero, and are filled from the front."""
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if ends[middle] else (low, middle)
    return low
