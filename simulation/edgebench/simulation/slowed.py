"""An inference on a simulated device: it takes as much longer as the device is slower.

Two numbers in a file are shared with the simulated device: how fast it is, which the device writes,
and how many seconds it has worked, which the worker writes and which heats the device. Work is
counted by the wall clock: what else runs on this machine must not cool a made-up board.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable
from typing import Any

SHARED = struct.Struct("=dd")
"""Speed, 1: undisturbed; seconds of work."""
_SPEED, _WORKED_S = 0, 1
PAUSE_NS = 1_000_000
"""A shorter pause between two inferences is the loop's own work, in which no device cools."""


def slowed(invoke: Callable[[], Any], speed_path: str) -> Callable[[], Any]:
    """`invoke`, and then as much waiting as the simulated device needs more; busy, as it would be.

    Args:
        invoke: Runs the model.
        speed_path: The file that is shared with the device.
    """
    with open(speed_path, "r+b") as file:
        shared = memoryview(mmap.mmap(file.fileno(), 0)).cast("d")
    clock = time.perf_counter_ns
    ended = clock()

    def call() -> None:
        nonlocal ended
        begin = clock()
        invoke()
        end = clock()
        due = begin + (end - begin) / shared[_SPEED]
        while end < due:
            end = clock()
        since = ended if begin - ended < PAUSE_NS else begin
        shared[_WORKED_S] += (end - since) / 1e9
        ended = end

    return call
