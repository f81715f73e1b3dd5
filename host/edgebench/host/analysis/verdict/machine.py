"""Rules about the machine: its clocks, its frequency, and what else it did meanwhile."""

from __future__ import annotations

from edgebench.host.analysis.verdict.evidence import Evidence, Rule
from edgebench.protocol.record import WorkerRecord

CLOCK_INVALID_RATIO = 0.01
CLOCK_SUSPECT_RATIO = 0.001
"""Source: mlcommons/inference, loadgen: monotonic against wall clock, error and warning."""
CPU_SHARE_LIMIT_RATIO = 0.9
"""Of one CPU: what a single thread that never waits should get."""
BACKGROUND_LIMIT_RATIO = 0.10
"""Of all CPUs together. A load average would count our own earlier runs."""
MIN_JUDGED_S = 0.1
"""Ten of the kernel's ticks."""
CPU_STALL_LIMIT_RATIO = 0.05
"""Part of the run in which somebody waited for a CPU; on a quiet machine it is below 1 %."""
MEMORY_STALL_LIMIT_RATIO = 0.01
FREQ_LIMIT_RATIO = 0.02
"""Frequency at the end against the start."""


def clock(limit: float) -> Rule:
    """Monotonic and wall clock agree within this ratio."""

    def rule(evidence: Evidence) -> tuple[bool | None, str]:
        before, after = evidence.worker.before, evidence.worker.after
        monotonic_ns = after.monotonic_ns - before.monotonic_ns
        if monotonic_ns <= 0:
            return False, "the monotonic clock stood still"
        error = abs((after.wall_ns - before.wall_ns) / monotonic_ns - 1)
        return error <= limit, (
            f"monotonic and wall clock differ by {error:.3%}, limit {limit:.1%}"
        )

    return rule


def background_busy_ratio(worker: WorkerRecord) -> float | None:
    """Share of all CPU time during the timed loop that others took, 0…1; None if untold."""
    before, after = worker.before, worker.after
    if before.cpu_total_s is None or after.cpu_total_s is None:
        return None
    total_s = after.cpu_total_s - before.cpu_total_s
    busy_s = (after.cpu_busy_s or 0.0) - (before.cpu_busy_s or 0.0)
    own_s = after.own_cpu_s - before.own_cpu_s
    return min(1.0, max(0.0, (busy_s - own_s) / total_s)) if total_s > 0 else None


def background_load(evidence: Evidence) -> tuple[bool | None, str]:
    """Other processes left the CPUs alone."""
    ratio = background_busy_ratio(evidence.worker)
    if ratio is None:
        return None, "the kernel does not tell what other processes did"
    loop_s = evidence.loop_s
    if loop_s < MIN_JUDGED_S:
        return None, f"{loop_s:.3f} s are too short to tell what others did"
    return ratio <= BACKGROUND_LIMIT_RATIO, (
        f"others took {ratio:.1%} of the CPU time during the run, "
        f"limit {BACKGROUND_LIMIT_RATIO:.0%}"
    )


def stall(resource: str, limit: float) -> Rule:
    """Nothing waited long for this resource, by pressure stall information."""

    def rule(evidence: Evidence) -> tuple[bool | None, str]:
        before = getattr(evidence.worker.before, f"{resource}_stall_s")
        after = getattr(evidence.worker.after, f"{resource}_stall_s")
        loop_s = evidence.loop_s
        if before is None or after is None or loop_s <= 0:
            return None, "the kernel has no pressure stall information"
        ratio = (after - before) / loop_s
        return ratio <= limit, (
            f"in {ratio:.1%} of the run something waited for {resource}, limit {limit:.0%}"
        )

    return rule


def frequency(evidence: Evidence) -> tuple[bool | None, str]:
    """Governor and frequency stayed what they were."""
    before, after = evidence.worker.before, evidence.worker.after
    if not before.freq_hz or not after.freq_hz or not max(before.freq_hz):
        return None, "the kernel tells neither governor nor frequency"
    governors = ", ".join(after.governors) or "unknown"
    # The worker's CPU is the busiest one, and so the fastest; others may sleep and wake.
    change = abs(max(after.freq_hz) / max(before.freq_hz) - 1)
    text = f"governor {governors}; frequency changed by {change:.1%}, limit {FREQ_LIMIT_RATIO:.0%}"
    if before.governors != after.governors:
        return False, f"governor changed from {', '.join(before.governors)} to {governors}"
    return change <= FREQ_LIMIT_RATIO, text


def scheduling(evidence: Evidence) -> tuple[bool | None, str]:
    """The worker was bound and prioritised as was asked."""
    found = evidence.worker.scheduling
    if found.refused:
        return False, "; ".join(found.refused)
    wanted = set(evidence.record.spec.cpus)
    if wanted and set(found.cpus) != wanted:
        return False, f"bound to {len(found.cpus)} CPUs, asked for {len(wanted)}"
    cpus = ",".join(map(str, found.cpus))
    return True, f"policy {found.policy}, nice {found.nice}, CPU {cpus}"


def cpu_share(evidence: Evidence) -> tuple[bool | None, str]:
    """The worker had its CPU for itself; a rival on the same core shows nowhere else."""
    worker = evidence.worker
    loop_s = evidence.loop_s
    computes_here = {"cpu", "builtin", "xnnpack"} >= {part.place for part in worker.placement}
    if loop_s < MIN_JUDGED_S or evidence.is_server or not computes_here:
        return None, "the worker may wait: for arrivals, or for an accelerator"
    share = (worker.after.own_cpu_s - worker.before.own_cpu_s) / loop_s
    return share >= CPU_SHARE_LIMIT_RATIO, (
        f"the worker had {share:.1%} of a CPU during the run, at least {CPU_SHARE_LIMIT_RATIO:.0%}"
    )


def memory(evidence: Evidence) -> tuple[bool | None, str]:
    """The worker fitted into the memory that was free."""
    worker, environment = evidence.worker, evidence.record.environment
    fits = worker.memory.peak_rss_bytes <= environment.memory_available_bytes
    return fits, (
        f"peak memory {worker.memory.peak_rss_bytes} bytes, "
        f"available {environment.memory_available_bytes} bytes"
    )


def swap(evidence: Evidence) -> tuple[bool | None, str]:
    """Nothing was swapped in or out."""
    before, after = evidence.worker.before, evidence.worker.after
    if before.swapped_page_count is None or after.swapped_page_count is None:
        return None, "the kernel does not tell about swap"
    count = after.swapped_page_count - before.swapped_page_count
    return count == 0, f"{count} pages were moved to or from swap during the run"
