"""Results of sets while their runs are made. A set has a row once its first run has ended.

1 of 8 runs   p50 203 µs   ±0.4 % in this run        the interval within the run
3 of 8 runs   p50 203 µs   lowest 201 µs, highest 206 µs
6 of 8 runs   p50 202 µs   ±0.8 %                    95 % interval of the median of the runs
8 of 8 runs   p50 202 µs   ±0.5 %   suspect          with the verdict
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from edgebench.host.analysis.median import is_too_wide
from edgebench.host.analysis.run_set import find_set, headline_over
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import without_replaced
from edgebench.host.result.units import format_half_width, format_metric, half_width_of
from edgebench.host.show.names import LEAST_NAME_WIDTH, short_names
from edgebench.host.show.numbers import REFUSED, labelled_headline
from edgebench.protocol.text import printable

_GAP = "  "


@dataclass(frozen=True, slots=True)
class InterimRow:
    """Cells of the row of a set whose runs are being made."""

    model: str
    runtime: str
    device: str
    settings: str
    """Settings in which runs of the same model differ."""
    numbers: tuple[str, ...]
    """Number of runs, headline, interval and verdict."""


def interim_row(runs: Sequence[Run], settings: str = "") -> InterimRow:
    """The row of a set.

    Args:
        runs: The runs of the set that have ended, at least one.
        settings: Settings in which runs of the same model differ.
    """
    first, count = runs[0], len(without_replaced(runs))
    planned = first.member.count if first.member is not None else None
    # A pair does not state how many pairs follow.
    of = "" if planned is None else f" of {planned}"
    label = f"{count}{of} run{'s' if planned or count > 1 else ''}"
    is_complete = first.pair is None and count >= (planned or 1)
    marks = find_set(runs).marks.label if is_complete else ""
    value, spread = _headline(runs)
    return InterimRow(
        first.model.name,
        first.runtime.name,
        first.device.name,
        settings,
        (label, value, spread, marks),
    )


def _headline(runs: Sequence[Run]) -> tuple[str, str]:
    """Label and value of the headline over the runs made so far, and its interval or range."""
    counted = [run for run in without_replaced(runs) if not run.verdict.is_refused]
    headline = headline_over(counted) if counted else None
    if headline is None:
        return labelled_headline(runs[0]), ""
    metric, summary = headline
    label, median = metric.label.replace("_", " "), summary.median
    interval, where = summary.ci95, ""
    if summary.count == 1:
        interval, where = metric.expanded_interval(counted[0]), " in this run"
    if interval is not None and is_too_wide(interval, median):
        return f"{label} {REFUSED}", f"{format_half_width(median, interval)}{where}"
    half_width = half_width_of(interval, median)
    value = f"{label} {format_metric(metric, median, half_width)}"
    if metric.is_exact and summary.min == summary.max:
        return value, ""
    if interval is not None:
        return value, f"{format_half_width(median, interval)}{where}"
    if summary.count > 1:
        low, high = (format_metric(metric, bound) for bound in (summary.min, summary.max))
        return value, f"lowest {low}, highest {high}"
    return value, "no interval"


def interim_lines(rows: Sequence[InterimRow], width: int) -> list[str]:
    """A line for each row, with names and numbers in columns.

    Args:
        rows: The rows, at least one.
        width: Columns of the terminal.
    """
    columns = [column for column in zip(*(row.numbers for row in rows), strict=True) if any(column)]
    room = width - sum(len(_GAP) + max(map(cell_len, column)) for column in columns)
    columns.insert(0, tuple(_names(rows, room)))
    padded = [
        [f"{cell}{' ' * (max(map(cell_len, column)) - cell_len(cell))}" for cell in column]
        for column in columns
    ]
    return [_GAP.join(line).rstrip() for line in zip(*padded, strict=True)]


def _names(rows: Sequence[InterimRow], room: int) -> list[str]:
    """Name of each row: the model, with the runtime, settings or device in which rows differ."""
    models = {row.model for row in rows}
    has_runtimes = len({(row.model, row.runtime) for row in rows}) > len(models)
    has_devices = len({row.device for row in rows}) > 1
    others: list[str] = []
    for row in rows:
        words = (row.runtime * has_runtimes, row.settings, row.device * has_devices)
        others.append("".join(f", {printable(word)}" for word in words if word))
    names = [printable(row.model) for row in rows]
    least = max(room - max(map(cell_len, others)), LEAST_NAME_WIDTH)
    short = short_names(names, least)
    shown = names if short is None else short.names
    return [f"{model}{other}" for model, other in zip(shown, others, strict=True)]
