"""Time that a worker of real-time priority leaves to other tasks.

Theory of operation. The kernel does not let real-time tasks take a CPU for more than
`sched_rt_runtime_us` of each `sched_rt_period_us`, 0.95 s of each second by default. A loop that
never waits uses this time up. If other tasks wait for the CPU, the kernel then stops the loop in
the middle of an inference until the period ends. This is a stall of 50 ms in each second. So the
loop pauses by itself, between two queries. A pause is slightly longer than the stall would be.

    kernel   |----------- 950 ms -----------|stop|----------- 950 ms -----------|stop|
    loop     |pause|------- queries -------|pause|------- queries -------|pause|

The loop does not pause where a pause would change a result or cannot help:

    offline             a single query contains all samples
    a meter             energies include the time between inferences. A loop with random gaps (see
                        `jitter`) does pause, because the energy of all pauses is subtracted.
    a long query        the query takes longer than the time between two pauses
    server, LoadGen     a server waits between arrivals, and LoadGen has its own loop

Source: https://docs.kernel.org/scheduler/sched-rt-group.html, "System wide settings"; since Linux
6.12, a deadline server reserves the same 50 ms of each second for other tasks.
"""

from __future__ import annotations

import os
from pathlib import Path

from edgebench.agent.telemetry.source import read_text
from edgebench.agent.worker.loop import Pauses
from edgebench.agent.worker.marks import are_wanted
from edgebench.protocol.record import RealtimeLimit
from edgebench.protocol.spec import Engine, RunSpec, samples_per_query

MARGIN_S = 0.01
"""Time by which a pause exceeds the time that the kernel reserves for other tasks. The margin is
needed because the other tasks begin some time after the pause begins."""


def realtime_limit(root: Path = Path("/")) -> RealtimeLimit | None:
    """The kernel's limit on real-time tasks.

    None if this process has no real-time priority, or the limit cannot be read.
    """
    if os.sched_getscheduler(0) not in (os.SCHED_FIFO, os.SCHED_RR):
        return None
    folder = root / "proc/sys/kernel"
    runtime = read_text(folder / "sched_rt_runtime_us")
    period = read_text(folder / "sched_rt_period_us")
    if not runtime.removeprefix("-").isdecimal() or not period.isdecimal():
        return None
    # -1: no limit.
    is_limited = 0 <= int(runtime) < int(period)
    return RealtimeLimit(int(runtime) / 1e6 if is_limited else None, int(period) / 1e6)


def pauses_for(limit: RealtimeLimit | None, spec: RunSpec, inference_ns: int) -> Pauses | None:
    """Pauses of the loop that leave enough time to other tasks; None if the loop does not pause.

    Args:
        limit: The kernel's limit.
        spec: Settings of the run.
        inference_ns: Typical duration of an inference.
    """
    traits = spec.scenario.traits
    is_own_loop = spec.engine is not Engine.LOADGEN and not traits.is_scheduled
    if limit is None or limit.runtime_s is None or not is_own_loop:
        return None
    if traits.is_one_query or (are_wanted(spec) and not spec.jitter_s):
        return None
    length_s = limit.period_s - limit.runtime_s + MARGIN_S
    # The query that begins just before a pause is due belongs to the time before the pause.
    query_ns = inference_ns * samples_per_query(spec)
    every_ns = int((limit.period_s - length_s) * 1e9) - query_ns
    return Pauses(every_ns, int(length_s * 1e9)) if every_ns > 0 else None
