"""The job of a worker, and its pipe to the daemon."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import dataclass
from typing import Any

from edgebench.protocol.plain import to_plain
from edgebench.protocol.record import ModelFacts, Phase, PhaseProgress, ProgressUnit
from edgebench.protocol.spec import RunSpec

WORKER_RECORD_FILE = "worker.json"
WAITING = "waiting"
"""Key of the first line of a worker; the value is the worker's confinement. After this line, the
worker waits until the daemon lets it continue."""
REACHED = "reached"
"""Key of a line that reports the progress of the phase."""
REACHED_PERIOD_S = 1.0
"""Least interval between lines of progress; the last line of a phase may come sooner."""
REPORTED_BYTES = 4096
"""Uploads of at least this size report their progress; a smaller upload takes only a moment."""
COMPLETE = "complete"
"""Key of the line after which a worker's record is final, regardless of how the worker ends."""


@dataclass(frozen=True, slots=True)
class Job:
    """A measurement that the daemon requests."""

    run_id: str
    spec: RunSpec
    model: ModelFacts
    model_path: str
    """File of the model; empty if it is part of the target's firmware."""
    dataset_path: str | None
    memory_bytes: int
    daemon_pid: int
    inputs_path: str | None = None
    """File with the inputs; None: the inputs are drawn at random."""
    root: str = "/"
    """Directory with the files of the device (`/`, except for a simulated device)."""
    speed_path: str | None = None
    """File with the speed of a simulated device; None for a real device."""
    sync_line: str | None = None
    """Wire to a meter's digital input; None if there is none."""
    devices: tuple[str, ...] = ()
    """Files of accelerators under /dev that the worker may open."""
    target: str | None = None
    """Address of the target to measure; None if the worker's own process runs the model."""
    target_name: str | None = None
    """Name that the target has to report; None: any name."""


class Pipe:
    """The pipe to the daemon."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._reached_s: dict[ProgressUnit, float] = {}
        """Maps each unit of progress to the time of its last report."""

    def send(self, **fields: Any) -> None:
        """Write a line of JSON."""
        os.write(self._descriptor, json.dumps(fields).encode() + b"\n")

    def phase(self, phase: Phase, expected_s: float | None = None) -> None:
        """Report that a phase begins."""
        self.send(phase=phase.value, expected_s=expected_s, time_ns=time.perf_counter_ns())

    def reached(self, done: int, total: int, unit: ProgressUnit) -> None:
        """Report the progress of the phase, at most once per `REACHED_PERIOD_S`."""
        now_s = time.monotonic()
        if unit is ProgressUnit.BYTES and total < REPORTED_BYTES:
            return
        is_due = now_s - self._reached_s.get(unit, -math.inf) >= REACHED_PERIOD_S
        if is_due or done >= total:
            self._reached_s[unit] = now_s
            self.send(**{REACHED: to_plain(PhaseProgress(done, total, unit))})
