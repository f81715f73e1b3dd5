"""The run in progress, its events, and the watchers that receive notices of the run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from edgebench.agent.metering import MeterRecorder
from edgebench.agent.worker.process import WorkerProcess, monotonic_ns
from edgebench.agent.worker.reports import PhaseStart
from edgebench.protocol.device import Environment
from edgebench.protocol.errors import SeatLeft, TargetError
from edgebench.protocol.messages import Progress, RunEnded, RunStart, Telemetry
from edgebench.protocol.record import Event, ModelFacts, PhaseProgress
from edgebench.protocol.thermal import CooldownFacts

logger = logging.getLogger(__name__)

Notice = Progress | Telemetry | RunEnded
Listener = Callable[[Notice], None]


@dataclass(slots=True)
class ActiveRun:
    """A run in progress."""

    request: RunStart
    owner: str
    model: ModelFacts
    environment: Environment
    worker: WorkerProcess
    metering: MeterRecorder
    host_file: bytes = b""
    """Content of a file that the host has sent; kept in memory, because the worker can write to the
    run's directory."""
    listeners: list[Listener] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    cooldown: CooldownFacts = field(default_factory=CooldownFacts)
    progress: Progress | None = None
    """The latest notice that a phase has started, for watchers that are added later."""
    too_hot: TargetError | None = None
    """Why the temperature guard stopped the run, or did not let it start."""
    left: SeatLeft | None = None
    """Error with which the run ended because its device has disconnected."""

    def send(self, notice: Notice) -> None:
        """Send a notice to all watchers; if one fails, the run and the other watchers go on."""
        if isinstance(notice, Progress):
            self.progress = notice
        for listener in list(self.listeners):
            try:
                listener(notice)
            except Exception:  # its connection may fail in many ways
                logger.exception("a watcher of run %s failed", self.request.run_id)

    def note(self, kind: str, detail: str) -> None:
        """Record an event."""
        logger.info("run %s: %s: %s", self.request.run_id, kind, detail)
        self.events.append(Event(monotonic_ns(), kind, detail))

    def enter(self, began: PhaseStart) -> None:
        """Record the start of a phase, and notify the watchers."""
        self.events.append(Event(began.time_ns, began.phase.value))
        self.send(Progress(self.request.run_id, began.phase, began.expected_s))

    def reach(self, reached: PhaseProgress) -> None:
        """Notify the watchers of the progress of the phase."""
        if self.progress is not None:
            self.send(replace(self.progress, reached=reached))
