"""Numbers of a run or a set that may be shown, each with its 95 % interval.

    Run, RunSet ──▶ numbers_of() ──▶ pages, reports, exports, live views

A refused run has no numbers, and percentiles with too few queries for an interval are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgebench.host.result.marks import ResultMarks
from edgebench.host.result.metrics import METRICS, Metric, headline
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet


@dataclass(frozen=True, slots=True)
class Number:
    """A metric of a run, or its median over the runs of a set, in the unit of the metric."""

    metric: Metric
    value: float
    interval: tuple[float, float] | None
    """95 % interval, computed between the runs of a set or within a single run. For an energy of a
    single run, it is the expanded uncertainty (k = 2). None if the number has no interval."""
    marks: ResultMarks
    """Marks of this number, which may differ from those of the headline."""


def numbers_of(result: Run | RunSet, paths: Iterable[str] = METRICS) -> list[Number]:
    """The available numbers of a run or set, in the order of the paths; empty if it is refused.

    Args:
        result: The run or set; a set of a single run has the intervals within the run.
        paths: Paths of metrics.
    """
    numbers = (number_of(result, path) for path in paths)
    return [number for number in numbers if number is not None]


def number_of(result: Run | RunSet, path: str) -> Number | None:
    """The value of a metric; None if it must not be shown, or was not measured."""
    if result.marks.are_numbers_refused:
        return None
    metric = METRICS[path]
    marks = metric.relevant(result.marks)
    if isinstance(result, RunSet):
        summary = result.metrics.get(path)
        if summary is None:
            return None
        is_single = result.set_id is None
        interval = metric.expanded_interval(result.counted[0]) if is_single else summary.ci95
        return Number(metric, summary.median, interval, marks)
    value = metric.bounded_value(result)
    return None if value is None else Number(metric, value, metric.expanded_interval(result), marks)


def headline_number(result: Run | RunSet) -> Number | None:
    """The headline number; None if it must not be shown, or was not measured."""
    return number_of(
        result, result.headline if isinstance(result, RunSet) else headline(result).path
    )
