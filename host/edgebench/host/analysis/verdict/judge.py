"""Can the number be trusted? Each rule looks at one thing and says pass, fail or unknown.

A rule that fails makes a run invalid or suspect, as its `severity` says; an unknown one leaves
it as it is, but is shown.
"""

from __future__ import annotations

from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.table import RULES
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict


def judge(evidence: Evidence) -> Verdict:
    """Apply every rule."""
    results = tuple(
        Finding(id=name, outcome=_outcome(passed), severity=severity, detail=detail)
        for name, severity, rule in RULES
        for passed, detail in [rule(evidence)]
    )
    failed = {rule.severity for rule in results if rule.outcome is RuleOutcome.FAIL}
    worst = next((state for state in (State.INVALID, State.SUSPECT) if state in failed), None)
    return Verdict(state=worst or State.VALID, rules=results)


def _outcome(passed: bool | None) -> RuleOutcome:
    if passed is None:
        return RuleOutcome.UNKNOWN
    return RuleOutcome.PASS if passed else RuleOutcome.FAIL
