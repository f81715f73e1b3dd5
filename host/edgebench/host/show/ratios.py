"""Ratios between the sets of one command, "1.80× faster", and warnings about slower int8 models."""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgebench.host.analysis.compare.ratios import SetRatio, ratio_of_sets
from edgebench.host.result.metrics import Better, Quantity
from edgebench.host.result.run_set import RunSet
from edgebench.host.show.units import ABSENT, format_ratio, format_times
from edgebench.protocol.text import printable

_PRECISIONS = re.compile(
    r"(?<![a-z0-9])(u?int8|int16x8|i8|q8|fp32|float32|f32|float|quant(i[sz]ed)?|full|integer|"
    r"qdq)(?![a-z0-9])"
)
"""Words in a file name that denote its precision."""
_QUANTIZED, _UNQUANTIZED = ("int8", "uint8"), "fp32"


def ratio_words(ratio: SetRatio) -> str:
    """The ratio with the half-width of its interval; without a direction if it may be 1.

    >>> from edgebench.host.result.metrics import METRICS
    >>> p50 = METRICS["latency_ns.p50"]
    >>> ratio_words(SetRatio(p50, 1.8, (1.78, 1.83))), ratio_words(SetRatio(p50, 0.5, (0.4, 0.6)))
    ('1.80× faster ±1.4 %', '2.00× slower ±21 %')
    >>> ratio_words(SetRatio(p50, 0.99, (0.97, 1.02)))
    '0.990× ±2.5 %'
    """
    low, high = ratio.interval
    times = ratio.times
    within_ratio = (high - low) / 2 / times
    if not ratio.is_clear:
        return f"{format_times(times, within_ratio * times)} {format_ratio(within_ratio)}"
    if ratio.metric.quantity in (Quantity.DURATION_NS, Quantity.RATE):
        better, worse = "faster", "slower"
    else:
        better, worse = (
            ("less", "more") if ratio.metric.better is Better.LOWER else ("more", "less")
        )
    if times < 1:
        # Half-width of the inverse's interval, whose bounds are the inverse bounds.
        times, within_ratio = 1 / times, (1 / low - 1 / high) / 2 * times
        better = worse
    return f"{format_times(times, within_ratio * times)} {better} {format_ratio(within_ratio)}"


def ratio_to_first(sets: Sequence[RunSet], one: RunSet) -> str:
    """Cell with the ratio to the first set; a dash for the first set, and without an interval."""
    ratio = None if one is sets[0] else ratio_of_sets(sets[0], one)
    return ABSENT if ratio is None else ratio_words(ratio)


def slower_int8_lines(sets: Sequence[RunSet]) -> list[str]:
    """Warnings about quantised models that are slower than their unquantised siblings.

    Siblings have the same name except for the precision, and were measured with the same settings
    by one command.
    """
    lines: list[str] = []
    for quantized in sets:
        if quantized.first.model.precision not in _QUANTIZED:
            continue
        for sibling in sets:
            if sibling.first.model.precision != _UNQUANTIZED or not _are_alike(quantized, sibling):
                continue
            ratio = ratio_of_sets(sibling, quantized)
            if ratio is not None and ratio.is_clear and ratio.times < 1:
                lines.append(
                    f"warning: {quantized.model} is {ratio_words(ratio)} than {sibling.model} on "
                    f"{quantized.runtime}, {quantized.device}: quantisation does not pay there; "
                    "which operators take the time: edgebench bench MODEL --profile"
                )
    return [printable(line) for line in lines]


def _are_alike(one: RunSet, other: RunSet) -> bool:
    """Whether two sets differ only in the precision of their model."""
    first, second = one.first, other.first
    return (
        (one.device, one.runtime) == (other.device, other.runtime)
        and first.model.format == second.model.format
        and first.spec.threads == second.spec.threads
        and first.spec.delegate == second.spec.delegate
        and _PRECISIONS.sub("", one.model.lower()) == _PRECISIONS.sub("", other.model.lower())
    )
