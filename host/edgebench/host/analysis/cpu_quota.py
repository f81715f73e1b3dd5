"""Quotas of CPU time that control groups impose on the worker."""

from __future__ import annotations

from edgebench.protocol.record import CpuQuota, Scheduling, WorkerRecord


def tightest_quota(scheduling: Scheduling) -> CpuQuota | None:
    """Quota that allows the fewest CPUs; None if no group has a quota, or none could be read."""
    return min(scheduling.quotas or (), key=lambda quota: quota.cpu_count, default=None)


def available_cpu_count(scheduling: Scheduling) -> float:
    """Maximum number of CPUs that the worker's affinity and quotas let it use."""
    quota, count = tightest_quota(scheduling), float(len(scheduling.cpus))
    return count if quota is None else min(count, quota.cpu_count)


def throttled_count(worker: WorkerRecord) -> int:
    """Number of periods of the timed loop in which a quota was used up."""
    return sum(
        after.throttled_count - before.throttled_count
        for before, after in zip(worker.before.quotas, worker.after.quotas, strict=False)
    )


def throttled_ratio(worker: WorkerRecord) -> float:
    """Share (0…1) of the timed loop that lay in periods in which a quota was used up.

    The kernel's own count of the stopped time is not used, because it is a sum over CPUs.
    """
    loop_s = (worker.after.monotonic_ns - worker.before.monotonic_ns) / 1e9
    quotas = worker.scheduling.quotas or ()
    uses = zip(quotas, worker.before.quotas, worker.after.quotas, strict=False)
    throttled_s = sum(
        quota.period_s * (after.throttled_count - before.throttled_count)
        for quota, before, after in uses
    )
    return min(1.0, max(0.0, throttled_s / loop_s)) if loop_s > 0 else 0.0
