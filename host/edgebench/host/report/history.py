"""History of a metric on a page, with points, levels and changed conditions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgebench.host.analysis.history.history import History, HistoryLevel, HistoryPoint
from edgebench.host.report.charts import ChartLevel, ChartPoint, HistoryChart
from edgebench.host.report.numbers import metric_label, shown_number
from edgebench.host.result.metrics import METRICS, Metric
from edgebench.host.result.units import ABSENT, format_change, half_width_of
from edgebench.host.show.history import condition_lines, count_line, outcome_sentence, subject_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """A level or a point as a row of a table."""

    cells: tuple[str, ...]
    value: float
    is_shown: bool = False
    """Whether the point is among the results on this page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPart:
    """Content of a history on a page."""

    name: str
    metric: str
    outcome: str
    reason: str
    counts: str
    chart: HistoryChart
    levels: tuple[HistoryRow, ...]
    """Rows of levels, with start, run, number of points, level, change, interval, and
    conditions."""
    points: tuple[HistoryRow, ...]
    """Rows of points, with time, run, value, interval between runs, verdict, and changed
    conditions."""
    conditions: tuple[str, ...]
    """Lines that list every change of the conditions."""


def history_parts(histories: Sequence[History], shown: Collection[str] = ()) -> list[HistoryPart]:
    """Content of histories, each with at least one point.

    Args:
        histories: The histories.
        shown: Ids of the runs on the page.
    """
    names = subject_lines(histories)
    return [_part(name, history, shown) for name, history in zip(names, histories, strict=True)]


def _part(name: str, history: History, shown: Collection[str]) -> HistoryPart:
    metric = METRICS[history.metric]
    return HistoryPart(
        name=name,
        metric=metric.path,
        outcome=history.outcome.value,
        reason=outcome_sentence(history),
        counts=count_line(history),
        chart=HistoryChart(
            title=metric_label(metric),
            unit=metric.quantity.value,
            points=tuple(
                ChartPoint(
                    name=_point_name(point),
                    date=_date(point),
                    value=point.value,
                    low=point.ci95[0] if point.ci95 else None,
                    high=point.ci95[1] if point.ci95 else None,
                    is_suspect=point.is_suspect,
                    is_shown=not set(shown).isdisjoint(point.run_ids),
                    changed=", ".join(point.changed),
                )
                for point in history.points
            ),
            levels=tuple(
                ChartLevel(level.first, level.count, level.median, _change(level))
                for level in history.levels
            ),
        ),
        levels=tuple(_level_row(history, level, metric) for level in history.levels),
        points=tuple(_point_row(point, metric, shown) for point in history.points),
        conditions=tuple(condition_lines(history)),
    )


def _point_name(point: HistoryPoint) -> str:
    return point.set_id or point.run_ids[0]


def _date(point: HistoryPoint) -> str:
    return point.created_utc[:16].replace("T", " ")


def _change(level: HistoryLevel) -> str:
    if level.ratio is None:
        return ""
    return format_change(level.ratio - 1, half_width_of(level.ratio_interval, level.ratio))


def _level_row(history: History, level: HistoryLevel, metric: Metric) -> HistoryRow:
    point = history.points[level.first]
    interval = level.ratio_interval
    bounds = ABSENT
    if interval is not None:
        low, high = (format_change(end - 1, half_width_of(interval)) for end in interval)
        bounds = f"{low} to {high}"
    cells = (
        _date(point),
        _point_name(point),
        str(level.count),
        shown_number(metric, level.median),
        _change(level) or ABSENT,
        bounds,
        ", ".join(level.changed) if level.ratio is not None else "",
    )
    return HistoryRow(cells=cells, value=level.median)


def _point_row(point: HistoryPoint, metric: Metric, shown: Collection[str]) -> HistoryRow:
    half_width = half_width_of(point.ci95, point.value)
    ends = [shown_number(metric, end, half_width) for end in point.ci95 or ()]
    cells = (
        _date(point),
        _point_name(point),
        shown_number(metric, point.value, half_width),
        " to ".join(ends) or ("one run" if len(point.run_ids) == 1 else "too few runs"),
        "suspect" if point.is_suspect else "valid",
        ", ".join(point.changed),
    )
    is_shown = not set(shown).isdisjoint(point.run_ids)
    return HistoryRow(cells=cells, value=point.value, is_shown=is_shown)
