"""Results over several runs of one model.

A run has its own process, memory layout and state of the machine, and all of its queries share
them. So the interval of a single run says where its own median lies, and not where the next run's
will: sixteen runs of one model differed by 9 % on a shared machine, each printed within 4 %. The
headline of a set is the median of its runs, and the interval is one for that median, from the
values of the runs alone. It assumes no distribution, only that the next runs come from the same
one: a machine that changes between two commands shows in neither of them.

Source: Kalibera & Jones, Rigorous benchmarking in reasonable time (2013), for the levels of
repetition and the best split of the time; pyperf, which starts 20 processes by default.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from edgebench.host.analysis.median import MIN_RUNS, SIGMAS, median_interval
from edgebench.host.analysis.verdict.judge import judge_set
from edgebench.host.analysis.verdict.run_set import SetEvidence
from edgebench.host.analysis.verdict.table import BY_ID
from edgebench.host.result.facts import BASELINE, CANDIDATE, side_id
from edgebench.host.result.metrics import METRICS, Metric
from edgebench.host.result.metrics import headline as headline_of
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet, SetMetric, VarianceLevels
from edgebench.host.result.verdict import Finding, State, Verdict

SHORTEST_LOOP_S = 0.5
"""Shorter loops are not proposed: a tick of the scheduler or one reading of a sensor is a large
part of them."""


def find_sets(runs: Iterable[Run]) -> list[RunSet]:
    """The sets that these runs make, in the order of their first runs.

    Of runs that were made in pairs, each side is a set, and the baseline comes first.
    """
    groups: dict[str | int, list[Run]] = {}
    for number, run in enumerate(runs):
        if run.pair is not None:
            for side in (BASELINE, CANDIDATE):
                groups.setdefault(side_id(run.pair.comparison_id, side), [])
        groups.setdefault(run.set_id or number, []).append(run)
    return [find_set(group) for group in groups.values() if group]


def choose_sets(runs: Iterable[Run]) -> list[RunSet]:
    """The sets of runs that a person chose; a run without the rest of its set is no set."""
    return [alone(one.first) if len(one.runs) == 1 else one for one in find_sets(runs)]


def _number(run: Run) -> int:
    """Position in the set, from 0."""
    place = run.member or run.pair
    return place.number if place else 0


def _planned_count(runs: Sequence[Run]) -> int:
    """Number of runs that the set was to have; of pairs, up to the last one that was begun."""
    if (member := runs[0].member) is not None:
        return member.count
    return max(map(_number, runs)) + 1


def find_set(runs: Sequence[Run]) -> RunSet:
    """What runs of one set say together; at least one run."""
    ordered = tuple(sorted(runs, key=_number))
    counted = [run for run in ordered if not run.verdict.is_refused]
    first = (counted or ordered)[0]
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
        planned_count=_planned_count(ordered),
        run_ids=tuple(run.run_id for run in counted),
        refused_run_ids=tuple(run.run_id for run in ordered if run.verdict.is_refused),
        headline=headline,
        metrics=metrics,
        variance=_variance(METRICS[headline], metrics.get(headline), counted),
        verdict=_verdict(ordered, counted, headline, metrics),
        runs=ordered,
    )


def alone(run: Run) -> RunSet:
    """A run on its own, also where it is one of a set or a pair."""
    return find_set([replace(run, member=None, pair=None)])


def over_runs(metric: Metric, runs: Sequence[Run]) -> SetMetric | None:
    """A metric over the runs that have it; None where none has.

    A tail that some run could not bound is left out: the median of the others would be one of the
    runs with the shortest latencies.
    """
    having = [run for run in runs if metric.bounded_value(run) is not None]
    if not having or (metric.is_tail and len(having) < len(runs)):
        return None
    values = np.array([metric.value(run) for run in having], np.float64)
    # The first run alone measures the accuracy, and has its interval.
    is_of_one = len(having) == 1 and metric.path.startswith("accuracy.")
    interval = metric.interval(having[0]) if is_of_one else median_interval(values)
    median = float(np.median(values))
    if metric.budget is not None and interval is not None:
        # Interval between runs with the error of the meter; source: GUM, 5.1.2.
        meter = abs(median) * _meter_ratio(runs)
        low, high = median - interval[0], interval[1] - median
        interval = (median - math.hypot(low, meter), median + math.hypot(high, meter))
    return SetMetric(
        count=values.size,
        median=median,
        min=float(values.min()),
        max=float(values.max()),
        ci95=interval,
    )


def _meter_ratio(runs: Sequence[Run]) -> float:
    """Relative uncertainty of an energy by its meter, k = 2, which the runs of a set share."""
    energies = [run.metrics.energy for run in runs if run.metrics.energy is not None]
    known_j = ((one.gross_j_per_inference, one.u95_absolute_j) for one in energies)
    return max((abs(u95 / value) for value, u95 in known_j if value and u95), default=0.0)


def _headline(first: Run, metrics: dict[str, SetMetric], run_count: int) -> str:
    """Path of the metric that the scenario is about, if every run has it; else of the median.

    Devices that time themselves say what theirs is.
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
    """Variance of each level, and the split of the time that would have given the most.

    With V_w the variance that a run's own queries leave in its value, V_b the variance between
    launches, c the cost of a launch and d the length of the loop, n runs take n (c + d) and their
    mean has the variance (V_b + V_w d0 / d) / n. It is least for d = sqrt(c V_w d0 / V_b).

    Source: Kalibera & Jones (2013), 9.2, r = sqrt(c_2/c_1 · T_1²/T_2²), with
    T_2² = S_2² - S_1²/r (corrected by the authors after print).
    """
    if found is None or found.ci95 is None or found.median == 0:
        return None
    intervals = [metric.interval(run) for run in runs]
    errors = [(one[1] - one[0]) / 2 / SIGMAS for one in intervals if one is not None]
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
    """Time of a run without its timed loop, on the host's clock; None where it is unknown."""
    clock, before, after = run.conditions.clock, run.conditions.before, run.conditions.after
    if clock is None or not clock.span_ns or before is None or after is None:
        return None
    return max(0.0, (clock.span_ns - (after.monotonic_ns - before.monotonic_ns)) / 1e9)


def _verdict(
    runs: Sequence[Run], counted: Sequence[Run], headline: str, metrics: dict[str, SetMetric]
) -> Verdict:
    """The rules of a set, and each rule that a run of it broke, once."""
    if runs[0].set_id is None:
        return runs[0].verdict
    # Of a tail, the interval of the median is judged, as in a single run.
    median = f"{runs[0].spec.scenario.traits.headline}.p50"
    precise = median if METRICS[headline].is_tail else headline
    summary = metrics.get(precise)
    half_width, needed = summary.half_width_ratio if summary else None, MIN_RUNS
    if summary is not None and METRICS[precise].is_exact:
        # A reproducible count has no distribution: it is known as far as the runs agree.
        half_width, needed = (summary.max - summary.min) / 2 / summary.median, 1
    evidence = SetEvidence(
        counted=len(counted),
        planned=_planned_count(runs),
        needed=needed,
        name=METRICS[precise].label,
        half_width_ratio=half_width,
    )
    unwatched = dict.fromkeys(name for run in counted for name in run.verdict.unwatched)
    return judge_set(evidence, _broken_by_runs(runs, counted), unwatched)


def _broken_by_runs(runs: Sequence[Run], counted: Sequence[Run]) -> list[Finding]:
    """Each rule that some run broke: its worst finding, with the number of runs that broke it.

    Where findings have no value, or different reasons, that is the first one. What made runs
    invalid took them out; the numbers of the others are suspect for that at most.
    """
    findings = []
    for rule in BY_ID.values():
        broken = [one for run in runs for one in run.verdict.failures if one.id == rule.id]
        if broken:
            shown = _worst(broken)
            facts = {
                **(shown or broken[0]).facts,
                "failed_count": len(broken),
                "of_count": len(runs),
                "is_worst": shown is not None,
            }
            severity = State.SUSPECT if counted else broken[0].severity
            findings.append(replace(shown or broken[0], severity=severity, facts=facts))
    return findings


def _worst(findings: Sequence[Finding]) -> Finding | None:
    """The finding that is farthest beyond its limit; None where they cannot be compared."""
    if len({one.reason for one in findings}) > 1:
        return None
    beyond = [
        abs(one.value - one.limit)
        for one in findings
        if one.value is not None and one.limit is not None
    ]
    return findings[beyond.index(max(beyond))] if len(beyond) == len(findings) else None
