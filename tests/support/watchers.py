"""Somebody who does a thing at a certain moment of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from edgebench.host.watcher import Watcher
from edgebench.protocol.messages import Progress
from edgebench.protocol.record import Phase
from support.agents import AgentProcess


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
    return next(pid for pid in _children(agent.pid) if "agent.worker.main" in _command(pid))


def _children(pid: int) -> Iterator[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return map(int, text.split())


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""
