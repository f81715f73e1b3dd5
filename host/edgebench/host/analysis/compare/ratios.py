"""Ratios between sets of runs, with confidence intervals, for tables.

The unit of replication is the run, as in `comparison`: the ratio is the Hodges–Lehmann shift of the
logarithms of the runs' values. Its interval is that of the rank-sum test, or of the signed-rank
test for the two sides of a comparison in pairs. A ratio is not compared with a margin.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.host.analysis.compare.comparison import ALPHA
from edgebench.host.analysis.compare.ranks import Bounds, rank_sum_test, signed_rank_test
from edgebench.host.analysis.compare.runs import resolution_ratio, split_sides
from edgebench.host.result.facts import CANDIDATE
from edgebench.host.result.metrics import METRICS, Better, Metric
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet

_PRECISIONS = re.compile(
    r"(?<![a-z0-9])(u?int8|int16x8|i8|q8|fp32|float32|f32|float|quant(i[sz]ed)?|full|integer|"
    r"qdq)(?![a-z0-9])"
)
"""Words in the name of a model file that denote the model's precision."""


@dataclass(frozen=True, slots=True)
class SetRatio:
    """Ratio of a set to the first set of a table."""

    metric: Metric
    """Headline metric of both sets."""
    times: float
    """Factor by which the set is better than the first set; below 1 it is worse."""
    interval: Bounds
    """95 % confidence interval of the factor, between runs."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 1."""
        return not self.interval[0] <= 1.0 <= self.interval[1]


def ratio_of_sets(first: RunSet, other: RunSet) -> SetRatio | None:
    """Ratio of the set `other` to the set `first`; None if the ratio has no interval.

    The ratio has no interval in these cases:

    - a set is invalid or has too few runs, or a run has no value
    - the sets have different headlines or scenarios
    - only one set is simulated, or only one set is emulated
    - the headline is an energy, which needs the meter checks of `comparison`
    """
    metric = METRICS[first.headline]
    is_alike = (
        other.headline == first.headline
        and other.first.spec.scenario is first.first.spec.scenario
        and other.first.simulated == first.first.simulated
        and other.first.emulated == first.first.emulated
    )
    if not is_alike or metric.budget or first.verdict.is_refused or other.verdict.is_refused:
        return None
    sides, is_paired = counted_sides(first, other), _are_sides(first, other)
    before, after = ([metric.bounded_value(run) for run in runs] for runs in sides)
    known = [value for value in (*before, *after) if value is not None and value > 0]
    if not known or len(known) < len(before) + len(after):
        return None
    values = np.log(np.array(known, np.float64))
    logs = values[: len(before)], values[len(before) :]
    if metric.is_exact:
        shift = float(np.median(logs[1]) - np.median(logs[0]))
        resolution = math.log1p(resolution_ratio(metric, [*first.counted, *other.counted]))
        bounds: Bounds | None = (shift - resolution, shift + resolution)
    else:
        test = signed_rank_test(logs[1] - logs[0]) if is_paired else rank_sum_test(*logs)
        shift, bounds = test.shift, test.interval(1 - ALPHA)
    if bounds is None:
        return None
    if metric.better is Better.LOWER:
        shift, bounds = -shift, (-bounds[1], -bounds[0])
    return SetRatio(metric, math.exp(shift), (math.exp(bounds[0]), math.exp(bounds[1])))


def counted_sides(
    first: RunSet, other: RunSet, metrics: Sequence[str] = ()
) -> tuple[list[Run], list[Run]]:
    """Counted runs of two sets; if the sets are paired, only the runs of complete pairs.

    Args:
        first: The first set.
        other: The second set.
        metrics: Metrics that both runs of a pair must have.
    """
    if not _are_sides(first, other):
        return [*first.counted], [*other.counted]
    baseline, candidate = split_sides([*first.counted, *other.counted], metrics)
    is_reversed = first.first.pair is not None and first.first.pair.side == CANDIDATE
    return (candidate, baseline) if is_reversed else (baseline, candidate)


def _are_sides(first: RunSet, other: RunSet) -> bool:
    """Whether the sets are the two sides of the same comparison in pairs."""
    pair, others = first.first.pair, other.first.pair
    return (
        pair is not None
        and others is not None
        and pair.comparison_id == others.comparison_id
        and pair.side != others.side
    )


def differ_in_precision(run_set: RunSet, other: RunSet) -> bool:
    """Whether two sets differ only in the precision of their model."""
    first, second = run_set.first, other.first
    return (
        (run_set.device, run_set.runtime) == (other.device, other.runtime)
        and first.model.format == second.model.format
        and first.spec.threads == second.spec.threads
        and first.spec.delegate == second.spec.delegate
        and _PRECISIONS.sub("", run_set.model.lower()) == _PRECISIONS.sub("", other.model.lower())
    )
