"""Reasons for the outcome of a comparison."""

from __future__ import annotations

from edgebench.host.result.reason import ReasonKind
from edgebench.protocol.percent import format_percent


@ReasonKind
def too_few_occasions(*, occasion_count: int, needed_count: int) -> str:
    return (
        "baseline and candidate were measured on different occasions; the store has "
        f"measurements of these models from {occasion_count} occasions, at least {needed_count} "
        "needed"
    )


@ReasonKind
def too_few_runs(
    *, smallest_p: float, alpha: float, is_adjusted: bool, needed_count: int, is_paired: bool
) -> str:
    smallest = f"p{_adjusted(is_adjusted)} {smallest_p:.2g}"
    needed = f"{needed_count} {'pairs' if is_paired else 'runs per side'}"
    return (
        f"too few runs: even the clearest difference would have {smallest}, limit {alpha:g}; "
        f"{needed} are enough"
    )


@ReasonKind
def interval_within_margin(*, margin_ratio: float) -> str:
    return f"the interval of the change lies within {format_percent(margin_ratio, 2)}"


@ReasonKind
def maybe_chance(*, p: float, alpha: float, is_adjusted: bool) -> str:
    return f"the change may be chance: p{_adjusted(is_adjusted)} {p:.2g}, limit {alpha:g}"


@ReasonKind
def significant(*, p: float, alpha: float, is_adjusted: bool) -> str:
    return f"p{_adjusted(is_adjusted)} {p:.2g}, limit {alpha:g}"


def _adjusted(is_adjusted: bool) -> str:
    return " (adjusted for several comparisons)" if is_adjusted else ""


@ReasonKind
def within_meter_error(*, change_ratio: float, limit_ratio: float) -> str:
    return (
        f"the change, {format_percent(change_ratio, 2)}, is within the combined error of meter and "
        f"chance, {format_percent(limit_ratio, 2)}"
    )


@ReasonKind
def interval_beyond_margin(*, change_ratio: float, margin_ratio: float) -> str:
    margin = format_percent(margin_ratio, 2)
    worse = f"worse by {format_percent(change_ratio, 2)}"
    return f"{worse}, but the interval of the change reaches beyond the margin of {margin}"


@ReasonKind
def count_scatters(*, spread_ratio: float, limit_ratio: float) -> str:
    return (
        f"the count should be equal in all runs of a side, but differs by a ratio of "
        f"{spread_ratio:.2g}, limit {limit_ratio:.2g}"
    )


@ReasonKind
def same_count() -> str:
    return "both sides are the same, within the resolution of the number"


@ReasonKind
def count_within_margin(*, margin_ratio: float) -> str:
    return f"within {format_percent(margin_ratio, 2)}; {_DECIDED}"


@ReasonKind
def exact_count() -> str:
    return _DECIDED


_DECIDED = "the number does not vary between runs, so one run per side is enough"


@ReasonKind
def margin_within_tick(*, change_ratio: float, margin_ratio: float) -> str:
    margin = format_percent(margin_ratio, 2)
    worse = f"worse by {format_percent(change_ratio, 2)}"
    close = f"differs from the margin of {margin} by at most the resolution of the number"
    return f"{worse}, which {close}"
