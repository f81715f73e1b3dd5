"""Ratios between sets of a command, such as "1.80× faster"; warnings about slow int8 models."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgebench.host.analysis.compare.comparability import unshown_differences
from edgebench.host.analysis.compare.ratios import SetRatio, differ_in_precision, ratio_of_sets
from edgebench.host.result.metrics import Better, Quantity
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import ABSENT, format_sides, format_times
from edgebench.host.result.verdict import State
from edgebench.host.show.bench_command import command_line_of
from edgebench.protocol.text import printable

_WIDE_RATIO = 0.5
"""If the half-width of the interval, divided by the ratio, is at least this, both bounds are
printed. At this width, if the interval is symmetric in the logarithm, the upper bound is 1.6 times
as far from the ratio as the lower bound."""
UNLIKE = 0.05
"""The median of the ratios of pairs of runs is compared with the ratio of the medians of the runs.
If their logarithms differ by more than this limit, a note is printed."""
_PROFILED = ("litert", "onnx")
"""Runtimes with a profiler."""
_QUANTIZED, _UNQUANTIZED = ("int8", "uint8"), "fp32"


def ratio_words(ratio: SetRatio) -> str:
    """The ratio with its interval; without a direction if the interval contains 1.

    A narrow interval is a half-width in percent. A wide interval is the range, because a wide
    interval is far from symmetric.

    >>> from edgebench.host.result.metrics import METRICS
    >>> p50 = METRICS["latency_ns.p50"]
    >>> ratio_words(SetRatio(p50, 1.8, (1.78, 1.83))), ratio_words(SetRatio(p50, 0.5, (0.4, 0.6)))
    ('1.80× faster ±1.4 %', '2.00× slower -17/+25 %')
    >>> ratio_words(SetRatio(p50, 0.99, (0.97, 1.02)))
    '0.990× ±2.5 %'
    >>> ratio_words(SetRatio(p50, 0.5, (0.2, 0.9))), ratio_words(SetRatio(p50, 1.2, (0.1, 53.0)))
    ('2.00× slower (1.11× to 5.00×)', '1.20× (0.100× to 53.0×)')
    """
    (low, high), times = ratio.interval, ratio.times
    if ratio.is_clear and times < 1:
        low, times, high = 1 / high, 1 / times, 1 / low
    within_ratio = (high - low) / 2 / times
    direction = f" {_direction(ratio)}" if ratio.is_clear else ""
    if within_ratio >= _WIDE_RATIO:
        lowest = "just above 1×" if direction and 1 < low < 1.005 else format_times(low)
        return f"{format_times(times)}{direction} ({lowest} to {format_times(high)})"
    sides = format_sides(low / times, high / times)
    return f"{format_times(times, within_ratio * times)}{direction} {sides}"


def _direction(ratio: SetRatio) -> str:
    """The word `faster` or `slower` for times and rates, else `less` or `more`."""
    is_better = ratio.times > 1
    if ratio.metric.quantity in (Quantity.DURATION_NS, Quantity.RATE):
        return "faster" if is_better else "slower"
    return "less" if is_better is (ratio.metric.better is Better.LOWER) else "more"


def ratio_to_first(sets: Sequence[RunSet], run_set: RunSet) -> str:
    """Cell with the ratio to the first set; a dash for the first set, or without an interval."""
    ratio = None if run_set is sets[0] else ratio_of_sets(sets[0], run_set)
    return ABSENT if ratio is None else ratio_words(ratio)


def ratio_lines(sets: Sequence[RunSet]) -> list[str]:
    """Notes on the ratios in a table, and warnings about slower int8 models."""
    is_unlike = any(
        abs(math.log(ratio.times / _times_of_medians(ratio, sets[0], run_set))) > UNLIKE
        for run_set in sets[1:]
        if (ratio := ratio_of_sets(sets[0], run_set)) is not None
    )
    note = (
        "note: the column `to the first` has the median of the ratios of all pairs of runs; here, "
        "the ratio of the medians is very different"
    )
    return [*([note] if is_unlike else []), *_unlike_lines(sets), *slower_int8_lines(sets)]


def _unlike_lines(sets: Sequence[RunSet]) -> list[str]:
    """A note if the sets of a table differ in more than its columns show, such as the threads.

    `edgebench compare` refuses such sets.
    """
    with_ratio = [run_set for run_set in sets[1:] if ratio_of_sets(sets[0], run_set) is not None]
    if not with_ratio:
        return []
    found = unshown_differences([run_set.first for run_set in (sets[0], *with_ratio)])
    named = [f"{key} ({' / '.join(values)})" for key, values in found.items()]
    if not named:
        return []
    return [
        "note: the ratios are not due to the models alone, because the sets also differ in "
        f"{', '.join(named)}"
    ]


def _times_of_medians(ratio: SetRatio, first: RunSet, other: RunSet) -> float:
    """Factor by which the median of the other set is better than the median of the first set."""
    before, after = (run_set.metrics[ratio.metric.path].median for run_set in (first, other))
    return before / after if ratio.metric.better is Better.LOWER else after / before


def slower_int8_lines(sets: Sequence[RunSet]) -> list[str]:
    """Warnings about quantised models that are slower than their unquantised siblings.

    Siblings are models whose names differ only in the precision. They were measured by the same
    command, with the same settings.
    """
    lines: list[str] = []
    for quantized in sets:
        if quantized.first.model.precision not in _QUANTIZED:
            continue
        for sibling in sets:
            if sibling.first.model.precision != _UNQUANTIZED or not differ_in_precision(
                quantized, sibling
            ):
                continue
            ratio = ratio_of_sets(sibling, quantized)
            if ratio is not None and ratio.is_clear and ratio.times < 1:
                is_valid = all(
                    run_set.verdict.state is State.VALID for run_set in (quantized, sibling)
                )
                meaning = (
                    "quantisation makes it slower there"
                    if is_valid
                    else "the runs are suspect, so measure again before drawing conclusions"
                )
                lines.append(
                    f"warning: {quantized.model} is {ratio_words(ratio)} than {sibling.model} on "
                    f"{quantized.runtime}, {quantized.device}: {meaning}{_profile_words(quantized)}"
                )
    return [printable(line) for line in lines]


def _profile_words(run_set: RunSet) -> str:
    """The command that shows the time of each operator; empty if the runtime has no profiler."""
    if run_set.runtime not in _PROFILED:
        return ""
    profiled = command_line_of(run_set.first, run_set.planned_count).bench(is_profiled=True)
    return f"; to see which operators take the time: {profiled}"
