"""Every finding has a sentence: what the rules can return, and what the sentences name, agree.

The rules are read as source: a reason that only a rare run gives is held to its sentence too.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from string import Formatter
from types import ModuleType
from typing import Any

import pytest

from edgebench.host.analysis.latency.warmup import SteadyClass
from edgebench.host.analysis.verdict.evidence import (
    at_least,
    at_most,
    holds,
    not_applicable,
    unknown,
)
from edgebench.host.analysis.verdict.machine import QUOTA
from edgebench.host.analysis.verdict.table import ALL_RULES, RULES, TARGET_RULES, Rule
from edgebench.host.result.verdict import Fact, Finding, RuleOutcome, State
from edgebench.host.show.sentences import SENTENCES, _more_words, sentence
from edgebench.host.show.units import ABSENT

RULINGS = {made.__name__: made for made in (at_least, at_most, holds, not_applicable, unknown)}
COMPUTED_REASONS = {
    "steady.steady_class.value": tuple(
        one.value for one in (SteadyClass.FLAT, SteadyClass.WARMUP, SteadyClass.SWITCHING)
    ),
    "QUOTA": (QUOTA,),
}
"""Reasons that are the value of an enumeration, as the source has them."""
OF_VALUE = {"ceiling", "milliseconds"}
"""Words that follow from the value of a finding, and cannot be without it."""


@dataclass(frozen=True)
class Returned:
    """A ruling that a rule may return, as its source has it."""

    rule: str
    reason: str
    words: frozenset[str]
    """Names that a sentence may use."""
    place: str


def fields_of(template: str) -> dict[str, str]:
    """Name and format of each placeholder."""
    parts = Formatter().parse(template)
    return {name: form or "" for _, name, form, _ in parts if name is not None}


@cache
def functions_in(module: ModuleType) -> Mapping[str, ast.FunctionDef]:
    """The functions of a module, by name."""
    tree = ast.parse(inspect.getsource(module))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Calls of plain names."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            yield call


def name_of(call: ast.Call) -> str:
    """Name of what is called."""
    assert isinstance(call.func, ast.Name)
    return call.func.id


def reached_by(name: str, functions: Mapping[str, ast.FunctionDef]) -> set[str]:
    """This function, and those of its module that it calls."""
    reached, waiting = {name}, [name]
    while waiting:
        called = {name_of(call) for call in calls_in(functions[waiting.pop()])}
        waiting += (called & functions.keys()) - reached
        reached |= called & functions.keys()
    return reached


def reasons_in(expression: ast.expr | None) -> tuple[str, ...]:
    """The reasons that an argument may have; an empty one is the plain outcome."""
    match expression:
        case None | ast.Constant(value=None):
            return ("",)
        case ast.Constant(value=str(reason)):
            return (reason,)
        case ast.IfExp(body=body, orelse=orelse):
            return (*reasons_in(body), *reasons_in(orelse))
        case _:
            return COMPUTED_REASONS[ast.unparse(expression)]


def keys_of(facts: ast.expr | None, function: ast.FunctionDef) -> set[str]:
    """The names of the facts that are there for certain."""
    match facts:
        case None:
            return set()
        case ast.Dict(keys=keys, values=values):
            found: set[str] = set()
            for key, value in zip(keys, values, strict=True):
                if key is None:  # another dictionary, with two stars
                    found |= keys_of(value, function)
                else:
                    assert isinstance(key, ast.Constant)
                    found.add(str(key.value))
            return found
        case ast.Name(id=name):
            return set().union(*(keys_of(one, function) for one in given_to(name, function, facts)))
        case _:
            raise AssertionError(f"cannot read these facts: {ast.unparse(facts)}")


def given_to(name: str, function: ast.FunctionDef, use: ast.expr) -> Iterator[ast.expr]:
    """What a local dictionary was given before this place, at the top of its function."""
    for node in function.body:
        if node.lineno >= use.lineno:
            return
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=target)], value=ast.expr() as value)
                | ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value)
                | ast.AugAssign(target=ast.Name(id=target), value=value)
            ) if target == name:
                yield value
            case _:
                pass


def returned_by(rule: Rule[Any]) -> Iterator[Returned]:
    """Every ruling in the source of a rule."""
    module = inspect.getmodule(rule.check)
    assert module is not None
    functions = functions_in(module)
    for name in sorted(reached_by(rule.check.__name__, functions)):
        for call in calls_in(functions[name]):
            made = RULINGS.get(name_of(call))
            if made is None:
                continue
            place = f"{module.__name__}:{call.lineno}"
            given: dict[str, ast.expr] = dict(
                zip(inspect.signature(made).parameters, call.args, strict=False)
            ) | {one.arg: one.value for one in call.keywords if one.arg is not None}
            words = keys_of(given.get("facts"), functions[name])
            has_value, has_limit = (
                one in given and ast.unparse(given[one]) != "None" for one in ("value", "limit")
            )
            words |= {"value"} if has_value else set()
            words |= {"limit"} if has_limit else set()
            plain = Finding(id=rule.id, outcome=RuleOutcome.PASS, severity=rule.severity)
            words |= _more_words(plain).keys() - (set() if has_value else OF_VALUE)
            for reason in reasons_in(given.get("reason")):
                yield Returned(rule.id, reason, frozenset(words), place)


RETURNED = [one for rule in ALL_RULES for one in returned_by(rule)]


def test_rules_and_sentences_are_of_the_same_names() -> None:
    """A rule is added, and the first run that it looks at ends in a traceback."""
    assert SENTENCES.keys() == {rule.id for rule in ALL_RULES}
    for rules in (RULES, TARGET_RULES):
        ids = [rule.id for rule in rules]
        assert [name for name in SENTENCES if name in ids] == ids, "in the order of their table"
    assert {one.rule for one in RETURNED} == SENTENCES.keys(), "the sources were read"


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_every_reason_of_a_rule_has_its_sentence(rule: Rule[Any]) -> None:
    """A rare run has a finding that nobody can print."""
    missing = {
        f"{one.place}: {one.reason!r}"
        for one in RETURNED
        if one.rule == rule.id and one.reason not in SENTENCES[rule.id]
    }
    assert missing == set()


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_every_sentence_of_a_rule_is_the_one_of_a_reason(rule: Rule[Any]) -> None:
    """A reason is renamed, and its sentence is kept for nobody."""
    # Rules that look at the same thing with two limits share their sentences.
    same = {one.id for one in ALL_RULES if SENTENCES[one.id] is SENTENCES[rule.id]}
    assert SENTENCES[rule.id].keys() == {one.reason for one in RETURNED if one.rule in same}


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_every_word_of_a_sentence_is_given(rule: Rule[Any]) -> None:
    """A sentence names a fact that the rule does not return, and printing it fails."""
    missing = {
        f"{one.place}: {one.reason!r} has no {word}"
        for one in RETURNED
        if one.rule == rule.id
        for word in fields_of(SENTENCES[one.rule][one.reason]).keys() - one.words
    }
    assert missing == set()


@pytest.mark.parametrize(
    ("rule", "reason"), [(rule, reason) for rule, found in SENTENCES.items() for reason in found]
)
@pytest.mark.parametrize("outcome", RuleOutcome)
def test_every_sentence_can_be_said(rule: str, reason: str, outcome: RuleOutcome) -> None:
    """A format does not fit its value, and `edgebench show` ends in a traceback."""
    template = SENTENCES[rule][reason]
    facts: dict[str, Fact] = {
        name: 1.5 if form[-1:] in {"g", "f", "%"} else "something"
        for name, form in fields_of(template).items()
        if name not in {"value", "limit"}
    }
    finding = Finding(
        id=rule,
        outcome=outcome,
        severity=State.SUSPECT,
        value=0.25,
        limit=0.5,
        unit="ratio",
        reason=reason or None,
        facts={name: fact for name, fact in facts.items() if name not in more_words()},
    )
    said = sentence(finding)
    assert said
    assert not {"{", "}", "\n"} & set(said)
    assert "None" not in said


def more_words() -> set[str]:
    """Names of the words that follow from a finding."""
    return set(_more_words(Finding(id="", outcome=RuleOutcome.PASS, severity=State.SUSPECT)))


def test_sentence_that_was_stored_is_kept() -> None:
    """A finding of an older version has no data, and cannot be printed."""
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
    """One finding that is older, newer or damaged, and the whole run cannot be shown."""
    assert sentence(finding) == "as it was"
    assert sentence(replace(finding, detail="")) == ABSENT


def test_sentence_follows_from_the_data_and_not_from_the_document() -> None:
    """Who edits the words of a document changes what others are shown."""
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
