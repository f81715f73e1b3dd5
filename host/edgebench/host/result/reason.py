"""Reasons as data: a reason has an id, and the numbers and names in its sentence.

A kind of reason is the function that makes the sentence; calling the kind makes a reason. run.json
stores reasons, so a sentence is made when it is shown, and a misspelt fact fails the type check.

    too_short(duration_s=…) ──▶ Reason("too_short", facts) ──▶ run.json ──▶ text_of ──▶ a sentence

The kinds of a run's results are in `reasons/`, those of the verdict in its rules
(`analysis/verdict/rule.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from types import UnionType
from typing import Any, Generic, ParamSpec, Union, cast, get_args, get_origin, get_type_hints

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a result is as it is."""

    id: str
    """Kind of reason."""
    facts: Mapping[str, Fact]
    """Numbers and names in its sentence."""


Fact = str | int | float | bool | tuple[Reason, ...] | None
"""Part of a sentence: a name, a number, or the reasons of another result."""


class ReasonKind(Generic[P]):
    """A kind of reason: its id in run.json, its facts, and its sentence.

    The facts are the keyword arguments of the function that makes the sentence. Call the kind with
    its facts to make a reason.
    """

    def __init__(self, sentence: Callable[P, str]) -> None:
        """The kind with the name of the function that makes its sentence."""
        self.id = sentence.__name__
        self._sentence: Callable[..., str] = sentence

    def __call__(self, *args: P.args, **facts: P.kwargs) -> Reason:
        """A reason of this kind."""
        assert not args, "facts have names"
        return Reason(self.id, cast("Mapping[str, Fact]", facts))

    @property
    def fact_types(self) -> Mapping[str, frozenset[type]]:
        """Types of the facts, by name."""
        return _types_of(self._sentence)

    def facts_in(self, facts: Mapping[str, Fact]) -> dict[str, Fact] | None:
        """The facts of this kind; None if they are those of another version."""
        kinds = self.fact_types
        if any(type(facts.get(name, ...)) not in of for name, of in kinds.items()):
            return None
        return {name: facts[name] for name in kinds}

    def text(self, facts: Mapping[str, Fact], *numbers: float) -> str | None:
        """Sentence with these facts; None if they are those of another version, or out of range.

        Args:
            facts: Facts of a reason.
            numbers: Positional arguments of the function that makes the sentence.
        """
        known = self.facts_in(facts)
        try:
            return None if known is None else self._sentence(*numbers, **known)
        except (LookupError, ArithmeticError):  # a number is absent or out of range
            return None


@cache
def _types_of(sentence: Callable[..., str]) -> Mapping[str, frozenset[type]]:
    """Types of the facts of a sentence, by name; a float may also be an int."""
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
