"""Clocks, counters and scheduling of the worker process, as the kernel reports them."""

from __future__ import annotations

import os
import re
import resource
import time
from pathlib import Path

from edgebench.agent.cpu_ticks import CpuTicks, own_cpus, read_cpu_ticks
from edgebench.agent.telemetry.source import read_text
from edgebench.protocol.record import CpuTime, Moment, Scheduling, ThreadTime
from edgebench.protocol.spec import Priority, RunSpec

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
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
    ticks_by_cpu = read_cpu_ticks(root)
    ticks = ticks_by_cpu.get("all")
    swaps = re.findall(r"^pswp(?:in|out) (\d+)$", read_text(root / "proc/vmstat"), re.MULTILINE)
    folder = root / "sys/devices/system/cpu"
    cpus = own_cpus()
    cpufreqs = [folder / f"cpu{cpu}/cpufreq" for cpu in cpus]
    frequencies = [read_text(cpufreq / "scaling_cur_freq") for cpufreq in cpufreqs]
    governors = [read_text(cpufreq / "scaling_governor") for cpufreq in cpufreqs]
    return Moment(
        own_cpu_s=usage.ru_utime + usage.ru_stime,
        involuntary_switch_count=usage.ru_nivcsw,
        major_fault_count=usage.ru_majflt,
        cpu_busy_s=ticks.busy / _TICKS_PER_S if ticks else None,
        cpu_total_s=ticks.total / _TICKS_PER_S if ticks else None,
        swapped_page_count=sum(map(int, swaps)) if len(swaps) == 2 else None,
        cpu_stall_s=_stall_s(root, "cpu"),
        memory_stall_s=_stall_s(root, "memory"),
        io_stall_s=_stall_s(root, "io"),
        freq_hz=tuple(int(khz) * 1000 for khz in frequencies if khz.isdecimal()),
        governors=tuple(dict.fromkeys(filter(None, governors))),
        cpus=_cpu_times(folder, cpus, ticks_by_cpu),
        threads=_thread_times(root),
        wall_ns=time.time_ns(),
        monotonic_ns=time.perf_counter_ns(),
    )


def _cpu_times(
    folder: Path, allowed: tuple[int, ...], ticks_by_cpu: dict[str, CpuTicks]
) -> tuple[CpuTime, ...]:
    """Times of these CPUs and of their siblings: two hardware threads share what a core can do."""
    cpus = set(allowed)
    for cpu in allowed:
        # A mask in hexadecimal, with a comma between words of 32 bits.
        mask = read_text(folder / f"cpu{cpu}/topology/thread_siblings").replace(",", "")
        if re.fullmatch("[0-9a-f]{1,512}", mask):
            cpus |= {number for number in range(len(mask) * 4) if int(mask, 16) >> number & 1}
    return tuple(
        CpuTime(cpu, ticks_by_cpu[str(cpu)].busy / _TICKS_PER_S)
        for cpu in sorted(cpus)
        if str(cpu) in ticks_by_cpu
    )


def _thread_times(root: Path) -> tuple[ThreadTime, ...]:
    """Times of every thread of this process; none where the kernel does not account for waiting.

    Source: https://docs.kernel.org/scheduler/sched-stats.html, /proc/<pid>/schedstat: nanoseconds
    on a CPU, nanoseconds on a run queue; both are 0 where the kernel has it switched off.
    """
    threads = []
    for path in root.glob("proc/self/task/[0-9]*/schedstat"):
        times = re.match(r"(\d{1,18}) (\d{1,18}) ", read_text(path))
        if times and int(times[1]):
            thread = int(path.parent.name)
            threads.append(ThreadTime(thread, int(times[1]) / 1e9, int(times[2]) / 1e9))
    return tuple(sorted(threads, key=lambda one: one.thread))


def apply_scheduling(spec: RunSpec) -> tuple[str, ...]:
    """Bind and prioritise this process as far as allowed; the refused requests with a reason."""
    refused = []
    if spec.cpus:
        try:
            os.sched_setaffinity(0, spec.cpus)
        except OSError as exc:
            cpus = ",".join(map(str, spec.cpus))
            usable = ",".join(map(str, own_cpus()))
            refused.append(f"not bound to CPU {cpus}: {exc.strerror}; usable: {usable}")
    if spec.priority is Priority.REALTIME:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(REALTIME_PRIORITY))
        except OSError as exc:
            refused.append(f"no realtime priority: {exc.strerror}")
    return tuple(refused)


def describe_scheduling(refused: tuple[str, ...]) -> Scheduling:
    """How this process is scheduled now."""
    return Scheduling(
        cpus=own_cpus(),
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
