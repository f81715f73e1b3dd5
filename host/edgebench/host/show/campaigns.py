"""Campaigns, for the terminal and as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from rich.text import Text

from edgebench.host.analysis.effects import FactorEffect
from edgebench.host.result.campaign import CampaignSummary, LaneStatus
from edgebench.host.result.document import Document
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import ABSENT, format_duration
from edgebench.host.show.data_table import DataTable
from edgebench.host.show.names import name_cell
from edgebench.host.show.set_page import set_document
from edgebench.host.show.tables import PIPE_WIDTH, marks_cell, text
from edgebench.protocol.text import printable

DEFAULT_LEVEL = "default"
"""Text for a factor that the campaign file does not set; `edgebench bench` uses its default."""


def cells_table(rows: Sequence[Mapping[str, Any]], repeats: int) -> DataTable:
    """Table of the cells of a plan, with a column for each factor that any cell sets."""
    table = DataTable()
    table.add_column("cell", justify="right", no_wrap=True)
    factors = [name for name in rows[0] if name != "number"]
    shown = [name for name in factors if any(row[name] is not None for row in rows)]
    for name in shown:
        table.add_column(name, overflow="fold")
    table.add_column("runs", justify="right", no_wrap=True)
    for row in rows:
        levels = [_level(row[name], is_file=name == "model") for name in shown]
        table.add_row(str(row["number"]), *map(text, levels), str(repeats))
    return table


def lanes_table(lanes: Sequence[LaneStatus]) -> DataTable:
    """Table of the progress of each device."""
    table = DataTable()
    table.add_column("device", overflow="fold")
    if is_cluster := any(lane.lab for lane in lanes):
        table.add_column("lab host", overflow="fold")
    for name in ("measured", "failed", "left", "time left"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    for lane in lanes:
        state = ": ".join(filter(None, (lane.state.replace("_", " "), lane.reason)))
        table.add_row(
            name_cell(lane.device),
            *([name_cell(lane.lab or ABSENT)] if is_cluster else []),
            str(lane.measured_count),
            str(lane.failed_count),
            str(lane.left_count),
            format_duration(lane.left_s) if lane.left_s else ABSENT,
            text(state),
        )
    return table


def effects_table(
    metric: str, effects: Sequence[FactorEffect], width: int = PIPE_WIDTH
) -> DataTable:
    """Table of the effect of each factor on a metric.

    Args:
        metric: Name of the metric.
        effects: The effects.
        width: Width of the terminal in characters; a narrow terminal shows neither range nor
            counts.
    """
    table = DataTable()
    table.add_column("factor", no_wrap=True)
    table.add_column("change", overflow="fold", min_width=20)
    is_wide = width >= PIPE_WIDTH * 3 // 4
    extra = ("lowest", "highest", "places", "pairs") if is_wide else ()
    for name in (metric, "95 % interval", *extra):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for effect in effects:
        low, high = effect.ci95
        is_clear = low > 1 or high < 1
        is_file = effect.factor == "model"
        levels = [_level(level, is_file=is_file) for level in (effect.baseline, effect.level)]
        counts = [
            f"{effect.lowest_ratio:.3f}",
            f"{effect.highest_ratio:.3f}",
            str(effect.place_count),
            str(effect.pair_count),
        ]
        table.add_row(
            effect.factor,
            text(" → ".join(levels)),
            Text(f"× {effect.ratio:.3f}", style="bold" if is_clear else ""),
            f"{low:.3f} to {high:.3f}",
            *(counts if is_wide else []),
            marks_cell(effect.marks),
        )
    return table


def failure_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why runs failed; runs with the same failure share a line."""
    sharing: dict[tuple[str, str, str], int] = {}
    for row in rows:
        if row["state"] == "failed":
            where = f"{PurePath(row['model']).name} on {row['device']}"
            key = (where, row["code"] or "", row["message"] or "")
            sharing[key] = sharing.get(key, 0) + 1
    return [
        printable(f"failed: {f'{count} × ' if count > 1 else ''}{where}: {message or code}")
        for (where, code, message), count in sharing.items()
    ]


def campaign_document(
    summary: CampaignSummary,
    lanes: Sequence[LaneStatus],
    runs: Sequence[Mapping[str, Any]],
    sets: Sequence[RunSet],
    effects: Mapping[str, Sequence[FactorEffect]],
) -> Document:
    """The campaign as a document."""
    return {
        "campaign": asdict(summary),
        "devices": list(map(asdict, lanes)),
        "runs": list(runs),
        "sets": [set_document(run_set) for run_set in sets if run_set.set_id],
        "effects": {
            metric: [
                asdict(factor_effect) | {"verdict": factor_effect.verdict.value}
                for factor_effect in factor_effects
            ]
            for metric, factor_effects in effects.items()
        },
    }


def _level(value: object, *, is_file: bool) -> str:
    """A level as text; for a model, the name of its file.

    >>> _level(None, is_file=False), _level("rack/nucleo", is_file=False)
    ('default', 'rack/nucleo')
    >>> _level("/models/net.tflite", is_file=True)
    'net.tflite'
    """
    shown = DEFAULT_LEVEL if value is None else str(value)
    return PurePath(shown).name if is_file else shown
