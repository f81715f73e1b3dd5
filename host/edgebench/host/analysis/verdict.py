"""Can the number be trusted? Each rule looks at one thing and says pass, fail or unknown.

A rule that fails makes a run invalid or suspect, as its `severity` says; an unknown one leaves
it as it is, but is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.latency import LatencySummary
from edgebench.protocol.record import Outcome, RunRecord, WorkerRecord


class State(str, Enum):
    """The verdict of a run."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


class RuleOutcome(str, Enum):
    """The answer of one rule."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule's answer, with its numbers."""

    id: str
    outcome: RuleOutcome
    detail: str
    severity: State
    """What the run becomes when this rule fails."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a run and every rule behind it."""

    state: State
    rules: tuple[RuleResult, ...]

    @property
    def failures(self) -> tuple[RuleResult, ...]:
        """The rules that failed, worst first."""
        failed = [rule for rule in self.rules if rule.outcome is RuleOutcome.FAIL]
        return tuple(sorted(failed, key=lambda rule: rule.severity is not State.INVALID))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the rules look at."""

    record: RunRecord
    worker: WorkerRecord
    latency: LatencySummary
    latency_ns: NDArray[np.int64]
    """Timed queries only."""
    span_ns: int
    """From the first start to the last end of the timed queries."""


Rule = Callable[[Evidence], tuple[bool | None, str]]

HARNESS_SUSPECT_RATIO = 0.01
HARNESS_INVALID_RATIO = 0.10
CLOCK_LIMIT_RATIO = 0.01
"""Source: mlcommons/inference, loadgen: monotonic against wall clock, error above 1 %."""
BACKGROUND_LIMIT_RATIO = 0.10
"""Of all CPUs together. A load average would count our own earlier runs."""
MIN_JUDGED_NS = 100_000_000
"""Ten of the kernel's ticks."""


def judge(evidence: Evidence) -> Verdict:
    """Apply every rule."""
    results = tuple(
        RuleResult(name, _outcome(passed), detail, severity)
        for name, severity, rule in RULES
        for passed, detail in [rule(evidence)]
    )
    failed = {rule.severity for rule in results if rule.outcome is RuleOutcome.FAIL}
    worst = next((state for state in (State.INVALID, State.SUSPECT) if state in failed), None)
    return Verdict(worst or State.VALID, results)


def _outcome(passed: bool | None) -> RuleOutcome:
    if passed is None:
        return RuleOutcome.UNKNOWN
    return RuleOutcome.PASS if passed else RuleOutcome.FAIL


def _complete(evidence: Evidence) -> tuple[bool | None, str]:
    is_complete = evidence.record.outcome is Outcome.COMPLETED
    return is_complete, f"run {evidence.record.outcome.value}"


def _real_time(evidence: Evidence) -> tuple[bool | None, str]:
    if evidence.record.emulated:
        return False, "the CPU is emulated: times mean nothing"
    return True, "the CPU is real"


def _enough_queries(evidence: Evidence) -> tuple[bool | None, str]:
    need = evidence.record.spec.min_query_count
    return evidence.latency.count >= need, f"{evidence.latency.count} queries, at least {need}"


def _enough_time(evidence: Evidence) -> tuple[bool | None, str]:
    spec = evidence.record.spec
    begin_ns, end_ns = evidence.worker.monotonic_ns
    took_s = (end_ns - begin_ns) / 1e9
    is_full = evidence.latency.count >= spec.max_query_count
    is_long = took_s >= spec.duration_s
    at_most = f" or {spec.max_query_count} queries" if is_full else ""
    return is_long or is_full, f"{took_s:.3f} s, at least {spec.duration_s:g} s{at_most}"


def _finite_outputs(evidence: Evidence) -> tuple[bool | None, str]:
    is_finite = evidence.worker.output.is_finite
    return is_finite, "outputs are finite" if is_finite else "outputs hold NaN or infinity"


def _delegation(evidence: Evidence) -> tuple[bool | None, str]:
    runtime = evidence.worker.runtime
    used = ", ".join(runtime.delegates_used) or "none"
    asked = [name for name in runtime.delegates_requested if name != "none"]
    if not asked:
        return True, f"no delegate was asked for, used: {used}"
    missing = [name for name in asked if name not in runtime.delegates_used]
    if missing and all("/" in name for name in missing):
        return (
            None,
            f"asked for {', '.join(missing)}; the runtime does not tell whether it was used",
        )
    return not missing, f"asked for {', '.join(asked)}, used: {used}"


def _harness_share(limit: float) -> Rule:
    def rule(evidence: Evidence) -> tuple[bool | None, str]:
        median_ns = float(np.median(evidence.latency_ns))
        share = evidence.worker.harness.p50_ns / max(median_ns, 1.0)
        return share <= limit, (
            f"the timed loop itself is {share:.2%} of the median latency, limit {limit:.0%}"
        )

    return rule


def _clock(evidence: Evidence) -> tuple[bool | None, str]:
    monotonic_ns = evidence.worker.monotonic_ns[1] - evidence.worker.monotonic_ns[0]
    wall_ns = evidence.worker.wall_ns[1] - evidence.worker.wall_ns[0]
    if monotonic_ns <= 0:
        return False, "the monotonic clock stood still"
    error = abs(wall_ns / monotonic_ns - 1)
    return error <= CLOCK_LIMIT_RATIO, (
        f"monotonic and wall clock differ by {error:.3%}, limit {CLOCK_LIMIT_RATIO:.0%}"
    )


def _background_load(evidence: Evidence) -> tuple[bool | None, str]:
    ratio = evidence.worker.background_busy_ratio
    if ratio is None:
        return None, "the kernel does not tell what other processes did"
    begin_ns, end_ns = evidence.worker.monotonic_ns
    if end_ns - begin_ns < MIN_JUDGED_NS:
        return None, f"{(end_ns - begin_ns) / 1e9:.3f} s are too short to tell what others did"
    return ratio <= BACKGROUND_LIMIT_RATIO, (
        f"others took {ratio:.1%} of the CPU time during the run, "
        f"limit {BACKGROUND_LIMIT_RATIO:.0%}"
    )


def _swap(evidence: Evidence) -> tuple[bool | None, str]:
    worker, environment = evidence.worker, evidence.record.environment
    fits = worker.memory.peak_rss_bytes <= environment.memory_available_bytes
    return fits, (
        f"peak memory {worker.memory.peak_rss_bytes} bytes, "
        f"available {environment.memory_available_bytes} bytes"
    )


def _thermal(_: Evidence) -> tuple[bool | None, str]:
    return None, "throttling is not judged yet; see the telemetry trace"


RULES: tuple[tuple[str, State, Rule], ...] = (
    ("complete", State.INVALID, _complete),
    ("real_time", State.INVALID, _real_time),
    ("enough_queries", State.INVALID, _enough_queries),
    ("enough_time", State.INVALID, _enough_time),
    ("finite_outputs", State.INVALID, _finite_outputs),
    ("delegation", State.INVALID, _delegation),
    ("harness_dominates", State.INVALID, _harness_share(HARNESS_INVALID_RATIO)),
    ("harness_share", State.SUSPECT, _harness_share(HARNESS_SUSPECT_RATIO)),
    ("clock", State.INVALID, _clock),
    ("background_load", State.SUSPECT, _background_load),
    ("memory", State.SUSPECT, _swap),
    ("thermal", State.SUSPECT, _thermal),
)
"""Id, severity and rule, in the order in which a person should read them."""
