"""Advice: every rule has one, and its commands exist."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from edgebench.host.analysis.verdict.table import ALL_RULES
from edgebench.host.cli.main import COMMANDS
from edgebench.host.cli.options import options_of
from edgebench.host.result.verdict import Finding, RuleOutcome, State
from edgebench.host.show.advice import ADVICE, advice, without_repeats
from edgebench.host.show.sentences import SENTENCES, SENTENCES_OF_SETS

ALL_SENTENCES = {**SENTENCES, **SENTENCES_OF_SETS}
ADVICES = sorted({line for reasons in ADVICE.values() for line in reasons.values()})


def finding(rule: str, outcome: RuleOutcome, reason: str | None = None) -> Finding:
    """A finding without numbers."""
    return Finding(id=rule, outcome=outcome, severity=State.SUSPECT, reason=reason)


def test_every_rule_has_an_advice() -> None:
    """A rule is added, and whoever breaks it reads what is wrong, and not what to do."""
    assert ADVICE.keys() == ALL_SENTENCES.keys()
    assert ADVICE.keys() >= {rule.id for rule in ALL_RULES}
    for rule in ADVICE:
        assert advice(finding(rule, RuleOutcome.FAIL)) == ADVICE[rule][""]


@pytest.mark.parametrize("rule", ADVICE)
def test_every_reason_with_an_advice_is_one_of_the_rule(rule: str) -> None:
    """A reason is renamed, and its advice is never given again."""
    assert ADVICE[rule].keys() - {""} <= ALL_SENTENCES[rule].keys()


@pytest.mark.parametrize("line", ADVICES)
def test_commands_and_options_of_an_advice_exist(line: str) -> None:
    """An advice sends a person to a command or an option that there is not."""
    assert line[0].islower()
    assert not line.endswith(".")
    named = re.findall(r"edgebench (\w+)", line)
    assert set(named) <= COMMANDS.keys()
    known = {
        option
        for command in named or ["bench"]
        for option in options_of(import_module(f"edgebench.host.cli.{command}").parser())
    }
    assert set(re.findall(r"(?<![\w-])--[a-z-]+", line)) <= known


def test_run_that_ends_by_its_queries_is_not_told_to_be_longer() -> None:
    """A run of a tiny model ends at a million queries, and at a million queries, and again."""
    for rule in ("steady_state", "precision", "block_stability"):
        line = advice(finding(rule, RuleOutcome.FAIL), can_be_longer=False)
        assert line is not None
        assert "--duration" not in line


def test_what_passed_needs_no_advice() -> None:
    """A good run is told to be longer."""
    for outcome in (RuleOutcome.PASS, RuleOutcome.NOT_APPLICABLE):
        assert advice(finding("precision", outcome)) is None
    assert advice(finding("frequency", RuleOutcome.UNKNOWN, "not_told")) is not None
    assert advice(finding("precision", RuleOutcome.UNKNOWN, "no_interval")) is None
    assert advice(finding("a rule of the past", RuleOutcome.FAIL)) is None


def test_governor_is_advised_where_the_kernel_has_one() -> None:
    """A virtual machine has none, and the advice ends in an error that sends the reader back."""
    for rule, reason in (("steady_state", "switching"), ("frequency", None)):
        fails = finding(rule, RuleOutcome.FAIL, reason)
        for can_bind in (True, False):
            assert "--governor" in (advice(fails, can_bind=can_bind) or "")
            without = advice(fails, can_bind=can_bind, has_governors=False)
            assert without is not None
            assert "--governor" not in without


def test_advice_that_another_line_contains_is_not_repeated() -> None:
    """A busy machine fails two rules of a set, and its page says twice to end other programs."""
    more_runs, alone = ADVICE["between_runs"][""], ADVICE["background_load"][""]
    longer = ADVICE["precision"][""]
    assert without_repeats([more_runs, longer, alone, longer]) == [more_runs, longer]
