"""What the daemon asks of a worker, and the way back up."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any

from edgebench.protocol.record import ModelFacts, Phase
from edgebench.protocol.spec import RunSpec

WORKER_RECORD_FILE = "worker.json"
WAITING = {"waiting": True}
"""A worker's first line: it has started, and does nothing until the daemon lets it go."""


@dataclass(frozen=True, slots=True)
class Job:
    """What the daemon asks of a worker."""

    spec: RunSpec
    model: ModelFacts
    model_path: str
    dataset_path: str | None
    memory_bytes: int
    daemon_pid: int
    root: str = "/"
    """Where to look for the clocks: / but for a simulated device."""
    speed_path: str | None = None
    """Of a simulated device: the file that tells how fast it is."""
    sync_line: str | None = None
    """To a meter's digital input."""


class Pipe:
    """The way up to the daemon."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, **fields: Any) -> None:
        """Write one line."""
        os.write(self._descriptor, json.dumps(fields).encode() + b"\n")

    def phase(self, phase: Phase, expected_s: float | None = None) -> None:
        """Say that a phase begins."""
        self.send(phase=phase.value, expected_s=expected_s, time_ns=time.perf_counter_ns())
