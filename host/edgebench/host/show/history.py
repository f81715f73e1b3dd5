"""Histories for the terminal: a plot of the points, a table of levels, changed conditions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from edgebench.host.analysis.history.conditions import changed_items
from edgebench.host.analysis.history.history import (
    History,
    HistoryLevel,
    HistoryOutcome,
    HistoryPoint,
    HistorySubject,
)
from edgebench.host.result.metrics import METRICS, Metric
from edgebench.host.result.units import (
    ABSENT,
    format_change,
    format_half_width,
    format_metric,
    half_width_of,
)
from edgebench.host.show.data_table import DataTable
from edgebench.host.show.names import name_cell
from edgebench.host.show.tables import PIPE_WIDTH, UNWATCHED, text, unwatched_words
from edgebench.host.show.times import TO_THE_MINUTE, local_time
from edgebench.protocol.percent import format_percent
from edgebench.protocol.plain import to_plain
from edgebench.protocol.text import printable

MAX_PICTURES = 4
"""Maximum number of histories with pictures; more histories are shown as a table."""
HEIGHT = 9
"""Height of a picture, in lines."""
_LIST = ", "
STYLES = {
    HistoryOutcome.STEADY: "green",
    HistoryOutcome.BETTER: "green",
    HistoryOutcome.WITHIN: "green",
    HistoryOutcome.WORSE: "red",
    HistoryOutcome.INCONCLUSIVE: "yellow",
}
_PLAIN = str.maketrans("●○│─▲◆┤…·→—", "*o|-^#|.,>-")
"""ASCII replacements, for terminals without Unicode."""


def histories_page(
    histories: Sequence[History], width: int = PIPE_WIDTH, *, is_ascii: bool = False
) -> Group:
    """Each history with its picture; a table for more than `MAX_PICTURES` histories."""
    if len(histories) > MAX_PICTURES:
        note = "for pictures, choose at most four histories: by RUN…, --model, --device or --tag"
        return Group(*_table(histories), note)
    titles = subject_lines(histories)
    return Group(
        *(
            part
            for title, history in zip(titles, histories, strict=True)
            for part in _page(title, history, width, is_ascii=is_ascii)
        )
    )


def _page(title: str, history: History, width: int, *, is_ascii: bool) -> list[RenderableType]:
    metric = METRICS[history.metric]
    parts: list[RenderableType] = [text(f"{title}: {history.metric}"), text(count_line(history))]
    if len(history.points) > 1:
        picture = ["", *_picture(history, metric, width), _legend(history), ""]
        parts += [
            Text(line.translate(_PLAIN) if is_ascii else line, no_wrap=True, overflow="ellipsis")
            for line in map(printable, picture)
        ]
    if history.levels:
        parts.append(_levels_table(history, metric))
    parts += [text(line) for line in condition_lines(history)]
    outcome = Text(history.outcome.value, style=STYLES[history.outcome])
    return [*parts, Text.assemble(outcome, f": {outcome_sentence(history)}"), ""]


def outcome_sentence(history: History) -> str:
    """Why the history has its outcome."""
    count, needed = len(history.points), history.needed_count
    if count < needed:
        return f"too few points: {count}, at least {needed} needed"
    if history.outcome is HistoryOutcome.STEADY:
        return "no change of the level was found"
    if history.worsening_interval is None:
        return (
            "the change has no interval: too few points before or after the change, or a different "
            "meter after it"
        )
    low, high = (bound - 1 for bound in history.worsening_interval)
    if history.outcome is HistoryOutcome.BETTER:
        return f"better by at least {format_percent(-high, 2)}"
    limit = f"limit {format_percent(history.margin_ratio, 2)}"
    if history.outcome is HistoryOutcome.WORSE:
        return f"worse by at least {format_percent(low, 2)}, {limit}"
    if history.outcome is HistoryOutcome.WITHIN:
        return f"worse by at most {format_percent(high, 2)}, {limit}"
    return f"the worsening is between {format_change(low)} and {format_change(high)}, {limit}"


def history_document(history: History) -> dict[str, Any]:
    """A history for `--json`, with the reason for its outcome under `reason`."""
    document: dict[str, Any] = to_plain(history)
    return document | {"reason": outcome_sentence(history)}


def subject_lines(histories: Sequence[History]) -> list[str]:
    """Model, device and settings of each history.

    Settings other than runtime, scenario and threads are included only if they differ between
    histories of the same model and device.
    """
    settings = _settings([history.subject for history in histories])
    return [
        f"{history.subject.model} on {history.subject.device}, {history.subject.runtime}, {shown}"
        for history, shown in zip(histories, settings, strict=True)
    ]


def _settings(subjects: Sequence[HistorySubject]) -> list[str]:
    """Settings of each history, except its runtime."""
    similar: dict[tuple[str, ...], list[HistorySubject]] = {}
    for subject in subjects:
        similar.setdefault(
            (subject.model, subject.device, subject.runtime, subject.scenario), []
        ).append(subject)
    lines: list[str] = []
    for subject in subjects:
        threads = "" if subject.threads == 1 else f"{subject.threads} threads"
        others = similar[subject.model, subject.device, subject.runtime, subject.scenario]
        parts = [
            subject.scenario,
            threads,
            subject.kind,
            *[
                setting_text(key, value)
                for key, value in subject.settings.items()
                if any(other.settings.get(key) != value for other in others)
            ],
        ]
        lines.append(_LIST.join(filter(None, parts)))
    return lines


def setting_text(key: str, value: str) -> str:
    """A setting as text: a duration with its unit, a hash shortened to 12 characters.

    >>> setting_text("duration", "2.0"), setting_text("cpus", "0, 1")
    ('duration 2 s per run', 'cpus 0,1')
    >>> setting_text("inputs", "ab" * 32), setting_text("inputs", "none")
    ('inputs abababababab', 'inputs none')
    """
    if key == "duration":
        value = f"{float(value):g} s per run"
    elif key == "inputs":
        value = value[:12]
    return f"{key.replace('_', ' ')} {value.replace(_LIST, ',')}"


def count_line(history: History) -> str:
    """Number of points, their dates, and the number of runs that are left out."""
    points = history.points
    if not points:
        counts = "no points"
    elif len(points) == 1:
        counts = f"1 point, {points[0].created_utc[:10]}"
    else:
        days = f"{points[0].created_utc[:10]} to {points[-1].created_utc[:10]}"
        counts = f"{len(points)} points, {days}"
    asides = {
        "suspect": history.suspect_count,
        "invalid runs left out": history.refused_count,
        "runs without this number": history.missing_count,
        "older points left out": history.earlier_count,
    }
    line = _LIST.join([counts, *(f"{count} {what}" for what, count in asides.items() if count)])
    if history.unwatched:
        line += f"; unwatched: {_LIST.join(history.unwatched)}"
    return line


@dataclass(frozen=True, slots=True)
class _PictureColumn:
    """A column of a picture: a point, or several points of a long history."""

    points: Sequence[HistoryPoint]
    level: HistoryLevel
    is_change: bool
    has_other_conditions: bool

    @property
    def value(self) -> float:
        ordered = sorted(point.value for point in self.points)
        return ordered[len(ordered) // 2]

    @property
    def span(self) -> tuple[float, float]:
        """Lowest and highest bound of the points; without interval, both bounds are the value."""
        bounds = [point.ci95 or (point.value, point.value) for point in self.points]
        return min(low for low, _ in bounds), max(high for _, high in bounds)


def _picture(history: History, metric: Metric, width: int) -> list[str]:
    """Picture of points, intervals and levels over time: `HEIGHT` lines, then a line of marks."""
    values = [point.value for point in history.points]
    least, most = min(values), max(values)
    room = max((most - least) / 2, 0.005 * most)  # axis marks differ within three digits
    spans = [column.span for column in _columns(history, len(history.points))]
    least = max(least - room, min(low for low, _ in spans))
    most = min(most + room, max(high for _, high in spans))
    if most == least:
        least, most = least - room, most + room
    ticks = {
        row: format_metric(metric, most - (most - least) * row / (HEIGHT - 1), (most - least) / 20)
        for row in (0, HEIGHT // 2, HEIGHT - 1)
    }
    margin = max(map(len, ticks.values()))
    columns = _columns(history, max(1, width - margin - 3))
    step = 2 if 2 * len(columns) <= width - margin - 3 else 1

    def row_of(value: float) -> int:
        place = (most - value) / (most - least) * (HEIGHT - 1)
        return min(HEIGHT - 1, max(0, round(place)))

    lines = [[" "] * (step * len(columns)) for _ in range(HEIGHT + 1)]
    for number, column in enumerate(columns):
        place = step * number
        for offset in range(step):
            lines[row_of(column.level.median)][place + offset] = "─"
        low, high = column.span
        for row in range(row_of(high), row_of(low) + 1):
            lines[row][place] = "│"
        is_suspect = any(point.is_suspect for point in column.points)
        lines[row_of(column.value)][place] = "○" if is_suspect else "●"
        if column.has_other_conditions:
            lines[HEIGHT][place] = "◆"
        if column.is_change:
            lines[HEIGHT][place] = "▲"
    drawn = [
        f"{ticks.get(row, ''):>{margin}} ┤{''.join(line)}"
        for row, line in enumerate(lines[:HEIGHT])
    ]
    return [*drawn, f"{'':>{margin}}  {''.join(lines[HEIGHT])}".rstrip()]


def _columns(history: History, most: int) -> list[_PictureColumn]:
    count = len(history.points)
    size = math.ceil(count / most)
    starts = {level.first for level in history.levels[1:]}
    columns: list[_PictureColumn] = []
    for begin in range(0, count, size):
        places = range(begin, min(begin + size, count))
        level = [level for level in history.levels if level.first <= places[-1]][-1]
        points = history.points[begin : begin + size]
        changed = any(point.changed for point in points)
        columns.append(_PictureColumn(points, level, bool(starts & set(places)), changed))
    return columns


def _legend(history: History) -> str:
    marks = {
        "● point": True,
        "○ suspect": history.suspect_count,
        "│ 95 % between runs": any(point.ci95 for point in history.points),
        "─ level": True,
        "▲ new level": len(history.levels) > 1,
        "◆ other conditions": any(point.changed for point in history.points),
    }
    return _LIST.join(mark for mark, is_there in marks.items() if is_there)


def _levels_table(history: History, metric: Metric) -> RenderableType:
    table = DataTable()
    table.add_column("since, run", no_wrap=True)
    for name in ("points", "level", "change, 95 %"):
        table.add_column(name, no_wrap=True, justify="right")
    table.add_column("with it", overflow="fold", min_width=len("with it"))
    for level in history.levels:
        point = history.points[level.first]
        interval = level.ratio_interval
        change = ABSENT
        if level.ratio is not None:
            change = format_change(level.ratio - 1, half_width_of(interval, level.ratio))
        if interval is not None:
            bounds = [format_change(ratio - 1, half_width_of(interval)) for ratio in interval]
            change += f"\n{bounds[0]} .. {bounds[1]}"
        since = local_time(point.created_utc, TO_THE_MINUTE)
        table.add_row(
            text(f"{since}\n{point.set_id or point.run_ids[0]}"),
            str(level.count),
            format_metric(metric, level.median),
            change,
            text(_LIST.join(level.changed) if level.ratio is not None else ""),
        )
    return table


def condition_lines(history: History) -> list[str]:
    """Every change of conditions with the old and the new value, oldest first."""
    return [
        f"{point.created_utc[:16].replace('T', ' ')} {key}: {was} → {now}"
        for point in history.points
        for key, values in point.changed.items()
        for was, now in [changed_items(*values)]
    ]


def _table(histories: Sequence[History]) -> list[RenderableType]:
    """A line with the properties that all histories share, and a table of differing properties."""
    names = {
        "metric": [history.metric for history in histories],
        "model": [history.subject.model for history in histories],
        "device": [history.subject.device for history in histories],
        "runtime": [history.subject.runtime for history in histories],
        "settings": _settings([history.subject for history in histories]),
    }
    shared = [f"{name} {cells[0]}" for name, cells in names.items() if len(set(cells)) == 1]
    own = {name: cells for name, cells in names.items() if len(set(cells)) > 1}
    titles = ("points", "suspect", "level", "newest", "outcome")
    rows = [_numbers(history) for history in histories]
    table = DataTable()
    for name in own:
        table.add_column(name, overflow="fold", min_width=len(name))
    for name in titles:
        table.add_column(name, no_wrap=True, justify="left" if name == "outcome" else "right")
    for history, row, *cells in zip(histories, rows, *own.values(), strict=True):
        outcome = Text(row[-1], style=STYLES[history.outcome])
        named = [
            text(cell) if name == "settings" else name_cell(cell)
            for name, cell in zip(own, cells, strict=True)
        ]
        table.add_row(*named, *row[:-1], outcome)
    lines = [text(f"all: {_LIST.join(shared)}")] if shared else []
    unwatched = dict.fromkeys(name for history in histories for name in history.unwatched)
    return [*lines, table, *([text(unwatched_words(unwatched))] if unwatched else [])]


def _numbers(history: History) -> tuple[str, str, str, str, str]:
    """Points, suspect points, newest level, newest point with its interval, and outcome."""
    newest = history.points[-1] if history.points else None
    count, needed, unwatched = len(history.points), history.needed_count, history.unwatched
    level = history.levels[-1].median if history.levels else None
    metric, last = METRICS[history.metric], ABSENT
    if newest is not None:
        shown = format_metric(metric, newest.value, half_width_of(newest.ci95, newest.value))
        last = f"{shown} {format_half_width(newest.value, newest.ci95)}"
    return (
        (f"{count} of {needed}" if count < needed else str(count)) + UNWATCHED * bool(unwatched),
        str(history.suspect_count or ""),
        ABSENT if level is None else format_metric(metric, level),
        last,
        history.outcome.value,
    )
