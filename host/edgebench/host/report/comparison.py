"""Ratios of a report's subjects to the first subject, each with its interval.

If a ratio is missing, the reason is shown in its place.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgebench.host.analysis.compare.comparability import shown_keys
from edgebench.host.analysis.compare.ratios import counted_sides
from edgebench.host.analysis.compare.runs import (
    RunComparison,
    SpreadSource,
    compare_groups,
    unknown_spread,
)
from edgebench.host.report.numbers import label_of
from edgebench.host.result.metrics import GROSS_ENERGY, METRICS
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import ABSENT, half_width_of
from edgebench.protocol.errors import MeasurementError, NotComparable, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioRow:
    """Ratio of a subject to the first subject in a metric."""

    number: int
    """Index of the subject, from 0."""
    metric: str
    label: str
    ratio: float | None
    interval: tuple[float, float] | None
    shown: str
    bounds: str
    outcome: str
    reason: str
    """Reason for the outcome, or for the absence of a ratio."""
    suspects: str = ""
    """Note about suspect runs in the comparison; empty if there are none."""


def ratio_rows(
    sets: Sequence[RunSet], allowed: Collection[str] = (), spread_of: SpreadSource = unknown_spread
) -> list[RatioRow]:
    """Ratio of each set to the first set, in the headline and in the energy.

    Args:
        sets: Baseline, then the candidates.
        allowed: Keys in which the runs may differ; see `comparability.KEYS`.
        spread_of: Function that finds from the runs in the store how much a metric varies between
            separate times of measurement.
    """
    baseline, *others = sets
    rows: list[RatioRow] = []
    for number, other in enumerate(others, 1):
        paths = [baseline.headline]
        if all(GROSS_ENERGY in side.metrics for side in (baseline, other)):
            paths.append(GROSS_ENERGY)
        rows += [
            _row(baseline, other, number, path, allowed, spread_of) for path in dict.fromkeys(paths)
        ]
    return rows


def _row(
    baseline: RunSet,
    other: RunSet,
    number: int,
    path: str,
    allowed: Collection[str],
    spread_of: SpreadSource,
) -> RatioRow:
    label = label_of(baseline, METRICS[path])
    sides = counted_sides(baseline, other, [path])
    if not all(sides):
        sides = [*baseline.runs], [*other.runs]
    # The page shows what the table of `bench` shows, whose headline it has.
    allowed = {*allowed, *shown_keys([baseline.first, other.first])}
    try:
        [comparison] = compare_groups([sides], metrics=[path], allowed=allowed, spread_of=spread_of)
    except (UsageError, MeasurementError) as exc:
        keys = exc.keys if isinstance(exc, NotComparable) else ()
        allow = " ".join(f"--allow {key}" for key in keys)
        return RatioRow(
            number=number,
            metric=path,
            label=label,
            ratio=None,
            interval=None,
            shown=ABSENT,
            bounds="",
            outcome="not compared",
            reason=f"{exc}; compare them with {allow}" if allow else str(exc),
        )
    suspects = ""
    if suspect_count := comparison.verdicts.suspect_count:
        run_count = suspect_count + comparison.verdicts.valid_count
        suspects = (
            f"{suspect_count} of {run_count} runs are suspect, so the outcome is suspect; for "
            "the reasons, see the rules of each result"
        )
    return RatioRow(
        number=number,
        metric=path,
        label=label,
        ratio=comparison.result.ratio,
        interval=comparison.result.ratio_interval,
        shown=shown_ratio(comparison),
        bounds=shown_bounds(comparison),
        outcome=comparison.result.outcome.value,
        reason=comparison.result.reason,
        suspects=suspects,
    )


def shown_ratio(comparison: RunComparison) -> str:
    """Ratio of candidate to baseline as text."""
    return f"× {comparison.result.ratio:.{_places(comparison)}f}"


def shown_bounds(comparison: RunComparison) -> str:
    """Interval of the ratio as text."""
    bounds = comparison.result.ratio_interval
    if bounds is None:
        return "no interval: too few runs, or runs on too few occasions"
    low, high = (f"{bound:.{_places(comparison)}f}" for bound in bounds)
    return f"{low} to {high}"


def _places(comparison: RunComparison) -> int:
    """Number of decimals that show two digits of a ratio interval's half-width; at most 4."""
    half_width = half_width_of(comparison.result.ratio_interval)
    return min(4, max(0, 1 - math.floor(math.log10(half_width)))) if half_width else 2
