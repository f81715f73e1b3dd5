"""Busy share of each CPU; over less than a second, it is coarse, because a tick is 10 ms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from edgebench.agent.cpu_ticks import CpuTicks, parse_cpu_ticks
from edgebench.agent.telemetry.source import CALM_HZ, KeptFile, NoData


class CpuSource:
    """Busy ratio per CPU since the last reading."""

    name = "cpu"
    rate_hz_max = CALM_HZ

    def open(self, root: Path, worker_pid: int) -> CpuReader | NoData:
        """Open /proc/stat."""
        try:
            return CpuReader(KeptFile(root / "proc/stat", size=65536))
        except OSError as exc:
            return NoData(f"/proc/stat: {exc.strerror}")


class CpuReader:
    """Reads the counters of /proc/stat."""

    def __init__(self, file: KeptFile) -> None:
        self._file = file
        self._last = parse_cpu_ticks(file.read())
        self.sensors = tuple(f"cpu.{name}.busy_ratio" for name in self._last)
        self.constants: dict[str, float] = {}
        self.absent: dict[str, str] = {}

    def read(self) -> Sequence[float]:
        """Busy ratio of each CPU, 0…1; NaN if the CPU went offline or if no tick has passed."""
        now = parse_cpu_ticks(self._file.read())
        ratios = [_busy_ratio(last, now.get(name)) for name, last in self._last.items()]
        self._last = {name: now.get(name, last) for name, last in self._last.items()}
        return ratios


def _busy_ratio(last: CpuTicks, now: CpuTicks | None) -> float:
    passed = now.total - last.total if now else 0
    return (now.busy - last.busy) / passed if now and passed > 0 else math.nan
