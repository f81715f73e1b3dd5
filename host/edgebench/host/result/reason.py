"""Reasons as data, each with an id, and with the numbers and names in its sentence.

A kind of reason is the function that makes the sentence. A call of the kind makes a reason.
run.json stores the reasons. The sentences are made when the reasons are displayed. A misspelt name
of a fact is an error for the type checker.

    too_short(duration_s=…) ──▶ Reason("too_short", facts) ──▶ run.json ──▶ text_of ──▶ a sentence

The kinds of a run's results are in `reasons/`. The kinds of the verdict are in the verdict's rules
(`analysis/verdict/rule.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from inspect import signature
from types import UnionType
from typing import Any, Generic, ParamSpec, Union, cast, get_args, get_origin, get_type_hints

P = ParamSpec("P")
_NOT_FINITE = ("nan", "inf", "-inf")


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason for a result, such as the refusal of an energy."""

    id: str
    """Kind of reason."""
    facts: Mapping[str, Fact]
    """Numbers and names in its sentence. A number that is not finite is `nan`, `inf` or `-inf`,
    because JSON has no such numbers."""
    subject: str | None = None
    """Check or method that this reason is about. The reasons after it are about the same subject,
    up to the next reason with a subject."""


Fact = str | int | float | bool | tuple[Reason, ...] | None
"""Part of a sentence: a name, a number, or the reasons of another result."""


class ReasonKind(Generic[P]):
    """A kind of reason, with its id in run.json, its facts, and its sentence.

    The facts are the keyword arguments of the function that makes the sentence. Call the kind with
    its facts to make a reason.
    """

    def __init__(self, sentence: Callable[P, str]) -> None:
        """Create the kind; its id is the name of the function."""
        self.id = sentence.__name__
        self._sentence: Callable[..., str] = sentence

    def __call__(self, *args: P.args, **facts: P.kwargs) -> Reason:
        """A reason of this kind."""
        assert not args, "facts have names"
        given = cast("Mapping[str, Fact]", facts)
        return Reason(self.id, {name: _storable(fact) for name, fact in given.items()})

    @property
    def fact_types(self) -> Mapping[str, frozenset[type]]:
        """Types of the facts, keyed by name."""
        return _types_of(self._sentence)

    def facts_in(self, facts: Mapping[str, Fact]) -> dict[str, Fact] | None:
        """The facts that this kind has; None if one of them is missing or has the wrong type."""
        known: dict[str, Fact] = {}
        for name, types in self.fact_types.items():
            fact = facts.get(name, ...)
            if fact in _NOT_FINITE and float in types:
                fact = float(str(fact))
            if fact is ... or type(fact) not in types:
                return None
            known[name] = fact
        return known

    def text(self, facts: Mapping[str, Fact], *numbers: float) -> str | None:
        """Sentence with these facts; None if a fact is missing, out of range or of another type.

        Args:
            facts: Facts of a reason.
            numbers: Positional arguments of the function that makes the sentence.
        """
        known = self.facts_in(facts)
        try:
            return None if known is None else self._sentence(*numbers, **known)
        except (LookupError, ArithmeticError):  # a number is absent or out of range
            return None


def about(subject: str, reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """Reasons with a subject, such as a check or a method."""
    return tuple(
        replace(reason, subject=subject) if index == 0 else reason
        for index, reason in enumerate(reasons)
    )


def _storable(fact: Fact) -> Fact:
    """The fact as a value of JSON."""
    if isinstance(fact, float):
        return float(fact) if math.isfinite(fact) else str(float(fact))
    return fact


@cache
def _types_of(sentence: Callable[..., str]) -> Mapping[str, frozenset[type]]:
    """Types of the facts of a sentence, keyed by name; a float may also be an int."""
    names = [
        name
        for name, parameter in signature(sentence).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    hints = get_type_hints(sentence) if names else {}
    return {name: _types_in(hints[name]) for name in names}


def _types_in(hint: Any) -> frozenset[type]:
    of = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    types = frozenset(get_origin(kind) or kind for kind in of)
    return types | {int} if float in types else types
