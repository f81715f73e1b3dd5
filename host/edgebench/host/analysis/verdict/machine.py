"""Rules about the machine: its clocks, its frequency, and what else it did meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from edgebench.host.analysis.cpu_quota import throttled_count, throttled_ratio, tightest_quota
from edgebench.host.analysis.thermal.delegation import uses_accelerator
from edgebench.host.analysis.verdict.evidence import (
    Evidence,
    Ruling,
    at_least,
    at_most,
    holds,
    not_applicable,
    unknown,
)
from edgebench.host.analysis.worker_threads import loop_times
from edgebench.host.result.verdict import Fact
from edgebench.protocol.record import WorkerRecord

CLOCK_INVALID_RATIO = 0.01
CLOCK_SUSPECT_RATIO = 0.001
"""Source: mlcommons/inference, loadgen: monotonic against wall clock, error and warning."""
CPU_SHARE_LIMIT_RATIO = 0.9
"""Share of a CPU that a thread that never waits should get."""
BACKGROUND_LIMIT_RATIO = 0.10
"""Share of the CPUs under test. A load average would count our own earlier runs."""
MIN_JUDGED_S = 0.1
"""Ten of the kernel's ticks."""
CPU_STALL_LIMIT_RATIO = 0.05
"""Part of the run in which a thread waited for a CPU; on a quiet machine it is below 1 %."""
MEMORY_STALL_LIMIT_RATIO = 0.01
QUOTA_LIMIT_RATIO = 0.01
"""Share of the run in periods in which a quota was used up: fewer of them can move no percentile up
to p99."""
QUOTA = "quota"
"""Reason of a rule that fails because of a quota of CPU time."""
FREQ_CHANGE_LIMIT_RATIO = 0.02
"""Frequency at the end, or between, against the start."""


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


def background_busy_ratio(worker: WorkerRecord, threads: int) -> float | None:
    """CPU time that others took during the timed loop over that of the CPUs under test, 0…1.

    The model keeps no more CPUs busy than it has threads: those are under test, and one of them
    taken by a neighbour is a whole one, however many idle ones the device has beside them. Which
    they are is known if the worker was bound. If it was not, a thread may have run on any CPU and
    time that others took on any of them may have been its own; where the scheduler kept them apart,
    they still shared caches, memory and the power budget. So time on every CPU that the worker
    could use counts, and on the other hardware thread of the same cores, but on no CPU beyond.

    Measured on a virtual machine of two CPUs, the model bound to one, a process that only counts to
    the other: an inference of MobileNet (1 ms) and of a face detector (7 ms) took 7 to 8 % more CPU
    time (10th percentile; 12 to 15 % in the median), one of 25 µs, which fits into a cache, 0.3 %.

    A run of an older agent, without times by CPU, has the share of all CPUs; None: untold.
    """
    before, after = worker.before, worker.after
    own_s = after.own_cpu_s - before.own_cpu_s
    busy_before_s = {one.cpu: one.busy_s for one in before.cpus}
    # A CPU that went offline or came back has no difference.
    passed_s = [
        one.busy_s - busy_before_s[one.cpu] for one in after.cpus if one.cpu in busy_before_s
    ]
    if passed_s:
        busy_s = sum(passed_s)
        under_test_count = max(1, min(threads, len(worker.scheduling.cpus)))
        total_s = under_test_count * (after.monotonic_ns - before.monotonic_ns) / 1e9
    elif before.cpu_total_s is not None and after.cpu_total_s is not None:
        busy_s = (after.cpu_busy_s or 0.0) - (before.cpu_busy_s or 0.0)
        total_s = after.cpu_total_s - before.cpu_total_s
    else:
        return None
    return min(1.0, max(0.0, (busy_s - own_s) / total_s)) if total_s > 0 else None


def background_load(evidence: Evidence) -> Ruling:
    """Other processes left the CPUs under test alone."""
    ratio = background_busy_ratio(evidence.worker, evidence.record.spec.threads)
    if ratio is None:
        return unknown("not_told")
    if evidence.loop_s < MIN_JUDGED_S:
        return unknown("too_short", facts={"loop_s": evidence.loop_s})
    return at_most(
        ratio, BACKGROUND_LIMIT_RATIO, "ratio", "under_test" if evidence.worker.after.cpus else None
    )


@dataclass(frozen=True, slots=True)
class ThreadShares:
    """How the worker's threads spent the timed loop, in threads: 1 is one of them all the time."""

    running: float
    """Sum over all threads."""
    waiting: float
    waiting_max: float
    """Waiting of the thread that waited longest."""


def thread_shares(evidence: Evidence) -> ThreadShares | None:
    """Shares of running and waiting; None where the kernel does not account for them."""
    times, loop_s = loop_times(evidence.worker), evidence.loop_s
    if not times or loop_s <= 0:
        return None
    waits = [thread.wait_s for thread in times]
    running_s = sum(thread.run_s for thread in times)
    return ThreadShares(running_s / loop_s, sum(waits) / loop_s, max(waits) / loop_s)


def cpu_quota(evidence: Evidence) -> Ruling:
    """No quota of CPU time stopped the worker.

    A group that has used its quota up is stopped for the rest of the period, in the middle of an
    inference. The latencies are then about the quota.
    """
    worker = evidence.worker
    quota = tightest_quota(worker.scheduling)
    if worker.scheduling.quotas is None:
        return unknown("not_told")
    if quota is None:
        return not_applicable("no_quota")
    facts: dict[str, Fact] = {
        "cpu_count": quota.cpu_count,
        "period_s": quota.period_s,
        "throttled_count": throttled_count(worker),
    }
    return at_most(throttled_ratio(worker), QUOTA_LIMIT_RATIO, "ratio", facts=facts)


def _used_up_quota(worker: WorkerRecord) -> float | None:
    """CPUs of the quota that stopped the worker; None where none did."""
    quota = tightest_quota(worker.scheduling)
    if quota is None or throttled_ratio(worker) <= QUOTA_LIMIT_RATIO:
        return None
    return quota.cpu_count


def cpu_pressure(evidence: Evidence) -> Ruling:
    """No thread of the worker waited long for a CPU.

    The slowest thread decides when an inference ends, so the one that waited longest counts, not
    their mean. Pressure stall information, which older runs have, is about all tasks on all CPUs: a
    model on one of 16 hardly shows in it, and two neighbours who disturb each other do.
    """
    shares = thread_shares(evidence)
    if shares is not None:
        threads = evidence.record.spec.threads
        cpu_count = len(evidence.worker.scheduling.cpus)
        limit = CPU_STALL_LIMIT_RATIO
        quota = _used_up_quota(evidence.worker)
        if quota is not None and shares.waiting_max > limit:
            return at_most(shares.waiting_max, limit, "ratio", QUOTA, {"quota_cpu_count": quota})
        if threads > cpu_count > 0:
            return at_most(
                shares.waiting_max,
                limit,
                "ratio",
                "more_threads",
                {"threads": threads, "cpu_count": cpu_count},
            )
        return at_most(shares.waiting_max, limit, "ratio", "of_threads")
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
    """Governor and frequency stayed what they were.

    At both ends of the loop, and between them by the telemetry, which has the clock that the model
    ran at. A device that slowed down is named by the rule about heat, and not again here. Beside an
    accelerator, the frequency of the CPU says nothing.
    """
    before, after = evidence.worker.before, evidence.worker.after
    governors = ", ".join(after.governors) or "unknown"
    if before.governors != after.governors:
        was = ", ".join(before.governors)
        return holds(False, "governor_changed", facts={"before": was, "governors": governors})
    throttling = evidence.measured.throttling
    between = None if throttling is None or throttling.is_slowed else throttling.freq_change_ratio
    at_ends = None
    is_told = before.freq_hz and after.freq_hz and max(before.freq_hz) > 0
    if is_told and not uses_accelerator(evidence.worker.placement):
        # The worker's CPU is the busiest one, and so the fastest; others may sleep and wake.
        at_ends = abs(max(after.freq_hz) / max(before.freq_hz) - 1)
    if between is not None and (at_ends is None or between > at_ends):
        return at_most(
            between, FREQ_CHANGE_LIMIT_RATIO, "ratio", "between", facts={"governors": governors}
        )
    if at_ends is None:
        return unknown("not_told")
    return at_most(at_ends, FREQ_CHANGE_LIMIT_RATIO, "ratio", facts={"governors": governors})


def scheduling(evidence: Evidence) -> Ruling:
    """The worker was bound and prioritised as was asked."""
    actual = evidence.worker.scheduling
    if actual.refused:
        return holds(False, "refused", facts={"why": "; ".join(actual.refused)})
    wanted = set(evidence.record.spec.cpus)
    if wanted and set(actual.cpus) != wanted:
        return holds(
            False, "bound_elsewhere", facts={"count": len(actual.cpus), "wanted_count": len(wanted)}
        )
    cpus = ",".join(map(str, actual.cpus))
    return holds(True, facts={"policy": actual.policy, "nice": actual.nice, "cpus": cpus})


def cpu_share(evidence: Evidence) -> Ruling:
    """The worker had a CPU for each of its threads; a rival on the same core shows nowhere else.

    Threads of a pool are idle where a model cannot be split, and that is the model's own speed. So
    where the kernel tells how long they waited for a CPU, less than a CPU for each of them is
    allowed as long as they got what they wanted, and at least one of them always ran.
    """
    worker, loop_s, threads = evidence.worker, evidence.loop_s, evidence.record.spec.threads
    if evidence.is_scheduled:
        return not_applicable("waits_for_arrivals")
    if uses_accelerator(worker.placement):
        return not_applicable("waits_for_accelerator")
    if loop_s < MIN_JUDGED_S:
        return unknown("too_short", facts={"loop_s": loop_s})
    cpu_count = (worker.after.own_cpu_s - worker.before.own_cpu_s) / loop_s
    share, limit = cpu_count / max(1, threads), CPU_SHARE_LIMIT_RATIO
    facts: dict[str, Fact] = {"threads": threads, "cpu_count": cpu_count}
    shares = thread_shares(evidence)
    is_of_wanted = False
    if threads > 1 and share < limit <= cpu_count and shares is not None and shares.running > 0:
        share = shares.running / (shares.running + shares.waiting)
        is_of_wanted = True
    if (quota := _used_up_quota(worker)) is not None and share < limit:
        return at_least(share, limit, "ratio", QUOTA, {**facts, "quota_cpu_count": quota})
    if is_of_wanted:
        return at_least(share, limit, "ratio", "of_wanted", facts)
    return at_least(share, limit, "ratio", None if threads <= 1 else "of_threads", facts)


def memory(evidence: Evidence) -> Ruling:
    """The worker fitted into the memory that was free."""
    available_bytes = evidence.record.environment.memory_available_bytes
    peak_bytes = evidence.worker.memory.peak_rss_bytes
    if not available_bytes or not peak_bytes:  # older agents said 0 where /proc was not readable
        return unknown("not_told")
    return at_most(peak_bytes, available_bytes, "bytes")


def swap(evidence: Evidence) -> Ruling:
    """Nothing was swapped in or out."""
    before, after = evidence.worker.before, evidence.worker.after
    if before.swapped_page_count is None or after.swapped_page_count is None:
        return unknown("not_told")
    count = after.swapped_page_count - before.swapped_page_count
    return holds(count == 0, value=count, limit=0, unit="count")
