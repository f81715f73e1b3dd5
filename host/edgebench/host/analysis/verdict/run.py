"""Rules about the run itself: long enough, steady, and more than its own harness."""

from __future__ import annotations

import numpy as np

from edgebench.host.analysis.latency import early_stopping
from edgebench.host.analysis.latency.warmup import SteadyClass
from edgebench.host.analysis.verdict.evidence import (
    Evidence,
    Ruling,
    at_least,
    at_most,
    holds,
    not_applicable,
    unknown,
)
from edgebench.host.result.verdict import Fact
from edgebench.protocol.record import TOO_HOT, Outcome
from edgebench.protocol.spec import MLPERF_PRESET, Engine, samples_per_query

STEADY_LIMIT_RATIO = 0.5
HARNESS_SUSPECT_RATIO = 0.01
HARNESS_INVALID_RATIO = 0.10


def complete(evidence: Evidence) -> Ruling:
    """The measurement went to its end."""
    record = evidence.record
    why = next((event.detail for event in record.events if event.kind == TOO_HOT), None)
    is_complete = record.outcome is Outcome.COMPLETED
    return holds(
        is_complete, "why" if why else None, facts={"ended": record.outcome.value, "why": why}
    )


def real_time(evidence: Evidence) -> Ruling:
    """The CPU is real: the times of an emulated one mean nothing."""
    return holds(not evidence.record.emulated, "emulated" if evidence.record.emulated else None)


def real_device(evidence: Evidence) -> Ruling:
    """The device is no simulation."""
    return holds(not evidence.record.simulated, "simulated" if evidence.record.simulated else None)


def enough_queries(evidence: Evidence) -> Ruling:
    """As many as were asked for were issued; what a warm-up takes of them is another rule's."""
    spec = evidence.record.spec
    count = evidence.issued_rows // samples_per_query(spec)
    return at_least(
        count, spec.min_query_count, "count", facts={"counted": spec.scenario.traits.counted}
    )


def enough_time(evidence: Evidence) -> Ruling:
    """The timed loop took as long as was asked for."""
    spec, took_s = evidence.record.spec, evidence.loop_s
    # MLPerf knows no such maximum, and what a device sustains is a question of time.
    is_limited = not (spec.preset.startswith(MLPERF_PRESET) or spec.is_sustained)
    if is_limited and evidence.issued_rows >= spec.max_query_count:
        return holds(
            True,
            "full",
            value=took_s,
            limit=spec.duration_s,
            unit="s",
            facts={"max_query_count": spec.max_query_count},
        )
    return at_least(took_s, spec.duration_s, "s")


def steady_state(evidence: Evidence) -> Ruling:
    """What counts is flat: the latency did not keep changing."""
    steady, first = evidence.measured.steady, evidence.measured.first_row
    if steady.steady_class is None:
        return unknown("too_few", facts={"count": evidence.worker.query_count})
    is_steady = steady.steady_class in (SteadyClass.FLAT, SteadyClass.WARMUP)
    return holds(is_steady, steady.steady_class.value, value=first, unit="count")


def steady_share(evidence: Evidence) -> Ruling:
    """A warm-up that was found may not take most of what was measured."""
    issued, counted = evidence.issued_rows, len(evidence.measured.invoke_ns)
    return at_least(counted / issued if issued else 0.0, STEADY_LIMIT_RATIO, "ratio")


def keeps_up(evidence: Evidence) -> Ruling:
    """A query takes less time than the next one takes to come.

    Else the queue grows until the run ends: the latency tells how long the run was.
    """
    spec = evidence.record.spec
    if not evidence.is_scheduled or spec.target_qps is None:
        return not_applicable("no_schedule")
    mean_ns = float(np.mean(evidence.measured.invoke_ns))
    share = mean_ns * spec.target_qps / 1e9
    return holds(
        share < 1,
        value=share,
        limit=1.0,
        unit="ratio",
        facts={"mean_us": mean_ns / 1e3, "qps": spec.target_qps},
    )


def latency_target(evidence: Evidence) -> Ruling:
    """The server scenario met its target latency."""
    spec, found = evidence.record.spec, evidence.measured.early_stopping
    if not evidence.is_scheduled or spec.target_latency_s is None:
        return not_applicable("no_target")
    if found.is_target_met is None:
        return unknown("known_to_loadgen")
    over, count = found.over_latency_count or 0, evidence.measured.query_count
    facts: dict[str, Fact] = {
        "count": count,
        "target_s": spec.target_latency_s,
        "percentile": 100 * spec.target_percentile,
    }
    if found.is_target_met:
        return holds(True, value=over, unit="count", facts=facts)
    needed = over + early_stopping.min_under_latency_count(over, spec.target_percentile)
    if over <= (1 - spec.target_percentile) * count:
        return holds(False, "too_few", value=over, unit="count", facts={"needed": needed, **facts})
    latency = evidence.measured.query
    return holds(
        False,
        "missed",
        value=over,
        unit="count",
        facts={
            "p99_ms": latency.p99 / 1e6 if latency and latency.p99 else None,
            "per_s": count / evidence.loop_s if evidence.loop_s > 0 else 0.0,
            "qps": spec.target_qps,
            **facts,
        },
    )


def loadgen(evidence: Evidence) -> Ruling:
    """LoadGen's own verdict on its run."""
    result = evidence.measured.loadgen
    if evidence.record.spec.engine is not Engine.LOADGEN:
        return not_applicable("native")
    if result is None:
        return holds(False, "no_result")
    return holds(
        result.is_valid,
        "why" if result.invalid_reason else None,
        facts={"why": result.invalid_reason},
    )


def harness_dominates(evidence: Evidence) -> Ruling:
    """The timed loop itself is not what was measured."""
    return _harness(evidence, HARNESS_INVALID_RATIO)


def harness_share(evidence: Evidence) -> Ruling:
    """The timed loop itself costs next to nothing of what it measures."""
    return _harness(evidence, HARNESS_SUSPECT_RATIO)


def _harness(evidence: Evidence, limit: float) -> Ruling:
    """Cost of the loop, beside the median of what the scenario is about."""
    spec, measured, harness = evidence.record.spec, evidence.measured, evidence.worker.harness
    if spec.scenario.traits.is_single or measured.query_ns is None:
        own_ns, median_ns, what = harness.p50_ns, float(np.median(measured.invoke_ns)), "latency"
    else:
        own_ns = harness.end_to_end_p50_ns * samples_per_query(spec)
        median_ns, what = float(np.median(measured.query_ns)), "query"
    return at_most(own_ns / max(median_ns, 1.0), limit, "ratio", facts={"what": what})


def profiled(evidence: Evidence) -> Ruling:
    """A profile that was asked for is there."""
    check = evidence.worker.check
    if not evidence.record.spec.is_profiled:
        return not_applicable("not_asked")
    if check.profile_error is not None or not check.operators:
        return holds(
            False, "none", facts={"why": check.profile_error or "the runtime gave no profile"}
        )
    return holds(
        True, value=len(check.operators), unit="count", facts={"run_count": check.profile_run_count}
    )
