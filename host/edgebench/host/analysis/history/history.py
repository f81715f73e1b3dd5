"""A metric of a model on a device over time, and whether it became worse.

The runs of a set, or of a side of a comparison, form a single point, because they were made under
the conditions of the same hour. The value of a point is the median of the runs, and its interval
comes from the spread between the runs. Invalid runs are counted and left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain, pairwise

import numpy as np

from edgebench.host.analysis.compare.comparability import Differences, Fingerprint
from edgebench.host.analysis.compare.comparison import ALPHA, as_ratios, widened
from edgebench.host.analysis.compare.energy import instrument_ratio
from edgebench.host.analysis.compare.ranks import Bounds, Floats, rank_sum_test
from edgebench.host.analysis.compare.runs import DEFAULT_MARGIN_RATIO, better_of, resolution_ratio
from edgebench.host.analysis.history.levels import MIN_POINTS, find_exact_starts, find_level_starts
from edgebench.host.analysis.median import SIGMAS, are_too_far_apart, median_interval
from edgebench.host.analysis.run_set import over_runs
from edgebench.host.result.marks import ResultMarks, union
from edgebench.host.result.metrics import METRICS, Better, Metric
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import State
from edgebench.protocol.errors import MeasurementError, UsageError

MAX_HISTORY_POINTS = 500
"""Maximum number of points of a history; older points are left out."""


class HistoryOutcome(str, Enum):
    """Judgement of the newest level of a history."""

    STEADY = "steady"
    """No change of the level was found."""
    BETTER = "better"
    WORSE = "worse"
    """All of the ratio's interval is worse than the margin."""
    WITHIN = "within the margin"
    """At the worse end of the ratio's interval, the level is worse by at most the margin."""
    INCONCLUSIVE = "inconclusive"
    """The ratio's interval contains the margin, or there are too few points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRun:
    """Data of a stored run that a history needs."""

    run_id: str
    created_utc: str
    set_id: str | None
    marks: ResultMarks
    value: float | None
    """Value in the unit of the metric; None if the run has none."""
    conditions: Fingerprint
    headline_value: float | None = None
    """Median of the headline metric, which decides whether a set is invalid; None if unknown."""
    run: Run | None = None
    """Whole run, if the metric needs more than its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint:
    """A point of a history, which stands for the runs of a command."""

    created_utc: str
    """Time at which the first run of the point was made."""
    run_ids: tuple[str, ...]
    set_id: str | None
    """Id of the set; None for a single run, and for the runs of a comparison."""
    value: float
    """Median of the runs, unit of the metric."""
    ci95: Bounds | None
    """Interval of the median from the spread between the runs; None for fewer than five runs."""
    is_suspect: bool
    unwatched: tuple[str, ...] = ()
    """Conditions that could not be read during a run, so a change of them would not be noticed."""
    changed: Differences
    """For each condition that differs from the previous point: both values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLevel:
    """Points between two changes."""

    first: int
    """Index of the level's first point."""
    count: int
    median: float
    """Median of the level's points, unit of the metric."""
    ratio: float | None = None
    """Ratio to the level before, by Hodges–Lehmann; None for the first level."""
    ratio_interval: Bounds | None = None
    """95 % interval of the ratio; None for the first level, or with too few points."""
    changed: Differences
    """For each condition that changed at the first point of the level: both values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySubject:
    """Model, device and settings of a history."""

    model: str
    device: str
    runtime: str
    scenario: str
    threads: int
    kind: str
    """What was not real: `simulated` or `emulated` for the device, `synthetic power` for an
    energy."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values of all other settings that identify the history, by the key of the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A metric over time, with one point for the runs of each command, oldest first."""

    subject: HistorySubject
    metric: str
    """Path under `metrics` of run.json."""
    better: Better
    points: tuple[HistoryPoint, ...]
    levels: tuple[HistoryLevel, ...]
    """Levels in order of time; a history with points has at least one."""
    refused_count: int
    """Number of invalid runs, which are left out."""
    missing_count: int
    """Number of runs without a positive value of the metric."""
    earlier_count: int
    """Number of commands that were left out, because `MAX_HISTORY_POINTS` newer commands exist."""
    margin_ratio: float
    outcome: HistoryOutcome

    @property
    def needed_count(self) -> int:
        """Smallest number of points with which a change can be found."""
        return _needed_count(METRICS[self.metric])

    @property
    def worsening_interval(self) -> Bounds | None:
        """95 % interval of the newest change as a ratio; above 1 is worse.

        None if the level has not changed, or the change has no interval.
        """
        return _worsening_interval(self.levels, self.better)

    @property
    def unwatched(self) -> tuple[str, ...]:
        """Conditions that could not be read for at least one point."""
        return union(point.unwatched for point in self.points)

    @property
    def suspect_count(self) -> int:
        """Number of points with a suspect run."""
        return sum(point.is_suspect for point in self.points)


def find_history(
    subject: HistorySubject,
    commands: Sequence[Sequence[HistoryRun]],
    metric: Metric,
    *,
    margin_ratio: float | None = None,
    refused_count: int = 0,
    earlier_count: int = 0,
) -> History:
    """Build the history of valid runs that have the same settings.

    Args:
        subject: Model, device and settings.
        commands: Runs of each command under the same conditions, oldest first.
        metric: Metric of the runs' values.
        margin_ratio: Largest worsening that does not matter; None stands for 1 %.
        refused_count: Number of invalid runs that were left out.
        earlier_count: Number of earlier commands that were left out.
    """
    with_value = [[run for run in runs if _has_ratio(run.value)] for runs in commands]
    known = [runs for runs in with_value if runs]
    kept = [runs for runs in known if not _is_refused(runs)]
    points = _points(kept, metric)
    levels = _levels(kept, points, metric)
    better = better_of(metric, [run.run for runs in kept for run in runs if run.run is not None])
    margin = DEFAULT_MARGIN_RATIO if margin_ratio is None else margin_ratio
    return History(
        subject=subject,
        metric=metric.path,
        better=better,
        points=tuple(points),
        levels=tuple(levels),
        refused_count=refused_count + sum(map(len, known)) - sum(map(len, kept)),
        missing_count=sum(map(len, commands)) - sum(map(len, known)),
        earlier_count=earlier_count,
        margin_ratio=margin,
        outcome=_judge(points, levels, better, margin, metric),
    )


def level_outcome(history: History, number: int) -> HistoryOutcome:
    """Judgement of a level relative to the level before it.

    Args:
        history: The history.
        number: Index of the level. For the newest level, the result is `history.outcome`.
    """
    levels, metric = history.levels[: number + 1], METRICS[history.metric]
    return _judge(history.points, levels, history.better, history.margin_ratio, metric)


def _is_refused(runs: Sequence[HistoryRun]) -> bool:
    """Whether the headline values are so far apart that the set, or the side, is invalid."""
    known = [run.headline_value for run in runs if run.headline_value is not None]
    return len(known) == len(runs) and are_too_far_apart(known)


def _has_ratio(value: float | None) -> bool:
    """Whether changes of a value can be expressed as ratios; the value must be positive."""
    return value is not None and math.isfinite(value) and value > 0


def _points(groups: Sequence[Sequence[HistoryRun]], metric: Metric) -> list[HistoryPoint]:
    points: list[HistoryPoint] = []
    before: Fingerprint | None = None
    for group in groups:
        first = group[0]
        value, ci95 = _value(group, metric)
        now = first.conditions
        keys = () if before is None else (key for key in now if before.get(key) != now[key])
        points.append(
            HistoryPoint(
                created_utc=first.created_utc,
                run_ids=tuple(entry.run_id for entry in group),
                set_id=first.set_id,
                value=value,
                ci95=ci95,
                is_suspect=any(entry.marks.state == State.SUSPECT.value for entry in group),
                unwatched=union(entry.marks.unwatched for entry in group),
                changed={key: ((before or {}).get(key, "none"), now[key]) for key in keys},
            )
        )
        before = now
    return points


def _value(group: Sequence[HistoryRun], metric: Metric) -> tuple[float, Bounds | None]:
    """Median and interval between the runs; for an energy, with the meter's uncertainty."""
    runs = [entry.run for entry in group if entry.run is not None]
    if len(runs) == len(group) and (summary := over_runs(metric, runs)) is not None:
        return summary.median, summary.ci95
    values = np.array([entry.value for entry in group], np.float64)
    return float(np.median(values)), median_interval(values)


def _levels(
    groups: Sequence[Sequence[HistoryRun]], points: Sequence[HistoryPoint], metric: Metric
) -> list[HistoryLevel]:
    if not points:
        return []
    logs = np.log(np.array([point.value for point in points]))
    runs = [[entry.run for entry in group if entry.run is not None] for group in groups]
    if metric.is_exact:
        resolution = math.log1p(resolution_ratio(metric, [run for group in runs for run in group]))
        starts = find_exact_starts(logs, resolution=resolution)
    else:
        errors = np.array([_error(point) for point in points])
        starts = find_level_starts(logs, errors=errors)
    levels: list[HistoryLevel] = []
    for begin, end in pairwise([0, *starts, len(points)]):
        level = HistoryLevel(
            first=begin,
            count=end - begin,
            median=float(np.median([point.value for point in points[begin:end]])),
            changed=points[begin].changed,
        )
        if levels:
            last = levels[-1].first
            sides = [list(chain(*side)) for side in (runs[last:begin], runs[begin:end])]
            level = _with_ratio(level, logs[last:begin], logs[begin:end], sides, metric)
        levels.append(level)
    return levels


def _error(point: HistoryPoint) -> float:
    """Standard error of the logarithm of a point; 0 if the point has no interval."""
    return 0.0 if point.ci95 is None else (point.ci95[1] - point.ci95[0]) / 2 / SIGMAS / point.value


def _with_ratio(
    level: HistoryLevel, before: Floats, after: Floats, sides: Sequence[list[Run]], metric: Metric
) -> HistoryLevel:
    """The level with its ratio to the level before."""
    if metric.is_exact:
        ratio = math.exp(after[0] - before[-1])
        resolution = 1 + resolution_ratio(metric, [*sides[0], *sides[1]])
        return replace(level, ratio=ratio, ratio_interval=(ratio / resolution, ratio * resolution))
    test = rank_sum_test(before, after)
    try:
        instrument = instrument_ratio(metric, *sides)
    except (MeasurementError, UsageError):  # another meter, with unknown errors
        return replace(level, ratio=math.exp(test.shift))
    interval = widened(test.interval(1 - ALPHA), test.shift, instrument)
    return replace(level, ratio=math.exp(test.shift), ratio_interval=as_ratios(interval))


def _needed_count(metric: Metric) -> int:
    return 2 if metric.is_exact else MIN_POINTS


def _worsening_interval(levels: Sequence[HistoryLevel], better: Better) -> Bounds | None:
    interval = levels[-1].ratio_interval if levels else None
    if interval is None or better is Better.LOWER:
        return interval
    low, high = interval
    return 1 / high, 1 / low


def _judge(
    points: Sequence[HistoryPoint],
    levels: Sequence[HistoryLevel],
    better: Better,
    margin_ratio: float,
    metric: Metric,
) -> HistoryOutcome:
    """Outcome of the newest level relative to the previous level."""
    if len(points) < _needed_count(metric):
        return HistoryOutcome.INCONCLUSIVE
    if levels[-1].ratio is None:
        return HistoryOutcome.STEADY
    interval = _worsening_interval(levels, better)
    if interval is None:
        return HistoryOutcome.INCONCLUSIVE
    low, high = interval
    limit = 1 + margin_ratio
    if low > limit:
        return HistoryOutcome.WORSE
    if high > limit:
        return HistoryOutcome.INCONCLUSIVE
    return HistoryOutcome.BETTER if high < 1 else HistoryOutcome.WITHIN
