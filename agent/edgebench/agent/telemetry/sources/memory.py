"""Available memory and used swap of the whole device.

Source: proc(5); `MemAvailable` is the kernel's estimate of what is available without swapping.
"""

from __future__ import annotations

import re
from pathlib import Path

from edgebench.agent.telemetry.source import CALM_HZ, FileSensors, NoData

_AVAILABLE = re.compile(rb"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
_SWAP_TOTAL = re.compile(rb"^SwapTotal:\s+(\d+) kB", re.MULTILINE)
_SWAP_FREE = re.compile(rb"^SwapFree:\s+(\d+) kB", re.MULTILINE)


class MemorySource:
    """Available memory and used swap."""

    name = "memory"
    rate_hz_max = CALM_HZ

    def open(self, root: Path, worker_pid: int) -> FileSensors | NoData:
        """Open /proc/meminfo."""
        sensors = FileSensors()
        path = root / "proc/meminfo"
        sensors.add("memory.available_bytes", path, lambda c: _bytes(_AVAILABLE, c))
        sensors.add(
            "memory.swap_used_bytes",
            path,
            lambda c: _bytes(_SWAP_TOTAL, c) - _bytes(_SWAP_FREE, c),
        )
        return sensors.or_no_data(f"{path}: no such file")


def _bytes(pattern: re.Pattern[bytes], content: bytes) -> float:
    match = pattern.search(content)
    if match is None:
        raise ValueError("no such line")
    return int(match[1]) * 1024.0
