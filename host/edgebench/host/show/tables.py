"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edgebench.host.analysis.verdict.table import BY_ID, RULES, Cause
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.metrics import headline_latency
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import RuleOutcome, State
from edgebench.host.show.sentences import sentence
from edgebench.host.show.units import (
    ABSENT,
    format_bytes,
    format_half_width,
    format_joules_within,
    format_ns,
    format_plain,
    format_rate,
    half_width_of,
)
from edgebench.host.store.index import DAMAGED, INVALID, RunSummary
from edgebench.protocol.spec import DEFAULT_PRESET, PRESETS
from edgebench.protocol.text import printable

_VERDICT_STYLES = {"valid": "green", "suspect": "yellow", "invalid": "red", DAMAGED: "red"}
FAIL = RuleOutcome.FAIL
RUNS_WIDTH = 120
ENERGY_WIDTH = 32
"""Columns that an energy takes from the others."""
SYNTHETIC = "synthetic"
"""Boundary of a meter that measures nothing."""
REFUSED = "refused"
UNWATCHED = "*"
"""Mark behind a valid run of which nobody could see clock, heat or load."""
"""Asked for, and no number: the lines below a table, or `edgebench show`, say why."""
_RUN_NAMES = ("device", "model", "runtime", "scenario", "kind")
PIPE_WIDTH = 160
"""Columns when the output is not a terminal."""


def console(*, stderr: bool = False) -> Console:
    """A console that does not cut tables when its output goes to a file."""
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal:
        made.width = max(made.width, PIPE_WIDTH)
    return made


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the result tables."""

    name: str
    least_width: int
    """Shown on terminals of at least so many columns; a number is never cut to make room."""
    cell: Callable[[Run], str | Text]
    is_number: bool = True
    only_for: Callable[[Run], bool] | None = None
    """Shown when any run is of this kind; None: always."""
    is_asked_for: bool = False
    """The run was made for it: where the run is invalid, it says that it is refused."""


def results_table(runs: Sequence[Run], width: int = PIPE_WIDTH) -> Table:
    """The runs that were just made, as far as they fit into the width."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    room = width - (ENERGY_WIDTH if any(map(_is_metered, runs)) else 0)
    columns = [
        column
        for column in _RESULT_COLUMNS
        if room >= column.least_width
        and (column.only_for is None or any(map(column.only_for, runs)))
    ]
    for column in columns:
        if column.is_number:
            table.add_column(column.name, justify="right", no_wrap=True)
        else:
            table.add_column(column.name, overflow="fold", no_wrap=column.name == "verdict")
    for run in runs:
        table.add_row(*(_cell(column, run) for column in columns))
    return table


def _cell(column: _Column, run: Run) -> str | Text:
    """No number of an invalid run."""
    if not run.verdict.is_refused or not column.is_number:
        return column.cell(run)
    is_its_kind = column.only_for is None or column.only_for(run)
    return _refused() if column.is_asked_for and is_its_kind else ABSENT


def runs_table(rows: Sequence[RunSummary], width: int = PIPE_WIDTH) -> Table:
    """The runs in the store; an id is never broken, so that it can be copied."""
    is_metered = any(
        row.energy_j_per_inference is not None or row.energy_refused is not None for row in rows
    )
    is_wide = width - (ENERGY_WIDTH if is_metered else 0) >= RUNS_WIDTH
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("run", no_wrap=True)
    narrow_names = ("model",) if is_metered else ("model", "runtime")
    for name in _RUN_NAMES if is_wide else narrow_names:
        table.add_column(name, overflow="fold")
    for name in ("p50", "p90", "p99") if is_wide else ("p50",):
        table.add_column(name, justify="right", no_wrap=True)
    if is_metered:
        table.add_column("energy/inference", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in rows:
        numbers = row.headline_ns
        names = [row.device, row.model, row.runtime, row.scenario, row.kind]
        table.add_row(
            text(row.run_id),
            *map(text, names if is_wide else names[1 : 1 + len(narrow_names)]),
            _refused() if row.verdict == INVALID else format_ns(numbers[0]),
            *(format_ns(value) for value in (numbers[1:] if is_wide else ())),
            *([_row_energy(row)] if is_metered else []),
            _verdict(row.verdict).append(UNWATCHED if row.unwatched else ""),
        )
    return table


def verdict_lines(run: Run) -> list[str]:
    """Why a run is not valid, on one line; nothing for a valid one."""
    lines = {one.id: sentence(one) for one in run.verdict.rules if one.outcome is FAIL}
    if not lines:
        return []
    _name_refused_energy(lines, run.metrics.energy)
    for rule in RULES:
        if rule.id in lines and rule.includes is not None:
            lines.pop(rule.includes, None)
    for cause in Cause:
        first, *others = [
            name for name in lines if name in BY_ID and BY_ID[name].cause is cause
        ] or [""]
        for name in others:
            del lines[name]
        if others:
            lines[first] += f" (also: {', '.join(others)})"
    what = f"{run.verdict.state.value}: {run.model.name} on {run.runtime.name}"
    return [printable(f"{what}: {'; '.join(lines.values())}", keep_lines=True)]


def unwatched_line(runs: Sequence[Run]) -> str | None:
    """What the mark behind a valid run means; None where no run has it."""
    marked = [run.verdict.unwatched for run in runs if _is_unwatched(run)]
    names = dict.fromkeys(name for unwatched in marked for name in unwatched)
    return f"{UNWATCHED} unwatched: {', '.join(names)} could not be read" if names else None


def length_line(runs: Sequence[Run]) -> str | None:
    """How long MLPerf's rules ask a run to be, where one is shorter; else None."""
    least_s = PRESETS[DEFAULT_PRESET]["duration_s"]
    if all(run.spec.duration_s >= least_s for run in runs):
        return None
    return f"runs are shorter than the {least_s:g} s that MLPerf Mobile requires"


def _name_refused_energy(lines: dict[str, str], energy: EnergyResult | None) -> None:
    """Say once why there is no energy: by the rule that the refusal follows from."""
    if "energy" not in lines or energy is None or energy.refused is None:
        return
    refused_by = energy.refused_by or "energy"
    why = lines.get(refused_by, energy.refused) if refused_by != "energy" else energy.refused
    lines[refused_by] = f"energy refused: {why}"
    if refused_by != "energy":
        del lines["energy"]


def _percentile(name: str) -> Callable[[Run], str]:
    """A percentile of the headline; a tail that so few queries cannot bound is no number."""

    def cell(run: Run) -> str:
        latency = headline_latency(run)
        if latency is None:
            return ABSENT
        value_ns, interval = getattr(latency, name), getattr(latency, f"{name}_ci95")
        if name != "p50" and interval is None:
            return ABSENT
        return format_ns(value_ns, half_width_of(interval, value_ns))

    return cell


def _half_width(run: Run) -> str:
    latency = headline_latency(run)
    return format_half_width(latency.p50, latency.p50_ci95) if latency else ABSENT


def _query_count(run: Run) -> str:
    latency = headline_latency(run)
    return str(latency.count) if latency else ABSENT


def _is_offline(run: Run) -> bool:
    return run.spec.scenario.traits.is_one_query


def _throughput(run: Run) -> str:
    per_s = run.metrics.throughput_per_s
    return ABSENT if per_s is None or not _is_offline(run) else format_rate(per_s)


def _accuracy(run: Run) -> str:
    accuracy = run.metrics.accuracy
    if accuracy is None:
        return ABSENT
    half_width = half_width_of(accuracy.ci95, accuracy.value)
    return f"{accuracy.metric} {format_plain(accuracy.value, half_width)}"


def _is_metered(run: Run) -> bool:
    return run.metrics.energy is not None


def _energy(run: Run) -> str | Text:
    """Joules per inference with their absolute uncertainty; refused ones are no number."""
    energy = run.metrics.energy
    if energy is None:
        return ABSENT
    return _joules(energy.gross_j_per_inference, energy.u95_absolute_j, energy.boundary)


def _row_energy(row: RunSummary) -> str | Text:
    """Joules per inference of a stored run; refused ones are told from runs without a meter."""
    if row.energy_j_per_inference is None and not row.energy_refused:
        return ABSENT
    return _joules(row.energy_j_per_inference, row.energy_u95_absolute_j, row.energy_boundary)


def _joules(value_j: float | None, u95_j: float | None, boundary: str | None) -> str | Text:
    if value_j is None or u95_j is None:
        return _refused()
    shown = format_joules_within(value_j, u95_j)
    return f"{shown}, synthetic" if boundary == SYNTHETIC else shown


def _refused() -> Text:
    """In the place of a number that there is, and that nobody should trust."""
    return Text(REFUSED, style="yellow")


def _verdict_of(run: Run) -> Text:
    """A simulated device is called that in every table."""
    shown = _verdict(run.verdict.state.value)
    if _is_unwatched(run):
        shown.append(UNWATCHED)
    return shown.append(", simulated") if run.simulated else shown


def _is_unwatched(run: Run) -> bool:
    return run.verdict.state is State.VALID and bool(run.verdict.unwatched)


_RESULT_COLUMNS = (
    _Column("device", 100, lambda run: text(run.device.name), is_number=False),
    _Column("model", -ENERGY_WIDTH, lambda run: text(run.model.name), is_number=False),
    _Column("precision", 100, lambda run: text(run.model.precision or ABSENT), is_number=False),
    _Column("runtime", -ENERGY_WIDTH, lambda run: text(run.runtime.name), is_number=False),
    _Column("per second", -ENERGY_WIDTH, _throughput, only_for=_is_offline, is_asked_for=True),
    _Column("p50", -ENERGY_WIDTH, _percentile("p50"), is_asked_for=True),
    _Column("± in run", 60, _half_width),
    _Column("p90", -ENERGY_WIDTH, _percentile("p90")),
    _Column("p99", 70, _percentile("p99")),
    _Column(
        "accuracy",
        70,
        _accuracy,
        only_for=lambda run: run.metrics.accuracy is not None,
        is_asked_for=True,
    ),
    _Column("energy/inference", -ENERGY_WIDTH, _energy, only_for=_is_metered, is_asked_for=True),
    _Column("queries", 112, _query_count),
    _Column("load", 132, lambda run: format_ns(run.metrics.cold_start_ns.load)),
    _Column("first", 132, lambda run: format_ns(run.metrics.cold_start_ns.first_inference)),
    _Column("peak memory", 132, lambda run: format_bytes(run.metrics.memory_bytes.peak_rss)),
    _Column("verdict", -ENERGY_WIDTH, _verdict_of, is_number=False),
)


def text(value: str) -> Text:
    """Text from a device or a file: nothing in it moves the cursor or turns the line around."""
    return Text(printable(value, keep_lines=True))


def _verdict(state: str) -> Text:
    return Text(state, style=_VERDICT_STYLES.get(state, ""))


def plain_table(*columns: str) -> Table:
    """A table of texts."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
