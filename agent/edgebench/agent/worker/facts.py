"""Clocks, counters and settings of the worker process, as the kernel tells them."""

from __future__ import annotations

import os
import re
import resource
import time
from pathlib import Path

from edgebench.agent.cpu_ticks import read_cpu_ticks
from edgebench.protocol.record import Moment, Scheduling
from edgebench.protocol.spec import Priority, RunSpec

REALTIME_PRIORITY = 10
"""Of 1 to 99: above every normal process, below the kernel's own threads."""
_POLICIES = {
    os.SCHED_OTHER: "other",
    os.SCHED_FIFO: "fifo",
    os.SCHED_RR: "rr",
    os.SCHED_BATCH: "batch",
    os.SCHED_IDLE: "idle",
    6: "deadline",
}


def read_moment(root: Path = Path("/")) -> Moment:
    """Clocks and counters now; the clocks last, so that reading the rest is not measured."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    ticks = read_cpu_ticks(root)
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    cpus = sorted(os.sched_getaffinity(0))
    return Moment(
        own_cpu_s=usage.ru_utime + usage.ru_stime,
        involuntary_switch_count=usage.ru_nivcsw,
        major_fault_count=usage.ru_majflt,
        cpu_busy_s=ticks.busy * tick_s if ticks else None,
        cpu_total_s=ticks.total * tick_s if ticks else None,
        swapped_page_count=_swapped_pages(root),
        cpu_stall_s=_stall_s(root, "cpu"),
        memory_stall_s=_stall_s(root, "memory"),
        io_stall_s=_stall_s(root, "io"),
        freq_hz=_frequencies(root, cpus),
        governors=_governors(root, cpus),
        wall_ns=time.time_ns(),
        monotonic_ns=time.perf_counter_ns(),
    )


def apply_scheduling(spec: RunSpec) -> tuple[str, ...]:
    """Bind and prioritise this process as far as that is allowed; what was not, and why."""
    refused = []
    if spec.cpus:
        try:
            os.sched_setaffinity(0, spec.cpus)
        except OSError as exc:
            wanted = ",".join(map(str, spec.cpus))
            refused.append(f"not bound to CPU {wanted}: {exc.strerror}")
    if spec.priority is Priority.REALTIME:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(REALTIME_PRIORITY))
        except OSError as exc:
            refused.append(f"no realtime priority: {exc.strerror}")
    return tuple(refused)


def describe_scheduling(refused: tuple[str, ...]) -> Scheduling:
    """How this process is scheduled now."""
    return Scheduling(
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        policy=_POLICIES.get(os.sched_getscheduler(0), "unknown"),
        nice=os.getpriority(os.PRIO_PROCESS, 0),
        refused=refused,
    )


def resident_bytes(field: str = "VmRSS") -> int:
    """VmRSS now, or VmHWM, its peak; getrusage(2) would count the parent's memory too."""
    return (_kib("/proc/self/status", field) or 0) * 1024


def proportional_bytes() -> int | None:
    """Resident memory with shared pages divided among those who share them; None if untold."""
    kib = _kib("/proc/self/smaps_rollup", "Pss")
    return None if kib is None else kib * 1024


def _kib(path: str, field: str) -> int | None:
    found = re.search(rf"^{field}:\s+(\d+) kB$", _text(Path(path)), re.MULTILINE)
    return int(found[1]) if found else None


def _swapped_pages(root: Path) -> int | None:
    pairs = dict(re.findall(r"^(pswpin|pswpout) (\d+)$", _text(root / "proc/vmstat"), re.MULTILINE))
    return sum(map(int, pairs.values())) if len(pairs) == 2 else None


def _stall_s(root: Path, kind: str) -> float | None:
    # Source: https://docs.kernel.org/accounting/psi.html
    found = re.search(r"^some .*total=(\d+)", _text(root / "proc/pressure" / kind), re.MULTILINE)
    return int(found[1]) / 1e6 if found else None


def _frequencies(root: Path, cpus: list[int]) -> tuple[int, ...]:
    texts = [_cpufreq(root, cpu, "scaling_cur_freq") for cpu in cpus]
    return tuple(int(text) * 1000 for text in texts if text.isdecimal())


def _governors(root: Path, cpus: list[int]) -> tuple[str, ...]:
    texts = [_cpufreq(root, cpu, "scaling_governor") for cpu in cpus]
    return tuple(dict.fromkeys(text for text in texts if text))


def _cpufreq(root: Path, cpu: int, name: str) -> str:
    return _text(root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq" / name).strip()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
