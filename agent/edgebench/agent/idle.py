"""Idle windows before and after the worker, in which a meter records the device's idle power.

A window begins with the event of `Phase.IDLE` and ends with the event `idle_ended`, whose detail
states the length of the window, and whether the window was cut short. The worker's files are synced
to disk before the second window begins; otherwise the kernel would write them during the window,
which takes power.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from edgebench.agent.cooldown import Sleep
from edgebench.agent.files import disk_errors
from edgebench.agent.running import ActiveRun
from edgebench.agent.worker.process import monotonic_ns
from edgebench.agent.worker.reports import PhaseStart
from edgebench.protocol.messages import Progress
from edgebench.protocol.record import IDLE_ENDED, MeasuredRecord, Phase
from edgebench.system.whole_files import sync_file

LOOK_S = 0.25
"""Interval at which the agent checks, during an idle window, whether the run must end; a check
takes 20 µs."""


async def work_between_idling(run: ActiveRun) -> MeasuredRecord:
    """Run the worker, with an idle window before and after it if the run requests idle windows.

    Raises:
        EdgebenchError: the worker has failed.
    """
    if run.request.spec.idle_duration_s > 0:
        await run.worker.settle()  # the start of its interpreter takes power
    await _idle(run, lambda: run.worker.is_stopping or run.worker.has_ended)
    run.enter(PhaseStart(Phase.STARTING, None, monotonic_ns()))
    run.worker.go()
    worker = await run.worker.follow(run.enter, run.reach)
    was_stopped = worker.is_interrupted or run.worker.is_stopping
    if run.request.spec.idle_duration_s > 0 and not was_stopped:
        await asyncio.to_thread(settle_disk, run.worker.directory)
        await _idle(run, lambda: run.worker.is_stopping)
        run.send(Progress(run.request.run_id, Phase.SPOOLING))  # shows watchers that idling is over
    return worker


async def _idle(run: ActiveRun, is_over: Callable[[], bool]) -> None:
    """Stay idle for the time that the run requests, if any; `is_over` ends the window early."""
    duration_s = run.request.spec.idle_duration_s
    if duration_s > 0:
        run.enter(PhaseStart(Phase.IDLE, duration_s, monotonic_ns()))
        run.note(IDLE_ENDED, await stay_idle(duration_s, is_over=is_over))


async def stay_idle(
    duration_s: float,
    *,
    is_over: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Sleep = asyncio.sleep,
) -> str:
    """Wait for a duration, or until `is_over` returns True; returns the actual time as text."""
    begin_s = clock()
    end_s = begin_s + duration_s
    while (now_s := clock()) < end_s:
        if is_over():
            return f"cut short after {now_s - begin_s:.2f} of {duration_s:g} s"
        await sleep(min(LOOK_S, end_s - now_s))
    return f"after {now_s - begin_s:.2f} s"


def settle_disk(directory: Path) -> None:
    """Wait until the worker's files are written to disk.

    Raises:
        TargetError: the disk failed.
    """
    with disk_errors("run not spooled", directory):
        for file in directory.iterdir():
            sync_file(file)
