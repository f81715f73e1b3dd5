"""Memory, page faults and CPU time of the worker process, and the CPU on which it runs.

Source: proc(5), /proc/[pid]/stat: fields 12 (majflt), 14 (utime), 15 (stime), 39 (processor), in
clock ticks; /proc/[pid]/statm: field 2 (resident), in pages.
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Sequence
from pathlib import Path

from edgebench.agent.telemetry.source import FAST_HZ, KeptFile, NoData

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MAJFLT, _UTIME, _STIME, _PROCESSOR = 12 - 3, 14 - 3, 15 - 3, 39 - 3
"""Positions of the fields, counted from the end of the process name, which ends with the last
parenthesis."""


class WorkerSource:
    """Memory, faults, CPU time and CPU of the process that runs the model."""

    name = "worker"
    rate_hz_max = FAST_HZ

    def open(self, root: Path, worker_pid: int) -> WorkerReader | NoData:
        """Open the files of the worker under /proc."""
        folder = root / "proc" / str(worker_pid)
        try:
            return WorkerReader(KeptFile(folder / "stat"), KeptFile(folder / "statm"))
        except OSError as exc:
            return NoData(f"{exc.filename}: {exc.strerror}")


class WorkerReader:
    """Reads the opened files of the worker."""

    sensors = ("worker.rss_bytes", "worker.major_faults", "worker.cpu_s", "worker.cpu")

    def __init__(self, stat: KeptFile, statm: KeptFile) -> None:
        self._stat = stat
        self._statm = statm
        self._page_bytes = resource.getpagesize()
        self.constants: dict[str, float] = {}
        self.absent: dict[str, str] = {}

    def read(self) -> Sequence[float]:
        """Resident bytes, major faults, CPU seconds, CPU number; NaN if the worker has ended."""
        try:
            fields = self._stat.read().rpartition(b")")[2].split()
            ticks = int(fields[_UTIME]) + int(fields[_STIME])
            return [
                int(self._statm.read().split()[1]) * self._page_bytes,
                int(fields[_MAJFLT]),
                ticks / _TICKS_PER_S,
                int(fields[_PROCESSOR]),
            ]
        except (OSError, LookupError, ValueError):
            return [math.nan] * len(self.sensors)
