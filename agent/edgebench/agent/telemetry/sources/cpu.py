"""Busy share of each CPU, from the tick counters of /proc/stat.

Source: proc(5). A tick is 10 ms, so windows under about a second are coarse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from edgebench.agent.telemetry.source import KeptFile, NoData

_IDLE, _IOWAIT = 3, 4
_TIMES = 8
"""user nice system idle iowait irq softirq steal; guest time is inside user already."""


class Cpu:
    """Busy ratio per CPU since the last reading."""

    name = "cpu"

    def open(self, root: Path, worker_pid: int) -> CpuReader | NoData:
        """Open /proc/stat."""
        try:
            return CpuReader(KeptFile(root / "proc/stat", size=65536))
        except OSError as exc:
            return NoData(f"/proc/stat: {exc.strerror}")


class CpuReader:
    """Opened counters."""

    def __init__(self, file: KeptFile) -> None:
        self._file = file
        self._last = self._ticks()
        self.sensors = tuple(f"cpu.{name}.busy_ratio" for name in self._last)

    def read(self) -> Sequence[float]:
        """Ratios 0…1; NaN for a CPU that went offline or when no tick has passed."""
        now = self._ticks()
        ratios = []
        for name, (busy, total) in self._last.items():
            busy_now, total_now = now.get(name, (0, 0))
            passed = total_now - total
            ratios.append((busy_now - busy) / passed if passed > 0 else math.nan)
        self._last = {name: now.get(name, self._last[name]) for name in self._last}
        return ratios

    def _ticks(self) -> dict[str, tuple[int, int]]:
        """Busy and total ticks by CPU."""
        found = {}
        for line in self._file.read().splitlines():
            name, *fields = line.decode("ascii", "replace").split()
            if not name.startswith("cpu"):
                break
            times = [int(field) for field in fields[:_TIMES]]
            idle = times[_IDLE] + times[_IOWAIT]
            found["all" if name == "cpu" else name[3:]] = (sum(times) - idle, sum(times))
        return found
