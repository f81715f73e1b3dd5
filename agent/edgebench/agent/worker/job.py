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
"""Key of the first line of a worker: it has started, is confined in the way that this line tells,
and does nothing until the daemon lets it go."""
REACHED = "reached"
"""Key of a line that says how far the phase is."""
REACHED_PERIOD_S = 1.0
"""Least interval of such lines, but for the last one."""
REPORTED_BYTES = 4096
"""Uploads below this size take a moment, and nobody is told of them."""
COMPLETE = "complete"
"""Key of the line after which a worker's record stands, however the worker ends."""


@dataclass(frozen=True, slots=True)
class Job:
    """One measurement, as the daemon asks for it."""

    spec: RunSpec
    model: ModelFacts
    model_path: str
    """File of the model; empty: it is part of the target's firmware."""
    dataset_path: str | None
    memory_bytes: int
    daemon_pid: int
    inputs_path: str | None = None
    """File with the inputs to run on; None: they are drawn."""
    root: str = "/"
    """Directory with the device's files: / except for a simulated device."""
    speed_path: str | None = None
    """File with the speed of a simulated device; None for a real one."""
    sync_line: str | None = None
    """Wire to a meter's digital input, if there is one."""
    devices: tuple[str, ...] = ()
    """Files of accelerators under /dev that the worker may open."""
    target: str | None = None
    """Address of the device that is to time itself; None where the worker's own process infers."""


class Pipe:
    """The pipe to the daemon."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._reached_s: dict[ProgressUnit, float] = {}
        """When it was last told how far a phase is, in each unit."""

    def send(self, **fields: Any) -> None:
        """Write one line."""
        os.write(self._descriptor, json.dumps(fields).encode() + b"\n")

    def phase(self, phase: Phase, expected_s: float | None = None) -> None:
        """Report that a phase begins."""
        self.send(phase=phase.value, expected_s=expected_s, time_ns=time.perf_counter_ns())

    def reached(self, done: int, total: int, unit: ProgressUnit) -> None:
        """Report how far the phase is, now and then."""
        now_s = time.monotonic()
        if unit is ProgressUnit.BYTES and total < REPORTED_BYTES:
            return
        is_due = now_s - self._reached_s.get(unit, -math.inf) >= REACHED_PERIOD_S
        if is_due or done >= total:
            self._reached_s[unit] = now_s
            self.send(**{REACHED: to_plain(PhaseProgress(done, total, unit))})
