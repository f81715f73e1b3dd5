"""Devices side by side: a lane measures on its devices in turn, in a thread of its own.

Devices that share a meter share a lane. One device alone is measured by the calling thread, and its
error is the caller's; among several, a device that fails keeps no other from being measured.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.request import BenchRequest
from edgebench.host.bench.watcher import Watcher
from edgebench.host.devices.files import KnownDevice
from edgebench.host.power.metering import is_of_host
from edgebench.host.result.run import Run
from edgebench.protocol.errors import EdgebenchError

POLL_S = 0.5
"""Longest time for which Ctrl-C may go unnoticed."""


@dataclass(frozen=True, slots=True)
class Target:
    """A device, and what is asked of it."""

    device: KnownDevice
    request: BenchRequest

    @property
    def meter(self) -> str | None:
        """Meter that it needs for itself, with the agent that serves it; None without one."""
        if (energy := self.request.energy) is None:
            return None
        return energy.meter if is_of_host(energy.meter) else f"{energy.meter} of {self.device.pin}"


class AnyTarget(Protocol):
    """A device for which a lane does something."""

    @property
    def device(self) -> KnownDevice:
        """The device."""
        ...

    @property
    def meter(self) -> str | None:
        """Meter that it needs for itself; those of two agents have two names."""
        ...


T = TypeVar("T", bound=AnyTarget)
MeasureOn = Callable[[T, Watcher, Cancellation], list[Run]]
"""Measures on one device; raises `Interrupted` if it is cancelled."""


def measure_targets(
    targets: Sequence[T],
    measure_on: MeasureOn[T],
    watcher: Watcher,
    cancellation: Cancellation,
    *,
    parallel: int,
) -> list[Run]:
    """Measure on all targets, on so many at the same time; their runs, in the order of the targets.

    Raises:
        Interrupted: the user pressed Ctrl-C, or the command was cancelled; what each had is stored.
        EdgebenchError: the only target failed.
    """
    seen = {
        target.device.name: watcher.for_device(target.device.name, len(targets))
        for target in targets
    }
    runs: dict[str, list[Run]] = {}

    def measure(target: T) -> None:
        name = target.device.name
        try:
            runs[name] = measure_on(target, seen[name], cancellation)
        except Interrupted as exc:
            if exc.run is not None:
                seen[name].run_finished(exc.run)
            raise

    if len(targets) == 1:
        measure(targets[0])
        return runs[targets[0].device.name]

    def measure_lane(lane: Sequence[T]) -> None:
        for target in lane:
            if cancellation.is_requested:
                return
            try:
                measure(target)
            except Interrupted:
                return
            except EdgebenchError as exc:
                watcher.device_failed(target.device.name, exc)

    _side_by_side([partial(measure_lane, lane) for lane in _lanes(targets)], parallel, cancellation)
    if cancellation.is_requested:
        raise Interrupted(None)
    return [run for target in targets for run in runs.get(target.device.name, [])]


def _side_by_side(
    works: Sequence[Callable[[], None]], parallel: int, cancellation: Cancellation
) -> None:
    """Do all works, so many at the same time; Ctrl-C cancels them and waits for their end.

    A second Ctrl-C does not wait: the threads end with the process.
    """
    slots = threading.Semaphore(parallel)
    errors: list[Exception] = []

    def do(work: Callable[[], None], ended: threading.Event) -> None:
        try:
            with slots:
                work()
        except Exception as exc:
            # A defect of ours, or a failure that nobody watches: it ends all, to be seen at once.
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
    """Hold Ctrl-C back until the end of the block; threads that are started in it never get it."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _wait_for(ends: Sequence[threading.Event]) -> None:
    """Wait for all; a signal that arrives just before a wait begins is noticed after it.

    Not by `Thread.join`: one that Ctrl-C interrupts takes a running thread for an ended one.
    Source: CPython 3.11, `Thread._wait_for_tstate_lock`.
    """
    for ended in ends:
        while not ended.wait(POLL_S):
            pass


def _lanes(targets: Sequence[T]) -> list[list[T]]:
    lanes: dict[str, list[T]] = {}
    for target in targets:
        lanes.setdefault(target.meter or f"device {target.device.name}", []).append(target)
    return list(lanes.values())
