"""Verdict of a run: whether its numbers can be trusted, with the finding of every rule as data.

A finding holds a value, a limit and a unit; `show.sentences` formats it as a line. No decision
depends on the text of such a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

Fact = str | int | float | bool | None
"""Part of a sentence in addition to value and limit: a name, a count."""


class State(Enum):
    """State of a run, and severity of a rule: the state of a run that fails it."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


class RuleOutcome(Enum):
    """Outcome of a rule."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    """The evidence for a decision is missing."""
    NOT_APPLICABLE = "not_applicable"
    """Not checked: the run has nothing that this rule applies to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Outcome of a rule, with its numbers."""

    id: str
    """Id of the rule."""
    outcome: RuleOutcome
    severity: State
    """State of the run if this rule fails."""
    value: float | None = None
    """Observed value, in `unit`."""
    limit: float | None = None
    """Limit for the value, in `unit`."""
    unit: str | None = None
    """Unit suffix: s, c, hz, bytes, ratio, count, w, j, ppm."""
    reason: str | None = None
    """Which of the rule's sentences applies; None: the default sentence."""
    facts: Mapping[str, Fact] = field(default_factory=dict[str, Fact])
    """Parts of the sentence in addition to value and limit."""
    detail: str = ""
    """The sentence, for readers of the document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The state of a run and every finding behind it."""

    state: State
    rules: tuple[Finding, ...]
    unwatched: tuple[str, ...] = ()
    """Which of clock, heat and load could not be read during the run, so that changes were not
    detected."""

    @property
    def is_refused(self) -> bool:
        """Whether the run's numbers must not be shown."""
        return self.state is State.INVALID

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings of the failed rules, worst first."""
        failed = [rule for rule in self.rules if rule.outcome is RuleOutcome.FAIL]
        return tuple(sorted(failed, key=lambda rule: rule.severity is not State.INVALID))
