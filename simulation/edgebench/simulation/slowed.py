"""An inference on a simulated device: it takes as much longer as the device is slower.

Two numbers in a file are shared with the simulated device: its speed, which the device writes, and
the seconds for which it was active, which the worker writes and which heat the device. They are
counted by the wall clock: other load on this machine must not cool a simulated board.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable
from typing import Any

SHARED = struct.Struct("=dd")
"""Layout of the file: speed, 1: undisturbed; active seconds."""
_SPEED, _WORKED_S = 0, 1
PAUSE_NS = 1_000_000
"""Pause between two inferences from which on the device cools; a shorter one is the loop's own."""


def slowed(invoke: Callable[[], Any], speed_path: str) -> Callable[[], Any]:
    """`invoke`, followed by a busy wait for the time that the simulated device takes longer.

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
