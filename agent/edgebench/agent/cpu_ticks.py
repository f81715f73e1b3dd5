"""CPUs of this process, and the busy and total time of all CPUs since boot.

Times are in ticks of 10 ms. Source: proc(5), /proc/stat.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_IDLE, _IOWAIT = 3, 4
_TIMES = 8
"""Number of columns that are added up: user nice system idle iowait irq softirq steal. The columns
of guest time are left out, because user time contains guest time."""


def own_cpus() -> tuple[int, ...]:
    """CPUs on which this process may run; all CPUs if the system does not report them."""
    try:
        return tuple(sorted(os.sched_getaffinity(0)))
    except (AttributeError, OSError):  # not on every system, or denied
        return tuple(range(os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class CpuTicks:
    """Ticks of a CPU, or of all CPUs, since boot; time stolen by a hypervisor counts as busy."""

    busy: int
    total: int


def parse_cpu_ticks(stat: bytes) -> dict[str, CpuTicks]:
    """Parse /proc/stat; map each CPU number to its ticks, and `all` to the sum of all CPUs."""
    ticks = {}
    for line in stat.splitlines():
        name, *fields = line.decode("ascii", "replace").split()
        if not name.startswith("cpu"):
            break
        times = [int(field) for field in fields[:_TIMES]]
        idle = times[_IDLE] + times[_IOWAIT]
        ticks["all" if name == "cpu" else name[3:]] = CpuTicks(sum(times) - idle, sum(times))
    return ticks


def read_cpu_ticks(root: Path = Path("/")) -> dict[str, CpuTicks]:
    """Ticks now, as `parse_cpu_ticks` returns them; empty if not readable, as on Android."""
    try:
        return parse_cpu_ticks((root / "proc/stat").read_bytes())
    except (OSError, ValueError, IndexError):
        return {}
