"""The page of a set of runs, for the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

from rich.console import Group, RenderableType
from rich.table import Table

from edgebench.host.analysis.occasions import NextTime
from edgebench.host.analysis.yardstick import UsualSpeed
from edgebench.host.result.document import Document, set_to_document
from edgebench.host.result.metrics import GROSS_ENERGY, INSTRUCTIONS, METRICS
from edgebench.host.result.numbers import number_of
from edgebench.host.result.run_set import RunSet, SetMetric, VarianceLevels
from edgebench.host.result.units import (
    format_half_width,
    format_metric,
    format_ns,
    format_ratio,
    half_width_of,
)
from edgebench.host.show.data_table import DataTable
from edgebench.host.show.headline import headlines
from edgebench.host.show.names import LEAST_NAME_WIDTH, name_cell
from edgebench.host.show.notes import note_lines
from edgebench.host.show.page import facts_table
from edgebench.host.show.sentences import described
from edgebench.host.show.tables import PIPE_WIDTH, mark_lines, marks_cell, results_table, text
from edgebench.host.show.times import local_time
from edgebench.host.show.verdict import rules_parts, verdict_rows
from edgebench.host.show.yardstick import usual_line, yardsticks_line
from edgebench.protocol.percent import format_percent

_SHOWN_GROUPS = ("latency_ns", "end_to_end_ns", "throughput_per_s", "cold_start_ns", "windows")
_SHOWN = (INSTRUCTIONS, "memory_bytes.peak_rss", GROSS_ENERGY, "energy.net_j_per_inference")
WORTHWHILE_RATIO = 0.9
"""A different number and duration of runs is proposed only if it narrows the interval to less than
this fraction of its present width."""


def set_page(run_set: RunSet, width: int = PIPE_WIDTH, *, is_all: bool = False) -> Group:
    """The page of a set, without the picture that belongs between its two parts."""
    return Group(*set_results(run_set, width), "", *set_details(run_set, is_all=is_all))


def set_results(run_set: RunSet, width: int = PIPE_WIDTH) -> list[RenderableType]:
    """Verdict, advice and result of a set."""
    parts: list[RenderableType] = [text(headline.line) for headline in headlines([run_set])]
    parts += [facts_table(verdict_rows(run_set)), results_table([run_set], width)]
    parts += mark_lines([run_set])
    parts += map(text, note_lines([run_set]))
    return parts


def set_details(
    run_set: RunSet,
    *,
    is_all: bool = False,
    next_time: NextTime | None = None,
    usual: UsualSpeed | None = None,
) -> list[RenderableType]:
    """Metrics over the runs, the list of runs, rules, and facts about the set with its variance.

    Args:
        run_set: The set.
        is_all: List every rule, including those that passed.
        next_time: Prediction of the difference between the headline of the next set and the
            headline of this set. None if the store has too few sets.
        usual: Speed of the device compared with earlier runs, if the store has any.
    """
    parts: list[RenderableType] = []
    if not run_set.verdict.is_refused:
        # Each metric: median of the runs, its interval, lowest and highest run.
        table = DataTable()
        table.add_column("metric", overflow="fold", min_width=LEAST_NAME_WIDTH)
        table.add_numbers("median", "± 95 %", "lowest run", "highest run", "runs")
        for path, summary in run_set.metrics.items():
            if METRICS[path].group in _SHOWN_GROUPS or path in _SHOWN:
                table.add_row(name_cell(path), *_cells(path, summary))
        parts += [table, ""]
    rules = rules_parts(run_set.verdict, is_all=is_all)
    spec = run_set.first.spec
    facts = [
        ("set", f"{run_set.set_id}, {local_time(min(run.created_utc for run in run_set.runs))}"),
        ("model", f"{run_set.model}, {(run_set.first.model.sha256 or '')[:12]}"),
        ("runtime", f"{run_set.runtime} {run_set.first.runtime.version}"),
        ("device", run_set.device),
        ("scenario", f"{spec.scenario.value}, preset {spec.preset}"),
        (
            "runs",
            f"{len(run_set.run_ids)} of {run_set.planned_count} count{_least_length(run_set)}",
        ),
    ]
    if replaced := replaced_words(run_set):
        facts.append(("replaced", replaced))
    yardsticks = [run.conditions.yardstick for run in run_set.counted]
    if known := [yardstick for yardstick in yardsticks if yardstick is not None]:
        facts.append(("yardstick", yardsticks_line(known)))
    if usual is not None:
        facts.append(("usual speed", usual_line(usual)))
    if (line := _next_run_line(run_set)) is not None and not run_set.verdict.is_refused:
        facts.append(("next run", line))
    if next_time is not None:
        facts.append(("next time", next_time_words(run_set, next_time)))
    if run_set.variance is not None:
        facts += [("variance", line) for line in variance_lines(run_set.variance)]
    marks = [line for line in mark_lines(run_set.runs) if line not in mark_lines([run_set])]
    return [*parts, _runs_table(run_set), *marks, "", *rules, "", facts_table(facts), ""]


def replaced_words(run_set: RunSet) -> str:
    """Ids of replaced runs, each with the rules that it failed; empty if no run was replaced."""
    members = [run.member for run in run_set.runs if run.member is not None]
    reasons = [
        f"{member.replaces.run_id} ({', '.join(member.replaces.rules)})"
        for member in members
        if member.replaces is not None and member.replaces.run_id in run_set.replaced_run_ids
    ]
    return ", ".join(reasons)


def _next_run_line(run_set: RunSet) -> str | None:
    """Bounds within which the headline of a further run would lie, as text."""
    metric, summary = METRICS[run_set.headline], run_set.metrics.get(run_set.headline)
    if summary is None or summary.next_run is None:
        return None
    reach = half_width_of(summary.next_run, summary.median)
    low, high = (format_metric(metric, bound, reach) for bound in summary.next_run)
    return f"expected {metric.label} of another run now: {low} to {high} (95 %)"


def next_time_line(sets: Iterable[RunSet], found: Iterable[NextTime | None]) -> str | None:
    """A note below a table, about sets whose next result may differ by more than the ± shown."""
    listed = list(sets)
    names: dict[str, list[str]] = {}
    for run_set, that in zip(listed, found, strict=True):
        if that is not None:
            name = f"{run_set.model} on {run_set.runtime}"
            names.setdefault(format_ratio(that.half_width_ratio), []).append(name)
    if not names:
        return None
    parts = [
        f"{f'all {len(listed)}' if len(same) == len(listed) > 2 else ', '.join(same)} {within}"
        for within, same in names.items()
    ]
    estimate = "expected change of the next set, from the spread between earlier sets"
    return f"{estimate}: {', '.join(parts)} (95 %)"


def next_time_words(run_set: RunSet, found: NextTime) -> str:
    """How far the headline of the next set may be from that of this set, as text."""
    sets = f"{found.occasion_count} sets of this model"
    if found.model_count > 1:
        sets = f"{found.occasion_count} sets of {found.model_count} models on this device"
    label = METRICS[run_set.headline].label.replace("_", " ")
    within = format_ratio(found.half_width_ratio)
    expected = f"expected {label} of the next set: within {within} of this set (95 %)"
    return f"{expected}, estimated from {sets}"


def _least_length(run_set: RunSet) -> str:
    """Minimum duration and queries of each run of a set; empty if instructions are counted."""
    spec = run_set.first.spec
    if INSTRUCTIONS in run_set.metrics:
        return ""
    least = f"{format_ns(spec.duration_s * 1e9)} and {spec.min_query_count} queries"
    return f", each at least {least}"


def set_document(run_set: RunSet, next_time: NextTime | None = None) -> Document:
    """The set as JSON, with the sentences of its rules; its runs are separate documents."""
    document = set_to_document(replace(run_set, verdict=described(run_set.verdict)))
    return {**document, "next_time": None if next_time is None else asdict(next_time)}


def variance_lines(variance: VarianceLevels) -> list[str]:
    """Standard deviations between and within runs, and how to narrow intervals in the same time."""
    lines = [
        f"standard deviation {format_percent(variance.between_ratio, 2)} between runs, "
        f"{format_percent(variance.within_ratio, 2)} within a run; a launch takes "
        f"{format_ns(variance.launch_s * 1e9)}, a timed loop {format_ns(variance.duration_s * 1e9)}"
    ]
    if variance.gain_ratio < WORTHWHILE_RATIO:
        total_s = variance.best_count * variance.best_duration_s
        lines.append(
            f"in the same time, --runs {variance.best_count} --duration {total_s:.3g}s "
            f"would give intervals {format_percent(variance.gain_ratio)} as wide as now"
        )
    return lines


def _cells(path: str, summary: SetMetric) -> list[str]:
    metric = METRICS[path]
    reach = half_width_of(summary.ci95, summary.median)
    numbers = [
        format_metric(metric, value, reach) for value in (summary.median, summary.min, summary.max)
    ]
    shown = format_half_width(summary.median, summary.ci95)
    return [numbers[0], shown, *numbers[1:], str(summary.count)]


def _runs_table(run_set: RunSet) -> Table:
    """Each run with its headline, its interval within the run, and its verdict."""
    metric = METRICS[run_set.headline]
    table = DataTable()
    table.add_numbers("run", metric.label, "± in run", "verdict")
    for run in run_set.runs:
        number = number_of(run, run_set.headline)
        value, interval = (None, None) if number is None else (number.value, number.interval)
        table.add_row(
            run.run_id,
            format_metric(metric, value),
            format_half_width(value, interval),
            "replaced" if run.run_id in run_set.replaced_run_ids else marks_cell(run.marks),
        )
    return table
