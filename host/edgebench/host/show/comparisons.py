"""Comparisons for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from edgebench.host.analysis.compare.comparison import ComparisonOutcome
from edgebench.host.analysis.compare.ratios import SetRatio
from edgebench.host.analysis.compare.runs import RunComparison
from edgebench.host.result.metrics import METRICS, Better, Quantity
from edgebench.host.show.ratios import ratio_words
from edgebench.host.show.tables import PIPE_WIDTH, text
from edgebench.host.show.units import (
    ABSENT,
    format_change,
    format_metric,
    format_ratio,
    half_width_of,
)
from edgebench.protocol.text import printable

_COUNTED_IN_TIMES = {
    Quantity.DURATION_NS,
    Quantity.RATE,
    Quantity.INSTRUCTIONS,
    Quantity.ENERGY_J,
    Quantity.SIZE_BYTES,
}
"""Quantities for which a ratio is meaningful."""
WIDE = 110
"""Width of a terminal with room for all columns."""
_STYLES = {
    ComparisonOutcome.BETTER: "green",
    ComparisonOutcome.EQUIVALENT: "green",
    ComparisonOutcome.WORSE: "red",
    ComparisonOutcome.INCONCLUSIVE: "yellow",
}


def comparisons_table(comparisons: Sequence[RunComparison], width: int = PIPE_WIDTH) -> Table:
    """One row per metric: both medians, the change with its interval, the outcome."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    is_wide = width >= WIDE
    for name in ("device", "metric", "runtime") if is_wide else ("metric",):
        table.add_column(name, overflow="fold")
    for name in ("baseline", "candidate", "change", "95 %", "detectable")[: 5 if is_wide else 4]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    for comparison in comparisons:
        result = comparison.result
        names = [comparison.device, comparison.metric, comparison.runtime]
        bounds, detectable = result.ratio_interval, result.minimum_detectable_ratio
        numbers = [
            format_metric(METRICS[comparison.metric], result.baseline_median),
            format_metric(METRICS[comparison.metric], result.candidate_median),
            format_change(result.ratio - 1, half_width_of(bounds, result.ratio)),
            ABSENT
            if bounds is None
            else " .. ".join(format_change(one - 1, half_width_of(bounds)) for one in bounds),
            ABSENT if detectable is None else format_ratio(detectable).removeprefix("±"),
        ]
        table.add_row(
            *map(text, names if is_wide else names[1:2]),
            *(numbers if is_wide else numbers[:4]),
            Text(result.outcome.value, style=_STYLES[result.outcome]),
        )
    return table


def comparison_lines(comparisons: Sequence[RunComparison]) -> list[str]:
    """The outcome of each comparison in words, and what to know about its numbers."""
    lines = []
    for comparison in comparisons:
        result = comparison.result
        rules = result.rules
        counts = f"{result.baseline_count} and {result.candidate_count} runs, {rules.design.value}"
        lines.append(
            f"{comparison.metric}: {comparison.candidate} is {_words(comparison)} "
            f"{comparison.baseline}{_times(comparison)}: {result.reason} ({counts})"
        )
        if rules.instrument_ratio:
            lines.append(
                f"note: the interval includes {format_ratio(2 * rules.instrument_ratio)} for the "
                "meter; its errors that all runs share cancel"
            )
        suspects = comparison.verdicts.suspect_count
        if suspects:
            total = suspects + comparison.verdicts.valid_count
            lines.append(
                f"note: {suspects} of {total} runs are suspect; edgebench show RUN says why"
            )
        if comparison.is_in_blocks:
            lines.append(
                "note: one side ran before the other; a drift between them looks like a change. "
                "edgebench bench A --against B alternates them"
            )
        for key, values in comparison.differs_in.items():
            lines.append(f"note: the sides differ in {key}: {' / '.join(values)}")
    return [printable(line, keep_lines=True) for line in lines]


def _times(comparison: RunComparison) -> str:
    """Ratio of the candidate in words, such as "1.80× faster"; empty if it may be 1."""
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
        if comparison.result.smallest_p >= comparison.result.rules.alpha:
            return "undecided against"  # whatever the runs say
        return "neither clearly better nor clearly worse than"
    is_lower = (outcome is ComparisonOutcome.BETTER) == (better is Better.LOWER)
    return f"{outcome.value} ({'lower' if is_lower else 'higher'}) than"
