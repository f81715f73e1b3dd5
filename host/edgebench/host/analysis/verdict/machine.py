"""Rules about the machine: its clocks, its frequency, and what else it did meanwhile."""

from __future__ import annotations

from edgebench.host.analysis.verdict.evidence import (
    Evidence,
    Ruling,
    at_least,
    at_most,
    holds,
    not_applicable,
    unknown,
)
from edgebench.protocol.record import WorkerRecord

CLOCK_INVALID_RATIO = 0.01
CLOCK_SUSPECT_RATIO = 0.001
"""Source: mlcommons/inference, loadgen: monotonic against wall clock, error and warning."""
CPU_SHARE_LIMIT_RATIO = 0.9
"""Share of one CPU that a single thread that never waits should get."""
BACKGROUND_LIMIT_RATIO = 0.10
"""Share of all CPUs together. A load average would count our own earlier runs."""
MIN_JUDGED_S = 0.1
"""Ten of the kernel's ticks."""
CPU_STALL_LIMIT_RATIO = 0.05
"""Part of the run in which somebody waited for a CPU; on a quiet machine it is below 1 %."""
MEMORY_STALL_LIMIT_RATIO = 0.01
FREQ_LIMIT_RATIO = 0.02
"""Frequency at the end against the start."""


def clock(evidence: Evidence) -> Ruling:
    """Monotonic and wall clock run at the same rate."""
    return _clock(evidence, CLOCK_INVALID_RATIO)


def clock_drift(evidence: Evidence) -> Ruling:
    """Monotonic and wall clock hardly differ."""
    return _clock(evidence, CLOCK_SUSPECT_RATIO)


def _clock(evidence: Evidence, limit: float) -> Ruling:
    before, after = evidence.worker.before, evidence.worker.after
    monotonic_ns = after.monotonic_ns - before.monotonic_ns
    if monotonic_ns <= 0:
        return holds(False, "stood_still")
    error = abs((after.wall_ns - before.wall_ns) / monotonic_ns - 1)
    return at_most(error, limit, "ratio")


def background_busy_ratio(worker: WorkerRecord) -> float | None:
    """Share of all CPU time during the timed loop that others took, 0…1; None if untold."""
    before, after = worker.before, worker.after
    if before.cpu_total_s is None or after.cpu_total_s is None:
        return None
    total_s = after.cpu_total_s - before.cpu_total_s
    busy_s = (after.cpu_busy_s or 0.0) - (before.cpu_busy_s or 0.0)
    own_s = after.own_cpu_s - before.own_cpu_s
    return min(1.0, max(0.0, (busy_s - own_s) / total_s)) if total_s > 0 else None


def background_load(evidence: Evidence) -> Ruling:
    """Other processes left the CPUs alone."""
    ratio = background_busy_ratio(evidence.worker)
    if ratio is None:
        return unknown("not_told")
    if evidence.loop_s < MIN_JUDGED_S:
        return unknown("too_short", facts={"loop_s": evidence.loop_s})
    return at_most(ratio, BACKGROUND_LIMIT_RATIO, "ratio")


def cpu_pressure(evidence: Evidence) -> Ruling:
    """Nothing waited long for a CPU, by pressure stall information."""
    before, after = evidence.worker.before, evidence.worker.after
    return _stall(evidence, before.cpu_stall_s, after.cpu_stall_s, CPU_STALL_LIMIT_RATIO)


def memory_pressure(evidence: Evidence) -> Ruling:
    """Nothing waited long for memory, by pressure stall information."""
    before, after = evidence.worker.before, evidence.worker.after
    return _stall(evidence, before.memory_stall_s, after.memory_stall_s, MEMORY_STALL_LIMIT_RATIO)


def _stall(
    evidence: Evidence, before_s: float | None, after_s: float | None, limit: float
) -> Ruling:
    if before_s is None or after_s is None or evidence.loop_s <= 0:
        return unknown("not_told")
    return at_most((after_s - before_s) / evidence.loop_s, limit, "ratio")


def frequency(evidence: Evidence) -> Ruling:
    """Governor and frequency stayed what they were."""
    before, after = evidence.worker.before, evidence.worker.after
    if not before.freq_hz or not after.freq_hz or not max(before.freq_hz):
        return unknown("not_told")
    governors = ", ".join(after.governors) or "unknown"
    if before.governors != after.governors:
        was = ", ".join(before.governors)
        return holds(False, "governor_changed", facts={"before": was, "governors": governors})
    # The worker's CPU is the busiest one, and so the fastest; others may sleep and wake.
    change = abs(max(after.freq_hz) / max(before.freq_hz) - 1)
    return at_most(change, FREQ_LIMIT_RATIO, "ratio", facts={"governors": governors})


def scheduling(evidence: Evidence) -> Ruling:
    """The worker was bound and prioritised as was asked."""
    found = evidence.worker.scheduling
    if found.refused:
        return holds(False, "refused", facts={"why": "; ".join(found.refused)})
    wanted = set(evidence.record.spec.cpus)
    if wanted and set(found.cpus) != wanted:
        return holds(
            False, "bound_elsewhere", facts={"count": len(found.cpus), "wanted_count": len(wanted)}
        )
    cpus = ",".join(map(str, found.cpus))
    return holds(True, facts={"policy": found.policy, "nice": found.nice, "cpus": cpus})


def cpu_share(evidence: Evidence) -> Ruling:
    """The worker had its CPU for itself; a rival on the same core shows nowhere else."""
    worker, loop_s = evidence.worker, evidence.loop_s
    if evidence.is_scheduled:
        return not_applicable("waits_for_arrivals")
    if not {"cpu", "builtin", "xnnpack"} >= {part.place for part in worker.placement}:
        return not_applicable("waits_for_accelerator")
    if loop_s < MIN_JUDGED_S:
        return unknown("too_short", facts={"loop_s": loop_s})
    share = (worker.after.own_cpu_s - worker.before.own_cpu_s) / loop_s
    return at_least(share, CPU_SHARE_LIMIT_RATIO, "ratio")


def memory(evidence: Evidence) -> Ruling:
    """The worker fitted into the memory that was free."""
    available_bytes = evidence.record.environment.memory_available_bytes
    return at_most(evidence.worker.memory.peak_rss_bytes, available_bytes, "bytes")


def swap(evidence: Evidence) -> Ruling:
    """Nothing was swapped in or out."""
    before, after = evidence.worker.before, evidence.worker.after
    if before.swapped_page_count is None or after.swapped_page_count is None:
        return unknown("not_told")
    count = after.swapped_page_count - before.swapped_page_count
    return holds(count == 0, value=count, limit=0, unit="count")
