"""Comparison of stored runs, with the choice of the metric and of the design."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NoReturn, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.compare.blocks import (
    are_in_blocks,
    find_blocks,
    without_disturbed,
)
from edgebench.host.analysis.compare.comparability import Differences, check_comparable
from edgebench.host.analysis.compare.comparison import (
    ALPHA,
    Comparison,
    Design,
    Rules,
    compare_many,
)
from edgebench.host.analysis.compare.energy import (
    BATTERY,
    ENERGY,
    energy_of,
    instrument_ratio,
    refuse_energy,
)
from edgebench.host.analysis.compare.ranks import smallest_rank_sum_p
from edgebench.host.analysis.occasions import OccasionSpread
from edgebench.host.analysis.outputs import ERROR_METRICS
from edgebench.host.analysis.run_set import find_sets
from edgebench.host.analysis.verdict.table import was_stopped
from edgebench.host.result.facts import BASELINE, CANDIDATE
from edgebench.host.result.marks import ResultMarks, together
from edgebench.host.result.metrics import (
    BY_SHORT_NAME,
    METRICS,
    Better,
    Metric,
    NoSuchPath,
    Quantity,
    headline,
    value_at,
)
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import without_replaced
from edgebench.host.result.settings import EffectiveSettings, SettingState
from edgebench.host.result.verdict import State, Verdict
from edgebench.protocol.errors import (
    ErrorCode,
    MeasurementError,
    NoPairLeft,
    NoSecondSide,
    UsageError,
    with_meant,
)
from edgebench.protocol.spec import Scenario

DEFAULT_MARGIN_RATIO = 0.01
"""Default margin, 1 %: smaller changes do not matter.

A change as large as the margin is found half of the time. A change three times as large is found
nearly always.
"""


class ComparisonOptions(TypedDict, total=False):
    """Options that all functions that compare runs have in common."""

    metrics: str | Sequence[str] | None
    """Paths of metrics, such as `latency_ns.p50` or `energy_j`. None stands for the headline metric
    of the scenario, or of a device that times itself."""
    margin_ratio: float | None
    """Smallest relevant change. None stands for 1 % or, for a count that does not scatter, for no
    margin."""
    allowed: str | Sequence[str]
    """Keys in which the sides may differ; see `comparability.KEYS`."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Number of compared runs with each verdict; invalid runs are never compared."""

    valid_count: int
    suspect_count: int


class LeftOut(Enum):
    """Reason why a pair is not compared."""

    NOT_MADE = "not_made"
    MISSING = "missing"
    """One run of the pair was not made, or is not stored."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    INVALID = "invalid"
    NO_ENERGY = "no_energy"


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Comparison of a metric between two sides."""

    metric: str
    """Path under `metrics` of run.json."""
    baseline: str
    """Name of the baseline's model."""
    candidate: str
    runtime: str
    device: str
    baseline_runs: tuple[str, ...]
    candidate_runs: tuple[str, ...]
    differs_in: Differences
    """Allowed keys in which the sides differ."""
    marks: ResultMarks
    """Marks of the outcome, from the runs of both sides."""
    verdicts: Verdicts
    is_in_blocks: bool
    """Whether a side has a set during which no run of the other side was made. If so, the interval
    contains the spread between occasions."""
    result: Comparison
    comparison_id: str | None = None
    """Id of the comparison in pairs; None if the user named the runs of each side."""
    left_out_count: int = 0
    """Number of pairs that are not compared."""
    left_out: Mapping[LeftOut, int] = field(default_factory=dict[LeftOut, int])
    """Maps each reason to the number of pairs that are not compared for this reason."""
    disturbed_run_ids: tuple[str, ...] = ()
    """Runs that are not compared, because half or more of the runs of their sets were disturbed."""
    in_effect: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Settings that at least one run did not apply as requested, with the values of both sides."""


Sides = tuple[Sequence[Run], Sequence[Run]]
"""Runs of the baseline and of the candidate."""


class SpreadSource(Protocol):
    """Function that finds the spread of a metric between occasions, for the models compared."""

    def __call__(
        self, sides: Sides, metric: Metric, /, *, left_out: Collection[str] = ()
    ) -> OccasionSpread:
        """Find the spread.

        Args:
            sides: The compared runs.
            metric: The metric.
            left_out: Ids of the runs of disturbed sets that were left out of the sides. If there
                are any, only undisturbed sets are used.
        """
        ...


def unknown_spread(
    _sides: Sides, _metric: Metric, /, *, left_out: Collection[str] = ()
) -> OccasionSpread:
    """Return an unknown spread, for use without a store.

    With an unknown spread, comparisons in blocks are inconclusive.
    """
    del left_out
    return OccasionSpread()


def compare_groups(
    groups: Sequence[Sides],
    *,
    spread_of: SpreadSource = unknown_spread,
    metrics: Sequence[str] | None = None,
    margin_ratio: float | None = None,
    allowed: Iterable[str] = (),
) -> list[RunComparison]:
    """Compare each metric of each group of stored runs.

    The p values are adjusted for the number of these comparisons. Runs that a command made as pairs
    are compared as pairs, all others as independent runs. If the sides were measured on different
    occasions, the spread between occasions widens the interval.

    Args:
        groups: Baseline and candidate runs.
        spread_of: Function that finds the spread between occasions.
        metrics: Paths under `metrics` in run.json, such as `latency_ns.p50`. None stands for the
            default metric of the scenario.
        margin_ratio: Changes smaller than this do not matter. None stands for 1 % or, for a
            count that does not scatter, for no margin.
        allowed: Keys in which the sides may differ.

    Raises:
        UsageError: the runs differ in more than the model, or the metric does not exist.
        MeasurementError: a run is invalid, or has no value of the metric.
    """
    allowed = tuple(allowed)
    chosen = [(group, metric) for group in groups for metric in metrics or [_default_metric(group)]]
    prepared = [
        _prepare(group, metric, margin_ratio, allowed, spread_of, comparison_count=len(chosen))
        for group, metric in chosen
    ]
    names = [f"{number} {comparison.metric.path}" for number, comparison in enumerate(prepared)]
    results = compare_many(
        {name: comparison.values for name, comparison in zip(names, prepared, strict=True)},
        {name: comparison.rules for name, comparison in zip(names, prepared, strict=True)},
    )
    return [
        comparison.compared(results[name]) for name, comparison in zip(names, prepared, strict=True)
    ]


def compare_pairs(
    runs: Sequence[Run],
    *,
    metrics: Sequence[str] | None = None,
    margin_ratio: float | None = None,
    allowed: Iterable[str] = (),
) -> list[RunComparison]:
    """Compare runs that were made as pairs, with one result per metric, device and runtime.

    Args:
        runs: All runs of one or more comparisons in pairs. Pairs with a missing, failed or invalid
            run, or without the energy to compare, are left out.
        metrics: As for `compare_groups`.
        margin_ratio: As for `compare_groups`.
        allowed: As for `compare_groups`.

    Raises:
        NoSecondSide: there is no run, or a run was not made in a pair.
        UsageError: the runs differ in more than the model.
        MeasurementError: a comparison has no pair of valid runs.
    """
    if not runs:
        raise NoSecondSide("a comparison needs runs on both sides")
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.pair is None:
            raise NoSecondSide(f"a comparison needs a second side: {run.run_id} is not in a pair")
        groups.setdefault(run.pair.comparison_id, []).append(run)
    sides = {name: split_sides(group, metrics or ()) for name, group in groups.items()}
    for name, (baseline, _) in sides.items():
        if not baseline:
            _refuse_empty(name, groups[name], metrics or ())
    compared = compare_groups(
        list(sides.values()), metrics=metrics, margin_ratio=margin_ratio, allowed=allowed
    )
    names = [name for name in sides for _ in range(len(compared) // len(sides))]
    left_out = {name: _left_out(groups[name], sides[name][0], metrics or ()) for name in sides}
    return [
        _with_left_out(replace(comparison, comparison_id=name), left_out[name])
        for name, comparison in zip(names, compared, strict=True)
    ]


def with_planned_pairs(comparison: RunComparison, planned_count: int) -> RunComparison:
    """The comparison, in which planned pairs without a run also count as left out."""
    known = comparison.result.baseline_count + comparison.left_out_count
    counts = Counter(comparison.left_out)
    counts[LeftOut.NOT_MADE] += max(0, planned_count - known)
    return _with_left_out(comparison, +counts)


def _with_left_out(comparison: RunComparison, counts: Mapping[LeftOut, int]) -> RunComparison:
    return replace(comparison, left_out=dict(counts), left_out_count=sum(counts.values()))


def _left_out(
    runs: Sequence[Run], compared: Sequence[Run], metrics: Sequence[str]
) -> Counter[LeftOut]:
    """Number of pairs left out for each reason; pairs without any run are not counted."""
    pairs: dict[int, list[Run]] = {}
    for run in runs:
        if run.pair is not None:
            pairs.setdefault(run.pair.number, []).append(run)
    for run in compared:
        assert run.pair is not None
        del pairs[run.pair.number]
    return Counter(_why_left_out(pair, metrics) for pair in pairs.values())


def _why_left_out(pair: Sequence[Run], metrics: Sequence[str]) -> LeftOut:
    failures = [run.failure.code for run in pair if run.failure is not None]
    if any(map(was_stopped, pair)) or ErrorCode.RUN_STOPPED.name.lower() in failures:
        return LeftOut.INTERRUPTED
    if failures:
        return LeftOut.FAILED
    if any(run.verdict.is_refused for run in pair):
        return LeftOut.INVALID
    if any(_is_energy_missing(run, metrics) for run in pair):
        return LeftOut.NO_ENERGY
    return LeftOut.MISSING


def _refuse_empty(name: str, runs: Sequence[Run], metrics: Sequence[str]) -> NoReturn:
    """Raise the reason why no pair of this comparison can be compared.

    Raises:
        MeasurementError: a run lacks the energy, or no pair of valid runs is left.
    """
    valid = [run for run in runs if not run.verdict.is_refused]
    for path in map(_full_name, metrics):
        if path.startswith(ENERGY) and valid:
            energy_of(valid[0], path)
    is_invalid = bool(runs) and all(run.failure is None for run in runs)
    raise NoPairLeft(
        f"no pair of valid runs is left to compare in {name}", name, is_invalid=is_invalid
    )


@dataclass(frozen=True, slots=True)
class _PreparedComparison:
    """A comparison that passed all checks."""

    baseline: list[Run]
    candidate: list[Run]
    metric: Metric
    rules: Rules
    differs_in: Differences
    values: tuple[NDArray[np.float64], NDArray[np.float64]]
    disturbed: list[Run]
    """Runs that are left out because their sets were disturbed."""
    is_in_blocks: bool
    """Whether the comparison was in blocks before disturbed sets were left out."""

    def compared(self, result: Comparison) -> RunComparison:
        before, after = self.baseline, self.candidate
        states = [run.verdict.state_of(self.metric.kind) for run in (*before, *after)]
        return RunComparison(
            metric=self.metric.path,
            baseline=before[0].model.name,
            candidate=after[0].model.name,
            runtime=before[0].runtime.name,
            device=before[0].device.name,
            baseline_runs=tuple(run.run_id for run in before),
            candidate_runs=tuple(run.run_id for run in after),
            differs_in=self.differs_in,
            marks=self.metric.relevant(together(run.marks for run in (*before, *after))),
            verdicts=Verdicts(states.count(State.VALID), states.count(State.SUSPECT)),
            is_in_blocks=self.is_in_blocks,
            result=result,
            disturbed_run_ids=tuple(run.run_id for run in self.disturbed),
            in_effect=settings_in_effect(before, after),
        )


def settings_in_effect(
    baseline: Sequence[Run], candidate: Sequence[Run]
) -> dict[str, tuple[str, str]]:
    """Settings that at least one run did not apply as requested, with the values of both sides."""
    differing: dict[str, tuple[str, str]] = {}
    for name in EffectiveSettings.names():
        sides = [
            [run.conditions.settings.by_name[name] for run in runs if run.conditions.settings]
            for runs in (baseline, candidate)
        ]
        if any(setting.state is SettingState.DIFFERENT for side in sides for setting in side):
            before, after = (
                " or ".join(dict.fromkeys(str(setting.effective) for setting in side)) or "unknown"
                for side in sides
            )
            differing[name] = (before, after)
    return differing


def _prepare(
    sides: Sides,
    name: str,
    margin_ratio: float | None,
    allowed: tuple[str, ...],
    spread_of: SpreadSource,
    *,
    comparison_count: int,
) -> _PreparedComparison:
    if not all(sides):
        raise UsageError("a comparison needs runs on both sides")
    baseline, candidate = (_without_failed(without_replaced(side)) for side in sides)
    runs = [*baseline, *candidate]
    for run_set in find_sets(run for run in runs if run.member is not None):
        if run_set.verdict.is_refused and run_set.counted:
            failed = _rules_behind(run_set.verdict)
            text = f"set {run_set.set_id} is invalid ({failed}): nothing to compare"
            raise MeasurementError(text, invalid=run_set.set_id)
    for run in runs:
        if run.verdict.is_refused:
            failed = _rules_behind(run.verdict)
            text = f"run {run.run_id} is invalid ({failed}): nothing to compare"
            raise MeasurementError(text, invalid=run.run_id)
    ids = [run.run_id for run in [*baseline, *candidate]]
    twice = {run_id for run_id in ids if ids.count(run_id) > 1}
    if twice:
        raise UsageError(f"run {min(twice)} is listed twice: list each run once")
    found = check_comparable(baseline, candidate, allowed)
    pairs = _pairs(baseline, candidate)
    before, after = pairs or (list(baseline), list(candidate))
    # An unknown metric is reported before a metric without a better direction.
    values = _values(before, name), _values(after, name)
    metric = find_metric(name)
    is_positive = min(values[0].min(), values[1].min()) > 0
    design = Design.INDEPENDENT if pairs is None else Design.PAIRED
    if margin_ratio is None and not metric.is_exact:
        margin_ratio = DEFAULT_MARGIN_RATIO
    blocks, disturbed = None, list[Run]()
    is_in_blocks = are_in_blocks(before, after)
    if pairs is None and not metric.is_exact and is_positive and is_in_blocks:
        spread = OccasionSpread()
        quiet = without_disturbed(before), without_disturbed(after)
        kept_ids = {run.run_id for side in quiet for run in side}
        left_out = [run for run in [*before, *after] if run.run_id not in kept_ids]
        # Whether the remaining runs can still be significant; false if a side has no other set.
        are_enough = comparison_count * smallest_rank_sum_p(*map(len, quiet)) < ALPHA
        if left_out and are_enough:
            spread = spread_of(quiet, metric, left_out=[run.run_id for run in left_out])
        if spread.deviation is not None:
            disturbed = left_out
            before, after = quiet
            values = _values(before, name), _values(after, name)
        else:
            spread = spread_of((before, after), metric)
        blocks = replace(find_blocks(before, after, values), spread=spread)
    rules = Rules(
        design=Design.EXACT if metric.is_exact else design,
        better=better_of(metric, before),
        margin_ratio=margin_ratio,
        resolution_ratio=resolution_ratio(metric, [*before, *after]),
        # A non-positive energy is refused when the ratio is computed.
        instrument_ratio=instrument_ratio(metric, before, after) if is_positive else 0.0,
        blocks=blocks,
    )
    return _PreparedComparison(before, after, metric, rules, found, values, disturbed, is_in_blocks)


def resolution_ratio(metric: Metric, runs: Sequence[Run]) -> float:
    """Relative resolution of the runs' coarsest counter; 0 if the metric is not a count."""
    if metric.quantity is not Quantity.INSTRUCTIONS:
        return 0.0
    windows = [run.metrics.windows for run in runs if run.metrics.windows]
    return max((window.resolution_ratio or 0.0 for window in windows), default=0.0)


def _full_name(metric: str) -> str:
    return BY_SHORT_NAME[metric].path if metric in BY_SHORT_NAME else metric


def check_metrics(metrics: Sequence[str], *, is_metered: bool, has_battery: bool = False) -> None:
    """Refuse metrics that the runs cannot have, before the runs are made.

    Raises:
        UsageError: a metric has no better direction, has an unknown uncertainty, or needs a meter
            or a battery capacity.
    """
    for metric in map(find_metric, metrics):
        if metric.budget is not None and not is_metered:
            raise UsageError(f"metric {metric.path} needs a meter: --meter METER")
        if metric.path.startswith(BATTERY) and not has_battery:
            raise UsageError(f"metric {metric.path} needs a capacity: --battery 18.5Wh")


def split_sides(runs: Sequence[Run], metrics: Sequence[str] = ()) -> tuple[list[Run], list[Run]]:
    """The runs of each side in complete pairs that have all energies in `metrics`."""
    sides: dict[str, dict[int, Run]] = {BASELINE: {}, CANDIDATE: {}}
    for run in runs:
        if run.pair and not run.verdict.is_refused and not _is_energy_missing(run, metrics):
            sides[run.pair.side][run.pair.number] = run
    before, after = sides[BASELINE], sides[CANDIDATE]
    whole = sorted(before.keys() & after.keys())
    return [before[number] for number in whole], [after[number] for number in whole]


def _is_energy_missing(run: Run, metrics: Sequence[str]) -> bool:
    for path in map(_full_name, metrics):
        if path.startswith(ENERGY):
            try:
                energy_of(run, path)
            except MeasurementError:
                return True
    return False


def _without_failed(runs: Sequence[Run]) -> list[Run]:
    """The runs of a side that did not fail.

    Raises:
        MeasurementError: all runs failed.
    """
    counted = [run for run in runs if run.failure is None]
    if not counted and runs[0].failure is not None:
        code = runs[0].failure.code
        raise MeasurementError(f"run {runs[0].run_id} failed ({code}): nothing to compare")
    return counted


def _rules_behind(verdict: Verdict) -> str:
    """Text that lists the failed rules that make a run or set invalid, not just suspect."""
    return ", ".join(
        failure.id for failure in verdict.failures if failure.severity is State.INVALID
    )


def _pairs(baseline: Sequence[Run], candidate: Sequence[Run]) -> tuple[list[Run], list[Run]] | None:
    """Both sides in the order of their pairs; None if they were not made as pairs."""
    before, after = _by_pair(baseline), _by_pair(candidate)
    if before is None or after is None or before.keys() != after.keys():
        return None
    keys = sorted(before)
    return [before[key] for key in keys], [after[key] for key in keys]


def _by_pair(runs: Sequence[Run]) -> dict[tuple[str, int], Run] | None:
    by_pair = {(run.pair.comparison_id, run.pair.number): run for run in runs if run.pair}
    return by_pair if len(by_pair) == len(runs) else None


def _default_metric(group: Sides) -> str:
    measured = [run for side in group for run in side if run.failure is None]
    if any(run.metrics.windows for run in measured):
        return headline(measured[0]).path
    scenarios = {run.spec.scenario.value for side in group for run in side}
    return Scenario(min(scenarios)).traits.compared if scenarios else "latency_ns.p50"


_KNOWN = (
    "latency_ns.p50, latency_ns.p99, throughput_per_s, memory_bytes.peak_rss, cold_start_ns.load, "
    "accuracy.value, energy_j, instructions_per_inference, and more keys of `metrics` in run.json"
)


def find_metric(name: str) -> Metric:
    """The metric of this path or short name.

    Raises:
        UsageError: the metric does not exist, or neither of its directions is better. For example,
            more warm-up queries are neither good nor bad.
    """
    path = _full_name(name)
    if path in METRICS:
        return METRICS[path]
    if path.startswith(ENERGY):
        raise refuse_energy(path)
    text = f"metric {path!r} cannot be compared; comparable metrics: {_KNOWN}"
    error = UsageError(text)
    raise with_meant(error, path, ["latency_ns.p50", *METRICS, *BY_SHORT_NAME])


def better_of(metric: Metric, runs: Sequence[Run]) -> Better:
    """The better direction of a metric, which is lower if the metric measures an error."""
    judged_by = {run.metrics.accuracy.metric for run in runs if run.metrics.accuracy}
    if metric.path == "accuracy.value" and judged_by & ERROR_METRICS:
        return Better.LOWER
    return metric.better


def _values(runs: Sequence[Run], name: str) -> NDArray[np.float64]:
    return np.array([_value(run, _full_name(name)) for run in runs], np.float64)


def _value(run: Run, path: str) -> float:
    if path.startswith(ENERGY):
        energy_of(run, path)
    try:
        value = value_at(run.metrics, path)
    except NoSuchPath:
        error = UsageError(f"unknown metric {path!r}; see edgebench show RUN --json")
        raise with_meant(error, path, ["latency_ns.p50", *METRICS, *BY_SHORT_NAME]) from None
    if value is None:
        raise MeasurementError(f"run {run.run_id} has no {path}")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"metric {path!r} is not a number; see edgebench show RUN --json")
    return float(value)
