"""The numbers that may be shown of a run or a set, each with its 95 % interval.

    Run, RunSet ──▶ numbers_of() ──▶ pages, reports, exports, live views

None of a refused one, and no percentile of a run that too few queries bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgebench.host.result.metrics import METRICS, Metric, headline
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet


@dataclass(frozen=True, slots=True)
class Number:
    """A metric of a run, or its median over the runs of a set, in the unit of the metric."""

    metric: Metric
    value: float
    interval: tuple[float, float] | None
    """95 % interval: between the runs of a set, else within the run; of an energy of one run, its
    expanded uncertainty (k = 2). None if there is none."""


def numbers_of(one: Run | RunSet, paths: Iterable[str] = METRICS) -> list[Number]:
    """The metrics that it has, in the order of the paths; none if it is refused.

    Args:
        one: The run or set; a set of one run has the intervals within the run.
        paths: Metrics by their path.
    """
    numbers = (number_of(one, path) for path in paths)
    return [number for number in numbers if number is not None]


def number_of(one: Run | RunSet, path: str) -> Number | None:
    """One metric; None if it may not be shown, or was not measured."""
    if one.marks.are_numbers_refused:
        return None
    metric = METRICS[path]
    if isinstance(one, RunSet):
        summary = one.metrics.get(path)
        if summary is None:
            return None
        is_single = one.set_id is None
        interval = metric.expanded_interval(one.counted[0]) if is_single else summary.ci95
        return Number(metric, summary.median, interval)
    value = metric.bounded_value(one)
    return None if value is None else Number(metric, value, metric.expanded_interval(one))


def headline_number(one: Run | RunSet) -> Number | None:
    """The number that it is about; None if it may not be shown, or was not measured."""
    return number_of(one, one.headline if isinstance(one, RunSet) else headline(one).path)
