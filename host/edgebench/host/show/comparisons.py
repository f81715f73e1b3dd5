"""Comparisons for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from edgebench.host.analysis.compare.comparison import Better, ComparisonOutcome
from edgebench.host.analysis.compare.runs import Compared
from edgebench.host.show.tables import PIPE_WIDTH, safe
from edgebench.host.show.units import (
    ABSENT,
    format_change,
    format_duration,
    format_joules,
    format_ns,
    format_ratio,
    format_watts,
    half_width_of,
)

WIDE = 110
"""Columns of a terminal that has room for everything."""
_STYLES = {
    ComparisonOutcome.BETTER: "green",
    ComparisonOutcome.EQUIVALENT: "green",
    ComparisonOutcome.WORSE: "red",
    ComparisonOutcome.INCONCLUSIVE: "yellow",
}


def comparisons_table(found: Sequence[Compared], width: int = PIPE_WIDTH) -> Table:
    """One row a metric: both medians, the change with its interval, the outcome."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    is_wide = width >= WIDE
    for name in ("device", "metric", "runtime") if is_wide else ("metric",):
        table.add_column(name, overflow="fold")
    for name in ("baseline", "candidate", "change", "95 %", "detectable")[: 5 if is_wide else 4]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    for compared in found:
        result = compared.result
        names = [compared.device, compared.metric, compared.runtime]
        numbers = [
            _value(compared.metric, result.baseline_median),
            _value(compared.metric, result.candidate_median),
            _change(result.ratio, half_width_of(result.ratio_interval, result.ratio)),
            _interval(result.ratio_interval),
            _detectable(result.minimum_detectable_ratio),
        ]
        table.add_row(
            *(Text(safe(name)) for name in (names if is_wide else names[1:2])),
            *(numbers if is_wide else numbers[:4]),
            Text(result.outcome.value, style=_STYLES[result.outcome]),
        )
    return table


def comparison_lines(found: Sequence[Compared]) -> list[str]:
    """What a person has to know beside the numbers."""
    lines = []
    for compared in found:
        result = compared.result
        rules = result.rules
        counts = f"{result.baseline_count} and {result.candidate_count} runs, {rules.design.value}"
        lines.append(
            safe(
                f"{compared.metric}: {compared.candidate} is {_words(compared)} "
                f"{compared.baseline}: {result.reason} ({counts})"
            )
        )
        if rules.instrument_ratio:
            lines.append(
                f"note: the interval includes {format_ratio(2 * rules.instrument_ratio)} by the "
                "meter; what it has in common in all runs cancels"
            )
        suspects = compared.verdicts.suspect_count
        if suspects:
            total = suspects + compared.verdicts.valid_count
            lines.append(
                f"note: {suspects} of {total} runs are suspect; edgebench show RUN says why"
            )
        if compared.is_in_blocks:
            lines.append(
                "note: one side ran before the other; a drift between them looks like a change. "
                "edgebench bench A --against B measures them in turns"
            )
        for key, values in compared.differs_in.items():
            lines.append(safe(f"note: the sides differ in {key}: {' / '.join(values)}"))
    return lines


def _words(compared: Compared) -> str:
    outcome, better = compared.result.outcome, compared.result.rules.better
    if outcome is ComparisonOutcome.EQUIVALENT:
        return "equivalent to"
    if outcome is ComparisonOutcome.INCONCLUSIVE:
        return "neither better nor worse for certain than"
    is_lower = (outcome is ComparisonOutcome.BETTER) == (better is Better.LOWER)
    return f"{outcome.value} ({'lower' if is_lower else 'higher'}) than"


def _value(metric: str, value: float) -> str:
    if metric.endswith("_j_per_inference"):
        return format_joules(value)
    if "power_w_" in metric:
        return format_watts(value)
    if metric.endswith("duration_s"):
        return format_duration(value)
    return format_ns(value) if "_ns" in metric.split(".")[0] else f"{value:.5g}"


def _change(ratio: float, half_width_ratio: float) -> str:
    return format_change(ratio - 1, half_width_ratio)


def _interval(bounds: tuple[float, float] | None) -> str:
    if bounds is None:
        return ABSENT
    return " .. ".join(_change(bound, half_width_of(bounds)) for bound in bounds)


def _detectable(ratio: float | None) -> str:
    return ABSENT if ratio is None else format_ratio(ratio).removeprefix("±")
