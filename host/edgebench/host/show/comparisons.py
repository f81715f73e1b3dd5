"""Comparisons for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text

from edgebench.host.analysis.compare.blocks import Blocks
from edgebench.host.analysis.compare.comparison import ComparisonOutcome, Design, needed_run_count
from edgebench.host.analysis.compare.ratios import SetRatio
from edgebench.host.analysis.compare.runs import DEFAULT_MARGIN_RATIO, LeftOut, RunComparison
from edgebench.host.analysis.occasions import MIN_OCCASIONS, OCCASION_S
from edgebench.host.options.command import CommandLine
from edgebench.host.result.metrics import METRICS, Better, Quantity
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import (
    ABSENT,
    format_change,
    format_metric,
    format_ratio,
    format_share,
    half_width_of,
)
from edgebench.host.result.verdict import State
from edgebench.host.show.bench_command import (
    command_line_of,
    device_address,
    model_as_named,
    run_count_of,
)
from edgebench.host.show.data_table import DataTable
from edgebench.host.show.names import LEAST_NAME_WIDTH, name_cell
from edgebench.host.show.ratios import UNLIKE, ratio_words
from edgebench.host.show.tables import PIPE_WIDTH, UNWATCHED, text
from edgebench.protocol.percent import format_percent
from edgebench.protocol.text import printable

_COUNTED_IN_TIMES = {
    Quantity.DURATION_NS,
    Quantity.RATE,
    Quantity.INSTRUCTIONS,
    Quantity.ENERGY_J,
    Quantity.SIZE_BYTES,
}
"""Quantities for which a ratio is meaningful."""
_TITLES = {"device": "device", "metric": "metric", "runtime": "runtime", "comparison_id": "pairs"}
"""Maps attributes of a comparison to the titles of the columns that show them."""
_SHOWN_IF_WIDE = {"device", "runtime"}
"""Columns that a wide terminal shows even if all rows have the same value."""
WIDE = 110
"""Minimum width of a terminal that shows all columns."""
_ACCURACY = ("accuracy", "accuracy-samples", "accuracy-limit", "reference")
"""Options that a command with --against does not have."""
_LEFT_OUT = {
    LeftOut.NOT_MADE: "not made",
    LeftOut.MISSING: "a run is missing",
    LeftOut.INTERRUPTED: "a run was interrupted",
    LeftOut.FAILED: "a run failed",
    LeftOut.INVALID: "a run is invalid",
    LeftOut.NO_ENERGY: "a run lacks this energy",
}
_STYLES = {
    ComparisonOutcome.BETTER: "green",
    ComparisonOutcome.EQUIVALENT: "green",
    ComparisonOutcome.WORSE: "red",
    ComparisonOutcome.INCONCLUSIVE: "yellow",
}


def comparisons_table(comparisons: Sequence[RunComparison], width: int = PIPE_WIDTH) -> DataTable:
    """A row per comparison, with both medians, the change, its interval and the outcome."""
    table = DataTable()
    is_wide = width >= WIDE
    shown = {"metric", *_differing(comparisons)} | (_SHOWN_IF_WIDE if is_wide else set())
    if not is_wide and len(_values(comparisons, "metric")) == 1:  # no number needs its room
        shown.remove("metric")
        table.title, table.title_style = text(f"metric: {comparisons[0].metric}"), ""
        table.title_justify = "left"
    names = [name for name in _TITLES if name in shown]
    for name in names:
        least = LEAST_NAME_WIDTH if name == "metric" else None
        table.add_column(_TITLES[name], overflow="fold", min_width=least)
    columns = ("baseline", "candidate", "change", "95 %", "detectable change")
    for name in columns[: 5 if is_wide else 4]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outcome")  # folded between outcome and mark, before a metric is
    for comparison in comparisons:
        result = comparison.result
        bounds, detectable = result.ratio_interval, result.minimum_detectable_ratio
        numbers = [
            format_metric(METRICS[comparison.metric], result.baseline_median),
            format_metric(METRICS[comparison.metric], result.candidate_median),
            format_change(result.ratio - 1, half_width_of(bounds, result.ratio)),
            ABSENT
            if bounds is None
            else " .. ".join(format_change(bound - 1, half_width_of(bounds)) for bound in bounds),
            ABSENT if detectable is None else format_share(detectable),
        ]
        table.add_row(
            *(name_cell(getattr(comparison, name)) for name in names),
            *(numbers if is_wide else numbers[:4]),
            _outcome_cell(comparison),
        )
    return table


def _outcome_cell(comparison: RunComparison) -> Text:
    """The outcome with the marks of its runs."""
    outcome, marks = comparison.result.outcome, comparison.marks
    shown = Text(f"{outcome.value}{_suspect_mark(comparison)}", style=_STYLES[outcome])
    shown.append(UNWATCHED * bool(marks.unwatched))
    return shown.append("".join(f", {name}" for name in marks.origin))


def _suspect_mark(comparison: RunComparison) -> str:
    """The mark of an outcome of suspect runs; empty if all runs are valid."""
    return f" ({State.SUSPECT.value})" * bool(comparison.verdicts.suspect_count)


def _differing(comparisons: Sequence[RunComparison]) -> list[str]:
    """Attributes other than the metric that distinguish the comparisons."""
    names = [name for name in ("device", "runtime") if len(_values(comparisons, name)) > 1]
    keys = {
        (comparison.device, comparison.runtime, comparison.metric) for comparison in comparisons
    }
    if len(keys) < len(comparisons) and len(_values(comparisons, "comparison_id")) > 1:
        names.append("comparison_id")
    return names


def _values(comparisons: Sequence[RunComparison], name: str) -> set[object]:
    return {getattr(comparison, name) for comparison in comparisons}


def comparison_lines(comparisons: Sequence[RunComparison]) -> list[str]:
    """The outcome of each comparison in words, and notes about its numbers.

    `verdict_lines` of the compared sets state why their runs are suspect.
    """
    lines = []
    names = _differing(comparisons)
    for comparison in comparisons:
        where = "".join(f", {getattr(comparison, name)}" for name in names)
        lines.append(f"{comparison.metric}{where}: {_outcome_words(comparison)}")
        lines += [f"note: {note}" for note in _notes(comparison)]
    return [printable(line, keep_lines=True) for line in lines]


def more_runs_line(comparisons: Sequence[RunComparison], sets: Sequence[RunSet]) -> str | None:
    """A line with the command that makes enough runs for a decision.

    For pairs, it is the command that made the pairs. For sides that were measured one after the
    other, it is a command that measures both models alternately, with the options of the baseline's
    command.

    Args:
        comparisons: The comparisons.
        sets: The compared sets, which contain all compared runs; at least one set.

    Returns:
        The line. None in these cases: there are enough runs; the command that made the pairs was
        interrupted; the runs are profiles; or the sides are not two models that a single command
        can measure.
    """
    if any(LeftOut.INTERRUPTED in comparison.left_out for comparison in comparisons):
        return None  # the sets advise to let it finish
    short = next((each for each in comparisons if each.result.needed_count is not None), None)
    if short is None:
        return None
    runs = {run.run_id: run for run_set in sets for run in run_set.runs}
    before, after = runs[short.baseline_runs[0]], runs[short.candidate_runs[0]]
    tested_count = sum(each.result.rules.design is not Design.EXACT for each in comparisons)
    pair_count = needed_run_count(Design.PAIRED, tested_count)
    origin = _origin(before)
    are_pairs = before.pair and after.pair and before.pair.comparison_id == after.pair.comparison_id
    if are_pairs and origin.value("candidate") is not None:
        again = origin.bench(pairs=pair_count)
    elif (
        short.baseline == short.candidate
        or None in (before.model.sha256, after.model.sha256)
        or before.spec.is_profiled
    ):
        return None
    else:
        given = replace(origin, arguments=((model_as_named(before),), *origin.options))
        address = None if origin.value("on") else device_address(before)
        metrics = tuple(dict.fromkeys(each.metric for each in comparisons))
        margin_ratio = short.result.rules.margin_ratio
        again = given.bench(
            without=_ACCURACY,
            on=None if address is None else [address],
            candidate=model_as_named(after),
            pairs=pair_count,
            metrics=None if metrics == (before.spec.scenario.traits.compared,) else metrics,
            margin_ratio=None if margin_ratio == DEFAULT_MARGIN_RATIO else margin_ratio,
        )
    return printable(f"to improve: make {pair_count} pairs: {again}")


def _origin(run: Run) -> CommandLine:
    """The stored command that made a run; if there is none, a command with the same settings."""
    if run.command is not None and run.command.arguments:
        return CommandLine(command="bench", arguments=run.command.arguments)
    # Each run of a pair has the whole duration.
    return command_line_of(run, 1 if run.pair is not None else run_count_of(run))


def _outcome_words(comparison: RunComparison) -> str:
    result = comparison.result
    design = result.rules.design.value
    candidate, baseline = comparison.candidate, comparison.baseline
    if candidate == baseline:
        candidate, baseline = f"candidate {candidate}", "the baseline"
    return (
        f"{candidate} is {_words(comparison)} {baseline}"
        f"{_times(comparison)}{_suspect_mark(comparison)}: {result.reason} "
        f"({result.baseline_count} and {result.candidate_count} runs, {design})"
    )


def _notes(comparison: RunComparison) -> list[str]:
    notes: list[str] = []
    if instrument_ratio := comparison.result.rules.instrument_ratio:
        notes.append(
            f"the interval includes {format_ratio(2 * instrument_ratio)} for errors of the meter, "
            "except errors that are the same in all runs and cancel"
        )
    for reason, count in comparison.left_out.items():
        pairs = "1 pair is" if count == 1 else f"{count} pairs are"
        notes.append(f"{pairs} left out: {_LEFT_OUT[reason]}")
    if disturbed := len(comparison.disturbed_run_ids):
        notes.append(
            f"{disturbed} runs are left out, because at least half of the runs in their sets were "
            "disturbed"
        )
    if unwatched := comparison.marks.unwatched:
        notes.append(f"unwatched: {', '.join(unwatched)} could not be read")
    if suspects := comparison.verdicts.suspect_count:
        total = suspects + comparison.verdicts.valid_count
        notes.append(f"{suspects} of {total} runs are suspect, and so is the outcome")
    medians_ratio = comparison.result.candidate_median / (comparison.result.baseline_median or 1)
    if medians_ratio and abs(math.log(medians_ratio / comparison.result.ratio)) > UNLIKE:
        notes.append(
            "the change is computed as the median of the ratios of all pairs of runs; here, the "
            "ratio of the two medians is very different"
        )
    if comparison.result.rules.blocks is not None:
        notes.append(_occasions_note(comparison.result.rules.blocks))
    notes += [
        f"{name} in effect: {' / '.join(both)} on the two sides, not as requested"
        for name, both in comparison.in_effect.items()
    ]
    differences = comparison.differs_in.items()
    return notes + [f"the sides differ in {key}: {' / '.join(both)}" for key, both in differences]


def _occasions_note(blocks: Blocks) -> str:
    """Sources of error, or what to measure next, if the sides were measured at separate times."""
    spread = blocks.spread
    in_turn = "edgebench bench A --against B"
    if spread.deviation is None:
        more = f"on {MIN_OCCASIONS} occasions, at least {OCCASION_S / 60:g} minutes apart"
        each = f"or measure one of the models {more}: edgebench bench A"
        return f"measure both models in turn: {in_turn}; {each}"
    models = f"{spread.model_count} models" if spread.is_pooled else "these models"
    drift = ", and a drift between the sides" if blocks.jump else ""
    return (
        "the sides were measured on different occasions, so the interval includes the spread "
        f"between {spread.occasion_count} occasions of {models} (standard deviation "
        f"{format_percent(spread.deviation, 2)}){drift}; to measure both in turn: {in_turn}"
    )


def _times(comparison: RunComparison) -> str:
    """Ratio of the candidate in words, such as "1.80× faster"; empty if the interval contains 1."""
    result, metric = comparison.result, METRICS[comparison.metric]
    times, bounds = result.ratio, result.ratio_interval
    if bounds is None or metric.quantity not in _COUNTED_IN_TIMES:
        return ""
    if result.rules.better is Better.LOWER:
        times, bounds = 1 / times, (1 / bounds[1], 1 / bounds[0])
    ratio = SetRatio(metric, times, bounds)
    return f", {ratio_words(ratio)}" if ratio.is_clear else ""


def _words(comparison: RunComparison) -> str:
    outcome, better = comparison.result.outcome, comparison.result.rules.better
    if outcome is ComparisonOutcome.EQUIVALENT:
        return "equivalent to"
    if outcome is ComparisonOutcome.INCONCLUSIVE:
        rules = comparison.result.rules
        if comparison.result.smallest_p >= rules.alpha or rules.is_spread_unknown:
            return "undecided against"  # no result could be significant
        return "neither clearly better nor clearly worse than"
    is_lower = (outcome is ComparisonOutcome.BETTER) == (better is Better.LOWER)
    return f"{outcome.value} ({'lower' if is_lower else 'higher'}) than"
