"""Spread between occasions: how far the next measurement of a model may be from this one.

The interval of a set assumes that the next runs are made under the same conditions. Neighbours on a
shared machine, warmth of the room, or memory that was laid out at boot stay the same during a set
and are different at the next one. Only sets that were made at other times show how much that
changes. They are the third level of repetition, after inferences and launches.

With x the logarithms of the medians of k sets of one model, s² = Σ (x - mean)² / (k - 1), and the
ratio of the next set to this one is within exp(±t(0.975, k - 1) · s · sqrt(2)). If a model has too
few sets, the deviations of all models of the device are pooled, each from the mean of its model.

Source: Kalibera & Jones, Rigorous benchmarking in reasonable time (2013), 9.1; ISO 5725-3,
intermediate precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgebench.host.analysis.median import t_quantile

MIN_OCCASIONS = 3
"""Fewest sets of a model, or fewest differences of several models plus one, for an estimate."""


@dataclass(frozen=True, slots=True)
class NextTime:
    """How far the next set may be from this one."""

    half_width_ratio: float
    """The next median is within this ratio of the present one, with 95 % probability."""
    occasion_count: int
    """Number of sets that the estimate rests on."""
    model_count: int
    """Number of models; 1 if this model has enough sets of its own."""


def next_time(own: Sequence[float], others: Iterable[Sequence[float]] = ()) -> NextTime | None:
    """Estimate from the medians of earlier sets; None with too few sets.

    Args:
        own: Medians of the sets of this model, including the present one.
        others: Medians of the sets of each other model on the same device.
    """
    groups = [own] if len(own) >= MIN_OCCASIONS else [own, *others]
    logs = [[math.log(value) for value in group] for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in logs)
    if freedom < MIN_OCCASIONS - 1:
        return None
    squares = sum((value - sum(group) / len(group)) ** 2 for group in logs for value in group)
    reach = t_quantile(freedom) * math.sqrt(2 * squares / freedom)
    return NextTime(math.expm1(reach), sum(map(len, logs)), len(logs))
