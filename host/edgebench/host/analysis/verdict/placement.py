"""Rules about whether the model ran on the requested delegate or elsewhere."""

from __future__ import annotations

from edgebench.host.analysis.delegates import delegated_count, operator_places, plain_name
from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.advice import Advice, Situation
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.rule import (
    INVALID,
    SUSPECT,
    Rule,
    Ruling,
    at_least,
    holds,
    not_applicable,
    plain,
    reason,
    unknown,
)
from edgebench.host.options.command import NextStep, command
from edgebench.protocol.percent import format_percent
from edgebench.protocol.record import WorkerRecord

DELEGATED_LIMIT_RATIO = 0.5
"""Minimum share of operators on the delegate for a run to be a measurement of the delegate."""


def _other_delegate(to: Situation) -> Advice:
    listed = NextStep("see which delegates the device has: {}", command("devices"))
    without = to.given.bench(without=("delegate",))
    return Advice((listed, NextStep("measure without a delegate: {}", without)))


class DelegationRule(Rule[Evidence]):
    """If a delegate was requested, it was used."""

    id, severity, includes = "delegation", INVALID, "delegated_share"
    cause = Cause.NOT_APPLIED
    advise = advice.Advise(_other_delegate)

    @reason("")
    @staticmethod
    def requested(value: float, limit: float, *, asked: str, ran: str) -> str:
        return f"requested {asked}, {ran}"

    @reason("not_asked")
    @staticmethod
    def not_requested(value: float, limit: float, *, asked: str, ran: str) -> str:
        return f"no delegate was requested, {ran}"

    @reason("not_told")
    @staticmethod
    def not_reported(value: float, limit: float, *, asked: str, ran: str) -> str:
        return f"requested {asked}, {ran}; the runtime does not report whether it used the delegate"

    def check(self, evidence: Evidence) -> Ruling:
        runtime = evidence.worker.runtime
        names = [name for name in runtime.delegates_requested if name != "none"]
        asked, ran = ", ".join(names), _placement_text(evidence.worker)
        if not names:
            return not_applicable(self.not_requested(asked=asked, ran=ran))
        places = set(operator_places(evidence.worker))
        used = {plain_name(name) for name in (*runtime.delegates_used, *places)}
        missing = [name for name in names if plain_name(name) not in used]
        # The interpreter does not list the operators of a signature's graph.
        is_listed = places or evidence.record.spec.signature is None
        if missing and is_listed and (places or not all("/" in name for name in missing)):
            return holds(False, self.requested(asked=asked, ran=ran))
        if missing or not places:
            return unknown(self.not_reported(asked=asked, ran=ran))
        return holds(True, self.requested(asked=asked, ran=ran))


class DelegatedShareRule(Rule[Evidence]):
    """Most operators of the model ran on the requested delegate."""

    id, severity = "delegated_share", SUSPECT
    cause = Cause.NOT_APPLIED
    advise = advice.again("see which operators stay on the CPU: {}", is_profiled=True)
    not_requested = plain("not_asked", "no delegate was requested")
    not_reported = plain("not_told", "the runtime does not report where its operators ran")

    @reason("")
    @staticmethod
    def share(value: float, limit: float, *, count: int, total: int) -> str:
        return (
            f"{count} of {total} operators ran on the delegate, at least "
            f"{format_percent(limit)} needed"
        )

    def check(self, evidence: Evidence) -> Ruling:
        requested = evidence.worker.runtime.delegates_requested
        asked = {plain_name(name) for name in requested if name != "none"}
        if not asked:
            return not_applicable(self.not_requested())
        counts = delegated_count(evidence.worker, asked)
        if counts is None:
            return unknown(self.not_reported())
        count, total = counts
        share = count / total if total else 0.0
        return at_least(share, DELEGATED_LIMIT_RATIO, "ratio", self.share(count=count, total=total))


def _placement_text(worker: WorkerRecord) -> str:
    """Number of operators per place (CPU or delegate), if reported; else names of delegates."""
    counts = operator_places(worker)
    if not counts:
        return f"used: {', '.join(worker.runtime.delegates_used) or 'none'}"
    total = sum(counts.values())
    places = ", ".join(f"{place} {count}" for place, count in counts.items())
    return f"of {total} operators: {places}"


PLACEMENT_RULES: tuple[Rule[Evidence], ...] = (DelegationRule(), DelegatedShareRule())
"""The rules, in the order in which a person should read them."""
