"""CPU time of each thread of the worker during the timed loop."""

from __future__ import annotations

from edgebench.protocol.record import ThreadTime, WorkerRecord

WORKING_RATIO = 0.10
"""Minimum CPU time of a working thread, relative to that of the busiest thread.

If the busiest thread also did the work of a thread with this share, the run would be longer by at
most this share. So a thread with less than a tenth shortens an inference by at most a tenth,
whatever it does. Housekeeping threads of runtimes have less than 0.01.
"""
ACCOUNTED_RATIO = 0.9
"""The listed threads count as complete if they have at least this share of the worker's CPU time. A
thread that begins and ends within the loop is in neither of the lists made before and after the
loop."""


def loop_times(worker: WorkerRecord) -> list[ThreadTime] | None:
    """Running and waiting time of each thread during the loop.

    None if the kernel does not account for waiting threads.
    """
    earlier = {time.thread: time for time in worker.before.threads}
    if not earlier or not worker.after.threads:
        return None
    none = ThreadTime(0, 0.0, 0.0)
    return [
        ThreadTime(
            time.thread,
            run_s=time.run_s - earlier.get(time.thread, none).run_s,
            wait_s=time.wait_s - earlier.get(time.thread, none).wait_s,
        )
        for time in worker.after.threads
    ]


def working_thread_count(worker: WorkerRecord) -> int | None:
    """Number of threads with a material share of the CPU time in the loop; None if unknown.

    The number is an upper bound of the threads that did work. A pool that spins while it is idle,
    such as the pool of onnxruntime, also uses CPU time.
    """
    times = loop_times(worker)
    worker_s = worker.after.own_cpu_s - worker.before.own_cpu_s
    if times is None or worker_s <= 0:
        return None
    run_s = [time.run_s for time in times]
    if sum(run_s) < ACCOUNTED_RATIO * worker_s:
        return None
    return sum(thread_s >= WORKING_RATIO * max(run_s) for thread_s in run_s)
