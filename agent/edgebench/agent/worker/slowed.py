"""An inference on a simulated device: it takes as much longer as the device is slower."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from typing import Any


def slowed(invoke: Callable[[], Any], speed_path: str | None) -> Callable[[], Any]:
    """`invoke`, and then as much waiting as the simulated device needs more; busy, as it would be.

    Args:
        invoke: Runs the model.
        speed_path: The file of one number that the simulated device keeps; None: a real device.
    """
    if speed_path is None:
        return invoke
    with open(speed_path, "rb") as file:
        shared = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    speed = memoryview(shared).cast("d")
    clock = time.perf_counter_ns

    def call() -> None:
        begin = clock()
        invoke()
        due = begin + (clock() - begin) / speed[0]
        while clock() < due:
            pass

    return call
