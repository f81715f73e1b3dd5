"""Somebody who does a thing at a certain moment of a run."""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from edgebench.host.bench import events
from edgebench.protocol.record import Phase
from support.agents import AgentProcess

WARM_UP_S = 0.5
"""Of --quick."""
LOAD_CODE = "import numpy, ai_edge_litert.interpreter"
"""Most of what a worker does before it measures a built-in model, with --quick."""


E = TypeVar("E", bound=events.MeasurementEvent)


def on(
    kind: type[E],
    act: Callable[[E], object],
    others: events.Notify = events.raise_failures,
) -> events.Notify:
    """Consumer that acts on the events of one kind; others, and by default failures, go on."""

    def notify(event: events.MeasurementEvent) -> None:
        if isinstance(event, kind):
            act(event)
        others(event)

    return notify


class At:
    """Calls once when a run enters a phase, and raises every failure."""

    def __init__(self, phase: Phase, action: Callable[[], None]) -> None:
        self._phase = phase
        self._action = action
        self.was_called = False

    def __call__(self, event: events.MeasurementEvent) -> None:
        """Look at an event."""
        events.raise_failures(event)
        is_phase = isinstance(event, events.PhaseReport) and event.progress.phase is self._phase
        if is_phase and not self.was_called:
            self.was_called = True
            self._action()


def worker_pid(agent: AgentProcess) -> int:
    """The process that measures."""
    return next(pid for pid in children_of(agent.pid) if "agent.worker.main" in _command(pid))


@functools.cache
def measuring_after_s() -> float:
    """Processor time of a worker by which it measures, on a machine as fast as this one."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", LOAD_CODE], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return WARM_UP_S + 6 * used_s


def is_measuring(agent: AgentProcess) -> bool:
    """Whether the worker has used more processor time than loading takes.

    For a run of a minute: a busy machine gives a short one less than that.
    """
    for pid in children_of(agent.pid):
        if "agent.worker.main" in _command(pid):
            fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            used_ticks = int(fields[11]) + int(fields[12]) if fields else 0
            return used_ticks / os.sysconf("SC_CLK_TCK") > measuring_after_s()
    return False


def children_of(pid: int) -> list[int]:
    """The processes that it started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def is_alive(pid: int) -> bool:
    """Whether it still runs."""
    return bool(_command(pid))


def _command(pid: int) -> str:
    return _read(f"/proc/{pid}/cmdline")


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
