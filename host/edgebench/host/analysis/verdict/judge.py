"""Verdict on a run, a target or a set of runs. Each rule checks one condition.

A failed rule makes the run invalid or suspect, depending on the rule's `severity`. If the evidence
for a rule is missing, the outcome of the rule is "unknown", and this outcome is shown. If a rule
does not concern the run, the outcome is "not applicable".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.rule import EVERY_NUMBER, Rule, Ruling, WatchedQuantity
from edgebench.host.analysis.verdict.run import CompleteRule
from edgebench.host.analysis.verdict.run_set import SetEvidence
from edgebench.host.analysis.verdict.table import RULES, SET_RULES, TARGET_RULES
from edgebench.host.analysis.verdict.target import TargetEvidence
from edgebench.host.result.run import Failure
from edgebench.host.result.verdict import Finding, NumberKind, RuleOutcome, State, Verdict
from edgebench.protocol.record import Outcome

_UNSEEN = (RuleOutcome.UNKNOWN, RuleOutcome.NOT_APPLICABLE)


def judge(evidence: Evidence) -> Verdict:
    """Apply every rule for runs of a device with an agent."""
    return _judged([(rule, rule.check(evidence)) for rule in RULES])


def judge_target(evidence: TargetEvidence) -> Verdict:
    """Apply every rule for targets.

    For counts of instructions, no quantity is reported as unwatched, because neither clock nor heat
    changes the counts.
    """
    verdict = _judged([(rule, rule.check(evidence)) for rule in TARGET_RULES])
    return replace(verdict, unwatched=()) if evidence.is_counted else verdict


def judge_set(
    evidence: SetEvidence, of_runs: Iterable[Finding], unwatched: Iterable[str]
) -> Verdict:
    """Apply every rule for sets, and include the given findings of its runs.

    Args:
        evidence: Evidence of the set.
        of_runs: Failed rules of the set's runs.
        unwatched: Quantities that no rule could watch in some run. Quantities that a rule of the
            set watched are removed.
    """
    rulings = [(rule, rule.check(evidence)) for rule in SET_RULES]
    watched = {
        rule.watches.value
        for rule, ruling in rulings
        if rule.watches is not None and ruling.outcome not in _UNSEEN
    }
    own = (_finding(rule, ruling) for rule, ruling in rulings)
    return verdict_of([*own, *of_runs], (name for name in unwatched if name not in watched))


def verdict_of(findings: Iterable[Finding], unwatched: Iterable[str] = ()) -> Verdict:
    """Verdict with these findings; its state is the state of the most severe failed finding."""
    rules = tuple(findings)
    failed = {finding.severity for finding in rules if finding.outcome is RuleOutcome.FAIL}
    worst = next((state for state in (State.INVALID, State.SUSPECT) if state in failed), None)
    return Verdict(state=worst or State.VALID, rules=rules, unwatched=tuple(unwatched))


def _judged(rulings: Sequence[tuple[Rule[Any], Ruling]]) -> Verdict:
    watching: dict[WatchedQuantity, list[RuleOutcome]] = {}
    for rule, ruling in rulings:
        if rule.watches is not None:
            watching.setdefault(rule.watches, []).append(ruling.outcome)
    unwatched = (
        subject.value
        for subject in WatchedQuantity
        if subject in watching and all(one in _UNSEEN for one in watching[subject])
    )
    return verdict_of((_finding(rule, ruling) for rule, ruling in rulings), unwatched)


def judge_failure(failure: Failure) -> Verdict:
    """Verdict on a run without measurements: it is not complete, and no other rule applies."""
    rule = CompleteRule()
    return verdict_of([_finding(rule, rule.ruling(Outcome.FAILED, failure.message))])


def _finding(rule: Rule[Any], ruling: Ruling) -> Finding:
    return Finding(
        id=rule.id,
        outcome=ruling.outcome,
        severity=ruling.severity or rule.severity,
        value=_real(ruling.value),
        limit=_real(ruling.limit),
        unit=ruling.unit,
        reason=ruling.reason.id or None,
        facts=ruling.reason.facts,
        harms=_harms(rule, ruling),
    )


def _harms(rule: Rule[Any], ruling: Ruling) -> tuple[NumberKind, ...] | None:
    """Kinds of numbers (such as latencies) that a failure harms; None for all kinds."""
    severity, harms = ruling.severity or rule.severity, ruling.harms or rule.harms
    if ruling.outcome is not RuleOutcome.FAIL or severity is State.INVALID:
        return None
    return None if harms == EVERY_NUMBER else tuple(kind for kind in NumberKind if kind in harms)


def _real(number: float | None) -> float | None:
    """Number as a float, so that run.json has 64.0 both for a computed and for a stored count."""
    return None if number is None else float(number)
