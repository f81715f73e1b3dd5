"""Can the number be trusted? Each rule looks at one thing and says pass, fail or unknown.

A rule that fails makes a run invalid or suspect, as its `severity` says; an unknown one leaves
it as it is, but is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from edgebench.host.analysis.verdict.evidence import Evidence, State
from edgebench.host.analysis.verdict.table import RULES


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
