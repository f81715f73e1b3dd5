"""Measure devices in parallel: each lane is a thread that measures its devices in turn.

Devices that share a meter share a lane. A single device is measured in the calling thread, and its
error is raised. If one of several devices fails, the other devices are still measured.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.events import DeviceFailed, DeviceSelected, Notify
from edgebench.host.bench.runs import DeviceRuns
from edgebench.protocol.errors import EdgebenchError

POLL_S = 0.5
"""Longest delay until Ctrl-C is noticed."""


def measure_side_by_side(
    works: Sequence[DeviceRuns], notify: Notify, cancellation: Cancellation, *, parallel: int
) -> None:
    """Measure on all devices; up to `parallel` devices are measured at the same time.

    Raises:
        Interrupted: the user pressed Ctrl-C, or the command was cancelled; finished runs are
            stored.
        EdgebenchError: the only device failed.
    """
    for work in works:
        notify(DeviceSelected(work.target.device.name, len(works)))
    if len(works) == 1:
        works[0].measure(cancellation)
        return

    def measure_lane(lane: Sequence[DeviceRuns]) -> None:
        for work in lane:
            if cancellation.is_requested:
                return
            try:
                work.measure(cancellation)
            except Interrupted:
                return
            except EdgebenchError as exc:
                notify(DeviceFailed(work.target.device.name, exc))

    lanes: dict[str, list[DeviceRuns]] = {}
    for work in works:
        target = work.target
        lanes.setdefault(target.meter or f"device {target.device.name}", []).append(work)
    _side_by_side([partial(measure_lane, lane) for lane in lanes.values()], parallel, cancellation)
    cancellation.check()


def _side_by_side(
    works: Sequence[Callable[[], None]], parallel: int, cancellation: Cancellation
) -> None:
    """Call functions in threads, up to `parallel` at a time; Ctrl-C cancels, and waits for all.

    A second Ctrl-C does not wait: the threads end with the process.
    """
    slots = threading.Semaphore(parallel)
    errors: list[Exception] = []

    def do(work: Callable[[], None], ended: threading.Event) -> None:
        try:
            with slots:
                work()
        except Exception as exc:
            # A bug, or a failure that a consumer raised: end everything, to report it immediately.
            errors.append(exc)
            cancellation.request()
        finally:
            ended.set()

    ends = [threading.Event() for _ in works]
    try:
        with _without_interrupts():
            for work, ended in zip(works, ends, strict=True):
                threading.Thread(target=do, args=(work, ended), daemon=True).start()
        _wait_for(ends)
    except KeyboardInterrupt:
        cancellation.request()
        _wait_for(ends)
    if errors:
        raise errors[0]


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block SIGINT until the end of the block; threads started in it never receive SIGINT."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _wait_for(ends: Sequence[threading.Event]) -> None:
    """Wait for all events, in waits of at most `POLL_S` each.

    A signal that arrives just before a wait is handled only after this wait.

    `Thread.join` is not used, because a join interrupted by Ctrl-C marks a running thread as ended.
    Source: CPython 3.11, `Thread._wait_for_tstate_lock`.
    """
    for ended in ends:
        while not ended.wait(POLL_S):
            pass
