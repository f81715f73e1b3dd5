"""A line for every finding of the rules; each rule has the sentences of its reasons."""

from __future__ import annotations

from dataclasses import replace

from edgebench.host.analysis.verdict.table import kind_of
from edgebench.host.result.units import ABSENT
from edgebench.host.result.verdict import Finding, Verdict


def sentence(finding: Finding) -> str:
    """A finding in one line: what was found, and the limit.

    It is made of the finding's data. Findings of older documents have none, and those of a newer
    edgebench may have reasons that this one does not know: they keep the line that they were
    stored with, and so does one whose data is damaged.
    """
    kind = kind_of(finding)
    shown = (kind.sentence(finding) if kind is not None else None) or finding.detail or ABSENT
    failed_count, of_count = finding.facts.get("failed_count"), finding.facts.get("of_count")
    if failed_count is None:
        return shown
    if failed_count == 1:
        return f"in 1 of {of_count} runs {shown}"
    which = "the worst" if finding.facts.get("is_worst") else "one"
    return f"in {failed_count} of {of_count} runs, in {which} of them {shown}"


def described(verdict: Verdict) -> Verdict:
    """A verdict whose findings have their sentences, for those who read the document."""
    rules = tuple(replace(one, detail=sentence(one)) for one in verdict.rules)
    return replace(verdict, rules=rules)
