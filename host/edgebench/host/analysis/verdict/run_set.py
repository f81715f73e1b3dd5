"""Rules about the number of a set's runs, and the spread between the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from math import factorial

from edgebench.host.analysis.median import (
    MIN_RUNS,
    PRECISION_INVALID_RATIO,
    PRECISION_SUSPECT_RATIO,
    min_pair_count,
)
from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.advice import Advice, Situation
from edgebench.host.analysis.verdict.cause import DISTURBANCES, SLOWDOWNS, Cause
from edgebench.host.analysis.verdict.rule import (
    INVALID,
    LOOP,
    SUSPECT,
    Rule,
    Ruling,
    at_least,
    at_most,
    holds,
    not_applicable,
    plain,
    reason,
    unknown,
)
from edgebench.host.result.run import Run
from edgebench.protocol.percent import format_percent
from edgebench.protocol.record import Yardstick

OUTVOTED_RATIO = 1 / 8
"""Largest share of a set's runs whose failures the other runs can outvote. The interval of the
median of eight runs hardly depends on the highest and the lowest value."""
OUTVOTED_MEDIANS_RATIO = 3 / 8
"""Largest share of a set's runs whose median latencies the other runs can outvote, if none of the
runs is invalid. If fewer than half of the runs are disturbed, they move the median of the runs by a
few values at most. The median's interval contains this shift, so three disturbed runs of eight do
not change its coverage (benchmarks/coverage.py)."""
TREND_LEVEL = 2 / 120
"""Largest probability of an order of the runs that counts as a trend. The limit is the probability
that five runs all rise or all fall."""
TREND_LIMIT_RATIO = 0.02
"""A trend is negligible if the range of the values is at most this share of the lowest value."""

STEP_RANGES = 2
"""Minimum size of a step between fast and slow runs, as a multiple of the range within each of the
two groups. If the values of the runs are independent and normally distributed, such a step occurs
in 1 of 80 sets of five runs, and in 1 of 1800 sets of eight runs."""


@dataclass(frozen=True, slots=True)
class SetEvidence:
    """Evidence for the rules of sets."""

    runs: tuple[Run, ...]
    """Runs that are not invalid, in the order of measurement."""
    planned: int
    needed: int
    """Number of runs that are needed to compute an interval from the spread between runs."""
    name: str
    """Display name of the metric that the set is judged by."""
    half_width_ratio: float | None
    """Half-width of the metric's interval from the spread between runs, relative to the metric.
    None without an interval."""
    is_exact: bool
    """Whether the metric is an exact count, which does not change with time, clock or heat."""
    values: tuple[float, ...]
    """The metric of each run that has it."""
    drift_ratio: float
    """Drift of the latency inside the runs, relative to the latency; 0 without drift."""
    yardsticks: tuple[Yardstick | None, ...]
    """Speed of the device around each run; all None if the runs' speeds cannot be compared.
    """


@advice.Advise
def _enough_runs(to: Situation) -> Advice:
    if to.given.value("candidate") is not None:
        metric_count = sum(words[0] == "--metric" for words in to.given.options)
        pairs = max(min_pair_count(max(1, metric_count)), to.given.value("runs") or 0)
        return advice.do("make {} pairs: {}", pairs, to.given.bench(pairs=pairs))
    runs = max(MIN_RUNS, to.given.value("runs") or 0)
    return advice.do(
        "make {} runs (in a campaign's file, repeats): {}", runs, to.given.bench(runs=runs)
    )


_OTHER_CAUSES = frozenset(Cause) - {Cause.TOO_SHORT}


def _counted(value: float, limit: float, planned_count: int) -> str:
    count = f"{value:.0f} of {planned_count} runs can be used"
    return f"{count}, at least {limit:.0f} needed for a confidence interval over the runs"


class RunCountRule(Rule[SetEvidence]):
    """Enough runs count for an interval between runs. A set in which no run counts is invalid."""

    id, severity = "run_count", SUSPECT
    cause = Cause.TOO_SHORT
    effect_of = frozenset({Cause.STOPPED})
    advise = _enough_runs

    @reason("")
    @staticmethod
    def counted(value: float, limit: float, *, planned_count: int) -> str:
        return _counted(value, limit, planned_count)

    @reason("lost", effect_of=_OTHER_CAUSES)
    @staticmethod
    def lost(value: float, limit: float, *, planned_count: int) -> str:
        return _counted(value, limit, planned_count)

    @reason("none", effect_of=_OTHER_CAUSES)
    @staticmethod
    def none_counted(value: float, limit: float, *, planned_count: int) -> str:
        return f"none of {planned_count} runs can be used"

    def check(self, evidence: SetEvidence) -> Ruling:
        is_lost = len(evidence.runs) < evidence.needed <= evidence.planned
        kind = self.lost if is_lost else self.counted
        kind = kind if evidence.runs else self.none_counted
        found = kind(planned_count=evidence.planned)
        ruling = at_least(len(evidence.runs), evidence.needed, "count", found)
        return ruling if evidence.runs else replace(ruling, severity=INVALID)


class _BetweenRunsRule(Rule[SetEvidence]):
    """The interval between runs is narrow enough."""

    limit: float
    advise = advice.alone_and_more_runs

    @reason("")
    @staticmethod
    def half_width(value: float, limit: float, *, name: str) -> str:
        return (
            f"{name} ±{format_percent(value, 2)} between runs (95 % CI), limit "
            f"{format_percent(limit)}"
        )

    @reason("too_few")
    @staticmethod
    def too_few(value: float, limit: float, *, name: str) -> str:
        return "too few runs for a confidence interval over the runs"

    def check(self, evidence: SetEvidence) -> Ruling:
        if evidence.half_width_ratio is None:
            return unknown(self.too_few(name=evidence.name))
        found = self.half_width(name=evidence.name)
        return at_most(evidence.half_width_ratio, self.limit, "ratio", found)


class BetweenRunsFloorRule(_BetweenRunsRule):
    """The interval between runs is narrow enough for a valid set."""

    id, severity, includes = "between_runs_floor", INVALID, "between_runs"
    cause = Cause.VARIATION
    effect_of = SLOWDOWNS
    limit = PRECISION_INVALID_RATIO


class BetweenRunsRule(_BetweenRunsRule):
    """The interval between runs is narrow enough for a comparison."""

    id, severity = "between_runs", SUSPECT
    cause = Cause.VARIATION
    effect_of = SLOWDOWNS
    harms = LOOP
    limit = PRECISION_SUSPECT_RATIO


class TimedSetRule(Rule[SetEvidence]):
    """A rule about times, which does not apply to exact counts."""

    exact = plain("exact", "time, clock and heat do not change counts of instructions")

    def check(self, evidence: SetEvidence) -> Ruling:
        return not_applicable(self.exact()) if evidence.is_exact else self.check_times(evidence)

    def check_times(self, evidence: SetEvidence) -> Ruling:
        """Apply the rule to a set whose values are durations."""
        raise NotImplementedError


class TrendRule(TimedSetRule):
    """The values do not rise or fall from run to run, so the device was not warming or cooling.

    The order of independent runs is random. Kendall's test counts the pairs of runs that are in
    order. Five runs that all rise, or all fall, occur by chance once in 60 sets.

    A device that begins to throttle after the first runs makes a step, in which only few pairs of
    runs are in order.

    Source: Mann, Nonparametric tests against trend, Econometrica 13 (1945); the distribution is
    that of the number of inversions of a permutation, Knuth, The Art of Computer Programming 3,
    5.1.1.
    """

    id, severity = "trend", SUSPECT
    cause = Cause.WARMING_UP
    effect_of = DISTURBANCES
    harms = LOOP
    advise = advice.settle
    too_few = plain("too_few", "too few runs to detect a trend")
    none = plain("none", "the order of the runs is unknown")

    @reason("")
    @staticmethod
    def ordered(value: float, limit: float, *, name: str, is_rising: bool, run_count: int) -> str:
        moved = "rose" if is_rising else "fell"
        return (
            f"{name} mostly {moved} from run to run; the {run_count} runs range over "
            f"{format_percent(value, 1)}, limit {format_percent(limit)}: the device was still "
            f"changing"
        )

    @reason("step", advice.cool)
    @staticmethod
    def stepped(value: float, limit: float, *, name: str, fast_count: int, run_count: int) -> str:
        return (
            f"{name} rose by {format_percent(value, 1)} after run {fast_count} of "
            f"{run_count} and stayed high, "
            f"limit {format_percent(limit)}: the device slowed down"
        )

    def check_times(self, evidence: SetEvidence) -> Ruling:
        values = evidence.values
        if len(values) < MIN_RUNS or min(values) <= 0:
            return unknown(self.too_few())
        fast_count, rise = find_step(values)
        if rise > TREND_LIMIT_RATIO:
            stepped = self.stepped(name=evidence.name, fast_count=fast_count, run_count=len(values))
            return at_most(rise, TREND_LIMIT_RATIO, "ratio", stepped)
        rising = sum(after > before for before, after in combinations(values, 2))
        falling = sum(after < before for before, after in combinations(values, 2))
        if chance_of_order(len(values), max(rising, falling)) > TREND_LEVEL:
            return holds(True, self.none())
        found = self.ordered(name=evidence.name, is_rising=rising > falling, run_count=len(values))
        return at_most(max(values) / min(values) - 1, TREND_LIMIT_RATIO, "ratio", found)


def find_step(values: Sequence[float]) -> tuple[int, float]:
    """Number of fast runs before a lasting rise, and the relative rise; both 0 without a rise.

    At most half of the runs are fast. A single slow run at the end is not a step, because a
    disturbance may explain it.

    Args:
        values: Positive values of the runs, in the order of measurement.
    """
    for count in range(1, len(values) // 2 + 1):
        fast, slow = values[:count], values[count:]
        gap = min(slow) - max(fast)
        if gap > STEP_RANGES * max(max(slow) - min(slow), max(fast) - min(fast)):
            return count, gap / max(fast)
    return 0, 0.0


@cache
def chance_of_order(count: int, in_order: int) -> float:
    """Probability that `in_order` or more pairs of independent values rise, or that as many fall.

    Rising and falling pairs both count, because the test is two-sided.
    """
    ways = [1]  # permutations by the number of pairs that are in order
    for size in range(2, count + 1):
        longer = [0] * (len(ways) + size - 1)
        for number, way in enumerate(ways):
            for added in range(size):
                longer[number + added] += way
        ways = longer
    return min(1.0, 2 * sum(ways[in_order:]) / factorial(count))


RULES_BETWEEN_RUNS: tuple[Rule[SetEvidence], ...] = (
    RunCountRule(),
    BetweenRunsFloorRule(),
    BetweenRunsRule(),
    TrendRule(),
)
"""The rules, in the order in which a person should read them."""
