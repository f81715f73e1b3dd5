"""Nothing is done for a while, so that a meter sees what the device takes then.

A window begins with the event of `Phase.IDLE` and ends with the event `idle_ended`, whose detail
says how long it was, and whether it was cut short. What the worker wrote is on the disk before the
second one begins: a write that the kernel puts off would fall into it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from edgebench.agent.cooldown import Sleep
from edgebench.agent.files import disk_errors, sync_file

LOOK_S = 0.25
"""Between two looks whether somebody wants the run to end; a look takes 20 µs."""


async def stay_idle(
    duration_s: float,
    *,
    is_over: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Sleep = asyncio.sleep,
) -> str:
    """Wait for so long, or until `is_over`; how long it was, for the record."""
    begin_s = clock()
    end_s = begin_s + duration_s
    while (now_s := clock()) < end_s:
        if is_over():
            return f"cut short after {now_s - begin_s:.2f} of {duration_s:g} s"
        await sleep(min(LOOK_S, end_s - now_s))
    return f"after {now_s - begin_s:.2f} s"


def settle_disk(directory: Path) -> None:
    """Wait until what the worker wrote is on the disk.

    Raises:
        TargetError: the disk failed.
    """
    with disk_errors("run not spooled", directory):
        for file in directory.iterdir():
            sync_file(file)
