"""The job of a worker, and its pipe to the daemon."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any

from edgebench.protocol.record import ModelFacts, Phase
from edgebench.protocol.spec import RunSpec

WORKER_RECORD_FILE = "worker.json"
WAITING = "waiting"
"""Key of the first line of a worker: it has started, is confined in the way that this line tells,
and does nothing until the daemon lets it go."""
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
    """File that tells how fast a simulated device is; None for a real one."""
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

    def send(self, **fields: Any) -> None:
        """Write one line."""
        os.write(self._descriptor, json.dumps(fields).encode() + b"\n")

    def phase(self, phase: Phase, expected_s: float | None = None) -> None:
        """Report that a phase begins."""
        self.send(phase=phase.value, expected_s=expected_s, time_ns=time.perf_counter_ns())
