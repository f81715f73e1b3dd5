"""An inference on a simulated device, slowed down to the device's present speed.

The worker and the simulated device share two numbers in a file: the device writes its speed, and
the worker writes its active seconds, which heat the device. Active seconds are wall-clock time, not
CPU time, because other load on this machine would reduce the CPU time, and so cool a simulated
board.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable
from typing import Any

SHARED = struct.Struct("=dd")
"""Layout of the file: speed (1: not slowed down) and active seconds."""
_SPEED, _WORKED_S = 0, 1
PAUSE_NS = 1_000_000
"""Shortest pause between two inferences that cools the device. A shorter pause is overhead of the
loop, and counts as active time."""


def slowed(invoke: Callable[[], Any], speed_path: str) -> Callable[[], Any]:
    """Wrap `invoke` in a function that busy-waits for the additional time of a slower device.

    Args:
        invoke: Runs the model.
        speed_path: File shared with the device.
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
