"""Clocks, counters and scheduling of the worker process, as the kernel reports them."""

from __future__ import annotations

import os
import re
import resource
import time
from pathlib import Path

from edgebench.agent.cpu_ticks import read_cpu_ticks
from edgebench.agent.telemetry.source import read_text
from edgebench.protocol.record import Moment, Scheduling
from edgebench.protocol.spec import Priority, RunSpec

REALTIME_PRIORITY = 10
"""Priority from 1 to 99: above every normal process, below the kernel's own threads."""
_POLICIES = {
    os.SCHED_OTHER: "other",
    os.SCHED_FIFO: "fifo",
    os.SCHED_RR: "rr",
    os.SCHED_BATCH: "batch",
    os.SCHED_IDLE: "idle",
    6: "deadline",
}


def read_moment(root: Path = Path("/")) -> Moment:
    """Counters and clocks now; the clocks last, so that reading the rest is not measured."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    ticks = read_cpu_ticks(root)
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    swaps = re.findall(r"^pswp(?:in|out) (\d+)$", read_text(root / "proc/vmstat"), re.MULTILINE)
    folder = root / "sys/devices/system/cpu"
    cpufreqs = [folder / f"cpu{cpu}/cpufreq" for cpu in sorted(os.sched_getaffinity(0))]
    frequencies = [read_text(cpufreq / "scaling_cur_freq") for cpufreq in cpufreqs]
    governors = [read_text(cpufreq / "scaling_governor") for cpufreq in cpufreqs]
    return Moment(
        own_cpu_s=usage.ru_utime + usage.ru_stime,
        involuntary_switch_count=usage.ru_nivcsw,
        major_fault_count=usage.ru_majflt,
        cpu_busy_s=ticks.busy * tick_s if ticks else None,
        cpu_total_s=ticks.total * tick_s if ticks else None,
        swapped_page_count=sum(map(int, swaps)) if len(swaps) == 2 else None,
        cpu_stall_s=_stall_s(root, "cpu"),
        memory_stall_s=_stall_s(root, "memory"),
        io_stall_s=_stall_s(root, "io"),
        freq_hz=tuple(int(khz) * 1000 for khz in frequencies if khz.isdecimal()),
        governors=tuple(dict.fromkeys(filter(None, governors))),
        wall_ns=time.time_ns(),
        monotonic_ns=time.perf_counter_ns(),
    )


def apply_scheduling(spec: RunSpec) -> tuple[str, ...]:
    """Bind and prioritise this process as far as allowed; the refused requests with a reason."""
    refused = []
    if spec.cpus:
        try:
            os.sched_setaffinity(0, spec.cpus)
        except OSError as exc:
            cpus = ",".join(map(str, spec.cpus))
            refused.append(f"not bound to CPU {cpus}: {exc.strerror}")
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
    """Resident memory, shared pages divided among their users; None where the kernel has none."""
    kib = _kib("/proc/self/smaps_rollup", "Pss")
    return None if kib is None else kib * 1024


def _kib(path: str, field: str) -> int | None:
    match = re.search(rf"^{field}:\s+(\d+) kB$", read_text(Path(path)), re.MULTILINE)
    return int(match[1]) if match else None


def _stall_s(root: Path, kind: str) -> float | None:
    # Source: https://docs.kernel.org/accounting/psi.html
    match = re.search(
        r"^some .*total=(\d+)", read_text(root / "proc/pressure" / kind), re.MULTILINE
    )
    return int(match[1]) / 1e6 if match else None
