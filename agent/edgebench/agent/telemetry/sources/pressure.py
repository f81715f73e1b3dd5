"""Pressure stall information: /proc/pressure/{cpu,memory,io}, total seconds since boot.

The totals are used because the averages in these files lag by design.

Source: https://docs.kernel.org/accounting/psi.html
"""

from __future__ import annotations

import re
from pathlib import Path

from edgebench.agent.telemetry.source import CALM_HZ, FileSensors, NoData

_SOME = re.compile(rb"^some .*total=(\d+)", re.MULTILINE)
_FULL = re.compile(rb"^full .*total=(\d+)", re.MULTILINE)


class PressureSource:
    """Time for which some tasks, and time for which all tasks, waited for a resource."""

    name = "pressure"
    rate_hz_max = CALM_HZ

    def open(self, root: Path, worker_pid: int) -> FileSensors | NoData:
        """Open the files; reading fails if the kernel was started with psi=0."""
        sensors = FileSensors()
        for resource in ("cpu", "memory", "io"):
            path = root / "proc/pressure" / resource
            try:
                content = path.read_bytes()
            except OSError as exc:
                return NoData(f"{path}: {exc.strerror}")
            if _SOME.search(content):
                sensors.add(f"pressure.{resource}.some_s", path, lambda c: _total_s(_SOME, c))
            if _FULL.search(content) and resource != "cpu":  # always 0 for the whole system
                sensors.add(f"pressure.{resource}.full_s", path, lambda c: _total_s(_FULL, c))
        return sensors.or_no_data("no number under /proc/pressure")


def _total_s(pattern: re.Pattern[bytes], content: bytes) -> float:
    match = pattern.search(content)
    if match is None:
        raise ValueError("no total")
    return int(match[1]) / 1e6
