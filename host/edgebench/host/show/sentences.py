"""Findings of the rules as lines of text; each rule defines the sentences for its reasons."""

from __future__ import annotations

from dataclasses import replace

from edgebench.host.analysis.verdict.diagnosis import diagnose
from edgebench.host.analysis.verdict.table import kind_of
from edgebench.host.result.units import ABSENT
from edgebench.host.result.verdict import Finding, Verdict


def sentence(finding: Finding) -> str:
    """A finding as a line of text: what was found, and the limit.

    The line is built from the finding's data. A finding keeps its stored line in these cases: the
    finding has no data, as in older documents; its data is damaged; or a newer edgebench wrote the
    finding, with a reason that is unknown here.
    """
    kind = kind_of(finding)
    shown = (kind.sentence(finding) if kind is not None else None) or finding.detail or ABSENT
    counts = finding.in_runs
    if counts is None or counts.of_count == 1:
        return shown
    count = f"in {counts.failed_count} of {counts.of_count} runs"
    outvoted = "; outvoted by the other runs" if counts.is_outvoted else ""
    if counts.failed_count == 1 or counts.is_same:
        return f"{count}: {shown}{outvoted}"
    which = "the worst" if counts.is_worst else "one of them"
    return f"{count}; in {which}, {shown}{outvoted}"


def is_counted(finding: Finding) -> bool:
    """Whether the sentence begins with the number of runs in which the rule failed."""
    return finding.in_runs is not None and finding.in_runs.of_count != 1


def described(verdict: Verdict) -> Verdict:
    """Copy of a verdict for JSON, with its causes and the sentence of each finding."""
    rules = tuple(replace(rule, detail=sentence(rule)) for rule in verdict.rules)
    causes = tuple(diagnosis.summary for diagnosis in diagnose(verdict))
    return replace(verdict, rules=rules, causes=causes)
