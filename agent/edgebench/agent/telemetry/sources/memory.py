"""Memory: what the system has available, and what the worker holds.

Source: proc(5); `MemAvailable` is the kernel's own estimate of what can be had without swapping.
"""

from __future__ import annotations

import math
import re
import resource
from collections.abc import Sequence
from pathlib import Path

from edgebench.agent.telemetry.source import KeptFile, NoData

_AVAILABLE = re.compile(rb"^MemAvailable:\s+(\d+) kB", re.MULTILINE)


class Memory:
    """Available memory, and the worker's resident set."""

    name = "memory"

    def open(self, root: Path, worker_pid: int) -> MemoryReader | NoData:
        """Open /proc/meminfo and the worker's statm."""
        try:
            return MemoryReader(
                KeptFile(root / "proc/meminfo"), KeptFile(root / f"proc/{worker_pid}/statm")
            )
        except OSError as exc:
            return NoData(f"{exc.filename}: {exc.strerror}")


class MemoryReader:
    """Opened files."""

    sensors = ("memory.available_bytes", "worker.rss_bytes")

    def __init__(self, meminfo: KeptFile, statm: KeptFile) -> None:
        self._meminfo = meminfo
        self._statm = statm
        self._page_bytes = resource.getpagesize()

    def read(self) -> Sequence[float]:
        """Bytes."""
        return [self._available(), self._resident()]

    def _available(self) -> float:
        found = _AVAILABLE.search(self._meminfo.read())
        return int(found[1]) * 1024 if found else math.nan

    def _resident(self) -> float:
        try:
            return int(self._statm.read().split()[1]) * self._page_bytes
        except (OSError, IndexError):  # the worker has ended
            return math.nan
