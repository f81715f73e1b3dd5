"""Diagnosis of a verdict, which groups its failed rules by cause.

On a busy machine, for example, six rules fail. Two of them show the other programs, and four show
the effect of these programs on the latency. A person needs the cause once, with the strongest
evidence and a step that removes the cause. So each failed rule belongs to exactly one cause,
usually its own. A rule that also fails as an effect (`Rule.effect_of`) belongs to another cause if
other failed rules show that cause. If rules failed in only a few runs of a set, and the other runs
outvote these runs, the rules harm no number and belong to no cause.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from edgebench.host.analysis.verdict.cause import MENDED_AFTER, SLOWDOWNS, UNEXPLAINED, Cause
from edgebench.host.analysis.verdict.table import BY_ID, cause_of, kind_of
from edgebench.host.result.verdict import CauseSummary, Finding, State, Verdict


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A cause, and the failed rules that it explains."""

    cause: Cause | None
    """Cause of the rules; None for a rule of a newer or older version, whose cause is unknown."""
    evidence: tuple[Finding, ...]
    """Failed rules that show the cause, the strongest evidence first."""
    effects: tuple[Finding, ...] = ()
    """Failed rules that the cause explains."""

    @property
    def title(self) -> str:
        """The cause in a few words; the name of the rule if its cause is unknown."""
        return self.evidence[0].id if self.cause is None else self.cause.title

    @property
    def summary(self) -> CauseSummary:
        """Ids of the cause and of its rules, for run.json."""
        return CauseSummary(
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
        return any(map(_refuses, self.findings))


def diagnose(verdict: Verdict) -> tuple[Diagnosis, ...]:
    """The causes of a verdict's failed rules, in the order in which to remove them.

    Of two causes, the first of these criteria that distinguishes them decides:

    1. A device or meter that is not real comes last, unless this cause makes the result invalid.
       The user chose the device or meter.
    2. A cause that makes the result invalid comes first.
    3. An unexplained cause comes after explained causes: no step against it is certain to help.
    4. A cause that slowed only few runs of a set comes after other causes.
    5. A cause in `MENDED_AFTER` comes after the cause that `MENDED_AFTER` maps it to.
    6. The cause that explains most rules comes first.
    """
    failures = [finding for finding in verdict.failures if finding.harmed]
    causes = {finding.id: cause_of(finding) for finding in failures}
    placed: dict[Cause | None, tuple[list[Finding], list[Finding]]] = {}
    for finding in failures:
        root = _root(finding, failures, causes)
        evidence, effects = placed.setdefault(root, ([], []))
        (evidence if causes[finding.id] is root else effects).append(finding)
    diagnoses = [
        Diagnosis(cause, tuple(sorted(evidence, key=_weakness)), tuple(effects))
        for cause, (evidence, effects) in placed.items()
    ]
    return tuple(sorted(diagnoses, key=lambda diagnosis: _urgency(diagnosis, placed)))


def excess(finding: Finding) -> float:
    """Distance between a finding's value and limit, relative to the limit; 0 without a limit."""
    if not finding.limit or finding.value is None:
        return 0.0
    return abs(finding.value - finding.limit) / abs(finding.limit)


def _root(
    finding: Finding, failures: Sequence[Finding], causes: Mapping[str, Cause | None]
) -> Cause | None:
    """Cause that a failed rule is attributed to, found by following `effect_of` of the rules."""
    rule, kind = BY_ID.get(finding.id), kind_of(finding)
    if rule is None:
        return None
    effect_of = rule.effect_of if kind is None or kind.effect_of is None else kind.effect_of
    showing: dict[Cause, list[Finding]] = {}
    for cause in Cause:
        others = [other for other in failures if causes[other.id] is cause]
        if cause is not causes[finding.id] and cause in effect_of and others:
            showing[cause] = others
    if not showing:
        return causes[finding.id]
    # A finding that makes the result invalid is attributed to a cause that also does so, if any is
    # shown; and a finding in most runs of a set is not attributed to a cause that few runs show.
    is_refusal = finding.severity is State.INVALID
    cause = min(
        showing,
        key=lambda cause: (
            is_refusal and not any(map(_refuses, showing[cause])),
            _is_rare(cause, showing[cause]),
        ),
    )
    # The failures that show this cause may themselves be effects of another cause that is shown.
    roots = [_root(other, failures, causes) for other in showing[cause]]
    return cause if cause in roots else roots[0]


def _refuses(finding: Finding) -> bool:
    """Whether a failed rule makes the result invalid."""
    return finding.severity is State.INVALID


def _is_rare(cause: Cause | None, findings: Sequence[Finding]) -> bool:
    """Whether a cause is of a temporary kind, and less than half of a set's runs show it.

    Other kinds of causes, such as a constant output, are checked in only some of the runs.
    """

    def is_of_few(finding: Finding) -> bool:
        counts = finding.in_runs
        return counts is not None and 2 * counts.failed_count < counts.of_count

    return cause in SLOWDOWNS - {Cause.STOPPED} and all(map(is_of_few, findings))


def _weakness(finding: Finding) -> tuple[bool, int, float]:
    """Sort key for the evidence of a cause; the strongest finding has the lowest key."""
    count = finding.in_runs.failed_count if finding.in_runs is not None else 0
    return finding.severity is not State.INVALID, -count, -excess(finding)


def _urgency(
    diagnosis: Diagnosis, causes: Collection[Cause | None]
) -> tuple[bool, bool, bool, bool, bool, int, int]:
    """Sort key for causes; the cause to be removed first has the lowest key."""
    cause, is_refusal = diagnosis.cause, diagnosis.is_refusal
    place = list(Cause).index(cause) if cause is not None else len(Cause)
    is_chosen = cause is Cause.NOT_REAL and not is_refusal
    is_unexplained = cause in UNEXPLAINED
    is_rare = _is_rare(cause, diagnosis.evidence or diagnosis.effects)
    has_earlier = cause in MENDED_AFTER and MENDED_AFTER[cause] in causes
    count = len(diagnosis.findings)
    return is_chosen, not is_refusal, is_unexplained, is_rare, has_earlier, -count, place
