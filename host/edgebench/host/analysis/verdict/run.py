"""Rules that a run must be complete, real, long enough, and fast enough for its queries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from edgebench.host.analysis.latency import early_stopping
from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.advice import Advice, Situation
from edgebench.host.analysis.verdict.cause import DISTURBANCES, Cause
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.rule import (
    INVALID,
    SUSPECT,
    EvidenceT,
    Rule,
    Ruling,
    at_least,
    holds,
    not_applicable,
    plain,
    reason,
    unknown,
)
from edgebench.host.result.units import format_ns
from edgebench.host.result.verdict import Finding
from edgebench.protocol.errors import ErrorCode
from edgebench.protocol.percent import format_percent
from edgebench.protocol.record import TOO_HOT, Outcome
from edgebench.protocol.spec import MLPERF_PRESET, Engine, samples_per_query

COUNTED = "counts of instructions are reproducible to the counter's resolution: one run is enough"


@advice.Advise
def _half_of_arrivals(to: Situation) -> Advice:
    requested_qps = to.given.value("target_qps")
    changes: dict[str, Any] = (
        {} if requested_qps is None else {"target_qps": fewer_qps(requested_qps, 0.0)}
    )
    words = [] if changes else ["--qps", "N"]
    return advice.do("send fewer queries: {}", to.given.bench(*words, **changes))


class RunEndRule(Rule[EvidenceT]):
    """The measurement ran to completion."""

    id, severity = "complete", INVALID
    cause = Cause.STOPPED
    advise = advice.again("let the run finish: {}")

    @reason("")
    @staticmethod
    def ended(value: float, limit: float, *, ended: str, why: str | None) -> str:
        return f"run {ended}"

    @reason("why")
    @staticmethod
    def ended_for(value: float, limit: float, *, ended: str, why: str | None) -> str:
        return f"run {ended}: {why}"

    @reason("too_hot", advice.cool, Cause.HEAT)
    @staticmethod
    def too_hot(value: float, limit: float, *, ended: str, why: str | None) -> str:
        return f"run {ended}: {why}"

    @reason("still_waiting", _half_of_arrivals, Cause.ARRIVALS, DISTURBANCES - {Cause.STOPPED})
    @staticmethod
    def still_waiting(value: float, limit: float, *, ended: str, why: str | None) -> str:
        return f"run {ended}: {why}"

    @classmethod
    def was_stopped(cls, finding: Finding) -> bool:
        """Whether the finding states that a run was interrupted without a recorded reason."""
        ended, why = finding.facts.get("ended"), finding.facts.get("why")
        return finding.id == cls.id and ended == Outcome.INTERRUPTED.value and why is None

    def ruling(self, outcome: Outcome, why: str | None) -> Ruling:
        """The ruling on a run that ended with this outcome.

        Args:
            outcome: How the run ended.
            why: Reason of the outcome; None if the record has none.
        """
        kind = self.ended_for if why else self.ended
        return holds(outcome is Outcome.COMPLETED, kind(ended=outcome.value, why=why))


class CompleteRule(RunEndRule[Evidence]):
    """The measurement ran to completion."""

    def check(self, evidence: Evidence) -> Ruling:
        record = evidence.record
        hot = next((event.detail for event in record.events if event.kind == TOO_HOT), None)
        if hot is not None and record.outcome is not Outcome.COMPLETED:
            return holds(False, self.too_hot(ended=record.outcome.value, why=hot))
        why = hot
        # A lost device is not a property of the run: the run is repeated like an interrupted run.
        if why is None and record.error_code not in (0, ErrorCode.DEVICE_GONE):
            why = record.error
        longest_s = record.spec.max_duration_s
        is_cut = record.outcome is Outcome.INTERRUPTED and evidence.is_scheduled
        if is_cut and why is None and longest_s is not None and evidence.loop_s >= longest_s:
            waiting = f"queries were still waiting at the run's maximum duration of {longest_s:g} s"
            return holds(False, self.still_waiting(ended=record.outcome.value, why=waiting))
        return self.ruling(record.outcome, why)


class RealProcessorRule(Rule[EvidenceT]):
    """The CPU is real, because times on an emulated CPU are meaningless.

    Virtual machines and containers run their code on the real CPU, so the reason names them, and
    the rule passes. Other rules detect load that shares the CPU (time that a hypervisor takes
    counts as time of other processes).
    """

    id, severity = "real_time", INVALID
    cause = Cause.NOT_REAL
    advise = advice.again("measure on a real CPU: {}", "--on", "DEVICE")
    real = plain("", "the CPU is real")
    emulated = plain("emulated", "the CPU is emulated: its times are meaningless")

    @reason("behind")
    @staticmethod
    def behind(value: float, limit: float, *, layers: str) -> str:
        return f"the CPU is real; the run was made in {layers}"


class RealTimeRule(RealProcessorRule[Evidence]):
    """The CPU is real, because times on an emulated CPU are meaningless.

    Virtual machines and containers run their code on the real CPU, so the reason names them, and
    the rule passes. Other rules detect load that shares the CPU (time that a hypervisor takes
    counts as time of other processes).
    """

    def check(self, evidence: Evidence) -> Ruling:
        if evidence.record.emulated:
            return holds(False, self.emulated())
        layers = evidence.record.environment.virtualization
        return holds(True, self.behind(layers=layers) if layers else self.real())


class NoSimulationRule(Rule[EvidenceT]):
    """The device is not simulated."""

    id, severity = "real_device", SUSPECT
    cause = Cause.NOT_REAL
    advise = advice.again("measure on a real device: {}", "--on", "DEVICE")
    real = plain("", "the device is real")
    simulated = plain("simulated", "the device is simulated, and so are its times")


class RealDeviceRule(NoSimulationRule[Evidence]):
    """The device is not simulated."""

    def check(self, evidence: Evidence) -> Ruling:
        is_simulated = evidence.record.simulated
        return holds(not is_simulated, self.simulated() if is_simulated else self.real())


class QueryCountRule(Rule[EvidenceT]):
    """As many queries as requested were issued. Another rule judges the queries lost to warm-up."""

    id, severity = "enough_queries", INVALID
    cause = Cause.TOO_SHORT
    effect_of = frozenset({Cause.STOPPED, Cause.HEAT, Cause.ARRIVALS})
    advise = advice.longer

    @reason("")
    @staticmethod
    def issued(value: float, limit: float, *, counted: str) -> str:
        return f"{value:.0f} {counted}, at least {limit:.0f} needed"

    @reason("max_duration")
    @staticmethod
    def cut_off(value: float, limit: float, *, counted: str, max_duration_s: float) -> str:
        return (
            f"{value:.0f} {counted}, at least {limit:.0f} needed: the run ended at its maximum of "
            f"{max_duration_s:g} s"
        )

    @cut_off.advice
    @staticmethod
    def _(value: float, to: Situation, *, counted: str, max_duration_s: float) -> Advice:
        more = to.given.bench(max_duration_s=to.given.more("max_duration_s", 3600.0))
        done = max(1, int(value * (to.given.value("runs") or 1)))
        text = "allow more time, or request fewer queries: {}, or --min-queries {}"
        return advice.do(text, more, done)


class EnoughQueriesRule(QueryCountRule[Evidence]):
    """As many queries as requested were issued. Another rule judges the queries lost to warm-up."""

    def check(self, evidence: Evidence) -> Ruling:
        spec = evidence.record.spec
        count, least = evidence.issued_rows // samples_per_query(spec), spec.min_query_count
        found = self.issued(counted=spec.scenario.traits.counted)
        # A complete run can have too few queries only because of its maximum duration.
        is_cut = evidence.record.outcome is Outcome.COMPLETED and count < least
        if is_cut and spec.max_duration_s is not None:
            found = self.cut_off(
                counted=spec.scenario.traits.counted, max_duration_s=spec.max_duration_s
            )
        return at_least(count, least, "count", found)


class DurationRule(Rule[EvidenceT]):
    """The timed loop took at least the requested duration."""

    id, severity = "enough_time", INVALID
    cause = Cause.TOO_SHORT
    effect_of = frozenset({Cause.STOPPED, Cause.HEAT, Cause.ARRIVALS})
    advise = advice.longer
    took = plain("", lambda value, limit: f"run of {value:.3f} s, at least {limit:g} s needed")

    @reason("full")
    @staticmethod
    def full(value: float, limit: float, *, max_query_count: int) -> str:
        return f"run of {value:.3f} s, at least {limit:g} s or {max_query_count} inferences needed"

    @classmethod
    def is_full(cls, finding: Finding) -> bool:
        """Whether the finding states that a run ended at its maximum number of queries."""
        return finding.id == cls.id and finding.reason == cls.full.id


class EnoughTimeRule(DurationRule[Evidence]):
    """The timed loop took at least the requested duration."""

    def check(self, evidence: Evidence) -> Ruling:
        spec, took_s = evidence.record.spec, evidence.loop_s
        # MLPerf has no such maximum, and sustained performance depends on time.
        is_limited = not (spec.preset.startswith(MLPERF_PRESET) or spec.is_sustained)
        if is_limited and evidence.issued_rows >= spec.max_query_count:
            full = self.full(max_query_count=spec.max_query_count)
            return holds(True, full, value=took_s, limit=spec.duration_s, unit="s")
        return at_least(took_s, spec.duration_s, "s", self.took())


def fewer_qps(qps: float, per_s: float) -> float:
    """Rate of arrivals per second at which the device has idle time, rounded to two digits.

    The result is at most half of the run's arrival rate, which was too high, and at most four
    fifths of the completed queries per second.

    Args:
        qps: Arrival rate of the run, queries per second.
        per_s: Completed queries per second; 0 if unknown.
    """
    return float(f"{min(qps / 2, 0.8 * per_s if per_s > 0 else qps / 2):.2g}")


class KeepsUpRule(Rule[Evidence]):
    """A query takes less time than the interval between arrivals.

    Otherwise the queue grows until the run ends, and the latency reflects the length of the run.
    """

    id, severity = "keeps_up", INVALID
    cause = Cause.ARRIVALS
    effect_of = DISTURBANCES
    advise = _half_of_arrivals
    no_schedule = plain("no_schedule", "queries are not scheduled")

    @reason("")
    @staticmethod
    def busy(value: float, limit: float, *, mean_ns: float, qps: float) -> str:
        return (
            f"{format_ns(mean_ns)} per query at {qps:g} queries per second: the device is busy "
            f"for {format_percent(value, 1)} of the "
            f"time, limit {format_percent(limit)}"
        )

    @busy.advice
    @staticmethod
    def _(value: float, to: Situation, *, mean_ns: float, qps: float) -> Advice:
        fewer = fewer_qps(qps, qps / value if value else 0.0)
        return advice.do("send fewer queries: {}", to.given.bench(target_qps=fewer))

    def check(self, evidence: Evidence) -> Ruling:
        spec = evidence.record.spec
        if not evidence.is_scheduled or spec.target_qps is None:
            return not_applicable(self.no_schedule())
        mean_ns = float(np.mean(evidence.measured.invoke_ns))
        share = mean_ns * spec.target_qps / 1e9
        found = self.busy(mean_ns=mean_ns, qps=spec.target_qps)
        return holds(share < 1, found, value=share, limit=1.0, unit="ratio")


class LatencyTargetRule(Rule[Evidence]):
    """The server scenario met its target latency."""

    id, severity = "latency_target", INVALID
    cause = Cause.ARRIVALS
    effect_of = DISTURBANCES
    advise = _half_of_arrivals
    no_target = plain("no_target", "no target latency was requested")
    known_to_loadgen = plain(
        "known_to_loadgen", "only LoadGen's log has the scheduled times of the queries"
    )

    @reason("")
    @staticmethod
    def met(
        value: float, limit: float, *, count: int, target_s: float, target_percentile: float
    ) -> str:
        met = f"p{100 * target_percentile:g} meets the target, with 99 % confidence"
        return f"{_over(value, count, target_s)}: {met}"

    @reason("too_few")
    @staticmethod
    def too_few(
        value: float,
        limit: float,
        *,
        needed: int,
        count: int,
        target_s: float,
        target_percentile: float,
    ) -> str:
        return (
            f"{_over(value, count, target_s)}: too few queries to decide whether "
            f"p{100 * target_percentile:g} meets the target; {needed} are enough"
        )

    @too_few.advice
    @staticmethod
    def _(
        value: float,
        to: Situation,
        *,
        needed: int,
        count: int,
        target_s: float,
        target_percentile: float,
    ) -> Advice:
        all_needed = needed * (to.given.value("runs") or 1)
        enough = math.ceil(max(all_needed, to.given.more("min_query_count", 10_000)))
        return advice.do("measure more queries: {}", to.given.bench(min_query_count=enough))

    @reason("missed")
    @staticmethod
    def missed(
        value: float,
        limit: float,
        *,
        p99_ns: float | None,
        per_s: float,
        qps: float | None,
        count: int,
        target_s: float,
        target_percentile: float,
    ) -> str:
        p99 = "" if p99_ns is None else f", p99 is {format_ns(p99_ns)}"
        done = f"{per_s:.4g} of {qps or 0:g} queries per second were completed"
        return f"{_over(value, count, target_s)}{p99}; {done}"

    @missed.advice
    @staticmethod
    def _(
        value: float,
        to: Situation,
        *,
        p99_ns: float | None,
        per_s: float,
        qps: float | None,
        count: int,
        target_s: float,
        target_percentile: float,
    ) -> Advice:
        fewer = to.given.bench(target_qps=fewer_qps(qps or 0.0, per_s))
        later_ms = math.ceil(1e3 * max(2 * target_s, 1.1e-9 * (p99_ns or 0.0)))
        text = "send fewer queries, or allow a longer latency: {}, or --target-latency {}ms"
        return advice.do(text, fewer, later_ms)

    def check(self, evidence: Evidence) -> Ruling:
        spec, estimate = evidence.record.spec, evidence.measured.early_stopping
        if not evidence.is_scheduled or spec.target_latency_s is None:
            return not_applicable(self.no_target())
        if estimate.is_target_met is None:
            return unknown(self.known_to_loadgen())
        over, count = estimate.over_latency_count or 0, evidence.measured.query_count
        target_s, percentile = spec.target_latency_s, spec.target_percentile
        latency, found = evidence.measured.query, None
        if estimate.is_target_met:
            found = self.met(count=count, target_s=target_s, target_percentile=percentile)
        elif over <= (1 - percentile) * count:
            found = self.too_few(
                needed=over + early_stopping.min_under_latency_count(over, percentile),
                count=count,
                target_s=target_s,
                target_percentile=percentile,
            )
        else:
            found = self.missed(
                p99_ns=latency.p99 if latency else None,
                per_s=count / evidence.loop_s if evidence.loop_s > 0 else 0.0,
                qps=spec.target_qps,
                count=count,
                target_s=target_s,
                target_percentile=percentile,
            )
        return holds(estimate.is_target_met, found, value=over, unit="count")


def _over(value: float, count: int, target_s: float) -> str:
    """Text that states how many queries took longer than the target."""
    return f"{value:.0f} of {count} queries took longer than {format_ns(target_s * 1e9)}"


class LoadgenRule(Rule[Evidence]):
    """LoadGen itself declares its run valid."""

    id, severity = "loadgen", INVALID
    cause = Cause.TOO_SHORT
    advise = advice.more(
        "read the reason in the run's raw/ directory; if the run was too short, measure for "
        "longer: {}",
        "duration_s",
        600.0,
    )
    native = plain("native", "the queries were issued by the timed loop")
    no_result = plain("no_result", "LoadGen wrote no result")

    @reason("")
    @staticmethod
    def declared(value: float, limit: float, *, why: str | None) -> str:
        return "LoadGen declares the run VALID"

    @reason("why")
    @staticmethod
    def declared_for(value: float, limit: float, *, why: str | None) -> str:
        return f"LoadGen declares the run INVALID: {why}"

    def check(self, evidence: Evidence) -> Ruling:
        result = evidence.measured.loadgen
        if evidence.record.spec.engine is not Engine.LOADGEN:
            return not_applicable(self.native())
        if result is None:
            return holds(False, self.no_result())
        kind = self.declared_for if result.invalid_reason else self.declared
        return holds(result.is_valid, kind(why=result.invalid_reason))


RUN_RULES: tuple[Rule[Evidence], ...] = (
    CompleteRule(),
    RealTimeRule(),
    RealDeviceRule(),
    EnoughQueriesRule(),
    EnoughTimeRule(),
    KeepsUpRule(),
    LatencyTargetRule(),
    LoadgenRule(),
)
"""The rules, in the order in which a person should read them."""
