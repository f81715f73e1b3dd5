"""Rules about the machine's frequency, its scheduling, and its other load during the run."""

from __future__ import annotations

from dataclasses import dataclass

from edgebench.host.analysis.cpu_quota import throttled_count, throttled_ratio, tightest_quota
from edgebench.host.analysis.thermal.delegation import uses_accelerator
from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.advice import Advice, Situation
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.rule import (
    SUSPECT,
    TIMES,
    Rule,
    Ruling,
    WatchedQuantity,
    at_least,
    at_most,
    holds,
    not_applicable,
    plain,
    reason,
    unknown,
)
from edgebench.host.analysis.worker_threads import loop_times
from edgebench.host.result.reason import Reason
from edgebench.host.result.units import format_ns, format_size
from edgebench.host.result.verdict import NumberKind
from edgebench.protocol.percent import format_percent
from edgebench.protocol.record import WorkerRecord

CPU_SHARE_LIMIT_RATIO = 0.9
"""Minimum share of a CPU's time that a thread which never waits should get."""
BACKGROUND_LIMIT_RATIO = 0.10
"""Largest share of the CPUs under test that other programs may use.

A load average is not used, because it would include earlier runs of edgebench.
"""
MIN_JUDGED_S = 0.1
"""Shortest loop whose CPU times are judged, s; it is ten of the kernel's ticks."""
CPU_STALL_LIMIT_RATIO = 0.05
"""Largest share of the run in which a thread waited for a CPU; on a quiet machine, the share is
below 1 %."""
MEMORY_STALL_LIMIT_RATIO = 0.01
REALTIME_STOP_FACTOR = 2.0
"""Longest wait that the kernel's limit on real-time tasks explains, as a multiple of the time that
the kernel reserves for other tasks. Measured on Linux 6.18, which reserves 5 % of the time: the
waits took 5.0 to 6.9 % of the run."""
QUOTA_LIMIT_RATIO = 0.01
"""Largest share of the run in periods whose quota was used up; a smaller share cannot change
percentiles up to p99."""
FREQ_CHANGE_LIMIT_RATIO = 0.02
"""Largest relative difference between the frequency at the start and any later frequency."""


def background_busy_ratio(worker: WorkerRecord, threads: int) -> float | None:
    """CPU time of other processes in the timed loop, as a share of the CPUs under test, 0…1.

    The model keeps at most as many CPUs busy as it has threads: these CPUs are under test. A CPU
    under test that another process takes counts as a whole CPU, regardless of how many idle CPUs
    the device has. The worker's binding determines which CPUs are under test. Without a binding, a
    thread may run on any CPU, so other processes may take CPU time from the model on each CPU. Even
    if the scheduler separates these processes from the model, they share caches, memory and the
    power budget with the model. So the time counts on every CPU that the worker may use and on the
    other hardware thread of the same cores, but not on further CPUs.

    Measured on a virtual machine with two CPUs. The model was bound to one CPU; a process that does
    nothing but count was bound to the other CPU. For MobileNet (1 ms) and a face detector (7 ms),
    the CPU time of an inference was higher by 7 to 8 % in the 10th percentile, and by 12 to 15 % in
    the median. An inference of 25 µs, whose data fits into a cache, took 0.3 % more.

    For runs of older agents, which lack times by CPU, the share is over all CPUs. The result is
    None if the kernel does not report CPU times.
    """
    before, after = worker.before, worker.after
    own_s = after.own_cpu_s - before.own_cpu_s
    busy_before_s = {cpu.cpu: cpu.busy_s for cpu in before.cpus}
    # CPUs that went offline or came back have no difference.
    passed_s = [
        cpu.busy_s - busy_before_s[cpu.cpu] for cpu in after.cpus if cpu.cpu in busy_before_s
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


class BackgroundLoadRule(Rule[Evidence]):
    """Other processes hardly used the CPUs under test."""

    id, severity = "background_load", SUSPECT
    cause = Cause.OTHER_PROGRAMS
    harms = TIMES
    watches = WatchedQuantity.LOAD
    advise = advice.alone
    not_reported = plain(
        "not_told", "the kernel does not report the load of other processes", advice.see_sensors
    )
    taken = plain(
        "",
        lambda value, limit: (
            f"other processes took {format_percent(value, 1)} of the CPU time, limit "
            f"{format_percent(limit)}"
        ),
    )

    @reason("under_test")
    @staticmethod
    def taken_under_test(value: float, limit: float) -> str:
        # The value is relative to as many CPUs as the model has threads, and is at most 100 %.
        used, of = "at least as much", f"100 %, limit {format_percent(limit)}"
        if value < 1:
            used, of = f"{format_percent(value, 1)} as much", f"limit {format_percent(limit)}"
        return (
            f"other programs used {used} CPU time as the model can use ({of}), and may have "
            "slowed the model down"
        )

    @reason("too_short", advice.longer)
    @staticmethod
    def too_short(value: float, limit: float, *, loop_s: float) -> str:
        return f"{loop_s:.3f} s is too short to measure the load of other processes"

    def check(self, evidence: Evidence) -> Ruling:
        ratio = background_busy_ratio(evidence.worker, evidence.record.spec.threads)
        if ratio is None:
            return unknown(self.not_reported())
        if evidence.loop_s < MIN_JUDGED_S:
            return unknown(self.too_short(loop_s=evidence.loop_s))
        kind = self.taken_under_test if evidence.worker.after.cpus else self.taken
        return at_most(ratio, BACKGROUND_LIMIT_RATIO, "ratio", kind())


@dataclass(frozen=True, slots=True)
class ThreadShares:
    """Time that the worker's threads spent in a state; 1 is one thread during the whole loop."""

    running: float
    """Time of running, summed over all threads."""
    waiting: float
    waiting_max: float
    """Time of waiting of the thread that waited longest."""


def thread_shares(evidence: Evidence) -> ThreadShares | None:
    """Times of running and waiting; None if the kernel does not account for them."""
    times, loop_s = loop_times(evidence.worker), evidence.loop_s
    if not times or loop_s <= 0:
        return None
    waits = [thread.wait_s for thread in times]
    running_s = sum(thread.run_s for thread in times)
    return ThreadShares(running_s / loop_s, sum(waits) / loop_s, max(waits) / loop_s)


class CpuQuotaRule(Rule[Evidence]):
    """No quota of CPU time stopped the worker.

    If a group has used up its quota, the kernel stops it for the rest of the period, in the middle
    of an inference. The latencies then show the quota.
    """

    id, severity = "cpu_quota", SUSPECT
    cause = Cause.CPU_LIMIT
    harms = TIMES
    advise = advice.more_quota
    no_quota = plain("no_quota", "no control group has a quota of CPU time")
    not_reported = plain(
        "not_told", "the device does not report control groups: a CPU quota is unknown"
    )

    @reason("")
    @staticmethod
    def used_up(
        value: float, limit: float, *, cpu_count: float, period_s: float, throttled_count: int
    ) -> str:
        return (
            f"the control group used up its CPU quota of {cpu_count:g} CPUs in "
            f"{throttled_count} periods of {format_ns(period_s * 1e9)}: "
            f"{format_percent(value, 1)} of the run, "
            f"limit {format_percent(limit)}"
        )

    def check(self, evidence: Evidence) -> Ruling:
        worker = evidence.worker
        quota = tightest_quota(worker.scheduling)
        if worker.scheduling.quotas is None:
            return unknown(self.not_reported())
        if quota is None:
            return not_applicable(self.no_quota())
        used_up = self.used_up(
            cpu_count=quota.cpu_count,
            period_s=quota.period_s,
            throttled_count=throttled_count(worker),
        )
        return at_most(throttled_ratio(worker), QUOTA_LIMIT_RATIO, "ratio", used_up)


def _used_up_quota(worker: WorkerRecord) -> float | None:
    """Number of CPUs of the quota that stopped the worker; None if no quota did."""
    quota = tightest_quota(worker.scheduling)
    if quota is None or throttled_ratio(worker) <= QUOTA_LIMIT_RATIO:
        return None
    return quota.cpu_count


class _StallRule(Rule[Evidence]):
    """No task waited long, according to pressure stall information."""

    not_reported = plain("not_told", "the kernel has no pressure stall information")

    def of_tasks(
        self,
        evidence: Evidence,
        before_s: float | None,
        after_s: float | None,
        limit: float,
        found: Reason,
    ) -> Ruling:
        """The ruling on the share of the loop during which tasks waited.

        Args:
            evidence: Evidence of the run.
            before_s: Total stall time before the loop; None if the kernel does not report it.
            after_s: Total stall time after the loop; None if the kernel does not report it.
            limit: Largest share.
            found: Reason of the ruling.
        """
        if before_s is None or after_s is None or evidence.loop_s <= 0:
            return unknown(self.not_reported())
        return at_most((after_s - before_s) / evidence.loop_s, limit, "ratio", found)


class CpuPressureRule(_StallRule):
    """No thread of the worker waited long for a CPU.

    The slowest thread determines when an inference ends, so the longest wait counts, not the mean.
    Older runs have only pressure stall information, which is about all tasks on all CPUs. This
    information hardly shows the waits of a model on one CPU of 16. It does show the waits of two
    unrelated processes.
    """

    id, severity = "cpu_pressure", SUSPECT
    cause = Cause.OTHER_PROGRAMS
    harms = TIMES
    watches = WatchedQuantity.LOAD
    advise = advice.alone
    not_reported = plain(
        "not_told", "the kernel has no pressure stall information", advice.see_sensors
    )
    any_task = plain(
        "",
        lambda value, limit: (
            f"a task waited for a CPU during {format_percent(value, 1)} of the run, limit "
            f"{format_percent(limit)}"
        ),
    )

    @reason("more_threads", cause=Cause.TOO_MANY_THREADS)
    @staticmethod
    def more_threads(value: float, limit: float, *, threads: int, cpu_count: int) -> str:
        more = f"more threads ({threads}) than CPUs ({cpu_count})"
        return (
            f"{more}: a thread waited during {format_percent(value, 1)} of the run, limit "
            f"{format_percent(limit)}"
        )

    @more_threads.advice
    @staticmethod
    def _(value: float, to: Situation, *, threads: int, cpu_count: int) -> Advice:
        fewer = to.given.bench(threads=max(1, cpu_count))
        return advice.do("use no more threads than CPUs: {}", fewer)

    @reason("of_threads")
    @staticmethod
    def thread(value: float, limit: float) -> str:
        waited = f"waited for a CPU {format_percent(value)} of the time"
        return f"the model {waited} (limit {format_percent(limit)})"

    @reason("quota", advice.more_quota, Cause.CPU_LIMIT)
    @staticmethod
    def stopped_by_quota(value: float, limit: float, *, quota_cpu_count: float) -> str:
        return (
            f"a thread of the worker waited during {format_percent(value, 1)} of the run, "
            f"limit {format_percent(limit)}: its "
            f"control group has a quota of {quota_cpu_count:g} CPUs"
        )

    @reason(
        "realtime",
        advice.again(
            "lift the limit for the run (as root: sysctl -w kernel.sched_rt_runtime_us=-1), or "
            "measure without --priority realtime: {}",
            without=("priority",),
        ),
        Cause.CPU_LIMIT,
    )
    @staticmethod
    def stopped_by_realtime_limit(
        value: float, limit: float, *, runtime_s: float, period_s: float
    ) -> str:
        return (
            f"a thread of the worker waited during {format_percent(value, 1)} of the run, "
            f"limit {format_percent(limit)}: "
            f"sched_rt_runtime_us lets real-time tasks run for {format_ns(runtime_s * 1e9)} of "
            f"each {format_ns(period_s * 1e9)}"
        )

    def check(self, evidence: Evidence) -> Ruling:
        limit, shares = CPU_STALL_LIMIT_RATIO, thread_shares(evidence)
        if shares is None:
            before_s, after_s = (
                evidence.worker.before.cpu_stall_s,
                evidence.worker.after.cpu_stall_s,
            )
            return self.of_tasks(evidence, before_s, after_s, limit, self.any_task())
        threads = evidence.record.spec.threads
        cpu_count = len(evidence.worker.scheduling.cpus)
        quota = _used_up_quota(evidence.worker)
        realtime = evidence.worker.scheduling.realtime
        found = self.thread()
        if quota is not None and shares.waiting_max > limit:
            found = self.stopped_by_quota(quota_cpu_count=quota)
        elif threads > cpu_count > 0:
            found = self.more_threads(threads=threads, cpu_count=cpu_count)
        elif realtime is not None and realtime.runtime_s is not None:
            kept_ratio = 1 - realtime.runtime_s / realtime.period_s
            if limit < shares.waiting_max <= REALTIME_STOP_FACTOR * kept_ratio:
                found = self.stopped_by_realtime_limit(
                    runtime_s=realtime.runtime_s, period_s=realtime.period_s
                )
        return at_most(shares.waiting_max, limit, "ratio", found)


class MemoryPressureRule(_StallRule):
    """No task waited long for memory, according to pressure stall information."""

    id, severity = "memory_pressure", SUSPECT
    cause = Cause.MEMORY
    harms = TIMES | {NumberKind.MEMORY}
    advise = advice.more_memory
    any_task = plain(
        "",
        lambda value, limit: (
            f"a task waited for memory during {format_percent(value, 1)} of the run, "
            f"limit {format_percent(limit)}"
        ),
    )

    def check(self, evidence: Evidence) -> Ruling:
        before, after = evidence.worker.before, evidence.worker.after
        return self.of_tasks(
            evidence,
            before.memory_stall_s,
            after.memory_stall_s,
            MEMORY_STALL_LIMIT_RATIO,
            self.any_task(),
        )


class FrequencyRule(Rule[Evidence]):
    """Governor and frequency did not change during the run.

    The rule compares the values at both ends of the loop. It also compares the values during the
    loop, from the telemetry, which records the clock of the CPUs that the model ran on. A slowdown
    is reported by the rule about heat, not by this rule. On an accelerator, the frequency of the
    CPU is irrelevant.
    """

    id, severity, watches = "frequency", SUSPECT, WatchedQuantity.CLOCK
    cause = Cause.CLOCK_FREQUENCY
    effect_of = frozenset({Cause.POWER_SUPPLY, Cause.HEAT, Cause.PHONE_STATE})
    harms = TIMES
    advise = advice.governor
    not_reported = plain(
        "not_told", "the kernel reports neither governor nor frequency", advice.see_sensors
    )

    @reason("")
    @staticmethod
    def at_ends(value: float, limit: float, *, governors: str) -> str:
        return (
            f"governor {governors}; frequency changed by {format_percent(value, 1)}, limit "
            f"{format_percent(limit)}"
        )

    @reason("between")
    @staticmethod
    def between(value: float, limit: float, *, governors: str) -> str:
        return (
            f"governor {governors}; during the run, the clock differed by "
            f"{format_percent(value, 1)} from that at "
            f"the start, limit {format_percent(limit)}"
        )

    @reason("governor_changed")
    @staticmethod
    def governor_changed(value: float, limit: float, *, before: str, governors: str) -> str:
        return f"governor changed from {before} to {governors}"

    def check(self, evidence: Evidence) -> Ruling:
        before, after = evidence.worker.before, evidence.worker.after
        governors = ", ".join(after.governors) or "unknown"
        if before.governors != after.governors:
            was = ", ".join(before.governors)
            return holds(False, self.governor_changed(before=was, governors=governors))
        throttling = evidence.measured.throttling
        is_slowed = throttling is not None and throttling.is_slowed
        between = None if throttling is None or is_slowed else throttling.freq_change_ratio
        at_ends = None
        is_reported = before.freq_hz and after.freq_hz and max(before.freq_hz) > 0
        if is_reported and not uses_accelerator(evidence.worker.placement):
            # The worker's CPU is the busiest, and so the fastest; others may sleep and wake.
            at_ends = abs(max(after.freq_hz) / max(before.freq_hz) - 1)
        if between is not None and (at_ends is None or between > at_ends):
            kind = self.between(governors=governors)
            return at_most(between, FREQ_CHANGE_LIMIT_RATIO, "ratio", kind)
        if at_ends is None:
            return unknown(self.not_reported())
        kind = self.at_ends(governors=governors)
        return at_most(at_ends, FREQ_CHANGE_LIMIT_RATIO, "ratio", kind)


class SchedulingRule(Rule[Evidence]):
    """The worker had the requested CPUs and priority."""

    id, severity = "scheduling", SUSPECT
    cause = Cause.NOT_APPLIED
    harms = TIMES
    advise = advice.schedule

    @reason("")
    @staticmethod
    def applied(value: float, limit: float, *, policy: str, nice: int, cpus: str) -> str:
        return f"policy {policy}, nice {nice}, CPU {cpus}"

    @reason("refused")
    @staticmethod
    def refused(value: float, limit: float, *, why: str) -> str:
        return why

    @reason("bound_elsewhere")
    @staticmethod
    def bound_elsewhere(value: float, limit: float, *, count: int, wanted_count: int) -> str:
        return f"bound to {count} CPUs, {wanted_count} were requested"

    def check(self, evidence: Evidence) -> Ruling:
        actual = evidence.worker.scheduling
        if actual.refused:
            return holds(False, self.refused(why="; ".join(actual.refused)))
        wanted = set(evidence.record.spec.cpus)
        if wanted and set(actual.cpus) != wanted:
            elsewhere = self.bound_elsewhere(count=len(actual.cpus), wanted_count=len(wanted))
            return holds(False, elsewhere)
        cpus = ",".join(map(str, actual.cpus))
        return holds(True, self.applied(policy=actual.policy, nice=actual.nice, cpus=cpus))


class CpuShareRule(Rule[Evidence]):
    """The worker had a CPU for each thread. Only this rule shows another program on the same core.

    Where a model cannot be split, the threads of a pool are idle. This idle time is part of the
    model's own speed. If the kernel reports how long threads waited for a CPU, less than a CPU per
    thread is allowed under two conditions: the threads got the time that they could use, and at
    least one thread always ran.
    """

    id, severity = "cpu_share", SUSPECT
    cause = Cause.OTHER_PROGRAMS
    effect_of = frozenset({Cause.TOO_MANY_THREADS, Cause.CPU_LIMIT})
    harms = TIMES
    advise = advice.alone
    waits_for_arrivals = plain("waits_for_arrivals", "the worker waits for arrivals")
    waits_for_accelerator = plain("waits_for_accelerator", "the worker may wait for an accelerator")

    @reason("")
    @staticmethod
    def of_one(value: float, limit: float, *, threads: int, cpu_count: float) -> str:
        had = f"the worker had {format_percent(value, 1)} of a CPU during the run"
        return f"{had}, at least {format_percent(limit)} needed"

    @reason("of_threads")
    @staticmethod
    def of_threads(value: float, limit: float, *, threads: int, cpu_count: float) -> str:
        had = f"the worker's {threads} threads had {cpu_count:.2f} CPUs during the run"
        return (
            f"{had}: {format_percent(value, 1)} of a CPU per thread, at least "
            f"{format_percent(limit)} needed"
        )

    @reason("of_wanted")
    @staticmethod
    def of_wanted(value: float, limit: float, *, threads: int, cpu_count: float) -> str:
        had = f"the worker's {threads} threads had {cpu_count:.2f} CPUs during the run"
        return (
            f"{had}: {format_percent(value, 1)} of what they could have used, at least "
            f"{format_percent(limit)} needed"
        )

    @reason("quota", advice.more_quota, Cause.CPU_LIMIT)
    @staticmethod
    def stopped_by_quota(
        value: float, limit: float, *, threads: int, cpu_count: float, quota_cpu_count: float
    ) -> str:
        return (
            f"the worker's threads had {cpu_count:.2f} CPUs during the run, "
            f"{format_percent(value, 1)} of what "
            f"they could have used, at least {format_percent(limit)} needed: their "
            "control group has a quota "
            f"of {quota_cpu_count:g} CPUs"
        )

    @reason("too_short", advice.longer)
    @staticmethod
    def too_short(value: float, limit: float, *, loop_s: float) -> str:
        return f"{loop_s:.3f} s is too short to measure the worker's share of a CPU"

    def check(self, evidence: Evidence) -> Ruling:
        worker, threads = evidence.worker, evidence.record.spec.threads
        # A paused device runs nothing, which the rule `suspended` reports.
        loop_s = evidence.loop_s - (evidence.measured.paused_s or 0.0)
        if evidence.is_scheduled:
            return not_applicable(self.waits_for_arrivals())
        if uses_accelerator(worker.placement):
            return not_applicable(self.waits_for_accelerator())
        if loop_s < MIN_JUDGED_S:
            return unknown(self.too_short(loop_s=loop_s))
        # In the pauses of a real-time loop, the worker leaves its CPU to others.
        realtime = worker.scheduling.realtime
        issuing_s = loop_s if realtime is None else loop_s - realtime.paused_s
        cpu_count = (worker.after.own_cpu_s - worker.before.own_cpu_s) / issuing_s
        share, limit = cpu_count / max(1, threads), CPU_SHARE_LIMIT_RATIO
        kind = self.of_one if threads <= 1 else self.of_threads
        shares = thread_shares(evidence)
        if threads > 1 and share < limit <= cpu_count and shares is not None and shares.running > 0:
            share = shares.running / (shares.running + shares.waiting)
            kind = self.of_wanted
        found = kind(threads=threads, cpu_count=cpu_count)
        if (quota := _used_up_quota(worker)) is not None and share < limit:
            found = self.stopped_by_quota(
                threads=threads, cpu_count=cpu_count, quota_cpu_count=quota
            )
        return at_least(share, limit, "ratio", found)


class MemoryRule(Rule[Evidence]):
    """The worker's peak memory did not exceed the available memory."""

    id, severity = "memory", SUSPECT
    cause = Cause.MEMORY
    harms = TIMES | {NumberKind.MEMORY}
    advise = advice.more_memory
    not_reported = plain("not_told", "the system does not report how much memory was available")
    used = plain(
        "", lambda value, limit: f"peak memory {format_size(value)}, available {format_size(limit)}"
    )

    def check(self, evidence: Evidence) -> Ruling:
        available_bytes = evidence.record.environment.memory_available_bytes
        peak_bytes = evidence.worker.memory.peak_rss_bytes
        # Older agents report 0 if /proc is not readable.
        if not available_bytes or not peak_bytes:
            return unknown(self.not_reported())
        return at_most(peak_bytes, available_bytes, "bytes", self.used())


class SwapRule(Rule[Evidence]):
    """No pages were swapped in or out during the run."""

    id, severity = "swap", SUSPECT
    cause = Cause.MEMORY
    harms = TIMES | {NumberKind.MEMORY}
    advise = advice.more_memory
    not_reported = plain("not_told", "the kernel does not report swapping")
    moved = plain(
        "", lambda value, limit: f"{value:.0f} pages were moved to or from swap during the run"
    )

    def check(self, evidence: Evidence) -> Ruling:
        before, after = evidence.worker.before, evidence.worker.after
        if before.swapped_page_count is None or after.swapped_page_count is None:
            return unknown(self.not_reported())
        count = after.swapped_page_count - before.swapped_page_count
        return holds(count == 0, self.moved(), value=count, limit=0, unit="count")


MACHINE_RULES: tuple[Rule[Evidence], ...] = (
    FrequencyRule(),
    SchedulingRule(),
    CpuQuotaRule(),
    BackgroundLoadRule(),
    CpuPressureRule(),
    CpuShareRule(),
    MemoryPressureRule(),
    MemoryRule(),
    SwapRule(),
)
"""The rules, in the order in which a person should read them."""
