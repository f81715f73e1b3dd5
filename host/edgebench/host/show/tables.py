"""Tables for the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.text import Text

from edgebench.host.result.energy import SYNTHETIC
from edgebench.host.result.marks import FAILED, ResultMarks, in_words, union
from edgebench.host.result.metrics import GROSS_ENERGY, INSTRUCTIONS, headline_latency
from edgebench.host.result.numbers import number_of
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import (
    ABSENT,
    format_accuracy,
    format_half_width,
    format_instructions,
    format_joules,
    format_joules_within,
    format_ns,
    format_rate,
    format_size,
    half_width_of,
    is_lopsided,
)
from edgebench.host.result.verdict import NumberKind
from edgebench.host.show.accuracy import accuracy_in
from edgebench.host.show.data_table import GAP, LEAST_NAME, DataTable
from edgebench.host.show.names import LEAST_NAME_WIDTH, Name, name_cell, short_names
from edgebench.host.show.numbers import REFUSED
from edgebench.host.store.index import DAMAGED, RunSummary
from edgebench.protocol.spec import DEFAULT_PRESET, PRESETS
from edgebench.protocol.text import printable, wrap
from edgebench.system.terminal import coloured

_VERDICT_STYLES = {
    "valid": "green",
    "suspect": "yellow",
    "invalid": "red",
    FAILED: "red",
    DAMAGED: "red",
}
ENERGY_WIDTH = 32
"""Width of the energy column; the other columns have the rest of the terminal."""
UNMEASURED = "not measured"
"""Verdict for a device that was off, busy or incapable; the error lines below the table give the
reason."""
UNWATCHED = "*"
"""Mark on a valid run whose clock, temperature or load could not be read."""
SUSPECT_MARK = "?"
"""Mark on a number that is suspect although the headline in its row is valid."""
Interval = tuple[float, float]
PIPE_WIDTH = 160
"""Width of the output, in columns, if it is not a terminal."""
WIDE_NAME = 24
"""Minimum width of names in a table with load times, memory, counts or columns of `_BEHIND_NAMES`;
if names would be narrower, these columns are dropped."""
WIDE_ONLY = 112
"""Minimum width of a terminal that shows load times, memory and counts."""


class _Console(Console):
    """A console whose output pipe may be closed, as in `edgebench show last | head -1`."""

    def on_broken_pipe(self) -> None:
        """Raise the error, so that the command handles it; rich would exit with a failure."""
        raise  # called while rich handles the error


def console(*, stderr: bool = False) -> Console:
    """A console that does not cut tables in a file or a pipe, unless COLUMNS is set.

    Shells do not export COLUMNS by default: if it is in the environment, it was exported on
    purpose.
    """
    out = _Console(stderr=stderr, highlight=False)
    if not out.is_terminal and os.environ.get("COLUMNS") is None:
        out.width = max(out.width, PIPE_WIDTH)
    return out


def print_line(out: Console, line: str) -> None:
    """Print a sentence; on a terminal, wrap it to the width, with its label in a colour."""
    if out.is_terminal:
        out.print(Text.from_ansi(coloured(wrap(line, out.width))), soft_wrap=True)
    else:
        out.print(line, markup=False, soft_wrap=True)


class ResultColumn(Enum):
    """Columns of the result tables, with their titles."""

    DEVICE = "device"
    MODEL = "model"
    PRECISION = "precision"
    RUNTIME = "runtime"
    PER_SECOND = "per second"
    INSTRUCTIONS = "instructions"
    P50 = "p50"
    IN_RUN = "± in run"
    OVER_RUNS = "± over {runs}"
    P90 = "p90"
    P99 = "p99"
    ACCURACY = "accuracy"
    ENERGY = "energy/inference"
    QUERIES = "queries"
    LOAD = "load"
    FIRST = "first"
    PEAK_MEMORY = "peak memory"
    FLASH = "flash"
    RAM = "RAM"
    STACK = "stack"
    VERDICT = "verdict"
    SETTINGS = "settings"
    TO_THE_FIRST = "to the first"


class ResultTable(DataTable):
    """A table of sets, with the columns that fit."""

    kinds: tuple[ResultColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the result tables."""

    kind: ResultColumn
    least_width: int
    """Minimum width of a terminal that shows the column; a number is never cut to make room."""
    cell: Callable[[RunSet], str | Text]
    is_number: bool = True
    only_for: Callable[[RunSet], bool] | None = None
    """Tests a set; the column is shown if any set passes the test. If None, it is always shown."""
    is_requested: bool = False
    """Whether the user requested this number; if so, an invalid set shows `refused` in the
    column."""
    number: NumberKind | None = None
    """Kind of number in the column; None for a fact, such as a count."""


def results_table(
    sets: Sequence[RunSet],
    width: int = PIPE_WIDTH,
    unmeasured: Sequence[str] = (),
    settings: Callable[[RunSet], str] | None = None,
) -> ResultTable:
    """Table of the sets of runs that were just made, with the columns that fit into the width.

    Args:
        sets: The sets.
        width: Columns of the terminal.
        unmeasured: Names of the devices on which no model could be measured.
        settings: Settings in which sets of the same model and device differ. None if no two sets
            have the same model and device.
    """
    is_of_several = len({*unmeasured, *(run_set.device for run_set in sets)}) > 1
    columns = _columns(sets, width, settings, keeps_device=is_of_several)
    fitting = _fitted(_filled(columns, sets, unmeasured), width, keeps_device=is_of_several)
    runtimes = {run_set.runtime for run_set in sets}
    has_runtime = any(filled.column.kind is ResultColumn.RUNTIME for filled in fitting)
    is_shared = len(runtimes) == 1 and not has_runtime
    return _written(fitting, width, [f"runtime: {printable(*runtimes)}"] if is_shared else [])


def _columns(
    sets: Sequence[RunSet],
    width: int,
    settings: Callable[[RunSet], str] | None,
    *,
    keeps_device: bool,
) -> list[_Column]:
    """The columns that apply to the sets and fit a terminal of this width."""
    room = width - (ENERGY_WIDTH if any(map(_is_metered, sets)) else 0)
    columns = [
        column
        for column in _RESULT_COLUMNS
        if (room >= column.least_width or (keeps_device and column.kind is ResultColumn.DEVICE))
        and (column.only_for is None or any(map(column.only_for, sets)))
    ]
    if settings is not None:
        place = [column.kind for column in columns].index(ResultColumn.RUNTIME) + 1
        shown = _Column(
            ResultColumn.SETTINGS, 0, lambda run_set: text(settings(run_set)), is_number=False
        )
        columns.insert(place, shown)
    elif len(sets) > 1:
        from edgebench.host.show.ratios import ratio_to_first  # slow to import

        columns.insert(
            -1, _Column(ResultColumn.TO_THE_FIRST, 0, lambda run_set: ratio_to_first(sets, run_set))
        )
    return columns


def _filled(
    columns: Sequence[_Column], sets: Sequence[RunSet], unmeasured: Sequence[str]
) -> list[_FilledColumn]:
    """The columns with their cells; the column of ratios is left out if no set has a ratio."""
    counts = {len(run_set.run_ids) for run_set in sets if run_set.set_id} or {1}
    count = f"{max(counts)} run{'' if counts == {1} else 's'}" if len(counts) == 1 else "runs"
    unmeasured_cells = [
        {ResultColumn.DEVICE: name_cell(name), ResultColumn.VERDICT: Text(UNMEASURED, style="red")}
        for name in unmeasured
    ]
    filled = [
        _FilledColumn(
            column,
            column.kind.value.format(runs=count),
            [_cell(column, run_set) for run_set in sets]
            + [cells.get(column.kind, ABSENT) for cells in unmeasured_cells],
        )
        for column in columns
    ]
    return [
        column
        for column in filled
        if column.column.kind is not ResultColumn.TO_THE_FIRST
        or any(cell != ABSENT for cell in column.cells)
    ]


def _written(fitting: Sequence[_FilledColumn], width: int, shared: list[str]) -> ResultTable:
    """The table of the columns.

    Args:
        fitting: The columns.
        width: Columns of the terminal.
        shared: Properties that all rows share, for the title. This function appends the shared
            parts of long names to this list.
    """
    table = ResultTable()
    table.kinds = tuple(filled.column.kind for filled in fitting)
    widths = _name_widths(fitting, width)
    listed: list[Sequence[str | Text]] = []
    for filled in fitting:
        if filled.column.is_number:
            table.add_column(filled.title, justify="right", no_wrap=True)
            listed.append(filled.cells)
            continue
        # A pipe has whole names.
        name_width = widths[filled.title] if width < PIPE_WIDTH else width
        cells, common = _shortened_cells(filled.cells, name_width)
        used = max(map(_width, (filled.title, *cells))) if common else widths[filled.title]
        table.add_column(filled.title, overflow="fold", width=used)
        listed.append(cells)
        shared += [f"every {filled.title}: {common}"] if common else []
    if shared:
        table.title, table.title_style, table.title_justify = text("; ".join(shared)), "", "left"
    for row in zip(*listed, strict=True):
        table.add_row(*row)
    return table


@dataclass(frozen=True, slots=True)
class _FilledColumn:
    """A column of a result table with its cells."""

    column: _Column
    title: str
    cells: list[str | Text]

    def width(self, name_width: int) -> int:
        """Width of the column in characters if names are folded to `name_width` characters.

        A verdict is folded between its words.
        """
        natural = max(map(_width, (self.title, *self.cells)))
        if self.column.is_number:
            return natural
        words = [word for cell in self.cells for word in str(cell).split()]
        if self.column.kind is ResultColumn.VERDICT and name_width <= LEAST_NAME_WIDTH:
            return max(map(_width, (self.title, *words)))
        return max(_width(self.title), min(natural, name_width))


def _shortened_cells(cells: Sequence[str | Text], width: int) -> tuple[Sequence[str | Text], str]:
    """The cells with short names, and what the names share; cells without a name are kept."""
    names = [cell.plain for cell in cells if isinstance(cell, Name)]
    short = short_names(names, width)
    if short is None:
        return cells, ""
    replaced = iter(short.names)
    return [
        name_cell(next(replaced)) if isinstance(cell, Name) else cell for cell in cells
    ], short.common


def _name_widths(fitting: Sequence[_FilledColumn], width: int) -> dict[str, int]:
    """Widths of the columns without numbers in a table of this width, keyed by title."""
    widths: dict[str, int] = {}
    narrow = LEAST_NAME_WIDTH
    while narrow > LEAST_NAME and sum(filled.width(narrow) + GAP for filled in fitting) > width:
        narrow -= 1  # a name is folded further before a number is cut
    free = width - sum(filled.width(narrow) + GAP for filled in fitting)
    for filled in reversed(fitting):  # a verdict is folded last
        if not filled.column.is_number:
            wider = min(filled.width(width) - filled.width(narrow), max(free, 0))
            widths[filled.title] = filled.width(narrow) + wider
            free -= wider
    return widths


def _fitted(columns: list[_FilledColumn], width: int, *, keeps_device: bool) -> list[_FilledColumn]:
    """The columns that fit into the width; columns are dropped in the order of `_FIRST_TO_GO`.

    A runtime that all sets share is dropped before a number, and is in the title instead.
    """
    weights: dict[ResultColumn, float] = {kind: i for i, kind in enumerate(_FIRST_TO_GO)}
    if any(
        filled.column.kind is ResultColumn.RUNTIME and len(set(map(str, filled.cells))) == 1
        for filled in columns
    ):
        weights[ResultColumn.RUNTIME] = weights[ResultColumn.QUERIES] + 0.5
    leaving = sorted(
        (filled for filled in columns if filled.column.kind in weights),
        key=lambda filled: weights[filled.column.kind],
    )
    left = list(columns)
    for filled in leaving:
        is_extra = filled.column.least_width >= WIDE_ONLY or filled.column.kind in _BEHIND_NAMES
        name_width = WIDE_NAME if is_extra else LEAST_NAME_WIDTH
        if sum(other.width(name_width) + GAP for other in left) <= width:
            continue
        if filled.column.kind is not ResultColumn.DEVICE or not keeps_device:
            left.remove(filled)
    return left


def _width(cell: str | Text) -> int:
    return cell.cell_len if isinstance(cell, Text) else cell_len(cell)


def _cell(column: _Column, run_set: RunSet) -> str | Text:
    """The cell of a set; a cell of an invalid set has no number."""
    if not run_set.verdict.is_refused or not column.is_number:
        cell = column.cell(run_set)
        return cell if column.number is None else marked(cell, column.number, run_set.marks)
    is_its_kind = column.only_for is None or column.only_for(run_set)
    return refused_cell() if column.is_requested and is_its_kind else ABSENT


def marked(cell: str | Text, kind: NumberKind, marks: ResultMarks) -> str | Text:
    """A cell; its number is marked if it is suspect although the row's headline is valid."""
    is_plain = cell == ABSENT or kind not in marks.also_suspect
    return cell if is_plain else Text.assemble(cell, (SUSPECT_MARK, "yellow"))


def suspect_words(marks: ResultMarks) -> list[str]:
    """The kinds of numbers that are suspect although the headline is valid, if any."""
    return [f"suspect {in_words(marks.also_suspect)}"] if marks.also_suspect else []


def mark_lines(rows: Iterable[RunSet | Run | RunSummary]) -> list[str]:
    """Explanations of the marks in the table of these runs or sets."""
    marks = [row.marks for row in rows]
    lines: list[str] = []
    if any(mark.also_suspect for mark in marks):
        lines.append(
            f"{SUSPECT_MARK} marks a suspect number in a row whose headline is not suspect"
        )
    if names := union(mark.unwatched for mark in marks):
        lines.append(unwatched_words(names))
    return lines


def unwatched_words(names: Iterable[str]) -> str:
    """The line below a table that explains the mark `UNWATCHED`."""
    return f"{UNWATCHED} unwatched: {', '.join(names)} could not be read"


def length_line(sets: Sequence[RunSet]) -> str | None:
    """A note with the duration that MLPerf's rules require; None if the runs are long enough."""
    least_s = PRESETS[DEFAULT_PRESET]["duration_s"]
    # Instructions are counted, not timed; a run may also end early at its limit of queries.
    loops_s = [sum(map(_loop_s, run_set.runs)) for run_set in sets if _is_timed(run_set)]
    if all(loop_s >= least_s * (1 - 1e-9) for loop_s in loops_s):
        return None
    together = any(len(run_set.runs) > 1 for run_set in sets)
    which = "all runs together are" if together else "runs are"
    note = f"note: {which} shorter than the {least_s:g} s that MLPerf Mobile requires"
    limits = {
        run.spec.max_query_count
        for run_set in sets
        for run in run_set.runs
        if is_at_query_limit(run)
    }
    return f"{note}; some ended at their limit of {max(limits):,} queries" if limits else note


def is_at_query_limit(run: Run) -> bool:
    """Whether a run ended at its limit of queries, before its duration was over."""
    from edgebench.host.analysis.verdict.run import EnoughTimeRule  # only here: it loads numpy

    return any(map(EnoughTimeRule.is_full, run.verdict.rules))


def _loop_s(run: Run) -> float:
    """Measured duration of the loop, seconds; the requested duration if no clock was read."""
    before, after = run.conditions.before, run.conditions.after
    if before is None or after is None:
        return run.spec.duration_s
    return (after.monotonic_ns - before.monotonic_ns) / 1e9


def tails_line(sets: Sequence[RunSet], table: ResultTable) -> str | None:
    """Reason why the table of sets has a p50 without p90 or p99; None if none is missing."""
    missing = [
        kind.value
        for kind in (ResultColumn.P90, ResultColumn.P99)
        if kind in table.kinds
        and any(
            _latency(run_set, kind.value)[0] is None
            for run_set in sets
            if _latency(run_set, "p50")[0]
        )
    ]
    if not missing:
        return None
    verb = "is" if len(missing) == 1 else "are"
    return (
        f"note: {' and '.join(missing)} {verb} missing ({ABSENT}) where a run has too few "
        "independent queries for an interval"
    )


def _found(run_set: RunSet, path: str) -> tuple[float | None, Interval | None]:
    """A metric with its interval, which is computed between runs or within a single run."""
    number = number_of(run_set, path)
    return (None, None) if number is None else (number.value, number.interval)


def _latency(run_set: RunSet, name: str) -> tuple[float | None, Interval | None]:
    """A percentile of the latencies that are the headline of the set's scenario."""
    span = run_set.first.spec.scenario.traits.headline
    return _found(run_set, f"{span if f'{span}.p50' in run_set.metrics else 'latency_ns'}.{name}")


def _percentile(name: str) -> Callable[[RunSet], str]:
    """A percentile of the headline; a dash if the queries are too few to bound the tail."""

    def cell(run_set: RunSet) -> str:
        value_ns, interval = _latency(run_set, name)
        if value_ns is None:
            return ABSENT
        return format_ns(value_ns, half_width_of(interval, value_ns))

    return cell


def _half_width(*, is_of_sets: bool) -> Callable[[RunSet], str]:
    """Half-width of the interval of p50, computed between runs or within a single run."""

    def cell(run_set: RunSet) -> str:
        if (run_set.set_id is not None) is not is_of_sets:
            return ABSENT
        return format_half_width(*_latency(run_set, "p50"))

    return cell


def _median_of(path: str, shown: Callable[[float | None], str]) -> Callable[[RunSet], str]:
    return lambda run_set: shown(run_set.metrics[path].median if path in run_set.metrics else None)


def _query_count(run_set: RunSet) -> str:
    latencies = [
        latency for run in run_set.counted if (latency := headline_latency(run)) is not None
    ]
    return str(sum(latency.count for latency in latencies)) if latencies else ABSENT


def _is_about_throughput(run_set: RunSet) -> bool:
    """Whether throughput is the headline, as in offline runs and if only windows are timed."""
    is_of_windows = run_set.first.metrics.windows is not None
    is_offline = run_set.first.spec.scenario.traits.is_one_query
    return is_offline or (is_of_windows and not _is_counted(run_set))


def _is_counted(run_set: RunSet) -> bool:
    return run_set.first.metrics.instructions_per_inference is not None


def _has_process(run_set: RunSet) -> bool:
    """Whether a process of an operating system ran the model, as opposed to a microcontroller."""
    return run_set.first.metrics.windows is None


def _has_memory_of_target(run_set: RunSet) -> bool:
    return run_set.first.metrics.target_memory_bytes is not None


def _memory_of_target(name: str) -> Callable[[RunSet], str]:
    """Memory of model and firmware, or of the model alone if the firmware reports none."""

    def shown(run_set: RunSet) -> str:
        memory = run_set.first.metrics.target_memory_bytes
        is_reported = memory is not None and memory.firmware_flash is not None
        path = f"target_memory_bytes.{name}_total" if is_reported else f"target_memory_bytes.{name}"
        return _median_of(path, format_size)(run_set)

    return shown


def _is_timed(run_set: RunSet) -> bool:
    """Whether the set has latencies of the model; those of a profile include the profiler."""
    return not _is_counted(run_set) and run_set.first.metrics.profile is None


def _throughput(run_set: RunSet) -> str:
    per_s, interval = _found(run_set, "throughput_per_s")
    if per_s is None or not _is_about_throughput(run_set):
        return ABSENT
    shown = format_rate(per_s, half_width_of(interval, per_s))
    return shown if interval is None else f"{shown} {format_half_width(per_s, interval)}"


def _instructions(run_set: RunSet) -> str:
    count, interval = _found(run_set, INSTRUCTIONS)
    shown = format_instructions(count)
    return shown if interval is None else f"{shown} {format_half_width(count, interval)}"


def _accuracy(run_set: RunSet) -> str:
    accuracy = accuracy_in(run_set)
    if accuracy is None:
        return ABSENT
    half_width = half_width_of(accuracy.ci95, accuracy.value)
    return f"{accuracy.metric} {format_accuracy(accuracy.metric, accuracy.value, half_width)}"


def _is_metered(run_set: RunSet) -> bool:
    return any(run.metrics.energy is not None for run in run_set.runs)


def _energy(run_set: RunSet) -> str | Text:
    """Joules per inference with their absolute uncertainty, or `refused`."""
    energies = [energy for run in run_set.counted if (energy := run.metrics.energy) is not None]
    if not energies:
        return ABSENT
    boundary = energies[0].boundary
    if run_set.set_id is None:
        return joules_cell(energies[0].gross_j_per_inference, energies[0].u95_absolute_j, boundary)
    value_j, interval = _found(run_set, GROSS_ENERGY)
    if value_j is not None and interval is None:  # fewer than five runs
        return _with_boundary(format_joules(value_j), boundary)
    if value_j is not None and interval is not None and is_lopsided(value_j, interval):
        shown = f"{format_joules(value_j)} {format_half_width(value_j, interval)}"
        return _with_boundary(shown, boundary)
    return joules_cell(value_j, half_width_of(interval) if interval else None, boundary)


def joules_cell(value_j: float | None, u95_j: float | None, boundary: str | None) -> str | Text:
    """An energy with its absolute uncertainty; `refused` if the uncertainty is missing."""
    if value_j is None or u95_j is None:
        return refused_cell()
    return _with_boundary(format_joules_within(value_j, u95_j), boundary)


def _with_boundary(shown: str, boundary: str | None) -> str:
    return f"{shown}, synthetic" if boundary == SYNTHETIC else shown


def refused_cell() -> Text:
    """Cell in place of a number that was measured but cannot be trusted."""
    return Text(REFUSED, style="yellow")


def marks_cell(marks: ResultMarks) -> Text:
    """A verdict with the labels of a simulated or emulated device, and the mark for unread sensors.

    The sensors that could not be read are listed below the table; synthetic power is marked in the
    energy cell.
    """
    shown = verdict_cell(marks.state)
    if marks.unwatched:
        shown.append(UNWATCHED)
    return shown.append("".join(f", {name}" for name in marks.device))


_RESULT_COLUMNS = (
    _Column(ResultColumn.DEVICE, 100, lambda run_set: name_cell(run_set.device), is_number=False),
    _Column(
        ResultColumn.MODEL, -ENERGY_WIDTH, lambda run_set: name_cell(run_set.model), is_number=False
    ),
    _Column(
        ResultColumn.PRECISION,
        100,
        lambda run_set: text(run_set.first.model.precision or ABSENT),
        is_number=False,
    ),
    _Column(
        ResultColumn.RUNTIME,
        -ENERGY_WIDTH,
        lambda run_set: name_cell(run_set.runtime),
        is_number=False,
    ),
    _Column(
        ResultColumn.PER_SECOND,
        -ENERGY_WIDTH,
        _throughput,
        only_for=_is_about_throughput,
        is_requested=True,
        number=NumberKind.MEAN,
    ),
    _Column(
        ResultColumn.INSTRUCTIONS,
        -ENERGY_WIDTH,
        _instructions,
        only_for=_is_counted,
        is_requested=True,
        number=NumberKind.MEDIAN,
    ),
    _Column(
        ResultColumn.P50,
        -ENERGY_WIDTH,
        _percentile("p50"),
        only_for=_is_timed,
        is_requested=True,
        number=NumberKind.MEDIAN,
    ),
    _Column(
        ResultColumn.IN_RUN,
        -ENERGY_WIDTH,
        _half_width(is_of_sets=False),
        only_for=lambda run_set: _is_timed(run_set) and not run_set.set_id,
    ),
    _Column(
        ResultColumn.OVER_RUNS,
        -ENERGY_WIDTH,
        _half_width(is_of_sets=True),
        only_for=lambda run_set: run_set.set_id is not None,
    ),
    _Column(
        ResultColumn.P90,
        -ENERGY_WIDTH,
        _percentile("p90"),
        only_for=_is_timed,
        number=NumberKind.TAIL,
    ),
    _Column(ResultColumn.P99, 70, _percentile("p99"), only_for=_is_timed, number=NumberKind.TAIL),
    _Column(
        ResultColumn.ACCURACY,
        70,
        _accuracy,
        only_for=lambda run_set: run_set.first.metrics.accuracy is not None,
        is_requested=True,
        number=NumberKind.OUTPUTS,
    ),
    _Column(
        ResultColumn.ENERGY,
        -ENERGY_WIDTH,
        _energy,
        only_for=_is_metered,
        is_requested=True,
        number=NumberKind.ENERGY,
    ),
    _Column(ResultColumn.QUERIES, WIDE_ONLY, _query_count),
    _Column(
        ResultColumn.LOAD,
        132,
        _median_of("cold_start_ns.load", format_ns),
        only_for=_has_process,
        number=NumberKind.COLD_START,
    ),
    _Column(
        ResultColumn.FIRST,
        132,
        _median_of("cold_start_ns.first_inference", format_ns),
        only_for=_has_process,
        number=NumberKind.COLD_START,
    ),
    _Column(
        ResultColumn.PEAK_MEMORY,
        132,
        _median_of("memory_bytes.peak_rss", format_size),
        only_for=_has_process,
        number=NumberKind.MEMORY,
    ),
    *(
        _Column(kind, 70, shown, only_for=_has_memory_of_target, number=NumberKind.MEMORY)
        for kind, shown in (
            (ResultColumn.FLASH, _memory_of_target("flash")),
            (ResultColumn.RAM, _memory_of_target("ram")),
            (ResultColumn.STACK, _median_of("target_memory_bytes.stack_peak", format_size)),
        )
    ),
    _Column(
        ResultColumn.VERDICT,
        -ENERGY_WIDTH,
        lambda run_set: marks_cell(run_set.marks),
        is_number=False,
    ),
)
_FIRST_TO_GO = (
    ResultColumn.STACK,
    ResultColumn.RAM,
    ResultColumn.FLASH,
    ResultColumn.PEAK_MEMORY,
    ResultColumn.FIRST,
    ResultColumn.LOAD,
    ResultColumn.QUERIES,
    ResultColumn.P99,
    ResultColumn.PRECISION,
    ResultColumn.P90,
    ResultColumn.TO_THE_FIRST,
    ResultColumn.RUNTIME,
    ResultColumn.DEVICE,
)
"""Columns in the order in which they are dropped from a table that is too wide. The uncertainty of
a number is dropped only together with the number."""
_BEHIND_NAMES = (ResultColumn.PRECISION, ResultColumn.DEVICE)
"""Columns that are dropped before the names of models are folded."""


def text(value: str) -> Text:
    """Text from a device or a file, with `?` in place of characters that are not printable."""
    return Text(printable(value, keep_lines=True))


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence in a cell of a table; a command that fits into the cell is not broken."""

    sentence: str

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Generator[RenderableType, None, None]:
        """Yield the text at the width of the cell."""
        del console
        shown = text(wrap(self.sentence, options.max_width))
        shown.overflow = "fold"  # a long path is not cut
        yield shown

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """The width of the unwrapped sentence, capped at the available width."""
        return Measurement.get(console, options, text(self.sentence))


def verdict_style(state: str) -> str:
    """Style of a verdict."""
    return _VERDICT_STYLES.get(state, "")


def verdict_cell(state: str) -> Text:
    """A verdict in its colour."""
    return Text(state, style=verdict_style(state))
