"""Results over a set of several runs of the same model.

A run has its own process, memory layout and state of the machine, and all of its queries share
them. So the interval of a single run applies to the median of this run, not to that of the next
run. On a shared machine, sixteen runs of the same model differed by 9 %, although each had an
interval within 4 %. The headline of a set is the median of its runs, and its interval is computed
from the values of the runs alone. The interval assumes no particular distribution, but it assumes
that the next runs have the same distribution. If the machine changes between two commands, the
change is not visible in either command.

Source: Kalibera & Jones, Rigorous benchmarking in reasonable time (2013), for the levels of
repetition and the best split of the time; pyperf, which starts 20 processes by default.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.median import MIN_RUNS, SIGMAS, median_interval, t_quantile
from edgebench.host.analysis.thermal.delegation import uses_accelerator
from edgebench.host.analysis.verdict.judge import judge_set
from edgebench.host.analysis.verdict.run_set import (
    OUTVOTED_MEDIANS_RATIO,
    OUTVOTED_RATIO,
    SetEvidence,
)
from edgebench.host.analysis.verdict.table import BY_ID
from edgebench.host.analysis.yardstick import work_of
from edgebench.host.result.facts import BASELINE, CANDIDATE, side_id
from edgebench.host.result.metrics import LATENCY_SPANS, METRICS, Metric
from edgebench.host.result.metrics import headline as headline_of
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet, SetMetric, VarianceLevels, without_replaced
from edgebench.host.result.verdict import (
    Finding,
    InRuns,
    NumberKind,
    RuleOutcome,
    State,
    Verdict,
)
from edgebench.protocol.record import Yardstick

SHORTEST_LOOP_S = 0.5
"""Shortest proposed loop. In a shorter loop, a tick of the scheduler or the reading of a sensor
takes a large share."""

DRIFT_REACH = 5 / 8
"""The interval is widened on each side by this multiple of the measured drift inside the runs. The
widening is half of the whole linear drift. The measured drift, from the first to the last fifth of
a run, is four fifths of the whole drift."""
_DRIFTING = (*LATENCY_SPANS, "throughput_per_s")
"""Groups of metrics that a drift inside the runs changes."""


def find_sets(runs: Iterable[Run]) -> list[RunSet]:
    """The sets of these runs, in the order of their first runs.

    Each side of paired runs is a set, and the baseline comes first.
    """
    groups: dict[str | int, list[Run]] = {}
    for number, run in enumerate(runs):
        if run.pair is not None:
            for side in (BASELINE, CANDIDATE):
                groups.setdefault(side_id(run.pair.comparison_id, side), [])
        groups.setdefault(run.set_id or number, []).append(run)
    return [find_set(group) for group in groups.values() if group]


def choose_sets(runs: Iterable[Run]) -> list[RunSet]:
    """The sets of runs that a user selected; a run whose set was not selected stands alone."""
    return [
        alone(run_set.first) if len(run_set.runs) == 1 else run_set for run_set in find_sets(runs)
    ]


def _number(run: Run) -> int:
    """Position in the set, from 0."""
    place = run.member or run.pair
    return place.number if place else 0


def _planned_count(runs: Sequence[Run]) -> int:
    """Planned number of runs of the set; for pairs, only those up to the last started pair."""
    if (member := runs[0].member) is not None:
        return member.count
    return max(map(_number, runs)) + 1


def find_set(runs: Sequence[Run]) -> RunSet:
    """Summary of a set from at least one of its runs; replaced runs do not count."""
    kept = sorted(without_replaced(runs), key=_number)
    kept_ids = {run.run_id for run in kept}
    replaced = [run for run in runs if run.run_id not in kept_ids]
    counted = [run for run in kept if not run.verdict.is_refused]
    first = (counted or kept)[0]
    metrics = {
        metric.path: summary
        for metric in METRICS.values()
        if (summary := over_runs(metric, counted)) is not None
    }
    headline = _headline(first, metrics, len(counted))
    return RunSet(
        set_id=first.set_id,
        device=first.device.name,
        model=first.model.name,
        runtime=first.runtime.name,
        planned_count=_planned_count(kept),
        run_ids=tuple(run.run_id for run in counted),
        refused_run_ids=tuple(run.run_id for run in kept if run.verdict.is_refused),
        replaced_run_ids=tuple(run.run_id for run in replaced),
        headline=headline,
        metrics=metrics,
        variance=_variance(METRICS[headline], metrics.get(headline), counted),
        verdict=_verdict(kept, counted, headline, metrics),
        runs=(*kept, *replaced),
    )


def alone(run: Run) -> RunSet:
    """A run on its own, even if it belongs to a set or a pair."""
    return find_set([replace(run, member=None, pair=None)])


def headline_over(counted: Sequence[Run]) -> tuple[Metric, SetMetric] | None:
    """The headline of a set and its values over some runs; None if no run has a value.

    Unlike `find_set`, which computes every metric and the verdict in some 50 ms, this function is
    fast enough to be called between two runs.

    Args:
        counted: Valid or suspect runs of the set, at least one.
    """
    traits = counted[0].spec.scenario.traits
    candidates = (METRICS[traits.compared], METRICS[f"{traits.headline}.p50"])
    values = {
        metric.path: summary
        for metric in candidates
        if (summary := over_runs(metric, counted)) is not None
    }
    metric = METRICS[_headline(counted[0], values, len(counted))]
    summary = values.get(metric.path) or over_runs(metric, counted)
    return None if summary is None else (metric, summary)


def over_runs(metric: Metric, runs: Sequence[Run]) -> SetMetric | None:
    """A metric over the runs that have it; None if no run has it.

    A tail percentile is left out if it has no interval in at least one run. The remaining runs
    would be the runs with the shortest latencies, so their median would be biased.
    """
    having = [run for run in runs if metric.bounded_value(run) is not None]
    if not having or (metric.is_tail and len(having) < len(runs)):
        return None
    values = np.array([metric.value(run) for run in having], np.float64)
    # Only the first run measures the accuracy, so the interval is that of the run.
    is_of_one = len(having) == 1 and metric.path.startswith("accuracy.")
    interval = metric.interval(having[0]) if is_of_one else median_interval(values)
    median = float(np.median(values))
    is_of_levels = not metric.path.endswith(".p50")
    if interval is not None and not is_of_levels and metric.group in LATENCY_SPANS:
        interval = _with_warmups(interval, having, values)
    drift = set_drift_ratio(having, is_of_levels=is_of_levels) if metric.group in _DRIFTING else 0.0
    if interval is not None and drift:
        # Each run shows a part of the drift: a longer run could be anywhere in the drift's range,
        # or stay at the level of the end.
        reach, end = DRIFT_REACH * abs(median) * drift, _end_ratio(having)
        factor = 1 / end if metric.group == "throughput_per_s" else end
        low, high = interval
        interval = min(low - reach, low * factor), max(high + reach, high * factor)
    if metric.budget is not None and interval is not None:
        # Interval between runs with the error of the meter; source: GUM, 5.1.2.
        energies = [run.metrics.energy for run in runs if run.metrics.energy is not None]
        known_j = ((energy.gross_j_per_inference, energy.u95_absolute_j) for energy in energies)
        meter = abs(median) * max(
            (abs(u95 / value) for value, u95 in known_j if value and u95), default=0.0
        )
        low, high = median - interval[0], interval[1] - median
        interval = (median - math.hypot(low, meter), median + math.hypot(high, meter))
    return SetMetric(
        count=values.size,
        median=median,
        min=float(values.min()),
        max=float(values.max()),
        ci95=interval,
        next_run=None if metric.budget is not None else next_run_interval(values),
    )


def _with_warmups(
    interval: tuple[float, float], runs: Sequence[Run], values: NDArray[np.float64]
) -> tuple[float, float]:
    """The interval of a median, extended to include the warm-ups if only few runs have them.

    Each run is a new process, so a warm-up would occur in most of the runs. Slow inferences at the
    start of less than half of the runs are rather a level of the device, which the next runs may
    have, too.

    Args:
        interval: Interval of the median without the warm-ups.
        runs: The runs, at least five.
        values: Medians of the runs without the warm-ups, shape (runs,).
    """
    changes = [run.metrics.warmup.p50_change_ratio if run.metrics.warmup else None for run in runs]
    if not 0 < sum(change is not None for change in changes) < len(runs) / 2:
        return interval
    whole = median_interval(values * [1 + (change or 0.0) for change in changes])
    assert whole is not None, "`interval` was computed from the same number of values"
    return min(interval[0], whole[0]), max(interval[1], whole[1])


def next_run_interval(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """95 % bounds of a further run's value; None for fewer than five runs or values <= 0.

    The bounds are exp(m ± t(0.975, n - 1) · s · sqrt(1 + 1/n)), with mean m and standard deviation
    s of the logarithms of the values. The interval of the median is narrower, because the median of
    many runs varies less than a single run.

    Source: Hahn, Factors for calculating two-sided prediction intervals for samples from a normal
    distribution, JASA 64 (1969), 878-888.
    """
    if values.size < MIN_RUNS or not (values > 0).all():
        return None
    logs = np.log(values)
    reach = t_quantile(values.size - 1) * float(logs.std(ddof=1)) * math.sqrt(1 + 1 / values.size)
    middle = float(logs.mean())
    return math.exp(middle - reach), math.exp(middle + reach)


def set_drift_ratio(runs: Sequence[Run], *, is_of_levels: bool = False) -> float:
    """Drift of the median latency inside the runs, relative to the latency; 0 without drift.

    The result is the larger of two medians over the runs:

    - the median range of the latency levels; the range is 0 for a run without a visible drift
    - the median change from the start to the end of the run; it counts only if its 95 % interval
      shows that the runs change in the same direction

    Args:
        runs: The runs, at least one.
        is_of_levels: Whether to return the drift of the mean. Bursts of slow inferences raise the
            mean, although the medians of a run's ten blocks are the same.
    """
    drift = float(np.median([_level_range_ratio(run, is_of_levels) for run in runs]))
    stabilities = [run.metrics.stability for run in runs]
    changes = [
        stability.drift_ratio
        for stability in stabilities
        if stability and stability.drift_ratio is not None
    ]
    interval = median_interval(changes) if len(changes) == len(runs) else None
    if interval is not None and (interval[0] > 0 or interval[1] < 0):
        drift = max(drift, abs(float(np.median(changes))))
    return drift


def _level_range_ratio(run: Run, is_of_levels: bool) -> float:
    """Range of the levels of a run, relative to the latency; 0 if the run does not drift.

    A level is the mean of a stretch of at least 1/50 of the run. The median of the run cannot drift
    by more than the medians of its blocks.
    """
    levels = run.metrics.warmup.level_range_ratio if run.metrics.warmup else None
    blocks = run.metrics.stability.block_range_ratio if run.metrics.stability else None
    return (levels or 0.0) if is_of_levels or blocks is None else min(levels or 0.0, blocks)


def _end_ratio(runs: Sequence[Run]) -> float:
    """Median over the runs of the end latency divided by the median latency; 1 if unknown.

    The latency at the end of a run continues the line through the medians of its last two blocks.
    """
    ends = []
    for run in runs:
        blocks = run.metrics.stability.block_p50_ns if run.metrics.stability else ()
        if len(blocks) < 2:
            return 1.0
        ends.append((1.5 * blocks[-1] - 0.5 * blocks[-2]) / max(float(np.median(blocks)), 1.0))
    return max(float(np.median(ends)), 0.0) or 1.0


def _headline(first: Run, metrics: dict[str, SetMetric], run_count: int) -> str:
    """Path of the headline: the metric that the scenario uses if all runs have it, else the median.

    For devices that time themselves, the path of their own headline.
    """
    if first.metrics.windows is not None:
        return headline_of(first).path
    traits = first.spec.scenario.traits
    for path in (traits.compared, f"{traits.headline}.p50"):
        if path in metrics and metrics[path].count == run_count:
            return path
    return "latency_ns.p50"


def _variance(
    metric: Metric, found: SetMetric | None, runs: Sequence[Run]
) -> VarianceLevels | None:
    """Variance between and within runs, and the best split of the time into launches and loops.

    Let V_w be the variance of a run's value by its own queries, and V_b the variance between
    launches. Let c be the cost of a launch, d the length of the loop and d0 its present length.
    Then n runs take n (c + d), and their mean has the variance (V_b + V_w d0 / d) / n. For a given
    total time, the variance is least for d = sqrt(c V_w d0 / V_b).

    Source: Kalibera & Jones (2013), 9.2, r = sqrt(c_2/c_1 · T_1²/T_2²), with
    T_2² = S_2² - S_1²/r (corrected by the authors after print).
    """
    if found is None or found.ci95 is None or found.median == 0:
        return None
    intervals = [metric.interval(run) for run in runs]
    errors = [
        (interval[1] - interval[0]) / 2 / SIGMAS for interval in intervals if interval is not None
    ]
    launches_s = [launch_s for run in runs if (launch_s := _launch_s(run)) is not None]
    if len(errors) < len(runs) or len(launches_s) < len(runs):
        return None
    values = np.array([metric.value(run) for run in runs], np.float64)
    within = float(np.mean(np.square(errors)))
    between = max(0.0, float(values.var(ddof=1)) - within)
    loop_s = float(np.median([run.spec.duration_s for run in runs]))
    launch_s = float(np.median(launches_s))  # the first run also checks its outputs
    total_s = len(runs) * (launch_s + loop_s)
    longest_s = total_s / MIN_RUNS - launch_s
    best_s = math.sqrt(launch_s * within * loop_s / between) if between else math.inf
    best_s = min(max(best_s, SHORTEST_LOOP_S), max(longest_s, loop_s))
    best_count = max(MIN_RUNS, round(total_s / (launch_s + best_s)))
    present = (between + within) / len(runs)
    best = (between + within * loop_s / best_s) / best_count
    return VarianceLevels(
        between_ratio=math.sqrt(between) / abs(found.median),
        within_ratio=math.sqrt(within) / abs(found.median),
        launch_s=launch_s,
        duration_s=loop_s,
        best_count=best_count,
        best_duration_s=best_s,
        gain_ratio=math.sqrt(best / present) if present else 1.0,
    )


def _launch_s(run: Run) -> float | None:
    """Time of a run without its timed loop, on the host's clock; None if unknown."""
    clock, before, after = run.conditions.clock, run.conditions.before, run.conditions.after
    if clock is None or not clock.span_ns or before is None or after is None:
        return None
    return max(0.0, (clock.span_ns - (after.monotonic_ns - before.monotonic_ns)) / 1e9)


def _verdict(
    runs: Sequence[Run], counted: Sequence[Run], headline: str, metrics: dict[str, SetMetric]
) -> Verdict:
    """Verdict by the rules of the set, with each failed rule of its runs once.

    The state of the verdict is its state for the headline metric.
    """
    kind = METRICS[headline].kind
    if runs[0].set_id is None:
        return replace(runs[0].verdict, state=runs[0].verdict.state_of(kind))
    # For a tail percentile, the interval of the median counts, as in a single run.
    median = f"{runs[0].spec.scenario.traits.headline}.p50"
    precise = median if METRICS[headline].is_tail else headline
    summary = metrics.get(precise)
    half_width, needed = summary.half_width_ratio if summary else None, MIN_RUNS
    if summary is not None and METRICS[precise].is_exact:
        # A reproducible count has no distribution: its precision is the range of the runs.
        half_width, needed = (summary.max - summary.min) / 2 / summary.median, 1
    ordered = tuple(sorted(counted, key=lambda run: run.run_id))
    evidence = SetEvidence(
        runs=ordered,
        planned=_planned_count(runs),
        needed=needed,
        name=METRICS[precise].label,
        half_width_ratio=half_width,
        is_exact=METRICS[precise].is_exact,
        values=tuple(
            float(value) for run in ordered if (value := METRICS[precise].value(run)) is not None
        ),
        drift_ratio=set_drift_ratio(counted) if counted else 0.0,
        yardsticks=_yardsticks(ordered),
    )
    unwatched = dict.fromkeys(name for run in counted for name in run.verdict.unwatched)
    verdict = judge_set(evidence, _broken_by_runs(runs, counted, metrics), unwatched)
    return replace(verdict, state=verdict.state_of(kind))


def _yardsticks(runs: Sequence[Run]) -> tuple[Yardstick | None, ...]:
    """Yardsticks (timings of fixed work) of the runs; all None if work or CPUs differ.

    All are also None if an accelerator ran the model, because yardsticks show the speed of the CPU.
    """
    is_compared = len(set(map(work_of, runs))) == 1 and not any(
        uses_accelerator(run.runtime.placement) for run in runs
    )
    return tuple(run.conditions.yardstick if is_compared else None for run in runs)


def _broken_by_runs(
    runs: Sequence[Run], counted: Sequence[Run], metrics: Mapping[str, SetMetric]
) -> list[Finding]:
    """The worst finding of each failed rule of the runs, with the number of runs that failed it.

    If findings have no value, or different reasons, the first finding is shown. Invalid runs do not
    count in the set. So if at least one run counts, the failures of invalid runs make the set
    suspect at most. A rule may harm a number in only a few runs. If the number stays inside its
    interval without these runs, the rule does not harm the number in the set.
    """
    findings = []
    refused_ids = {run.run_id for run in runs if run.verdict.is_refused}
    for rule in BY_ID.values():
        by_run = {
            run.run_id: failure
            for run in runs
            for failure in run.verdict.failures
            if failure.id == rule.id
        }
        broken = list(by_run.values())
        if not broken:
            continue
        shown = _worst(broken)
        checked_count = sum(_is_checked(run, rule.id) for run in runs)
        harmed = []
        for kind in NumberKind:
            harmed_ids = {run_id for run_id, finding in by_run.items() if kind in finding.harmed}
            others = [run for run in counted if run.run_id not in harmed_ids]
            is_of_medians = kind is NumberKind.MEDIAN and harmed_ids.isdisjoint(refused_ids)
            ratio = OUTVOTED_MEDIANS_RATIO if is_of_medians else OUTVOTED_RATIO
            is_rare = len(harmed_ids) <= ratio * checked_count and len(others) >= MIN_RUNS
            if harmed_ids and not (is_rare and _is_outvoted(kind, others, metrics)):
                harmed.append(kind)
        counts = InRuns(
            failed_count=len(broken),
            of_count=len(runs),
            is_worst=shown is not None,
            is_same=shown is None and all(finding == broken[0] for finding in broken),
            is_outvoted=not harmed,
        )
        findings.append(
            replace(
                shown or broken[0],
                severity=State.SUSPECT if counted else broken[0].severity,
                facts={**(shown or broken[0]).facts, **asdict(counts)},
                harms=tuple(harmed),
            )
        )
    return findings


def _is_checked(run: Run, name: str) -> bool:
    """Whether a rule was checked in a run; only the first run, for example, checks its outputs."""
    outcomes = (RuleOutcome.PASS, RuleOutcome.FAIL)
    return any(rule.id == name and rule.outcome in outcomes for rule in run.verdict.rules)


def _is_outvoted(kind: NumberKind, others: Sequence[Run], metrics: Mapping[str, SetMetric]) -> bool:
    """Whether each number of this kind stays in its interval if only the other runs count."""
    for path, summary in metrics.items():
        if METRICS[path].kind is not kind:
            continue
        without = over_runs(METRICS[path], others)
        if without is None or summary.ci95 is None:
            return False
        rounding = 1e-9 * abs(summary.median)
        if not summary.ci95[0] - rounding <= without.median <= summary.ci95[1] + rounding:
            return False
    return True


def _worst(findings: Sequence[Finding]) -> Finding | None:
    """The finding that is farthest beyond its limit; None if the findings cannot be compared."""
    if len({finding.reason for finding in findings}) > 1:
        return None
    beyond = [
        abs(finding.value - finding.limit)
        for finding in findings
        if finding.value is not None and finding.limit is not None
    ]
    return findings[beyond.index(max(beyond))] if len(beyond) == len(findings) else None
