"""Diagnosis of a verdict: the failed rules by their cause.

A busy machine fails six rules: two show the other programs, and four show what they did to the
latency. A person needs the cause once, with the strongest evidence, and one step against it. So
each failed rule belongs to exactly one cause: its own, or, for a rule that also fails as an effect
(`Rule.effect_of`), a cause that other failed rules show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.table import BY_ID, cause_of, kind_of
from edgebench.host.result.verdict import Finding, FoundCause, State, Verdict


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A cause, and the failed rules that it explains."""

    cause: Cause | None
    """None for a rule of a newer or older version, whose cause is unknown."""
    evidence: tuple[Finding, ...]
    """Failed rules that show the cause, the strongest first."""
    effects: tuple[Finding, ...] = ()
    """Failed rules that the cause explains."""

    @property
    def title(self) -> str:
        """The cause in a few words; the name of the rule if its cause is unknown."""
        return self.findings[0].id if self.cause is None else self.cause.title

    @property
    def summary(self) -> FoundCause:
        """Ids of the cause and of its rules, for run.json."""
        return FoundCause(
            cause="unknown" if self.cause is None else self.cause.value,
            rules=tuple(finding.id for finding in self.evidence),
            effects=tuple(finding.id for finding in self.effects),
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All failed rules of the cause, its evidence first."""
        return (*self.evidence, *self.effects)

    @property
    def is_refusal(self) -> bool:
        """Whether a rule of the cause makes the result invalid."""
        return any(finding.severity is State.INVALID for finding in self.findings)


def diagnose(verdict: Verdict, *, is_set: bool = False) -> tuple[Diagnosis, ...]:
    """The causes of a verdict's failed rules, the first to be mended first.

    A cause that makes the result invalid comes first, then the cause that explains most rules. A
    device or meter that is not real was chosen on purpose, and comes last unless it makes the
    result invalid.

    Args:
        verdict: The verdict.
        is_set: Whether the verdict is that of several runs, whose failures may be of different
            runs: one that was stopped then explains nothing about the others.
    """
    failures = [finding for finding in verdict.failures if finding.harmed]
    causes = {finding.id: cause_of(finding) for finding in failures}
    placed: dict[Cause | None, tuple[list[Finding], list[Finding]]] = {}
    for finding in failures:
        own = causes[finding.id]
        cause = _root(finding, failures, is_set=is_set)
        evidence, effects = placed.setdefault(cause, ([], []))
        (evidence if own is cause else effects).append(finding)
    found = [
        Diagnosis(cause, tuple(sorted(evidence, key=_weakness)), tuple(effects))
        for cause, (evidence, effects) in placed.items()
    ]
    return tuple(sorted(found, key=_urgency))


def _root(finding: Finding, failures: Sequence[Finding], *, is_set: bool) -> Cause | None:
    """Cause that a failed rule is attributed to; `effect_of` has no circles."""
    own = cause_of(finding)
    shown = {cause_of(one) for one in failures} - {own}
    if Cause.STOPPED in shown and not is_set:
        return Cause.STOPPED
    rule, kind = BY_ID.get(finding.id), kind_of(finding)
    # A reason with a cause of its own is evidence of it.
    if rule is None or (kind is not None and kind.cause is not None):
        return own
    explaining = next(
        (cause for cause in Cause if cause in rule.effect_of and cause in shown), None
    )
    if explaining is None:
        return own
    # Failures that show it may be effects themselves, of a cause that is shown, too.
    showing = (one for one in failures if cause_of(one) is explaining)
    roots = [_root(one, failures, is_set=is_set) for one in showing]
    return explaining if explaining in roots else roots[0]


def _weakness(finding: Finding) -> tuple[bool, int]:
    """Key that sorts the evidence of a cause: the strongest finding has the least key."""
    failed_count = finding.facts.get("failed_count")
    count = failed_count if isinstance(failed_count, int) else 0
    return finding.severity is not State.INVALID, -count


def _urgency(one: Diagnosis) -> tuple[bool, bool, int, int]:
    """Key that sorts causes: the one to be mended first has the least key."""
    is_chosen = one.cause is Cause.NOT_REAL and not one.is_refusal
    order = list(Cause).index(one.cause) if one.cause is not None else len(Cause)
    return is_chosen, not one.is_refusal, -len(one.findings), order
