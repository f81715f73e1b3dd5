"""Can the numbers of a run be trusted? The findings of every rule, as data.

A finding says what was looked at as a value, a limit and a unit; `show.sentences` makes a line of
it. Nothing decides by looking into such a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

Fact = str | int | float | bool | None
"""What a sentence needs beside value and limit: a name, a count."""


class State(Enum):
    """The verdict of a run, and what a failed rule makes of it."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


class RuleOutcome(Enum):
    """What one rule found."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    """Checked, but the evidence for an answer is missing."""
    NOT_APPLICABLE = "not_applicable"
    """Never asked: the run has nothing that this rule looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule's outcome, with its numbers."""

    id: str
    """Rule, as the table of rules names it."""
    outcome: RuleOutcome
    severity: State
    """What the run becomes when this rule fails."""
    value: float | None = None
    """What was found, in `unit`."""
    limit: float | None = None
    """What it was held against, in `unit`."""
    unit: str | None = None
    """Unit suffix as everywhere: s, c, hz, bytes, ratio, count, w, j, ppm."""
    reason: str | None = None
    """Which of a rule's sentences fits; None: the one of the rule."""
    facts: Mapping[str, Fact] = field(default_factory=dict[str, Fact])
    """What the sentence names beside value and limit."""
    detail: str = ""
    """The sentence, for those who read the document themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The state of a run and every finding behind it."""

    state: State
    rules: tuple[Finding, ...]
    unwatched: tuple[str, ...] = ()
    """What nobody could see during the run, of clock, heat and load: a change of it would not have
    been noticed."""

    @property
    def is_refused(self) -> bool:
        """Whether the run's numbers must not be shown."""
        return self.state is State.INVALID

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The rules that failed, worst first."""
        failed = [rule for rule in self.rules if rule.outcome is RuleOutcome.FAIL]
        return tuple(sorted(failed, key=lambda rule: rule.severity is not State.INVALID))
