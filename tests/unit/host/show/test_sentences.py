"""Sentences of findings: every reason has a sentence; unreadable findings keep their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.findings import some_facts

from edgebench.host.analysis.verdict.rule import Rule
from edgebench.host.analysis.verdict.table import ALL_RULES, BY_ID, RULES
from edgebench.host.result.units import ABSENT
from edgebench.host.result.verdict import Finding, RuleOutcome, State
from edgebench.host.show.sentences import sentence


@pytest.mark.parametrize("outcome", RuleOutcome)
@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_every_reason_has_a_sentence(rule: Rule[Any], outcome: RuleOutcome) -> None:
    """Otherwise a rare run would have a finding that cannot be printed."""
    found = {
        kind.id: sentence(
            Finding(
                id=rule.id,
                outcome=outcome,
                severity=State.SUSPECT,
                value=0.25,
                limit=0.5,
                unit="ratio",
                reason=kind.id or None,
                facts=some_facts(kind),
            )
        )
        for kind in rule.reasons().values()
    }
    assert found
    assert {name: shown for name, shown in found.items() if not is_printable(shown)} == {}


def is_printable(shown: str) -> bool:
    """Whether a sentence was made, and from data that are there."""
    is_whole = shown != ABSENT and not {"{", "}", "\n"} & set(shown)
    return is_whole and "None" not in shown and "nan" not in shown.split()


def test_reasons_of_rules_of_one_name_are_read_as_one() -> None:
    """Otherwise a run of a device would be read with the reasons of a microcontroller only."""
    for rule in RULES:
        assert rule.reasons().keys() <= BY_ID[rule.id].reasons().keys(), rule.id


def test_sentence_that_was_stored_is_kept() -> None:
    """Otherwise a finding of an older version, which has no data, could not be printed."""
    older = Finding(
        id="a rule of the past",
        outcome=RuleOutcome.FAIL,
        severity=State.INVALID,
        detail="3 queries, at least 100",
    )
    assert sentence(older) == "3 queries, at least 100"


FAILED = Finding(
    id="complete", outcome=RuleOutcome.FAIL, severity=State.SUSPECT, detail="as it was"
)


@pytest.mark.parametrize(
    "finding",
    [
        replace(FAILED, reason="as_stored"),
        replace(FAILED, reason="from_the_future", facts={"ended": "done"}),
        replace(FAILED, id="rule_of_the_future", value=1.0),
        FAILED,
        replace(FAILED, id="precision", limit=0.05),
        replace(FAILED, id="thermal", facts={"onset_s": "soon"}),
    ],
    ids=["older", "newer reason", "newer rule", "fact is gone", "value is gone", "another type"],
)
def test_finding_that_cannot_be_put_into_words_keeps_its_own(finding: Finding) -> None:
    """Otherwise one older, newer or damaged finding would keep the whole run from being shown."""
    assert sentence(finding) == "as it was"
    assert sentence(replace(finding, detail="")) == ABSENT


def test_sentence_follows_from_the_data_and_not_from_the_document() -> None:
    """Otherwise an edit of a document's words would change what is shown."""
    finding = Finding(
        id="memory",
        outcome=RuleOutcome.PASS,
        severity=State.SUSPECT,
        value=2.0**26,
        limit=2.0**30,
        unit="bytes",
        detail="all is well",
    )
    assert sentence(finding) == "peak memory 64.0 MiB, available 1.00 GiB"
