"""Clocks, counters and scheduling of the worker process, as the kernel reports them."""

from __future__ import annotations

import os
import re
import resource
import time
from pathlib import Path

from edgebench.agent.cpu_quota import QuotaGroups
from edgebench.agent.cpu_ticks import CpuTicks, own_cpus, read_cpu_ticks
from edgebench.agent.telemetry.source import read_text
from edgebench.protocol.record import AndroidGroups, CpuTime, Moment, Scheduling, ThreadTime
from edgebench.protocol.spec import Priority, RunSpec
from edgebench.system.android_commands import is_android

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
REALTIME_PRIORITY = 10
"""Real-time priority (1 to 99), above every normal process and below the kernel's own threads."""
SUSPEND_TRIES = 3
SUSPEND_READ_NS = 5_000_000
"""The difference of two clocks is used only if they are read within this time of each other."""
_POLICIES = {
    os.SCHED_OTHER: "other",
    os.SCHED_FIFO: "fifo",
    os.SCHED_RR: "rr",
    os.SCHED_BATCH: "batch",
    os.SCHED_IDLE: "idle",
    6: "deadline",
}
_NO_GROUPS = QuotaGroups()


def read_moment(root: Path = Path("/"), groups: QuotaGroups = _NO_GROUPS) -> Moment:
    """Read the counters, and then the clocks, as close as possible to the work that follows."""
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
        freq_hz=tuple(int(khz) * 1000 for khz in frequencies if khz.isdecimal() and int(khz)),
        governors=tuple(dict.fromkeys(filter(None, governors))),
        cpus=_cpu_times(folder, cpus, ticks_by_cpu),
        threads=_thread_times(root),
        quotas=groups.use(),
        suspended_ns=_suspended_ns(),
        wall_ns=time.time_ns(),
        monotonic_ns=time.perf_counter_ns(),
    )


def _suspended_ns() -> int | None:
    """Total time since boot in which the system was suspended; None if it cannot be read.

    CLOCK_BOOTTIME includes this time, CLOCK_MONOTONIC does not. The clocks are read in sequence; of
    a few tries, the pair with the shortest interval is used.

    Source: clock_gettime(2), CLOCK_BOOTTIME, CLOCK_MONOTONIC.
    """
    best_ns, suspended_ns = SUSPEND_READ_NS + 1, None
    for _ in range(SUSPEND_TRIES):
        try:
            begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            passed_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - begin_ns
        except (AttributeError, OSError):  # another system, or an old kernel
            return None
        if passed_ns < best_ns:
            best_ns, suspended_ns = passed_ns, max(0, boot_ns - begin_ns)
    return suspended_ns


def _cpu_times(
    folder: Path, allowed: tuple[int, ...], ticks_by_cpu: dict[str, CpuTicks]
) -> tuple[CpuTime, ...]:
    """Busy times of these CPUs and of their siblings (hardware threads on the same cores)."""
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
    """Running and waiting times of all threads of this process; empty if they are not counted.

    Source: https://docs.kernel.org/scheduler/sched-stats.html, /proc/<pid>/schedstat: nanoseconds
    on a CPU, nanoseconds on a run queue; both are 0 if the kernel does not count them.
    """
    threads = []
    for path in root.glob("proc/self/task/[0-9]*/schedstat"):
        times = re.match(r"(\d{1,18}) (\d{1,18}) ", read_text(path))
        if times and int(times[1]):
            thread = int(path.parent.name)
            threads.append(ThreadTime(thread, int(times[1]) / 1e9, int(times[2]) / 1e9))
    return tuple(sorted(threads, key=lambda thread: thread.thread))


def apply_scheduling(spec: RunSpec) -> tuple[str, ...]:
    """Set the CPUs and the priority of this process; returns the refused settings with reasons."""
    refused = []
    if spec.cpus:
        try:
            os.sched_setaffinity(0, spec.cpus)
        except OSError as exc:
            cpus = ",".join(map(str, spec.cpus))
            usable = ",".join(map(str, own_cpus()))
            refused.append(f"not bound to CPU {cpus}: {exc.strerror}; usable CPUs: {usable}")
    if spec.priority is Priority.REALTIME:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(REALTIME_PRIORITY))
        except OSError as exc:
            refused.append(f"no realtime priority: {exc.strerror}")
    return tuple(refused)


def describe_scheduling(
    refused: tuple[str, ...],
    groups: QuotaGroups = _NO_GROUPS,
    android: AndroidGroups | None = None,
) -> Scheduling:
    """Present scheduling of this process.

    Args:
        refused: Settings that `apply_scheduling` could not apply, with reasons.
        groups: Control groups with a CPU quota.
        android: Control groups of Android; None on another system.
    """
    return Scheduling(
        cpus=own_cpus(),
        policy=_POLICIES.get(os.sched_getscheduler(0), "unknown"),
        nice=os.getpriority(os.PRIO_PROCESS, 0),
        refused=refused,
        quotas=groups.quotas,
        android=android,
    )


def android_groups(root: Path = Path("/")) -> AndroidGroups | None:
    """Control groups by which Android schedules this process; None on another system.

    Source: https://source.android.com/docs/core/perf/cgroups; Linux,
    Documentation/admin-guide/cgroup-v2.rst, cpu.uclamp.max: percent, or `max`.
    """
    if not is_android(root):
        return None
    lines = (line.split(":", 2) for line in read_text(root / "proc/self/cgroup").splitlines())
    by_controller = {
        controller: line[2] for line in lines if len(line) == 3 for controller in line[1].split(",")
    }
    clamps = _clamps(root / "dev/cpuctl", by_controller.get("cpu"))
    return AndroidGroups(by_controller.get("cpuset"), *clamps)


def _clamps(mount: Path, group: str | None) -> tuple[float | None, float | None]:
    """Minimum utilisation of a control group, and the maximum that it and its parents allow."""
    if group is None:
        return None, None
    folder = mount / group.strip("/")
    around = [folder, *folder.parents][: len(folder.relative_to(mount).parts) + 1]
    least = [_ratio(read_text(directory / "cpu.uclamp.min")) for directory in around]
    most = [_ratio(read_text(directory / "cpu.uclamp.max")) for directory in around]
    return (
        least[0],
        min((ratio for ratio in most if ratio is not None), default=None),
    )


def _ratio(text: str) -> float | None:
    if text == "max":
        return 1.0
    try:
        percent = float(text)
    except ValueError:
        return None
    return percent / 100 if 0 <= percent <= 100 else None


def resident_bytes(field: str = "VmRSS") -> int | None:
    """Resident memory (VmRSS) or its peak (VmHWM); None if the system does not report it.

    The peak in getrusage(2) is not used, because it includes the memory of the parent process.
    """
    kib = _kib("/proc/self/status", field)
    return None if kib is None else kib * 1024


def proportional_bytes() -> int | None:
    """Resident memory with shared pages divided among their processes (PSS); None if unknown."""
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
