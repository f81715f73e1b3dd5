"""Rules about the run itself: long enough, steady, and more than its own harness."""

from __future__ import annotations

import numpy as np

from edgebench.host.analysis.latency import early_stopping
from edgebench.host.analysis.latency.warmup import DELTA_RATIO, SteadyClass, level_range_ratio
from edgebench.host.analysis.median import PRECISION_INVALID_RATIO, PRECISION_SUSPECT_RATIO
from edgebench.host.analysis.verdict.evidence import (
    Evidence,
    Ruling,
    at_least,
    at_most,
    holds,
    not_applicable,
    unknown,
)
from edgebench.host.result.latency import LatencySummary
from edgebench.host.result.verdict import Fact
from edgebench.protocol.errors import ErrorCode
from edgebench.protocol.record import TOO_HOT, Outcome
from edgebench.protocol.spec import MLPERF_PRESET, Engine, samples_per_query

STEADY_LIMIT_RATIO = 0.5
MIN_EFFECTIVE_COUNT = 100
"""Independent queries that a median has to be worth. With fewer, the autocorrelation itself is
known to a third at best, and the interval no better than that (benchmarks/coverage.py)."""
SPREAD_LIMIT_RATIO = 0.25
"""Interquartile range over the median. pyperf warns where the standard deviation is 10 % of the
mean, which is 0.13; ordinary runs on a shared virtual machine have up to 0.08, runs that switched
between levels 0.29 and 0.63."""
LEVEL_LIMIT_RATIO = PRECISION_SUSPECT_RATIO
"""Range of the levels of one of several runs that does not stay on one, over the lowest: where in
the run its median was taken moves it by no more than what its interval may have as half-width."""
BLOCK_LIMIT_RATIO = 0.10
"""Range of the medians of ten blocks, over the median: a tenth is a change that people act on.
Ordinary runs have 0.002 on an idle machine and 0.04 on a shared one."""
HARNESS_SUSPECT_RATIO = 0.01
HARNESS_INVALID_RATIO = 0.10
BINDING_LIMIT_RATIO = 0.02
"""Share of the median that loop and binding may add, by the trivial model. After real models, whose
data and code fill the caches, they add 1.6 to 5 times as much (benchmarks/binding_cost.py), so this
is about the 5 % of PRECISION_SUSPECT_RATIO."""


def complete(evidence: Evidence) -> Ruling:
    """The measurement went to its end."""
    record = evidence.record
    why = next((event.detail for event in record.events if event.kind == TOO_HOT), None)
    # A device that is gone says nothing about the run: it is made again, as one that was stopped.
    if why is None and record.error_code not in (0, ErrorCode.DEVICE_GONE):
        why = record.error
    longest_s = record.spec.max_duration_s
    is_cut = record.outcome is Outcome.INTERRUPTED and evidence.is_scheduled
    if is_cut and why is None and longest_s is not None and evidence.loop_s >= longest_s:
        why = f"queries were still waiting at its maximum duration of {longest_s:g} s"
    is_complete = record.outcome is Outcome.COMPLETED
    return holds(
        is_complete, "why" if why else None, facts={"ended": record.outcome.value, "why": why}
    )


def real_time(evidence: Evidence) -> Ruling:
    """The CPU is real: the times of an emulated one mean nothing.

    Virtual machines and containers run their code on the real one. Whoever shares it with them
    shows in other rules (time that a hypervisor takes counts as time of others); so they are named,
    and fail nothing.
    """
    if evidence.record.emulated:
        return holds(False, "emulated")
    layers = evidence.record.environment.virtualization
    return holds(True, "behind", {"layers": layers}) if layers else holds(True)


def real_device(evidence: Evidence) -> Ruling:
    """The device is no simulation."""
    return holds(not evidence.record.simulated, "simulated" if evidence.record.simulated else None)


def enough_queries(evidence: Evidence) -> Ruling:
    """As many queries as requested were issued; those lost to warm-up are for another rule."""
    spec = evidence.record.spec
    count = evidence.issued_rows // samples_per_query(spec)
    counted = spec.scenario.traits.counted
    # A complete run has too few for one reason only.
    is_cut = evidence.record.outcome is Outcome.COMPLETED and count < spec.min_query_count
    if is_cut and spec.max_duration_s is not None:
        return at_least(
            count,
            spec.min_query_count,
            "count",
            "max_duration",
            facts={"counted": counted, "max_duration_s": spec.max_duration_s},
        )
    return at_least(count, spec.min_query_count, "count", facts={"counted": counted})


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
    """What counts is on one level, or on levels that are near each other."""
    steady, first = evidence.measured.steady, evidence.measured.first_row
    if steady.steady_class is None:
        return unknown("too_few", facts={"count": evidence.worker.query_count})
    levels = evidence.measured.stability.levels
    if steady.steady_class is SteadyClass.SWITCHING and levels is not None:
        return holds(
            False,
            "levels",
            value=first,
            unit="count",
            facts={
                "low_ns": levels.low_ns,
                "high_ns": levels.high_ns,
                "high_ratio": levels.high_ratio,
                "low_dwell_s": levels.low_dwell_s,
                "high_dwell_s": levels.high_dwell_s,
            },
        )
    if steady.steady_class is SteadyClass.SLOWDOWN:
        range_ratio = level_range_ratio(steady.segments)
        return at_most(range_ratio, _level_limit_ratio(evidence), "ratio", "slower")
    if steady.steady_class is SteadyClass.NO_STEADY_STATE:
        range_ratio = level_range_ratio(steady.segments)
        return at_most(range_ratio, _level_limit_ratio(evidence), "ratio", "unsteady")
    is_steady = steady.steady_class in (SteadyClass.FLAT, SteadyClass.WARMUP)
    return holds(is_steady, steady.steady_class.value, value=first, unit="count")


def _level_limit_ratio(evidence: Evidence) -> float:
    """Range of the levels that may pass.

    The interval of a run alone knows nothing of a level that it has just begun to leave; that of
    several runs is from run to run, and has the drift in it.
    """
    return LEVEL_LIMIT_RATIO if evidence.is_of_several else DELTA_RATIO


def steady_share(evidence: Evidence) -> Ruling:
    """A warm-up that was found may not take most of what was measured."""
    issued, counted = evidence.issued_rows, len(evidence.measured.invoke_ns)
    return at_least(counted / issued if issued else 0.0, STEADY_LIMIT_RATIO, "ratio")


def precision_floor(evidence: Evidence) -> Ruling:
    """The median is known at all."""
    if evidence.record.spec.is_profiled:
        return not_applicable("profiled")
    half_width = _half_width_ratio(evidence)
    if half_width is None:
        return unknown("no_interval")
    return at_most(half_width, PRECISION_INVALID_RATIO, "ratio")


def precision(evidence: Evidence) -> Ruling:
    """The median is known well enough to be compared with anything.

    Of one of several runs it need not be: what counts is how far their medians lie apart.
    """
    if evidence.is_of_several:
        return not_applicable("in_set")
    if evidence.record.spec.is_profiled:
        return not_applicable("profiled")
    half_width, count = _half_width_ratio(evidence), _headline(evidence).effective_count
    if half_width is None:
        return holds(False, "no_interval")
    if count is not None and count.p50 < MIN_EFFECTIVE_COUNT:
        return at_least(count.p50, MIN_EFFECTIVE_COUNT, "count", "worth")
    return at_most(half_width, PRECISION_SUSPECT_RATIO, "ratio")


def _headline(evidence: Evidence) -> LatencySummary:
    """The latencies that the run is about."""
    measured = evidence.measured
    is_single = evidence.record.spec.scenario.traits.is_single
    return measured.invoke if is_single or measured.query is None else measured.query


def _half_width_ratio(evidence: Evidence) -> float | None:
    """Half the width of the interval of the median, over the median; None without an interval."""
    headline = _headline(evidence)
    if headline.p50 is None or headline.p50_ci95 is None:
        return None
    return (headline.p50_ci95[1] - headline.p50_ci95[0]) / 2 / max(headline.p50, 1)


def spread(evidence: Evidence) -> Ruling:
    """Most invocations take about the same time."""
    return at_most(evidence.measured.stability.iqr_ratio, SPREAD_LIMIT_RATIO, "ratio")


def block_stability(evidence: Evidence) -> Ruling:
    """Another tenth of the run would have given the same median."""
    range_ratio = evidence.measured.stability.block_range_ratio
    if range_ratio is None:
        return unknown("too_few", facts={"count": len(evidence.measured.invoke_ns)})
    return at_most(range_ratio, BLOCK_LIMIT_RATIO, "ratio")


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
        facts={"mean_ns": mean_ns, "qps": spec.target_qps},
    )


def latency_target(evidence: Evidence) -> Ruling:
    """The server scenario met its target latency."""
    spec, estimate = evidence.record.spec, evidence.measured.early_stopping
    if not evidence.is_scheduled or spec.target_latency_s is None:
        return not_applicable("no_target")
    if estimate.is_target_met is None:
        return unknown("known_to_loadgen")
    over, count = estimate.over_latency_count or 0, evidence.measured.query_count
    facts: dict[str, Fact] = {
        "count": count,
        "target_s": spec.target_latency_s,
        "target_percentile": spec.target_percentile,
    }
    if estimate.is_target_met:
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
            "p99_ns": latency.p99 if latency else None,
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


def binding_share(evidence: Evidence) -> Ruling:
    """The runtime's Python binding costs little of what was measured."""
    binding = evidence.worker.harness.binding
    if binding is None or binding.p50_ns is None:
        why = None if binding is None else binding.reason
        return unknown("why" if why else "not_measured", facts={"why": why})
    median_ns = max(float(np.median(evidence.measured.invoke_ns)), 1.0)
    if binding.c_p50_ns is not None:
        added_ns = binding.p50_ns - binding.c_p50_ns
        return at_most(added_ns / median_ns, BINDING_LIMIT_RATIO, "ratio")
    # The binding alone takes no longer than a model does through it.
    most = binding.p50_ns / median_ns
    if most > BINDING_LIMIT_RATIO:
        return unknown("no_c", facts={"why": binding.reason})
    return at_most(most, BINDING_LIMIT_RATIO, "ratio", "bound")


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
