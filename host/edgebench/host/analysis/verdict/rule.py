"""Rules of the verdict, each of which is a class with its check, reasons, sentences and advice.

A rule checks evidence and returns a ruling, which has an outcome and a reason. The facts of a
reason are the keyword arguments of the function that makes its sentence, and run.json stores them
by name. So sentences are made when they are shown, and a misspelt fact fails the type check.

    Evidence ──Rule.check──▶ Ruling(outcome, Reason) ──judge──▶ Finding in run.json
                                                                    │
    a line for people ◀──RuleReason.sentence───────────────────────┴──advice_for──▶ Advice
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar

from edgebench.host.analysis.verdict.advice import Advice, Advise, Situation
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.result.reason import Reason, ReasonKind
from edgebench.host.result.verdict import Finding, NumberKind, RuleOutcome, State

INVALID, SUSPECT = State.INVALID, State.SUSPECT
EVERY_NUMBER = frozenset(NumberKind)
LATENCIES = frozenset({NumberKind.MEDIAN, NumberKind.TAIL, NumberKind.MEAN})
LOOP = LATENCIES | {NumberKind.ENERGY}
"""Numbers of the timed loop, including its energy, which is a mean over the inferences."""
TIMES = LOOP | {NumberKind.COLD_START}
"""Numbers that depend on the speed of the device during the run."""
EvidenceT = TypeVar("EvidenceT", contravariant=True)
P = ParamSpec("P")


class WatchedQuantity(Enum):
    """A quantity that rules watch during the whole run, if the device reports it."""

    CLOCK = "clock"
    HEAT = "heat"
    LOAD = "load"


class RuleReason(ReasonKind[P]):
    """A kind of reason of a rule, with its name in run.json, facts, sentence, advice and cause."""

    def __init__(
        self,
        key: str,
        sentence: Callable[Concatenate[float, float, P], str],
        advise: Advise | None = None,
        cause: Cause | None = None,
        effect_of: frozenset[Cause] | None = None,
    ) -> None:
        """Make a kind of reason.

        Args:
            key: Name in run.json; empty for the usual reason of a rule.
            sentence: Function that makes the sentence from value, limit and facts. Value and limit
                are in the unit of the finding.
            advise: Advice for this reason; if None, the rule's advice applies.
            cause: Cause of this reason; if None, the rule's cause applies.
            effect_of: Other causes of this reason. If None, a reason with a `cause` has no other
                causes, and a reason without a `cause` has those of the rule.
        """
        self.id = key
        self.cause = cause
        self.effect_of = frozenset() if effect_of is None and cause is not None else effect_of
        self._sentence: Callable[..., str] = sentence
        self._advise: Callable[..., Advice] | None = None
        if advise is not None:
            self._advise = lambda _, to, **__: advise(to)

    def advice(self, make: Callable[Concatenate[float, Situation, P], Advice]) -> RuleReason[P]:
        """Register a function that makes the advice from value, situation and facts.

        The value is 0 if the finding has no value.
        """
        self._advise = make
        return self

    def sentence(self, found: Finding) -> str | None:
        """Sentence of a stored finding; None if this version needs other facts for the sentence."""
        return self.text(found.facts, *_numbers(found))

    def advice_for(self, found: Finding, to: Situation) -> Advice | None:
        """Advice for this reason; None if the rule's advice applies."""
        facts = self.facts_in(found.facts)
        if facts is None or self._advise is None:
            return None
        return self._advise(found.value or 0.0, to, **facts)


def reason(
    key: str,
    advise: Advise | None = None,
    cause: Cause | None = None,
    effect_of: frozenset[Cause] | None = None,
) -> Callable[[Callable[Concatenate[float, float, P], str]], RuleReason[P]]:
    """Decorator: makes a kind of reason from the function that makes its sentence."""
    return lambda sentence: RuleReason(key, sentence, advise, cause, effect_of)


def plain(
    key: str,
    text: str | Callable[[float, float], str],
    advise: Advise | None = None,
    cause: Cause | None = None,
) -> RuleReason[[]]:
    """Make a kind of reason without facts, whose sentence may depend on value and limit."""
    sentence = text if callable(text) else lambda _value, _limit: text
    return RuleReason(key, sentence, advise, cause)


class _Absent(float):
    """A number that the finding does not have; formatting it raises LookupError."""

    def __new__(cls) -> _Absent:
        return super().__new__(cls, math.nan)

    def __format__(self, _: str) -> str:
        raise LookupError("the finding has no such number")


def _numbers(found: Finding) -> tuple[float, float]:
    """Value and limit of a finding."""
    return (
        _Absent() if found.value is None else found.value,
        _Absent() if found.limit is None else found.limit,
    )


@dataclass(frozen=True, slots=True)
class Ruling:
    """Outcome of a rule, with its reason and the compared numbers."""

    outcome: RuleOutcome
    reason: Reason
    value: float | None = None
    limit: float | None = None
    unit: str | None = None
    severity: State | None = None
    """State of the run after this failure; if None, it is the rule's severity."""
    harms: frozenset[NumberKind] | None = None
    """Kinds of numbers that this failure harms; if None, it harms those that the rule names."""


class Rule(Generic[EvidenceT]):
    """A rule of the verdict; the reasons for its outcomes are class attributes."""

    id: ClassVar[str]
    severity: ClassVar[State]
    """State of the run if the rule fails."""
    cause: ClassVar[Cause]
    effect_of: ClassVar[frozenset[Cause]] = frozenset()
    """Other causes that may make the rule fail; if one is present, the failure is attributed to
    it."""
    watches: ClassVar[WatchedQuantity | None] = None
    """Quantity that the rule watches; it is unwatched if all rules that watch it are unknown."""
    includes: ClassVar[str | None] = None
    """Name of a rule that limits the same number less strictly, and is not shown if this rule
    fails."""
    harms: ClassVar[frozenset[NumberKind]] = EVERY_NUMBER
    """Kinds of numbers that a failure makes suspect; an invalid run has no numbers at all."""
    advise: ClassVar[Advise]
    """Advice if the rule fails for a reason that has no advice of its own."""

    def check(self, evidence: EvidenceT) -> Ruling:
        """Apply the rule to the evidence."""
        raise NotImplementedError

    @classmethod
    @cache
    def reasons(cls) -> Mapping[str, RuleReason[Any]]:
        """Reasons that the check may return, by name."""
        return {
            value.id: value
            for kind in reversed(cls.__mro__)
            for value in vars(kind).values()
            if isinstance(value, RuleReason)
        }


def at_most(value: float, limit: float, unit: str, reason: Reason) -> Ruling:
    """Make a ruling, which passes if the value is not above the limit."""
    return holds(value <= limit, reason, value=value, limit=limit, unit=unit)


def at_least(value: float, limit: float, unit: str, reason: Reason) -> Ruling:
    """Make a ruling, which passes if the value is not below the limit."""
    return holds(value >= limit, reason, value=value, limit=limit, unit=unit)


def holds(
    is_kept: bool,
    reason: Reason,
    *,
    value: float | None = None,
    limit: float | None = None,
    unit: str | None = None,
) -> Ruling:
    """Make a ruling, which passes if `is_kept` is true, and fails otherwise."""
    outcome = RuleOutcome.PASS if is_kept else RuleOutcome.FAIL
    return Ruling(outcome, reason, value, limit, unit)


def unknown(reason: Reason) -> Ruling:
    """Ruling of a rule that applies to the run but lacks the evidence."""
    return Ruling(RuleOutcome.UNKNOWN, reason)


def not_applicable(reason: Reason) -> Ruling:
    """Ruling of a rule that does not concern the run."""
    return Ruling(RuleOutcome.NOT_APPLICABLE, reason)
