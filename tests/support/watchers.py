"""Somebody who does a thing at a certain moment of a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from edgebench.host.bench.watcher import Watcher
from edgebench.protocol.messages import Progress
from edgebench.protocol.record import Phase
from support.agents import AgentProcess

MEASURING_AFTER_S = 1.5
"""Processor time of a worker; a built-in model is loaded and warmed up by then, with --quick."""


class At(Watcher):
    """Calls once when a run enters a phase, and raises every failure."""

    def __init__(self, phase: Phase, action: Callable[[], None]) -> None:
        self._phase = phase
        self._action = action
        self.was_called = False

    def progress(self, progress: Progress) -> None:
        """The run entered a phase."""
        if progress.phase is self._phase and not self.was_called:
            self.was_called = True
            self._action()


def worker_pid(agent: AgentProcess) -> int:
    """The process that measures."""
    return next(pid for pid in children_of(agent.pid) if "agent.worker.main" in _command(pid))


def is_measuring(agent: AgentProcess) -> bool:
    """Whether the worker has used more processor time than loading takes."""
    for pid in children_of(agent.pid):
        if "agent.worker.main" in _command(pid):
            fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            used_ticks = int(fields[11]) + int(fields[12]) if fields else 0
            return used_ticks / os.sysconf("SC_CLK_TCK") > MEASURING_AFTER_S
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
