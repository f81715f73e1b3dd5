"""Rules about the run itself: long enough, steady, and more than its own harness."""

from __future__ import annotations

import numpy as np

from edgebench.host.analysis.latency import early_stopping
from edgebench.host.analysis.latency.warmup import SteadyClass
from edgebench.host.analysis.verdict.evidence import Evidence, Rule
from edgebench.protocol.record import TOO_HOT, Outcome
from edgebench.protocol.spec import MLPERF_PRESET, Engine, Scenario, samples_per_query

STEADY_LIMIT_RATIO = 0.5
HARNESS_SUSPECT_RATIO = 0.01
HARNESS_INVALID_RATIO = 0.10


def complete(evidence: Evidence) -> tuple[bool | None, str]:
    """The measurement went to its end."""
    record = evidence.record
    why = [f": {event.detail}" for event in record.events if event.kind == TOO_HOT]
    is_complete = record.outcome is Outcome.COMPLETED
    return is_complete, f"run {record.outcome.value}{''.join(why[:1])}"


def real_time(evidence: Evidence) -> tuple[bool | None, str]:
    """The CPU is real: the times of an emulated one mean nothing."""
    if evidence.record.emulated:
        return False, "the CPU is emulated: times mean nothing"
    return True, "the CPU is real"


def real_device(evidence: Evidence) -> tuple[bool | None, str]:
    """The device is no simulation."""
    if evidence.record.simulated:
        return False, "the device is simulated: its times are made up"
    return True, "the device is real"


def enough_queries(evidence: Evidence) -> tuple[bool | None, str]:
    """As many as were asked for were issued; what a warm-up takes of them is another rule's."""
    spec = evidence.record.spec
    need, count = spec.min_query_count, evidence.issued_rows // samples_per_query(spec)
    what = "samples" if spec.scenario is Scenario.OFFLINE else "queries"
    return count >= need, f"{count} {what}, at least {need}"


def enough_time(evidence: Evidence) -> tuple[bool | None, str]:
    """The timed loop took as long as was asked for."""
    spec = evidence.record.spec
    took_s = evidence.loop_s
    # MLPerf knows no such maximum, and what a device sustains is a question of time.
    is_limited = not (spec.preset.startswith(MLPERF_PRESET) or spec.is_sustained)
    is_full = is_limited and evidence.issued_rows >= spec.max_query_count
    is_long = took_s >= spec.duration_s
    at_most = f" or {spec.max_query_count} inferences" if is_full else ""
    return is_long or is_full, f"{took_s:.3f} s, at least {spec.duration_s:g} s{at_most}"


def steady_state(evidence: Evidence) -> tuple[bool | None, str]:
    """What counts is flat: the latency did not keep changing."""
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


def steady_share(evidence: Evidence) -> tuple[bool | None, str]:
    """A warm-up that was found may not take most of what was measured."""
    issued, counted = evidence.issued_rows, len(evidence.measured.invoke_ns)
    share = counted / issued if issued else 0.0
    return share >= STEADY_LIMIT_RATIO, (
        f"{share:.1%} of the measured inferences come after the warm-up, "
        f"at least {STEADY_LIMIT_RATIO:.0%}"
    )


def keeps_up(evidence: Evidence) -> tuple[bool | None, str]:
    """A server that needs longer for a query than the next one takes to come.

    Its queue grows until the run ends: the latency tells how long the run was.
    """
    spec = evidence.record.spec
    if not evidence.is_server or spec.target_qps is None:
        return True, "queries do not arrive by a schedule"
    mean_ns = float(np.mean(evidence.measured.invoke_ns))
    share = mean_ns * spec.target_qps / 1e9
    return share < 1, (
        f"{mean_ns / 1e3:.4g} µs a query at {spec.target_qps:g} queries a second: "
        f"{share:.1%} of the time, limit 100%"
    )


def latency_target(evidence: Evidence) -> tuple[bool | None, str]:
    """The server scenario met its target latency."""
    spec, found = evidence.record.spec, evidence.measured.early_stopping
    if not evidence.is_server or spec.target_latency_s is None:
        return True, "no target latency was asked for"
    if found.is_target_met is None:
        return None, "when a query was due is known to LoadGen alone: see its log"
    over, count = found.over_latency_count or 0, evidence.measured.query_count
    text = f"{over} of {count} queries took over {spec.target_latency_s:g} s"
    if found.is_target_met:
        return True, f"{text}, so p{100 * spec.target_percentile:g} did not, with 99 % confidence"
    needed = over + early_stopping.min_under_latency_count(over, spec.target_percentile)
    if over <= (1 - spec.target_percentile) * count:
        return (
            False,
            f"{text}: too few queries to tell p{100 * spec.target_percentile:g}; {needed} would do",
        )
    latency = evidence.measured.query
    p99 = f", p99 is {latency.p99 / 1e6:.4g} ms" if latency and latency.p99 else ""
    rate = count / evidence.loop_s if evidence.loop_s > 0 else 0.0
    return False, f"{text}{p99}; {rate:.4g} of {spec.target_qps:g} queries a second were answered"


def loadgen(evidence: Evidence) -> tuple[bool | None, str]:
    """LoadGen's own verdict on its run."""
    result = evidence.measured.loadgen
    if evidence.record.spec.engine is not Engine.LOADGEN:
        return True, "the queries were issued by the timed loop"
    if result is None:
        return False, "LoadGen left no result"
    reason = f": {result.invalid_reason}" if result.invalid_reason else ""
    verdict = "VALID" if result.is_valid else "INVALID"
    return result.is_valid, f"LoadGen calls its run {verdict}{reason}"


def harness_share(limit: float) -> Rule:
    """The timed loop itself costs at most this share of what it measures."""

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


def profiled(evidence: Evidence) -> tuple[bool | None, str]:
    """A profile that was asked for is there."""
    check = evidence.worker.check
    if not evidence.record.spec.is_profiled:
        return True, "no profile was asked for"
    if check.profile_error is not None or not check.operators:
        return False, check.profile_error or "the runtime gave no profile"
    return True, f"{len(check.operators)} operators over {check.profile_run_count} inferences"
