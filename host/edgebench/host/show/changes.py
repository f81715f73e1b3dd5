"""Changes of levels as text, the worst first, each in a line with the changed conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from edgebench.host.analysis.history.changes import LevelChange
from edgebench.host.analysis.history.conditions import changed_items
from edgebench.host.analysis.history.history import History, HistoryOutcome
from edgebench.host.result.metrics import METRICS
from edgebench.host.result.units import format_change, format_metric, half_width_of
from edgebench.host.show.history import STYLES, subject_lines
from edgebench.host.show.times import TO_THE_MINUTE, local_time
from edgebench.protocol.plain import to_plain
from edgebench.protocol.text import printable


def change_lines(changes: Sequence[LevelChange], histories: Sequence[History]) -> list[Text]:
    """Lines of the changes, and a last line that counts the histories.

    Args:
        changes: The changes, in the order of the lines.
        histories: All histories with runs in the period of the changes.
    """
    titles = _titles(histories)
    lines: list[Text] = []
    for change in changes:
        outcome = Text(change.outcome.value, style=STYLES[change.outcome])
        lines.append(Text.assemble(outcome, f": {printable(_sentence(change, titles))}"))
        beside = "; ".join(_beside(change)) or "no condition that was recorded"
        lines.append(Text(f"    with it: {printable(beside)}"))
    return [*lines, Text(_count_line(changes, histories))]


def change_document(change: LevelChange) -> dict[str, Any]:
    """A change for `--json`."""
    subject: Mapping[str, Any] = to_plain(change.history.subject)
    temperatures = change.start_temp_c
    return {
        "subject": subject,
        "metric": change.history.metric,
        "outcome": change.outcome.value,
        "since_utc": change.first.created_utc,
        "set_id": change.first.set_id,
        "run_ids": list(change.first.run_ids),
        "before": change.before.median,
        "after": change.level.median,
        "ratio": change.level.ratio,
        "ratio_interval": to_plain(change.level.ratio_interval),
        "worsening": change.worsening,
        "point_count": len(change.points),
        "suspect_count": change.suspect_count,
        "changed": {key: list(values) for key, values in change.changed.items()},
        "start_temp_c": None if temperatures is None else list(temperatures),
    }


def undecided(histories: Sequence[History]) -> list[History]:
    """Histories with too few points for a change to be found."""
    return [history for history in histories if len(history.points) < history.needed_count]


def _titles(histories: Sequence[History]) -> dict[int, str]:
    """Map the `id()` of each history to its title, which has only distinguishing settings."""
    lines = subject_lines(histories)
    return {id(history): line for history, line in zip(histories, lines, strict=True)}


def _sentence(change: LevelChange, titles: Mapping[int, str]) -> str:
    metric, ratio = METRICS[change.history.metric], change.level.ratio or 1.0
    interval = change.level.ratio_interval
    moved = format_change(ratio - 1, half_width_of(interval, ratio))
    if interval is None:
        moved += " without an interval"
    else:
        low, high = (format_change(bound - 1, half_width_of(interval)) for bound in interval)
        moved += f" ({low} .. {high})"
    levels = (format_metric(metric, level.median) for level in (change.before, change.level))
    since = local_time(change.first.created_utc, TO_THE_MINUTE)
    name = change.first.set_id or change.first.run_ids[0]
    suspect = ""
    if change.suspect_count:
        suspect = f"; {change.suspect_count} of {len(change.points)} points are suspect"
    return (
        f"{titles[id(change.history)]}: {change.history.metric} {' → '.join(levels)}, {moved}, "
        f"since {since}, {name}{suspect}"
    )


def _beside(change: LevelChange) -> list[str]:
    """Conditions that changed with the level, and the temperature, each with old and new value."""
    beside = [
        f"{key} {was} → {now}"
        for key, values in change.changed.items()
        for was, now in [changed_items(*values)]
    ]
    if change.start_temp_c is not None:
        was_c, now_c = change.start_temp_c
        beside.append(f"temperature after the warm-up {was_c:.0f} → {now_c:.0f} °C")
    return beside


def _count_line(changes: Sequence[LevelChange], histories: Sequence[History]) -> str:
    if not histories:
        return "no runs since then"
    moved = len({id(change.history) for change in changes})
    worse = sum(change.outcome is HistoryOutcome.WORSE for change in changes)
    line = f"{moved} of {len(histories)} histories moved"
    line += f", {worse} for the worse" if worse else ""
    few = len(undecided(histories))
    return line + (f"; {few} have too few points to detect a change" if few else "")
