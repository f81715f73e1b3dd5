"""Rules about the runs of a set: their number, and the spread between them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgebench.host.analysis.median import (
    MIN_RUNS,
    PRECISION_INVALID_RATIO,
    PRECISION_SUSPECT_RATIO,
)
from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.advice import Advice, Situation
from edgebench.host.analysis.verdict.rule import (
    INVALID,
    LOOP,
    SUSPECT,
    Rule,
    Ruling,
    at_least,
    at_most,
    reason,
    unknown,
)


@dataclass(frozen=True, slots=True)
class SetEvidence:
    """Evidence for the rules of sets."""

    counted: int
    """Runs that are not invalid."""
    planned: int
    needed: int
    """Number of runs that an interval between runs needs."""
    name: str
    """Display name of the metric that the set is judged by."""
    half_width_ratio: float | None
    """Half-width of the metric's interval between runs, over the metric; None without interval."""


@advice.Advise
def _enough_runs(to: Situation) -> Advice:
    text = "make more runs (in a campaign's file, repeats = 5; with --against B, --pairs 10): {}"
    runs = max(MIN_RUNS, to.asked.value("runs") or 0)
    return advice.do(text, to.asked.bench(runs=runs))


class RunCountRule(Rule[SetEvidence]):
    """Enough runs count for an interval between runs; a set without counted runs is invalid."""

    id, severity = "run_count", SUSPECT
    advise = _enough_runs

    @reason("")
    @staticmethod
    def counted(value: float, limit: float, *, planned_count: int) -> str:
        count = f"{value:.0f} of {planned_count} runs count"
        return f"{count}, an interval between runs needs {limit:.0f}"

    def check(self, evidence: SetEvidence) -> Ruling:
        found = self.counted(planned_count=evidence.planned)
        ruling = at_least(evidence.counted, evidence.needed, "count", found)
        return ruling if evidence.counted else replace(ruling, severity=INVALID)


class _BetweenRunsRule(Rule[SetEvidence]):
    """The interval between runs is narrow enough."""

    limit: float
    advise = advice.alone_and_more_runs

    @reason("")
    @staticmethod
    def half_width(value: float, limit: float, *, name: str) -> str:
        half = f"half the 95 % interval of {name} between runs is {value:.2%} of it"
        return f"{half}, limit {limit:.0%}"

    @reason("too_few")
    @staticmethod
    def too_few(value: float, limit: float, *, name: str) -> str:
        return "too few runs for an interval between runs"

    def check(self, evidence: SetEvidence) -> Ruling:
        if evidence.half_width_ratio is None:
            return unknown(self.too_few(name=evidence.name))
        found = self.half_width(name=evidence.name)
        return at_most(evidence.half_width_ratio, self.limit, "ratio", found)


class BetweenRunsFloorRule(_BetweenRunsRule):
    """The interval between runs is narrow enough for a valid set."""

    id, severity, includes = "between_runs_floor", INVALID, "between_runs"
    limit = PRECISION_INVALID_RATIO


class BetweenRunsRule(_BetweenRunsRule):
    """The interval between runs is narrow enough for a comparison."""

    id, severity = "between_runs", SUSPECT
    harms = LOOP
    limit = PRECISION_SUSPECT_RATIO


SET_RULES: tuple[Rule[SetEvidence], ...] = (
    RunCountRule(),
    BetweenRunsFloorRule(),
    BetweenRunsRule(),
)
"""In the order in which a person should read them."""
