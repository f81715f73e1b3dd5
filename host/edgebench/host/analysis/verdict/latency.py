"""Rules about the latency's precision, its steadiness, and the harness's share of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from edgebench.host.analysis.latency.warmup import DELTA_RATIO, SteadyClass, drift_ratio
from edgebench.host.analysis.median import PRECISION_INVALID_RATIO, PRECISION_SUSPECT_RATIO
from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.cause import DISTURBANCES, SLOWDOWNS, Cause
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.rule import (
    INVALID,
    LATENCIES,
    LOOP,
    SUSPECT,
    EvidenceT,
    Rule,
    Ruling,
    at_least,
    at_most,
    holds,
    not_applicable,
    plain,
    reason,
    unknown,
)
from edgebench.host.result.latency import LatencySummary, Stability
from edgebench.host.result.units import format_ns
from edgebench.host.result.verdict import NumberKind
from edgebench.protocol.percent import format_percent
from edgebench.protocol.record import CheckFacts
from edgebench.protocol.spec import RunSpec, samples_per_query

STEADY_LIMIT_RATIO = 0.5
MIN_EFFECTIVE_COUNT = 100
"""Minimum effective count behind a median: the number of independent queries that hold as much
information as the measured queries. With a lower count, the autocorrelation is known to within a
third at best, and the interval is at best as exact (benchmarks/coverage.py).
"""
SPREAD_LIMIT_RATIO = 0.25
"""Largest interquartile range, relative to the median. pyperf warns where the standard deviation is
10 % of the mean, which corresponds to a range of 0.13. Ordinary runs on a shared virtual machine
have ranges of up to 0.08; runs that switched between levels have ranges of 0.29 and 0.63."""
LEVEL_LIMIT_RATIO = PRECISION_SUSPECT_RATIO
"""Largest range of the latency levels of a run in a set, relative to the lowest level. If all
levels are within this range, the median changes by at most the allowed half-width, whichever level
it represents."""
RARE_LEVEL_RATIO = 0.25
"""If the rarer of two levels has less than this share of the inferences, the median is well inside
the other level. At a share of a quarter, the median of the run is the 67th percentile of the other
level if the other level is faster, and the 33rd percentile if the other level is slower."""
BLOCK_LIMIT_RATIO = 0.10
"""Largest range of the medians of ten blocks, relative to the median of the run. People act on a
change of a tenth. Ordinary runs have ranges of 0.002 on an idle machine and 0.04 on a shared
machine."""
HARNESS_SUSPECT_RATIO = 0.02
"""Largest share of the median latency that the timed loop itself may take; equal to the limit for
the binding. With a model of 7 µs, the share is 1.0 to 1.6 % on a desktop, depending on the state of
its caches. With a limit of 1 %, one run of a set was therefore suspect, and the next run was
not."""
HARNESS_INVALID_RATIO = 0.10
BINDING_LIMIT_RATIO = 0.02
"""Share of the median that loop and binding may add, as measured with the trivial model. With real
models, whose data and code fill the caches, loop and binding add 1.6 to 5 times as much
(benchmarks/binding_cost.py). So this limit for the trivial model corresponds to about 5 % for real
models, which is PRECISION_SUSPECT_RATIO."""


class ProfileRule(Rule[EvidenceT]):
    """The run has the operator profile that was requested."""

    id, severity = "profile", INVALID
    cause = Cause.NOT_APPLIED
    advise = advice.again("profile on another runtime: {}", is_profiled=True, runtime="onnx")
    not_requested = plain("not_asked", "no operator profile was requested")

    @reason("")
    @staticmethod
    def made(value: float, limit: float, *, run_count: int) -> str:
        return f"{value:.0f} operators over {run_count} inferences"

    @reason("none")
    @staticmethod
    def absent(value: float, limit: float, *, why: str) -> str:
        return why

    def ruling(self, spec: RunSpec, check: CheckFacts) -> Ruling:
        """Ruling on the profile of a run."""
        if not spec.is_profiled:
            return not_applicable(self.not_requested())
        if check.profile_error is not None or not check.operators:
            why = check.profile_error or "the runtime returned no profile"
            return holds(False, self.absent(why=why))
        found = self.made(run_count=check.profile_run_count)
        return holds(True, found, value=len(check.operators), unit="count")


class WorkerProfileRule(ProfileRule[Evidence]):
    """The run has the operator profile that was requested."""

    def check(self, evidence: Evidence) -> Ruling:
        return self.ruling(evidence.record.spec, evidence.worker.check)


class _HarnessRule(Rule[Evidence]):
    """The timed loop itself takes a small share of the measured time."""

    limit: float
    advise = advice.larger_input_or(
        "use the latency to compare models of similar size, not as the model's own time: the loop "
        "adds the same time to each model"
    )

    @reason("")
    @staticmethod
    def share(value: float, limit: float, *, what: str) -> str:
        return (
            f"the timed loop itself takes {format_percent(value, 2)} of the median {what}, limit "
            f"{format_percent(limit)}"
        )

    def check(self, evidence: Evidence) -> Ruling:
        spec, measured, harness = evidence.record.spec, evidence.measured, evidence.worker.harness
        if spec.scenario.traits.is_single or measured.query_ns is None:
            own_ns, what = harness.p50_ns, "latency"
            median_ns = float(np.median(measured.invoke_ns))
        else:
            own_ns, what = harness.end_to_end_p50_ns * samples_per_query(spec), "query"
            median_ns = float(np.median(measured.query_ns))
        # A coarse clock reports the loop's own time, too, with an error of up to a step.
        share = (own_ns + (measured.clock_step_ns or 0.0)) / max(median_ns, 1.0)
        return at_most(share, self.limit, "ratio", self.share(what=what))


class HarnessDominatesRule(_HarnessRule):
    """The timed loop itself does not dominate the measured time."""

    id, severity, includes = "harness_dominates", INVALID, "harness_share"
    cause = Cause.TOO_SMALL
    limit = HARNESS_INVALID_RATIO


class HarnessShareRule(_HarnessRule):
    """The timed loop itself takes a negligible share of the measured time."""

    id, severity = "harness_share", SUSPECT
    cause = Cause.TOO_SMALL
    harms = LOOP
    limit = HARNESS_SUSPECT_RATIO


class BindingShareRule(Rule[Evidence]):
    """The runtime's Python binding takes a small share of the measured time."""

    id, severity = "binding_share", SUSPECT
    cause = Cause.TOO_SMALL
    # The binding is timed after the run, when other programs may take its caches.
    effect_of = frozenset({Cause.OTHER_PROGRAMS})
    harms = LOOP
    advise = advice.larger_input_or(
        "use the latency only for programs in Python, and to compare models of similar size: it "
        "includes the time of the runtime's Python binding, which a program in C does not need"
    )

    @reason("")
    @staticmethod
    def added(value: float, limit: float) -> str:
        added = (
            f"loop and Python binding add at least {format_percent(value, 2)} to the median latency"
        )
        return f"{added}, limit {format_percent(limit)}"

    @reason("bound")
    @staticmethod
    def bound(value: float, limit: float) -> str:
        addition = "one addition through the Python binding"
        return (
            f"{addition} takes {format_percent(value, 2)} of the median latency, limit "
            f"{format_percent(limit)}"
        )

    @reason("no_c")
    @staticmethod
    def not_in_c(value: float, limit: float, *, why: str | None) -> str:
        return f"the Python binding's share of the latency is unknown: {why}"

    @reason("why")
    @staticmethod
    def not_known(value: float, limit: float, *, why: str | None) -> str:
        return str(why)

    @reason("not_measured")
    @staticmethod
    def not_measured(value: float, limit: float, *, why: str | None) -> str:
        return "not measured"

    def check(self, evidence: Evidence) -> Ruling:
        binding = evidence.worker.harness.binding
        if binding is None or binding.p50_ns is None:
            why = None if binding is None else binding.reason
            return unknown(self.not_known(why=why) if why else self.not_measured(why=why))
        median_ns = max(float(np.median(evidence.measured.invoke_ns)), 1.0)
        if binding.c_p50_ns is not None:
            added_ns = binding.p50_ns - binding.c_p50_ns
            return at_most(added_ns / median_ns, BINDING_LIMIT_RATIO, "ratio", self.added())
        # The trivial model, an addition, takes at least the binding's own time: an upper bound.
        most = binding.p50_ns / median_ns
        if most > BINDING_LIMIT_RATIO:
            return unknown(self.not_in_c(why=binding.reason))
        return at_most(most, BINDING_LIMIT_RATIO, "ratio", self.bound())


class SteadyStateRule(Rule[Evidence]):
    """The counted queries stay on one level, or on levels that are close together."""

    id, severity = "steady_state", SUSPECT
    cause = Cause.VARIATION
    effect_of = SLOWDOWNS
    harms = LOOP
    advise = advice.longer_than(300.0)
    switching = plain(
        SteadyClass.SWITCHING.value,
        "switching: the latency returned to its level at the start",
        advice.one_level,
    )
    flat = plain(
        SteadyClass.FLAT.value,
        lambda value, limit: f"flat: steady after the worker's warm-up of {value:.0f} inferences",
    )

    warmup = plain(
        SteadyClass.WARMUP.value,
        lambda value, limit: f"warmup: steady after a warm-up of {value:.0f} inferences",
    )

    slower = plain(
        "slower",
        lambda value, limit: (
            "slowdown: the device became slower and stayed slower; the levels of its latency range "
            f"over {format_percent(value, 1)}, limit {format_percent(limit)}"
        ),
        advice.more("see whether heat is the cause: {}", "sustained_s", 1200.0),
    )
    unsteady = plain(
        "unsteady",
        lambda value, limit: (
            "no steady state: the latency kept changing until the end; its levels range over "
            f"{format_percent(value, 1)}, limit {format_percent(limit)}"
        ),
    )

    @reason("levels", advice.one_level)
    @staticmethod
    def levels(
        value: float,
        limit: float,
        *,
        low_ns: float,
        high_ns: float,
        high_ratio: float,
        low_dwell_s: float,
        high_dwell_s: float,
    ) -> str:
        low = f"{format_ns(low_ns)} for {format_ns(low_dwell_s * 1e9)}"
        high = f"{format_ns(high_ns)} for {format_ns(high_dwell_s * 1e9)} at a time"
        share = f"{format_percent(high_ratio)} of the inferences on the higher level"
        return f"switching between {low} and {high}; {share}"

    @reason("too_few", advice.longer)
    @staticmethod
    def too_few(value: float, limit: float, *, count: int) -> str:
        return f"{count} queries are too few to detect a steady state"

    def check(self, evidence: Evidence) -> Ruling:
        steady, first = evidence.measured.steady, evidence.measured.first_row
        if steady.steady_class is None:
            return unknown(self.too_few(count=evidence.worker.query_count))
        levels = evidence.measured.stability.levels
        if steady.steady_class is SteadyClass.SWITCHING and levels is not None:
            switching = self.levels(
                low_ns=levels.low_ns,
                high_ns=levels.high_ns,
                high_ratio=levels.high_ratio,
                low_dwell_s=levels.low_dwell_s,
                high_dwell_s=levels.high_dwell_s,
            )
            ruling = holds(False, switching, value=first, unit="count")
            is_rare = min(levels.high_ratio, 1 - levels.high_ratio) < RARE_LEVEL_RATIO
            return replace(ruling, harms=LOOP - {NumberKind.MEDIAN}) if is_rare else ruling
        if (range_ratio := drift_ratio(steady)) is not None:
            is_slower = steady.steady_class is SteadyClass.SLOWDOWN
            # The interval within a run does not cover a level that the run has just begun to
            # leave; the interval between several runs includes the drift.
            limit = LEVEL_LIMIT_RATIO if evidence.is_of_several else DELTA_RATIO
            found = self.slower() if is_slower else self.unsteady()
            ruling = at_most(range_ratio, limit, "ratio", found)
            # `set_drift` detects runs of a set that all change at the end.
            is_median_kept = evidence.is_of_several and _most_agree(
                evidence.measured.stability, evidence.measured.invoke.p50
            )
            return replace(ruling, harms=LOOP - {NumberKind.MEDIAN}) if is_median_kept else ruling
        kinds = {SteadyClass.FLAT: self.flat, SteadyClass.WARMUP: self.warmup}
        kind = kinds.get(steady.steady_class)
        found = self.switching() if kind is None else kind()
        return holds(kind is not None, found, value=first, unit="count")


class SteadyShareRule(Rule[Evidence]):
    """The detected warm-up takes less than half of the timed inferences."""

    id, severity = "steady_share", SUSPECT
    cause = Cause.WARMING_UP
    effect_of = DISTURBANCES
    harms = LOOP
    advise = advice.warm_up

    @reason("")
    @staticmethod
    def counted(value: float, limit: float) -> str:
        share = f"{format_percent(value, 1)} of the timed inferences ran after the detected warm-up"
        return f"{share}, at least {format_percent(limit)} needed"

    def check(self, evidence: Evidence) -> Ruling:
        issued, counted = evidence.issued_rows, len(evidence.measured.invoke_ns)
        share = counted / issued if issued else 0.0
        return at_least(share, STEADY_LIMIT_RATIO, "ratio", self.counted())


class _PrecisionRule(Rule[Evidence]):
    """The interval of the median is narrow enough."""

    advise = advice.longer
    no_interval = plain(
        "no_interval", "too few independent queries for a confidence interval of p50"
    )
    in_set = plain(
        "in_set",
        "the run is part of a set, whose confidence interval over the runs is checked instead",
    )
    profiled = plain("profiled", "the run measures the times of operators, not the latency")
    width = plain(
        "",
        lambda value, limit: (
            f"p50 ±{format_percent(value, 2)} (95 % CI), limit {format_percent(limit)}"
        ),
    )

    worth = plain(
        "worth",
        lambda value, limit: (
            f"p50 is based on the equivalent of {value:.0f} independent queries, at least "
            f"{limit:.0f} needed"
        ),
    )


class PrecisionFloorRule(_PrecisionRule):
    """The interval of the median is narrow enough for a valid run."""

    id, severity, includes = "precision_floor", INVALID, "precision"
    cause = Cause.VARIATION
    effect_of = SLOWDOWNS

    def check(self, evidence: Evidence) -> Ruling:
        if evidence.record.spec.is_profiled:
            return not_applicable(self.profiled())
        half_width = _half_width_ratio(evidence)
        if half_width is None:
            return unknown(self.no_interval())
        return at_most(half_width, PRECISION_INVALID_RATIO, "ratio", self.width())


class PrecisionRule(_PrecisionRule):
    """The interval of the median is narrow enough for a comparison.

    The rule does not apply to a run that is one of several, for which the spread between runs
    counts.
    """

    id, severity = "precision", SUSPECT
    cause = Cause.VARIATION
    effect_of = SLOWDOWNS
    harms = LATENCIES
    few_queries = plain(
        "few_queries",
        lambda value, limit: f"{value:.0f} queries were counted, at least {limit:.0f} needed",
        cause=Cause.TOO_SHORT,
    )

    def check(self, evidence: Evidence) -> Ruling:
        if evidence.is_of_several:
            return not_applicable(self.in_set())
        if evidence.record.spec.is_profiled:
            return not_applicable(self.profiled())
        headline = _headline(evidence)
        half_width, count = _half_width_ratio(evidence), headline.effective_count
        if headline.count < MIN_EFFECTIVE_COUNT:
            return at_least(headline.count, MIN_EFFECTIVE_COUNT, "count", self.few_queries())
        if half_width is None:
            return holds(False, self.no_interval())
        if count is not None and count.p50 < MIN_EFFECTIVE_COUNT:
            return at_least(count.p50, MIN_EFFECTIVE_COUNT, "count", self.worth())
        return at_most(half_width, PRECISION_SUSPECT_RATIO, "ratio", self.width())


def _headline(evidence: Evidence) -> LatencySummary:
    """Latencies of inferences if the scenario has a single query at a time; else of queries."""
    measured = evidence.measured
    is_single = evidence.record.spec.scenario.traits.is_single
    return measured.invoke if is_single or measured.query is None else measured.query


def _half_width_ratio(evidence: Evidence) -> float | None:
    """Half-width of the median's interval, relative to the median; None without an interval."""
    headline = _headline(evidence)
    if headline.p50 is None or headline.p50_ci95 is None:
        return None
    return (headline.p50_ci95[1] - headline.p50_ci95[0]) / 2 / max(headline.p50, 1)


class SpreadRule(Rule[Evidence]):
    """Most invocations take about the same time."""

    id, severity = "spread", SUSPECT
    cause = Cause.VARIATION
    effect_of = SLOWDOWNS
    harms = LATENCIES
    advise = advice.alone
    quartiles = plain(
        "",
        lambda value, limit: (
            f"interquartile range {format_percent(value, 1)} of the median, limit "
            f"{format_percent(limit)}"
        ),
    )

    def check(self, evidence: Evidence) -> Ruling:
        iqr_ratio = evidence.measured.stability.iqr_ratio
        return at_most(iqr_ratio, SPREAD_LIMIT_RATIO, "ratio", self.quartiles())


class BlockStabilityRule(Rule[Evidence]):
    """Each tenth of the run has about the same median.

    If the medians of all but a few blocks agree, the run's median is not harmed. Like a rare level,
    the few other blocks shift the run's median by only a few percentiles of the blocks that agree.
    """

    id, severity = "block_stability", SUSPECT
    cause = Cause.VARIATION
    effect_of = SLOWDOWNS
    harms = LOOP
    advise = advice.alone_or_longer
    medians = plain(
        "",
        lambda value, limit: (
            f"medians of ten blocks range over {format_percent(value, 1)} of the median, "
            f"limit {format_percent(limit)}"
        ),
    )

    @reason("too_few")
    @staticmethod
    def too_few(value: float, limit: float, *, count: int) -> str:
        return f"{count} inferences are too few for ten blocks"

    def check(self, evidence: Evidence) -> Ruling:
        stability = evidence.measured.stability
        if stability.block_range_ratio is None:
            return unknown(self.too_few(count=len(evidence.measured.invoke_ns)))
        ruling = at_most(stability.block_range_ratio, BLOCK_LIMIT_RATIO, "ratio", self.medians())
        if _most_agree(stability, evidence.measured.invoke.p50):
            return replace(ruling, harms=LOOP - {NumberKind.MEDIAN})
        return ruling


def _most_agree(stability: Stability, median_ns: float | None) -> bool:
    """Whether the medians of at least three quarters of the blocks are close together."""
    ordered = sorted(stability.block_p50_ns)
    kept_count = len(ordered) - int(RARE_LEVEL_RATIO * len(ordered))
    ranges = (high - low for low, high in zip(ordered, ordered[kept_count - 1 :], strict=False))
    return min(ranges, default=math.inf) <= BLOCK_LIMIT_RATIO * max(median_ns or 0.0, 1.0)


LATENCY_RULES: tuple[Rule[Evidence], ...] = (
    WorkerProfileRule(),
    HarnessDominatesRule(),
    HarnessShareRule(),
    BindingShareRule(),
    SteadyStateRule(),
    SteadyShareRule(),
    PrecisionFloorRule(),
    PrecisionRule(),
    SpreadRule(),
    BlockStabilityRule(),
)
"""The rules, in the order in which a person should read them."""
