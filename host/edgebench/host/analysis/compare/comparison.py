"""Outcome of a comparison: better, worse, equivalent or inconclusive.

Theory of operation. The unit of replication is the run: every value here is the metric of a run (a
median latency, a throughput). Queries within a run share its process, its memory layout and its
temperature. So a test over queries would find a difference in four of five pairs of identical runs.

Metrics are compared by their ratio, so everything is computed on logarithms: the Hodges–Lehmann
shift with its exact interval, and the exact p value of the same test (`ranks.py`). The test uses
winsorised signed ranks for pairs, and rank sums for independent runs. The outcome of a comparison:

    too few runs for any p below alpha                             → inconclusive
    sides on different occasions, with an unknown spread           → inconclusive
    the (1 - 2 alpha) interval lies within the margin (TOST)       → equivalent, significant or not
    Holm-adjusted p < alpha, interval excludes 1, and
        the change is for the better                               → better
        the change is for the worse, and at least the margin       → worse
    otherwise                                                      → inconclusive

If the sides were measured on different occasions, they may differ by more than the runs of each
side vary. Such a comparison, which is called a comparison in blocks, has more tests (`blocks.py`).
Its p value is the largest p value of all tests, and its interval contains the intervals of all
tests.

The error that an instrument causes in the ratio widens both intervals and is not reduced by more
runs. A change that is significant, but smaller than that error, is inconclusive.

The margin applies to the logarithm, from 1/(1+m) to 1+m, so that swapping the sides swaps the
outcome. Without a margin no outcome is equivalent.

A count that does not scatter, such as the instructions of an emulated target, needs no test. A
single run per side decides whether the counts differ by more than the counter's resolution. If runs
of the same side differ by more than this resolution, the count does scatter, and the outcome is
inconclusive.

Source: Kalibera & Jones, Rigorous benchmarking in reasonable time (2013), for runs and ratios;
Schuirmann (1987) for the two one-sided tests; Holm (1979).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np

from edgebench.host.analysis.compare.blocks import Blocks
from edgebench.host.analysis.compare.ranks import (
    RANK_SUM_LOSS,
    WINSORISED_LOSS,
    Bounds,
    Floats,
    ShiftTest,
    probability_of_superiority,
    rank_sum_test,
    signed_rank_test,
    smallest_rank_sum_p,
    smallest_signed_rank_p,
)
from edgebench.host.analysis.occasions import MIN_OCCASIONS
from edgebench.host.result.metrics import Better
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons import comparison as reasons
from edgebench.host.result.reasons.table import text_of
from edgebench.protocol.errors import MeasurementError, UsageError

ALPHA = 0.05
POWER = 0.80
"""Probability that an effect of the minimum detectable size is found."""
INSTRUMENT_COVERAGE = 2.0
"""Coverage factor k of the instrument's uncertainty in an interval, for about 95 % coverage.

Source: JCGM 100:2008 (GUM), 6.3.3.
"""


class Design(str, Enum):
    """Relation of the runs of both sides."""

    PAIRED = "paired"
    """Runs with the same index were measured side by side, in random order."""
    INDEPENDENT = "independent"
    EXACT = "exact"
    """The metric is a count that does not scatter."""


class ComparisonOutcome(str, Enum):
    """Outcome for the candidate, relative to the baseline."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Rules:
    """Parameters of a comparison.

    Raises:
        UsageError: alpha is outside (0, 0.5), or the margin is not positive.
    """

    design: Design = Design.PAIRED
    better: Better = Better.LOWER
    alpha: float = ALPHA
    """Probability of a false alarm, over all comparisons that are made together."""
    margin_ratio: float | None = None
    """Largest change that does not matter, such as 0.03 for 3 %. None if every change matters."""
    instrument_ratio: float = 0.0
    """Standard uncertainty of the ratio that the instrument causes; more runs do not reduce it."""
    resolution_ratio: float = 0.0
    """In the exact design, counts are equal if their ratio is within 1 ± this value."""
    blocks: Blocks | None = None
    """Occasions of the sides; None if both sides were measured in turn, on the same occasions."""

    @property
    def is_spread_unknown(self) -> bool:
        """Whether the sides were measured on different occasions whose spread is not known."""
        return self.blocks is not None and self.blocks.spread.deviation is None

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 0.5:
            raise UsageError(f"alpha {self.alpha} is not between 0 and 0.5")
        if self.margin_ratio is not None and not 0 < self.margin_ratio < math.inf:
            raise UsageError(f"margin {self.margin_ratio} is not positive")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Outcome of the comparison of a candidate with a baseline, and the numbers behind it."""

    rules: Rules
    baseline_count: int
    candidate_count: int
    baseline_median: float
    candidate_median: float
    shift: float
    """Hodges–Lehmann estimate of candidate minus baseline, in the unit of the metric."""
    shift_interval: Bounds | None
    ratio: float
    """Hodges–Lehmann estimate of candidate divided by baseline, from logarithms."""
    ratio_interval: Bounds | None
    """Interval of the ratio with confidence 1 - alpha; None with too few runs or occasions."""
    equivalence_interval: Bounds | None
    """Interval of the ratio with confidence 1 - 2 alpha."""
    p_value: float
    """P value of the hypothesis that there is no difference; with blocks, the largest p value of
    all tests. For counts that do not scatter, it is 0 if they differ, else 1."""
    p_adjusted: float
    """P value after Holm's correction, over all comparisons that were made together."""
    smallest_p: float
    """Smallest adjusted p value that this design with this number of runs can have."""
    needed_count: int | None
    """Number of runs of each side, or of pairs, that is enough for a significant result. None if
    the present runs are enough."""
    superiority: float
    """A12: probability that a run of the candidate has a higher value than a run of the
    baseline."""
    cliffs_delta: float
    minimum_detectable_ratio: float | None
    """Relative change that is found with 80 % probability, given the design, the spread and the
    instrument. None if each side has a single run, or if the spread between occasions is not
    known."""
    outcome: ComparisonOutcome
    reasons: tuple[Reason, ...]
    reason: str = field(init=False)
    """Text of the reasons, a single line."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", text_of(self.reasons))


class _PValues(NamedTuple):
    value: float
    adjusted: float
    """The p value, adjusted for all comparisons that are made together."""
    smallest: float
    """Smallest possible p value with this number of runs, adjusted."""
    comparison_count: int
    """Number of comparisons that are made together."""


def compare(baseline: Floats, candidate: Floats, rules: Rules | None = None) -> Comparison:
    """Compare two sides.

    Args:
        baseline: A value per run, shape (m,), all positive.
        candidate: Shape (n,). For pairs, shape (m,), in the order of the baseline.
        rules: Design, direction, alpha and margin.

    Raises:
        MeasurementError: a side is empty, a value is not finite and positive, or paired sides
            differ in size.
    """
    return compare_many({"": (baseline, candidate)}, rules)[""]


def compare_many(
    sides: Mapping[str, tuple[Floats, Floats]], rules: Rules | Mapping[str, Rules] | None = None
) -> dict[str, Comparison]:
    """Compare many pairs of sides; p values are adjusted for the number of pairs.

    Args:
        sides: Maps each name to a baseline and a candidate in the same form as for `compare`.
        rules: Rules for all pairs of sides, or a mapping from each name to its rules.

    Raises:
        MeasurementError: as `compare`.
    """
    given = rules if isinstance(rules, Mapping) else dict.fromkeys(sides, rules or Rules())
    logs = {name: (_logs(a, name), _logs(b, name)) for name, (a, b) in sides.items()}
    exact = {
        name: _compare_exact(sides[name], both, given[name])
        for name, both in logs.items()
        if given[name].design is Design.EXACT
    }
    tests = {
        name: _test(a, b, given[name].design) for name, (a, b) in logs.items() if name not in exact
    }
    p_values = {name: _p_value(test, given[name]) for name, test in tests.items()}
    adjusted = holm(list(p_values.values()))
    smallest = holm([test.smallest_p for test in tests.values()])
    tested = {
        name: _compare(
            sides[name], test, given[name], _PValues(p_values[name], p, least, len(tests))
        )
        for (name, test), p, least in zip(tests.items(), adjusted, smallest, strict=True)
    }
    return {name: exact[name] if name in exact else tested[name] for name in sides}


def needed_run_count(design: Design, comparison_count: int = 1, alpha: float = ALPHA) -> int:
    """Number of runs of each side, or of pairs, that is enough for a significant result.

    Fewer runs may be enough if the sides differ in size. The same holds if another comparison that
    is made together with this comparison has more runs, and thus a smaller p value. Holm's method
    multiplies only the smallest p value by the number of comparisons. A count that does not scatter
    needs one run.

    Args:
        design: Relation of the runs of both sides.
        comparison_count: Number of comparisons that are made together.
        alpha: Probability of a false alarm, over all these comparisons.

    >>> needed_run_count(Design.PAIRED), needed_run_count(Design.PAIRED, 12)
    (6, 9)
    >>> needed_run_count(Design.INDEPENDENT), needed_run_count(Design.EXACT)
    (4, 1)
    """
    count = 1
    while design is not Design.EXACT and comparison_count * _smallest_p(design, count) >= alpha:
        count += 1
    return count


def _smallest_p(design: Design, count: int) -> float:
    """Smallest possible p value with this number of pairs, or of runs of each side."""
    paired = design is Design.PAIRED
    return smallest_signed_rank_p(count) if paired else smallest_rank_sum_p(count, count)


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted so that alpha holds for all of them together, in the order given.

    Of m p values in ascending order, number i is multiplied by m - i, where i counts from 0. An
    adjusted value is at least as large as the adjusted value of the next smaller p value, and at
    most 1.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6 (1979), 65-70; as adjusted values Wright, Adjusted p-values for simultaneous
    inference, Biometrics 48 (1992), 1005-1013.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    by_size = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(by_size):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def minimum_detectable_effect(
    deviation: float,
    counts: tuple[int, int | None],
    *,
    freedom: int | None = None,
    alpha: float = ALPHA,
    power: float = POWER,
    instrument: float = 0.0,
) -> float:
    """Smallest true effect that is found with this power, in the unit of the deviation.

    The effect is (q(1 - alpha/2) + q(power)) · s · sqrt(1/m + 1/n), with quantiles q and the
    deviation s. For pairs, s is the deviation of the differences, and the term 1/n is omitted. The
    formula is that of a t test. Rank tests need a larger effect, see `ranks.py`.

    An instrument of standard uncertainty u widens the interval that the effect must exceed. The
    error of the instrument also adds to the error of the runs. The effect is then
    sqrt((q(1 - alpha/2) · e)² + (k · u)²) + q(power) · sqrt(e² + u²), where e is
    s · sqrt(1/m + 1/n).

    Args:
        deviation: Standard deviation between runs, or between the differences of pairs.
        counts: Number of runs of each side. For pairs, the number of pairs in first place, and None
            in second place.
        freedom: Degrees of freedom of the deviation, for quantiles of Student's t. If None, the
            deviation is known exactly, and normal quantiles are used.
        alpha: Two-sided level.
        power: Probability to find the effect.
        instrument: Standard uncertainty of the effect from the instrument, shared by all runs.

    Source: Cohen, Statistical Power Analysis (1988), 2.3; with t quantiles Zar, Biostatistical
    Analysis (2010), 7.5. With an instrument: Currie, Limits for qualitative detection and
    quantitative determination (1968): the critical level, plus the quantile for the power.
    """
    from scipy.special import ndtri, stdtrit

    critical, beyond = (
        float(ndtri(level) if freedom is None else stdtrit(freedom, level))
        for level in (1 - alpha / 2, power)
    )
    share = 1 / counts[0] + (1 / counts[1] if counts[1] else 0)
    error = deviation * math.sqrt(share)
    limit = math.hypot(critical * error, INSTRUMENT_COVERAGE * instrument)
    return limit + beyond * math.hypot(error, instrument)


def _logs(values: Floats, name: str) -> Floats:
    what = f"{name}: " if name else ""
    if values.ndim != 1 or values.size == 0:
        raise MeasurementError(f"{what}no run to compare, shape {values.shape}")
    wrong = values[~(np.isfinite(values) & (values > 0))]
    if wrong.size:
        raise MeasurementError(f"{what}a run's value must be finite and positive, got {wrong[0]}")
    logs: Floats = np.log(values.astype(np.float64))
    return logs


def _test(baseline: Floats, candidate: Floats, design: Design) -> ShiftTest:
    if design is Design.INDEPENDENT:
        return rank_sum_test(baseline, candidate)
    if baseline.size != candidate.size:
        raise MeasurementError(
            f"{baseline.size} baseline runs cannot be paired with {candidate.size} candidate runs"
        )
    return signed_rank_test(candidate - baseline)


def _p_value(test: ShiftTest, rules: Rules) -> float:
    """Largest p value of all tests, which must all find the change in the same direction."""
    others = rules.blocks.tests(test.shift) if rules.blocks else []
    return max([test.p_value, *(other.p_value(test.shift) for other in others)])


def _interval(test: ShiftTest, level: float, rules: Rules) -> Bounds | None:
    """Interval of the shift that contains the intervals of all tests; None if any is unknown."""
    bounds = test.interval(level)
    if bounds is None or rules.is_spread_unknown:
        return None
    others = rules.blocks.tests(test.shift) if rules.blocks else []
    every = [bounds, *(other.interval(level) for other in others)]
    whole = min(low for low, _ in every), max(high for _, high in every)
    return widened(whole, test.shift, rules.instrument_ratio)


def _compare(
    sides: tuple[Floats, Floats],
    test: ShiftTest,
    rules: Rules,
    p: _PValues,
) -> Comparison:
    baseline, candidate = (np.asarray(side, np.float64) for side in sides)
    wide = _interval(test, 1 - rules.alpha, rules)
    narrow = _interval(test, 1 - 2 * rules.alpha, rules)
    raw = _test(baseline, candidate, rules.design)
    is_adjusted = p.smallest > test.smallest_p
    outcome, why = _judge(test.shift, wide, narrow, p, rules, is_adjusted=is_adjusted)
    needed = why.facts.get("needed_count") if why.id == reasons.too_few_runs.id else None
    superiority = probability_of_superiority(baseline, candidate)
    return Comparison(
        rules=rules,
        baseline_count=baseline.size,
        candidate_count=candidate.size,
        baseline_median=float(np.median(baseline)),
        candidate_median=float(np.median(candidate)),
        shift=raw.shift,
        shift_interval=raw.interval(1 - rules.alpha),
        ratio=math.exp(test.shift),
        ratio_interval=as_ratios(wide),
        equivalence_interval=as_ratios(narrow),
        p_value=p.value,
        p_adjusted=p.adjusted,
        smallest_p=p.smallest,
        needed_count=needed if isinstance(needed, int) else None,
        superiority=superiority,
        cliffs_delta=2 * superiority - 1,
        minimum_detectable_ratio=_detectable(np.log(baseline), np.log(candidate), rules),
        outcome=outcome,
        reasons=(why,),
    )


def _compare_exact(
    sides: tuple[Floats, Floats], logs: tuple[Floats, Floats], rules: Rules
) -> Comparison:
    """Compare counts that do not scatter."""
    baseline, candidate = (np.asarray(side, np.float64) for side in sides)
    before, after = (float(np.median(side)) for side in (baseline, candidate))
    effect, resolution = math.log(after / before), math.log1p(rules.resolution_ratio)
    bounds = effect - resolution, effect + resolution
    spread = max(float(np.ptp(side)) for side in logs)
    outcome, why = _judge_exact(effect, spread, resolution, rules)
    absolute = max(before, after) * rules.resolution_ratio
    superiority = probability_of_superiority(baseline, candidate)
    p_value = 1.0 if abs(effect) <= resolution else 0.0
    return Comparison(
        rules=rules,
        baseline_count=baseline.size,
        candidate_count=candidate.size,
        baseline_median=before,
        candidate_median=after,
        shift=after - before,
        shift_interval=(after - before - absolute, after - before + absolute),
        ratio=after / before,
        ratio_interval=as_ratios(bounds),
        equivalence_interval=as_ratios(bounds),
        p_value=p_value,
        p_adjusted=p_value,
        smallest_p=0.0,
        needed_count=None,
        superiority=superiority,
        cliffs_delta=2 * superiority - 1,
        minimum_detectable_ratio=rules.resolution_ratio,
        outcome=outcome,
        reasons=(why,),
    )


def _judge_exact(
    effect: float, spread: float, resolution: float, rules: Rules
) -> tuple[ComparisonOutcome, Reason]:
    """Outcome for a difference of logarithms of a count that should not scatter."""
    if spread > resolution:
        scatters = reasons.count_scatters(
            spread_ratio=math.expm1(spread), limit_ratio=rules.resolution_ratio
        )
        return ComparisonOutcome.INCONCLUSIVE, scatters
    if abs(effect) <= resolution:
        return ComparisonOutcome.EQUIVALENT, reasons.same_count()
    certain = reasons.exact_count()
    margin_ratio = rules.margin_ratio or 0.0
    limit = math.log1p(margin_ratio)
    if abs(effect) + resolution < limit:
        within = reasons.count_within_margin(margin_ratio=margin_ratio)
        return ComparisonOutcome.EQUIVALENT, within
    harm = effect if rules.better is Better.LOWER else -effect
    if harm < 0:
        return ComparisonOutcome.BETTER, certain
    if harm >= limit:
        return ComparisonOutcome.WORSE, certain
    close = reasons.margin_within_tick(change_ratio=math.expm1(harm), margin_ratio=margin_ratio)
    return ComparisonOutcome.INCONCLUSIVE, close


def widened(bounds: Bounds | None, shift: float, instrument_ratio: float) -> Bounds | None:
    """Interval of a logarithm, widened by the instrument's uncertainty; source: GUM, 5.1.2."""
    if bounds is None or not instrument_ratio:
        return bounds
    low = math.hypot(shift - bounds[0], INSTRUMENT_COVERAGE * instrument_ratio)
    high = math.hypot(bounds[1] - shift, INSTRUMENT_COVERAGE * instrument_ratio)
    return shift - low, shift + high


def as_ratios(bounds: Bounds | None) -> Bounds | None:
    """Interval of a ratio, from the interval of its logarithm."""
    return None if bounds is None else (math.exp(bounds[0]), math.exp(bounds[1]))


def _detectable(baseline: Floats, candidate: Floats, rules: Rules) -> float | None:
    """Minimum detectable relative change, from design, observed spread and instrument."""
    m, n = baseline.size, candidate.size
    is_paired = rules.design is Design.PAIRED
    freedom = m - 1 if is_paired else m + n - 2
    if freedom < 1 or rules.is_spread_unknown:
        return None
    if is_paired:
        deviation = float(np.std(candidate - baseline, ddof=1))
    else:
        deviation = math.sqrt(float(np.var(baseline) * m + np.var(candidate) * n) / freedom)
    effect = minimum_detectable_effect(
        # Rank tests need an effect larger by this factor than a t test, as if the spread were
        # larger.
        deviation * (WINSORISED_LOSS if is_paired else RANK_SUM_LOSS),
        (m, None if is_paired else n),
        freedom=freedom,
        alpha=rules.alpha,
        instrument=rules.instrument_ratio,
    )
    for test in rules.blocks.tests(0.0) if rules.blocks else []:
        effect = max(effect, test.reach(1 - rules.alpha / 2) + test.reach(POWER))
    # Huge spreads would overflow.
    return math.expm1(min(effect, 700.0))


def _judge(
    effect: float,
    wide: Bounds | None,
    narrow: Bounds | None,
    p: _PValues,
    rules: Rules,
    *,
    is_adjusted: bool,
) -> tuple[ComparisonOutcome, Reason]:
    """Outcome of a difference of logarithms, with the reason.

    `is_adjusted` states that p was multiplied because several comparisons are made together.
    """
    if rules.blocks is not None and rules.is_spread_unknown:
        return ComparisonOutcome.INCONCLUSIVE, reasons.too_few_occasions(
            occasion_count=rules.blocks.spread.occasion_count, needed_count=MIN_OCCASIONS
        )
    if p.smallest >= rules.alpha or wide is None or narrow is None:
        return ComparisonOutcome.INCONCLUSIVE, reasons.too_few_runs(
            smallest_p=p.smallest,
            alpha=rules.alpha,
            is_adjusted=is_adjusted,
            needed_count=needed_run_count(rules.design, p.comparison_count, rules.alpha),
            is_paired=rules.design is Design.PAIRED,
        )
    margin_ratio = math.inf if rules.margin_ratio is None else rules.margin_ratio
    limit = math.log1p(margin_ratio)
    harm = effect if rules.better is Better.LOWER else -effect
    inside = limit < math.inf and -limit < narrow[0] and narrow[1] < limit
    is_within = wide[0] <= 0 <= wide[1]
    if inside:
        within = reasons.interval_within_margin(margin_ratio=margin_ratio)
        return ComparisonOutcome.EQUIVALENT, within
    if p.adjusted >= rules.alpha or (is_within and not rules.instrument_ratio):
        return ComparisonOutcome.INCONCLUSIVE, reasons.maybe_chance(
            p=p.adjusted, alpha=rules.alpha, is_adjusted=is_adjusted
        )
    if is_within:
        reach = effect - wide[0] if effect > 0 else wide[1] - effect
        return ComparisonOutcome.INCONCLUSIVE, reasons.within_meter_error(
            change_ratio=math.expm1(abs(effect)), limit_ratio=math.expm1(reach)
        )
    significant = reasons.significant(p=p.adjusted, alpha=rules.alpha, is_adjusted=is_adjusted)
    if harm < 0:
        return ComparisonOutcome.BETTER, significant
    if limit == math.inf or harm >= limit:
        return ComparisonOutcome.WORSE, significant
    return ComparisonOutcome.INCONCLUSIVE, reasons.interval_beyond_margin(
        change_ratio=math.expm1(harm), margin_ratio=margin_ratio
    )
