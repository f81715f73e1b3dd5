"""The list of stored runs, for the terminal."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from rich.cells import cell_len
from rich.text import Text

from edgebench.host.analysis.median import are_too_far_apart
from edgebench.host.result.facts import side_id
from edgebench.host.result.marks import union
from edgebench.host.result.units import ABSENT, format_instructions, format_ns, format_rate
from edgebench.host.result.verdict import NumberKind
from edgebench.host.show.data_table import GAP, DataTable
from edgebench.host.show.names import LEAST_NAME_WIDTH, name_cell, short_names
from edgebench.host.show.tables import (
    ENERGY_WIDTH,
    PIPE_WIDTH,
    UNWATCHED,
    joules_cell,
    marked,
    marks_cell,
    refused_cell,
    text,
    unwatched_words,
    verdict_style,
)
from edgebench.host.show.times import age
from edgebench.host.store.index import COUNTED_STATES, INVALID, RunSummary, without_replaced
from edgebench.protocol.text import printable

WIDE = 120
"""Minimum width, in characters, of a terminal that shows tails, tags and notes; a narrower one
shows the model, a median and the verdict."""
WIDE_WITH_GROUPS = 150
"""Minimum width, in characters, of a terminal that shows all columns and the ids of sets."""
GROUPS_WIDTH = 80
"""Minimum width, in characters, of a terminal that shows the ids of sets and comparisons."""
_BEST_FIRST = ("valid", "suspect")
_NAMES = ("device", "model", "runtime", "scenario", "kind")


def runs_table(rows: Sequence[RunSummary], width: int = PIPE_WIDTH) -> DataTable:
    """Table of the runs in the store; ids are never folded, so that they can be copied."""
    is_metered = any(
        row.energy_j_per_inference is not None or row.energy_refused is not None for row in rows
    )
    room = width - (ENERGY_WIDTH if is_metered else 0)
    is_wide = room >= WIDE
    groups = [row.set_id or row.comparison_id for row in rows]
    runtimes = {row.runtime for row in rows}
    # Without the runtime column, a model on two runtimes would look like a model with scatter.
    has_groups = any(groups) and room >= (GROUPS_WIDTH if len(runtimes) == 1 else WIDE)
    shown = _names(rows, room, is_narrow=is_metered or has_groups, has_groups=has_groups)
    table = DataTable()
    table.add_column("run", no_wrap=True)
    if has_groups:
        table.add_column("set, pairs", no_wrap=True)
    for name in shown:
        table.add_column(name, overflow="fold")
    has_others = any(
        row.instructions_per_inference is not None or row.throughput_per_s is not None
        for row in rows
        if row.headline_ns[0] is None
    )
    first = "p50, or rate" if has_others else "p50"
    for name in (first, "p90", "p99") if is_wide else (first,):
        table.add_column(name, justify="right", no_wrap=True)
    if is_metered:
        table.add_column("energy/inference", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if is_annotated := is_wide and any(row.tags or row.note for row in rows):
        table.add_column("tags; note", overflow="fold")
    for row, group in zip(rows, groups, strict=True):
        numbers = row.headline_ns
        table.add_row(
            text(row.run_id),
            *([text(group or ABSENT)] if has_groups else []),
            *(name_cell(getattr(row, name)) for name in shown),
            _number(row),
            *(
                marked(format_ns(value), NumberKind.TAIL, row.marks)
                for value in (numbers[1:] if is_wide else ())
            ),
            *([marked(_energy(row), NumberKind.ENERGY, row.marks)] if is_metered else []),
            marks_cell(row.marks),
            *([text("; ".join(filter(None, (", ".join(row.tags), row.note))))] * is_annotated),
        )
    return table


def invalid_lines(rows: Sequence[RunSummary]) -> list[str]:
    """A line for each set or side of pairs that is invalid because its runs differ too much.

    The table shows only the verdict of each single run.
    """
    groups: dict[str, list[float]] = {}
    for row in without_replaced(rows):
        side = side_id(row.comparison_id, row.side or "") if row.comparison_id else None
        name, value = row.set_id or side, row.headline_ns[0] or row.throughput_per_s
        if name is not None and value:
            groups.setdefault(name, []).append(value)
    invalid = [name for name, values in groups.items() if are_too_far_apart(values)]
    return [
        f"invalid: {name} has no result, because its runs differ too much: edgebench show "
        f"{shlex.quote(name)}"
        for name in map(printable, invalid)
    ]


def _names(
    rows: Sequence[RunSummary], room: int, *, is_narrow: bool, has_groups: bool
) -> list[str]:
    """Columns of names that fit; a column with the same value in all rows is dropped first."""
    if room < WIDE:
        return ["model"] if is_narrow else ["model", "runtime"]
    if not has_groups or room >= WIDE_WITH_GROUPS:
        return list(_NAMES)
    shared = [name for name in _NAMES[2:] if len({getattr(row, name) for row in rows}) == 1]
    return [name for name in _NAMES if name not in shared]


def _number(row: RunSummary) -> str | Text:
    """Headline of a stored run: its median latency, number of instructions or throughput."""
    return refused_cell() if row.verdict == INVALID else _median_of([row])


def _median_of(rows: Sequence[RunSummary]) -> str | Text:
    """Median over runs of the first quantity that all have: instructions, latency, throughput.

    The cell is a dash if the runs share no quantity, and `refused` if the runs are too far
    apart.
    """
    quantities = (
        ([row.instructions_per_inference for row in rows], "{} instr.", format_instructions),
        ([row.headline_ns[0] for row in rows], "{}", format_ns),
        ([row.throughput_per_s for row in rows], "{}/s", format_rate),
    )
    for values, form, number in quantities:
        known = [value for value in values if value is not None]
        if len(known) == len(rows):
            return (
                refused_cell() if are_too_far_apart(known) else form.format(number(median(known)))
            )
    return ABSENT


def _energy(row: RunSummary) -> str | Text:
    """Joules per inference of a stored run, or `refused`; a dash for a run without a meter."""
    if row.energy_j_per_inference is None and not row.energy_refused:
        return ABSENT
    return joules_cell(row.energy_j_per_inference, row.energy_u95_absolute_j, row.energy_boundary)


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The stored runs of a set, the stored runs of a side of a comparison, or a single run."""

    name: str
    """Id of the set, the comparison or the run."""
    side: str | None
    """Side of the comparison; None for a set and for a single run."""
    rows: tuple[RunSummary, ...]

    @property
    def newest(self) -> RunSummary:
        """The newest run."""
        return self.rows[-1]


def run_groups(rows: Sequence[RunSummary]) -> list[RunGroup]:
    """Group runs into sets and sides of comparisons, in the order of the newest run of each.

    Args:
        rows: The runs, oldest first.
    """
    groups: dict[tuple[str, str | None], list[RunSummary]] = {}
    for row in rows:
        side = row.side if row.set_id is None and row.comparison_id is not None else None
        key = (row.set_id or row.comparison_id or row.run_id, side)
        members = groups[key] = groups.pop(key, [])
        members.append(row)
    return [RunGroup(name, side, tuple(members)) for (name, side), members in groups.items()]


def groups_table(
    groups: Sequence[RunGroup], names: Mapping[str, str], now: datetime, width: int = PIPE_WIDTH
) -> DataTable:
    """Table of groups of runs, newest last: age, median, and a name that commands accept.

    Both sides of a comparison have the name of the comparison, which commands accept.

    Args:
        groups: The groups.
        names: Short names of runs, sets and comparisons.
        now: The present time.
        width: Columns of the terminal.
    """
    differing = [
        name
        for name in ("device", "runtime")
        if len({getattr(group.newest, name) for group in groups}) > 1
    ]
    has_sides = any(group.side is not None for group in groups)
    others = (row for group in groups for row in group.rows if row.headline_ns[0] is None)
    has_others = any(row.instructions_per_inference or row.throughput_per_s for row in others)
    number = "p50, or rate" if has_others else "p50"
    columns: dict[str, list[Text]] = {
        "name": [text(names.get(group.name, group.name)) for group in groups],
        **({"side": [text(group.side or ABSENT) for group in groups]} if has_sides else {}),
        "age": [text(age(group.newest.created_utc, now)) for group in groups],
        "model": [],
        **{name: [text(getattr(group.newest, name)) for group in groups] for name in differing},
        number: [_median_cell(group) for group in groups],
        "runs": [_count_cell(group) for group in groups],
    }
    used = sum(
        max(map(cell_len, (title, *map(str, cells)))) + GAP
        for title, cells in columns.items()
        if title != "model"
    )
    models = [printable(group.newest.model) for group in groups]
    short = short_names(models, max(width - used - GAP, LEAST_NAME_WIDTH))
    columns["model"] = list(map(name_cell, models if short is None else short.names))
    table = DataTable()
    if short is not None and short.common:
        table.title, table.title_justify, table.title_style = (
            f"every model: {short.common}",
            "left",
            "",
        )
    for title in columns:
        if title in ("age", number):
            table.add_column(title, justify="right", no_wrap=True)
        else:
            table.add_column(title, no_wrap=title in ("name", "side"), overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    return table


def group_mark_lines(groups: Sequence[RunGroup]) -> list[str]:
    """The explanation of the mark in `groups_table`, if the table has the mark."""
    names = union(row.marks.unwatched for group in groups for row in group.rows)
    return [unwatched_words(names)] if names else []


def _median_cell(group: RunGroup) -> Text:
    """Median of the headlines of the counted runs; `refused` if the runs are too far apart."""
    kept = without_replaced(group.rows)
    rows = [row for row in kept if row.verdict in COUNTED_STATES]
    if not rows:
        return refused_cell() if kept and kept[-1].verdict == INVALID else Text(ABSENT)
    cell = _median_of(rows)
    return cell if isinstance(cell, Text) else Text(cell)


def _count_cell(group: RunGroup) -> Text:
    """Number of runs with each verdict, best first, as in "5 valid, 3 suspect"; then the device."""
    rows = without_replaced(group.rows)
    states = Counter(row.verdict for row in rows)
    unwatched = {row.verdict for row in rows if row.marks.unwatched}
    best_first = sorted(states, key=lambda state: (*(state != good for good in _BEST_FIRST), state))
    cell = Text()
    for number, state in enumerate(best_first):
        cell.append(", " if number else "")
        mark = UNWATCHED if state in unwatched else ""
        cell.append(f"{states[state]} {state}{mark}", style=verdict_style(state))
    device = dict.fromkeys(name for row in group.rows for name in row.marks.device)
    return cell.append("".join(f", {name}" for name in device))
