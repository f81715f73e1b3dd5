"""A set of runs and its variation; the runs are of one model, from one command."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from edgebench.host.result.keys import key
from edgebench.host.result.marks import ResultMarks, together
from edgebench.host.result.metrics import METRICS
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMetric:
    """A metric over the runs of a set, in the metric's unit."""

    count: int
    """Number of runs that have the metric."""
    median: float
    min: float
    max: float
    ci95: tuple[float, float] | None = None
    """Bounds of the 95 % confidence interval of the median; for an energy, including the error of
    the meter. None below five runs. For an accuracy, which only the first run measures, the bounds
    are those of the interval within that run."""

    next_run: tuple[float, float] | None = None
    """Bounds of the 95 % prediction interval for the value of a further run made now, if the values
    of runs have a log-normal distribution. None for an energy, and for fewer than five runs."""

    @property
    def half_width_ratio(self) -> float | None:
        """Half the width of the interval, divided by the median."""
        if self.ci95 is None or self.median == 0:
            return None
        return (self.ci95[1] - self.ci95[0]) / 2 / abs(self.median)


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceLevels:
    """Sources of the headline's variation, and the best use of measuring time."""

    between_ratio: float
    """Standard deviation between launches, divided by the median."""
    within_ratio: float
    """Standard deviation of a single run's value due to its queries, divided by the median."""
    launch_s: float
    """Time of a run outside its timed loop, seconds: cold start, warm-up, idle time of a meter,
    transfer."""
    duration_s: float
    """Measured duration of a run's timed loop, seconds."""
    best_count: int
    """Number of runs for which the interval would be narrowest in the same total time."""
    best_duration_s: float
    """Duration of each run's timed loop if there are `best_count` runs, seconds."""
    gain_ratio: float
    """Standard error with `best_count` and `best_duration_s`, divided by the present standard
    error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSet:
    """Runs of a model on a device in a fixed configuration; a single run can be a set, too."""

    set_id: str | None
    """Id of the set; None for a single run."""
    device: str
    model: str
    runtime: str
    planned_count: int
    """Number of planned runs."""
    run_ids: tuple[str, ...]
    """Runs that are not refused, in order of measurement."""
    refused_run_ids: tuple[str, ...]
    """Invalid runs, which are excluded from the metrics."""
    replaced_run_ids: tuple[str, ...] = ()
    """Disturbed runs that extra runs replace; metrics and verdict exclude these disturbed runs."""
    headline: str
    """Path of the set's headline metric."""
    metrics: dict[str, SetMetric]
    """Metrics, keyed by the path below `metrics` of run.json."""
    variance: VarianceLevels | None
    """Sources of the variation; None if the runs have no intervals, or if the set has no interval
    between its runs."""
    verdict: Verdict
    runs: tuple[Run, ...] = field(metadata=key(""), repr=False)
    """All runs by position, including refused runs; replaced runs are last."""

    @property
    def counted(self) -> tuple[Run, ...]:
        """Runs that are neither refused nor replaced."""
        return tuple(run for run in self.runs if run.run_id in self.run_ids)

    @property
    def marks(self) -> ResultMarks:
        """Marks of the set's numbers; the state is that of its headline."""
        kind = METRICS[self.headline].kind
        return together((run.marks for run in self.runs), self.verdict, kind)

    @property
    def first(self) -> Run:
        """The first run that did not fail, or the first of a set whose runs all failed.

        Only the first planned run has checked outputs and an accuracy.
        """
        return next((run for run in self.runs if run.failure is None), self.runs[0])


def without_replaced(runs: Iterable[Run]) -> list[Run]:
    """The runs without those that a valid or suspect run of the same list replaces."""
    listed = list(runs)
    replaced = {
        run.member.replaces.run_id
        for run in listed
        if run.member is not None and run.member.replaces and not run.verdict.is_refused
    }
    return [run for run in listed if run.run_id not in replaced]
