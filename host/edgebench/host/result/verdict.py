"""Verdict on a run: whether its numbers can be trusted, with every rule's finding.

A verdict has a state for the run, and a state for each kind of number. A failed rule harms only the
kinds of numbers that the rule is about. An invalid run has no numbers of any kind.

A finding contains a value, a limit and a unit; `show.sentences` formats it as a line. No decision
depends on the text of a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from edgebench.host.result.reason import Fact


class State(Enum):
    """State of a run. The severity of a rule is the state of a run that fails the rule."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


class NumberKind(Enum):
    """What a number describes; a failed rule may harm only some of the kinds."""

    MEDIAN = "median"
    """Median latency, fastest inference, instructions, time of a whole window."""
    TAIL = "tail"
    """Percentiles above the median, and the maximum."""
    MEAN = "mean"
    """Mean latency and throughput."""
    COLD_START = "cold_start"
    MEMORY = "memory"
    OUTPUTS = "outputs"
    """Accuracy, and agreement with reference kernels."""
    ENERGY = "energy"


class RuleOutcome(Enum):
    """Outcome of a rule."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    """The evidence for a decision is missing."""
    NOT_APPLICABLE = "not_applicable"
    """The rule was not checked, because the run has nothing that the rule applies to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InRuns:
    """Number of runs of a set in which a rule failed; stored as facts of the set's finding."""

    failed_count: int
    of_count: int
    is_worst: bool = False
    """Whether this finding is the worst of the findings in these runs."""
    is_same: bool = False
    """Whether all of these runs have the same finding."""
    is_outvoted: bool = False
    """Whether the rule harms no number of the set, because the other runs agree and outvote the
    runs that fail the rule."""


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
    """Which of the rule's sentences applies; None selects the default sentence."""
    facts: Mapping[str, Fact] = field(default_factory=dict[str, Fact])
    """Parts of the sentence in addition to value and limit."""
    harms: tuple[NumberKind, ...] | None = None
    """Kinds of numbers that a failure of this rule makes suspect; null means all kinds."""
    detail: str = ""
    """The sentence, for readers of the document."""

    @property
    def harmed(self) -> tuple[NumberKind, ...]:
        """Kinds of numbers that are harmed if this finding is a failure."""
        return tuple(NumberKind) if self.harms is None else self.harms

    @property
    def in_runs(self) -> InRuns | None:
        """Number of runs in which the rule failed; None for a finding about a single run."""
        known = {name: self.facts[name] for name in InRuns.__annotations__ if name in self.facts}
        try:
            counts = InRuns(**known)  # type: ignore[arg-type]
        except TypeError:  # it has no counts
            return None
        is_damaged = any(
            type(fact) is not (bool if name.startswith("is_") else int)
            for name, fact in known.items()
        )
        return None if is_damaged else counts


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseSummary:
    """Ids of a cause and of its failed rules, for readers of the document."""

    cause: str
    """Id of the cause; `unknown` for a rule of another version of edgebench."""
    rules: tuple[str, ...]
    """Failed rules that show the cause, the strongest first."""
    effects: tuple[str, ...] = ()
    """Failed rules that the cause explains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The state of a run and every finding behind it."""

    state: State
    rules: tuple[Finding, ...]
    unwatched: tuple[str, ...] = ()
    """Conditions (clock, heat, load) that could not be read during the run, so that their changes
    were not detected."""
    causes: tuple[CauseSummary, ...] = ()
    """Causes of the failed rules, in the order in which to fix them; each failed rule has a
    cause."""
    numbers: Mapping[str, State] = field(init=False)
    """State of each kind of number (`NumberKind`), derived from the failed rules that harm it."""

    def __post_init__(self) -> None:
        failures = self.failures
        numbers = {kind.value: self._state_of(kind, failures) for kind in NumberKind}
        object.__setattr__(self, "numbers", numbers)

    def state_of(self, kind: NumberKind) -> State:
        """State of the numbers of a kind."""
        return self.numbers[kind.value]

    @property
    def suspect_kinds(self) -> tuple[NumberKind, ...]:
        """Kinds of numbers that are suspect; none if the run is invalid."""
        return tuple(kind for kind in NumberKind if self.state_of(kind) is State.SUSPECT)

    def _state_of(self, kind: NumberKind, failures: tuple[Finding, ...]) -> State:
        if self.is_refused:
            return State.INVALID
        # A suspect run without a failed rule was judged by a version with other outcomes.
        is_harmed = any(kind in failure.harmed for failure in failures) or (
            self.state is State.SUSPECT and not failures
        )
        return State.SUSPECT if is_harmed else State.VALID

    @property
    def is_refused(self) -> bool:
        """Whether the run's numbers must not be shown."""
        return self.state is State.INVALID

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings of the failed rules, worst first."""
        failed = [rule for rule in self.rules if rule.outcome is RuleOutcome.FAIL]
        return tuple(sorted(failed, key=lambda rule: rule.severity is not State.INVALID))
