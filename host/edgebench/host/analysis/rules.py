"""The rules that a run has to keep: each looks at one thing and tells its numbers.

A rule answers True (kept), False (broken) or None (cannot tell), with one line of detail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from edgebench.host.analysis.answers import ERROR_METRICS, Accuracy
from edgebench.host.analysis.measurement import HostFacts, Measurement, ReferenceAccuracy
from edgebench.host.analysis.warmup import SteadyClass
from edgebench.protocol.record import Outcome, RunRecord, WorkerRecord
from edgebench.protocol.spec import MLPERF_PRESET, Engine, RunSpec, Scenario, samples_per_query


class State(str, Enum):
    """The verdict of a run."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the rules look at."""

    record: RunRecord
    worker: WorkerRecord
    measured: Measurement
    facts: HostFacts


Rule = Callable[[Evidence], tuple[bool | None, str]]

HARNESS_SUSPECT_RATIO = 0.01
HARNESS_INVALID_RATIO = 0.10
CLOCK_INVALID_RATIO = 0.01
CLOCK_SUSPECT_RATIO = 0.001
"""Source: mlcommons/inference, loadgen: monotonic against wall clock, error and warning."""
STEADY_LIMIT_RATIO = 0.5
CPU_SHARE_LIMIT_RATIO = 0.9
"""Of one CPU: what a single thread that never waits should get."""
DELEGATED_LIMIT_RATIO = 0.5
"""Of the operators; below, it is not the delegate that was measured."""
BACKGROUND_LIMIT_RATIO = 0.10
"""Of all CPUs together. A load average would count our own earlier runs."""
MIN_JUDGED_S = 0.1
"""Ten of the kernel's ticks."""
CPU_STALL_LIMIT_RATIO = 0.10
"""Part of the run in which somebody waited for a CPU; on a quiet machine it is below 1 %."""
MEMORY_STALL_LIMIT_RATIO = 0.01
FREQ_LIMIT_RATIO = 0.02
"""Frequency at the end against the start."""
AGREEMENT_LIMIT = 0.3
"""RMS difference to the reference kernels over the spread of the answers. Measured on 59 pairs of
model and runtime, random inputs: at most 0.19 for quantised models and 0.012 for others, but for a
detector whose list of boxes comes in another order; answers in a wrong order have 1.1 and more."""
ACCURACY_SUSPECT_RATIO = 0.98
ACCURACY_INVALID_RATIO = 0.93
"""Of the accuracy of the unquantised sibling. Source: mlcommons/mobile_open, submission rules
3.0: floors of 93 % to 98 %, by model."""


def _complete(evidence: Evidence) -> tuple[bool | None, str]:
    is_complete = evidence.record.outcome is Outcome.COMPLETED
    return is_complete, f"run {evidence.record.outcome.value}"


def _real_time(evidence: Evidence) -> tuple[bool | None, str]:
    if evidence.record.emulated:
        return False, "the CPU is emulated: times mean nothing"
    return True, "the CPU is real"


def _enough_queries(evidence: Evidence) -> tuple[bool | None, str]:
    """As many as were asked for were issued; what a warm-up takes of them is another rule's."""
    spec = evidence.record.spec
    need, count = spec.min_query_count, _issued_rows(evidence) // samples_per_query(spec)
    what = "samples" if spec.scenario is Scenario.OFFLINE else "queries"
    return count >= need, f"{count} {what}, at least {need}"


def _enough_time(evidence: Evidence) -> tuple[bool | None, str]:
    spec = evidence.record.spec
    took_s = _loop_s(evidence)
    # MLPerf knows no such maximum.
    is_full = _issued_rows(evidence) >= spec.max_query_count and spec.preset != MLPERF_PRESET
    is_long = took_s >= spec.duration_s
    at_most = f" or {spec.max_query_count} inferences" if is_full else ""
    return is_long or is_full, f"{took_s:.3f} s, at least {spec.duration_s:g} s{at_most}"


def _steady_share(evidence: Evidence) -> tuple[bool | None, str]:
    """A warm-up that was found may not take most of what was measured."""
    issued, counted = _issued_rows(evidence), len(evidence.measured.invoke_ns)
    share = counted / issued if issued else 0.0
    return share >= STEADY_LIMIT_RATIO, (
        f"{share:.0%} of the measured inferences come after the warm-up, "
        f"at least {STEADY_LIMIT_RATIO:.0%}"
    )


def _issued_rows(evidence: Evidence) -> int:
    return evidence.worker.query_count - evidence.worker.warmup_query_count


def _loop_s(evidence: Evidence) -> float:
    before, after = evidence.worker.before, evidence.worker.after
    return (after.monotonic_ns - before.monotonic_ns) / 1e9


def _is_server(spec: RunSpec) -> bool:
    return spec.scenario is Scenario.SERVER


def _steady(evidence: Evidence) -> tuple[bool | None, str]:
    steady, first = evidence.measured.steady, evidence.measured.first_row
    if steady.steady_class is None:
        return None, f"{evidence.worker.query_count} queries are too few to tell"
    cut = f"the first {first} queries are warm-up"
    texts = {
        SteadyClass.FLAT: f"steady from the start, {cut} as issued",
        SteadyClass.WARMUP: f"steady after a warm-up: {cut}",
        SteadyClass.SLOWDOWN: "the device became slower and stayed so",
        SteadyClass.NO_STEADY_STATE: "the latency kept changing until the end",
    }
    is_steady = steady.steady_class in (SteadyClass.FLAT, SteadyClass.WARMUP)
    return is_steady, f"{steady.steady_class.value}: {texts[steady.steady_class]}"


def _target(evidence: Evidence) -> tuple[bool | None, str]:
    spec, found = evidence.record.spec, evidence.measured.early_stopping
    if not _is_server(spec) or spec.target_latency_s is None:
        return True, "no target latency was asked for"
    if found.is_target_met is None:
        return None, "when a query was due is known to LoadGen alone: see its log"
    return found.is_target_met, (
        f"{found.over_latency_count} of {evidence.measured.query_count} queries took over "
        f"{spec.target_latency_s:g} s, p{100 * spec.target_percentile:g} must not"
    )


def _loadgen(evidence: Evidence) -> tuple[bool | None, str]:
    result = evidence.measured.loadgen
    if evidence.record.spec.engine is not Engine.LOADGEN:
        return True, "the queries were issued by the timed loop"
    if result is None:
        return False, "LoadGen left no result"
    reason = f": {result.invalid_reason}" if result.invalid_reason else ""
    verdict = "VALID" if result.is_valid else "INVALID"
    return result.is_valid, f"LoadGen calls its run {verdict}{reason}"


def _finite_outputs(evidence: Evidence) -> tuple[bool | None, str]:
    is_finite = evidence.worker.output.is_finite
    return is_finite, "outputs are finite" if is_finite else "outputs hold NaN or infinity"


def _delegation(evidence: Evidence) -> tuple[bool | None, str]:
    runtime = evidence.worker.runtime
    asked = [name for name in runtime.delegates_requested if name != "none"]
    ran = _placement_text(evidence.worker)
    if not asked:
        return True, f"no delegate was asked for, {ran}"
    text = f"asked for {', '.join(asked)}, {ran}"
    places = {part.place for part in evidence.worker.placement}
    used = {_plain_name(name) for name in (*runtime.delegates_used, *places)}
    missing = [name for name in asked if _plain_name(name) not in used]
    if missing and (places or not all("/" in name for name in missing)):
        return False, text
    if missing or not places:
        return None, f"{text}; the runtime does not tell whether it was used"
    return True, text


def _delegated_share(evidence: Evidence) -> tuple[bool | None, str]:
    """Most of the model ran where it was meant to run."""
    asked = {_plain_name(n) for n in evidence.worker.runtime.delegates_requested if n != "none"}
    parts = evidence.worker.placement
    if not asked or not parts:
        return (True, "no delegate was asked for") if not asked else (None, "not told")
    total = sum(part.count for part in parts)
    there = sum(part.count for part in parts if _plain_name(part.place) in asked)
    return there >= DELEGATED_LIMIT_RATIO * total, (
        f"{there} of {total} operators ran on it, at least {DELEGATED_LIMIT_RATIO:.0%}"
    )


def _plain_name(delegate: str) -> str:
    """CUDAExecutionProvider and cuda are the same."""
    return delegate if "/" in delegate else delegate.lower().removesuffix("executionprovider")


def _placement_text(worker: WorkerRecord) -> str:
    """How many operators ran where, as far as the runtime tells."""
    counts: dict[str, int] = {}
    for part in worker.placement:
        counts[part.place] = counts.get(part.place, 0) + part.count
    if not counts:
        return f"used: {', '.join(worker.runtime.delegates_used) or 'none'}"
    total = sum(counts.values())
    places = ", ".join(f"{place} {count}" for place, count in counts.items())
    return f"of {total} operators: {places}"


def _harness_share(limit: float) -> Rule:
    def rule(evidence: Evidence) -> tuple[bool | None, str]:
        own_ns, median_ns, what = _harness(evidence)
        share = own_ns / max(median_ns, 1.0)
        return share <= limit, (
            f"the timed loop itself is {share:.2%} of the median {what}, limit {limit:.0%}"
        )

    return rule


def _harness(evidence: Evidence) -> tuple[float, float, str]:
    """What the loop costs, and of what: of what the scenario is about."""
    spec, measured, harness = evidence.record.spec, evidence.measured, evidence.worker.harness
    if spec.scenario is Scenario.SINGLE_STREAM or measured.query_ns is None:
        return harness.p50_ns, float(np.median(measured.invoke_ns)), "latency"
    own_ns = harness.end_to_end_p50_ns * samples_per_query(spec)
    return own_ns, float(np.median(measured.query_ns)), "query"


def _clock(limit: float) -> Rule:
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


def _background_load(evidence: Evidence) -> tuple[bool | None, str]:
    ratio = background_busy_ratio(evidence.worker)
    if ratio is None:
        return None, "the kernel does not tell what other processes did"
    loop_s = _loop_s(evidence)
    if loop_s < MIN_JUDGED_S:
        return None, f"{loop_s:.3f} s are too short to tell what others did"
    return ratio <= BACKGROUND_LIMIT_RATIO, (
        f"others took {ratio:.1%} of the CPU time during the run, "
        f"limit {BACKGROUND_LIMIT_RATIO:.0%}"
    )


def _stall(resource: str, limit: float) -> Rule:
    def rule(evidence: Evidence) -> tuple[bool | None, str]:
        before = getattr(evidence.worker.before, f"{resource}_stall_s")
        after = getattr(evidence.worker.after, f"{resource}_stall_s")
        loop_s = _loop_s(evidence)
        if before is None or after is None or loop_s <= 0:
            return None, "the kernel has no pressure stall information"
        ratio = (after - before) / loop_s
        return ratio <= limit, (
            f"in {ratio:.1%} of the run something waited for {resource}, limit {limit:.0%}"
        )

    return rule


def _frequency(evidence: Evidence) -> tuple[bool | None, str]:
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


def _scheduling(evidence: Evidence) -> tuple[bool | None, str]:
    scheduling = evidence.worker.scheduling
    if scheduling.refused:
        return False, "; ".join(scheduling.refused)
    wanted = set(evidence.record.spec.cpus)
    if wanted and set(scheduling.cpus) != wanted:
        return False, f"bound to {len(scheduling.cpus)} CPUs, asked for {len(wanted)}"
    cpus = ",".join(map(str, scheduling.cpus))
    return True, f"policy {scheduling.policy}, nice {scheduling.nice}, CPU {cpus}"


def _cpu_share(evidence: Evidence) -> tuple[bool | None, str]:
    """The worker had its CPU for itself; a rival on the same core shows nowhere else."""
    worker, spec = evidence.worker, evidence.record.spec
    loop_s = _loop_s(evidence)
    computes_here = {"cpu", "builtin", "xnnpack"} >= {part.place for part in worker.placement}
    if loop_s < MIN_JUDGED_S or _is_server(spec) or not computes_here:
        return None, "the worker may wait: for arrivals, or for an accelerator"
    share = (worker.after.own_cpu_s - worker.before.own_cpu_s) / loop_s
    return share >= CPU_SHARE_LIMIT_RATIO, (
        f"the worker had {share:.0%} of a CPU during the run, at least {CPU_SHARE_LIMIT_RATIO:.0%}"
    )


def _memory(evidence: Evidence) -> tuple[bool | None, str]:
    worker, environment = evidence.worker, evidence.record.environment
    fits = worker.memory.peak_rss_bytes <= environment.memory_available_bytes
    return fits, (
        f"peak memory {worker.memory.peak_rss_bytes} bytes, "
        f"available {environment.memory_available_bytes} bytes"
    )


def _swap(evidence: Evidence) -> tuple[bool | None, str]:
    before, after = evidence.worker.before, evidence.worker.after
    if before.swapped_page_count is None or after.swapped_page_count is None:
        return None, "the kernel does not tell about swap"
    count = after.swapped_page_count - before.swapped_page_count
    return count == 0, f"{count} pages were moved to or from swap during the run"


def _agreement(evidence: Evidence) -> tuple[bool | None, str]:
    """At least one output agrees: no kernel is wrong from the first operator on."""
    found = evidence.measured.agreement
    return _agrees(evidence, None if found is None else found.relative_rms_best, "the best output")


def _agreement_of_all(evidence: Evidence) -> tuple[bool | None, str]:
    """All outputs agree; a detector may list equal boxes in another order, and be right."""
    found = evidence.measured.agreement
    return _agrees(evidence, None if found is None else found.relative_rms, "the worst output")


def _agrees(evidence: Evidence, share: float | None, which: str) -> tuple[bool | None, str]:
    found, check = evidence.measured.agreement, evidence.worker.check
    if found is None:
        return None, f"not compared: {check.reference_error or 'it was not asked for'}"
    if share is None:
        return False, f"differs from {found.reference} without bound: one is not a number, or 0"
    top1 = found.top1_equal_ratio
    same = "" if top1 is None else f"; same largest output in {top1:.0%} of the samples"
    return share <= AGREEMENT_LIMIT, (
        f"{which} differs from {found.reference} by {share:.2g} of the spread of the answers "
        f"(RMS), limit {AGREEMENT_LIMIT:g}{same}"
    )


def accuracy_drop(found: Accuracy, reference: ReferenceAccuracy | None) -> float | None:
    """How much worse than the reference, in the unit of the metric; None without one."""
    if reference is None:
        return None
    sign = -1 if found.metric in ERROR_METRICS else 1
    return sign * (reference.value - found.value)


def _accuracy(limit: float) -> Rule:
    def rule(evidence: Evidence) -> tuple[bool | None, str]:
        found, reference = evidence.measured.accuracy, evidence.facts.reference
        if found is None:
            return _without_accuracy(evidence)
        text = f"{found.metric} {found.value:.4g} on {found.sample_count} samples"
        if reference is None:
            return None, f"{text}; no reference to compare with"
        ratio = _accuracy_ratio(found, reference)
        return ratio >= limit, (
            f"{text}, {reference.model} has {reference.value:.4g}: {ratio:.1%}, limit {limit:.0%}"
        )

    return rule


def _without_accuracy(evidence: Evidence) -> tuple[bool | None, str]:
    check = evidence.worker.check
    if evidence.record.spec.dataset_sha256 is None:
        return None, "no data set was given"
    if check.dataset_sample_count:
        return None, "the data set was answered, but its labels are on another host"
    return False, check.dataset_error or "the data set was not answered"


def _accuracy_ratio(found: Accuracy, reference: ReferenceAccuracy) -> float:
    good, bad = found.value, reference.value
    if found.metric in ERROR_METRICS:
        good, bad = bad, good
    return good / bad if bad > 0 else float(good >= bad)


def _profiled(evidence: Evidence) -> tuple[bool | None, str]:
    check = evidence.worker.check
    if not evidence.record.spec.is_profiled:
        return True, "no profile was asked for"
    if check.profile_error is not None or not check.operators:
        return False, check.profile_error or "the runtime gave no profile"
    return True, f"{len(check.operators)} operators over {check.profile_run_count} inferences"


def _thermal(_: Evidence) -> tuple[bool | None, str]:
    return None, "throttling is not judged yet; see the telemetry trace"


RULES: tuple[tuple[str, State, Rule], ...] = (
    ("complete", State.INVALID, _complete),
    ("real_time", State.INVALID, _real_time),
    ("enough_queries", State.INVALID, _enough_queries),
    ("enough_time", State.INVALID, _enough_time),
    ("latency_target", State.INVALID, _target),
    ("loadgen", State.INVALID, _loadgen),
    ("finite_outputs", State.INVALID, _finite_outputs),
    ("accuracy_floor", State.INVALID, _accuracy(ACCURACY_INVALID_RATIO)),
    ("accuracy", State.SUSPECT, _accuracy(ACCURACY_SUSPECT_RATIO)),
    ("agreement", State.INVALID, _agreement),
    ("agreement_of_all", State.SUSPECT, _agreement_of_all),
    ("delegation", State.INVALID, _delegation),
    ("delegated_share", State.SUSPECT, _delegated_share),
    ("profile", State.INVALID, _profiled),
    ("harness_dominates", State.INVALID, _harness_share(HARNESS_INVALID_RATIO)),
    ("harness_share", State.SUSPECT, _harness_share(HARNESS_SUSPECT_RATIO)),
    ("steady_state", State.SUSPECT, _steady),
    ("steady_share", State.SUSPECT, _steady_share),
    ("clock", State.INVALID, _clock(CLOCK_INVALID_RATIO)),
    ("clock_drift", State.SUSPECT, _clock(CLOCK_SUSPECT_RATIO)),
    ("frequency", State.SUSPECT, _frequency),
    ("scheduling", State.SUSPECT, _scheduling),
    ("cpu_share", State.SUSPECT, _cpu_share),
    ("background_load", State.SUSPECT, _background_load),
    ("cpu_pressure", State.SUSPECT, _stall("cpu", CPU_STALL_LIMIT_RATIO)),
    ("memory_pressure", State.SUSPECT, _stall("memory", MEMORY_STALL_LIMIT_RATIO)),
    ("memory", State.SUSPECT, _memory),
    ("swap", State.SUSPECT, _swap),
    ("thermal", State.SUSPECT, _thermal),
)
"""Id, severity and rule, in the order in which a person should read them."""
MILDER = {
    "harness_dominates": "harness_share",
    "accuracy_floor": "accuracy",
    "delegation": "delegated_share",
    "clock": "clock_drift",
    "agreement": "agreement_of_all",
}
"""Rules that look at the same number with a milder limit: said once is enough."""
