"""Somebody who does a thing at a certain moment of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from edgebench.agent.control import send_request
from edgebench.host.bench import events
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.messages import Status, StatusAsk
from edgebench.protocol.record import Phase
from edgebench.system.control_address import ControlAddress
from support.agents import AgentProcess, wait_until

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


class OnceMeasured(At):
    """Calls once when the timed loop has run for a second or two, so that a stop keeps queries."""

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__(Phase.MEASURING, lambda: None)
        self._reports_left = 2
        self._then = action

    def __call__(self, event: events.MeasurementEvent) -> None:
        """Look at an event."""
        super().__call__(event)
        if self.was_called and isinstance(event, events.TelemetryReport):
            self._reports_left -= 1
            if self._reports_left == 0:
                self._then()


def worker_pid(agent: AgentProcess) -> int:
    """The process that measures."""
    return next(pid for pid in children_of(agent.pid) if "agent.worker.main" in _command(pid))


def wait_until_measuring(state: Path) -> None:
    """Wait until the agent with this state directory reports the timed loop of a run."""
    address = ControlAddress(state)

    def is_measuring() -> bool:
        with suppress(OSError, EdgebenchError):  # the agent may not have started yet
            status = asyncio.run(send_request(address, StatusAsk(), Status))
            return any(seat.phase is Phase.MEASURING for seat in status.seats)
        return False

    wait_until(is_measuring, "a run is in its timed loop")


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
