"""Spread of a model's results between occasions, that is, measurements at different times.

The interval of a set assumes that the next runs are made under the same conditions. Other programs
on a shared machine, the temperature of the room, or the memory layout since boot stay the same
during a set and differ in the next set. Only sets that were made at other times show how much the
results change. Occasions are the third level of repetition, after inferences and launches.

Let x be the logarithms of the medians of k sets of a model. Then s² = Σ (x - mean)² / (k - 1). With
95 % probability, the ratio of the next set to the present set is within
exp(±t(0.975, k - 1) · s · sqrt(2)). If a model has too few sets, the deviations of all models of
the device are pooled. The deviation of each set is then from the mean of the set's own model. The
medians also vary between launches. So s contains the random error of a set, which depends on the
set's number of runs.

Source: Kalibera & Jones, Rigorous benchmarking in reasonable time (2013), 9.1; ISO 5725-3,
intermediate precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from edgebench.host.analysis.median import t_quantile

MIN_OCCASIONS = 3
"""Minimum number of a model's sets for an estimate. For several models together, the minimum number
of degrees of freedom is one less than this number."""
OCCASION_S = 600.0
"""A set belongs to an occasion if it starts within this time after the occasion's first set.

After this time, the machine has warmed up or cooled down: a board with a heat sink does so with a
time constant of one to two minutes.
"""


@dataclass(frozen=True, slots=True)
class OccasionSpread:
    """Variation of a metric between occasions."""

    deviation: float | None = None
    """Standard deviation of the logarithms of sets' medians; None for too few occasions."""
    freedom: int = 0
    """Degrees of freedom of the deviation."""
    occasion_count: int = 0
    """Number of occasions that the estimate rests on."""
    model_count: int = 0
    is_pooled: bool = False
    """Whether other models' sets were used, because the compared models have too few sets."""


@dataclass(frozen=True, slots=True)
class NextTime:
    """Prediction of how far the next set may be from the present set."""

    half_width_ratio: float
    """With 95 % probability, the next median differs from the present one by at most this ratio."""
    occasion_count: int
    """Number of sets that the estimate rests on."""
    model_count: int
    """Number of models that the estimate rests on; 1 if this model alone has enough sets."""


def start_s(created_utc: str) -> float:
    """Start of a run, seconds since 1970; 0 if the text is not a time."""
    try:
        return datetime.fromisoformat(created_utc).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def occasion_starts(starts_s: Iterable[float]) -> list[int]:
    """Indices of the sets that begin an occasion, in order of time.

    Args:
        starts_s: Start of each set, seconds.
    """
    kept: list[tuple[float, int]] = []
    for start_s, place in sorted((start_s, place) for place, start_s in enumerate(starts_s)):
        if not kept or start_s - kept[-1][0] >= OCCASION_S:
            kept.append((start_s, place))
    return [place for _, place in kept]


def occasion_spread(
    own: Iterable[Sequence[float]], others: Iterable[Sequence[float]] = ()
) -> OccasionSpread:
    """Estimate the spread from the medians of earlier sets, one per occasion.

    Args:
        own: Medians of the sets of each compared model.
        others: Medians of the sets of each other model of the device. They are used if the compared
            models have too few sets.
    """
    groups = [[math.log(value) for value in group] for group in own]
    own_count = sum(map(len, groups))
    is_pooled = _freedom(groups) < MIN_OCCASIONS - 1
    if is_pooled:
        groups += [[math.log(value) for value in group] for group in others]
    freedom = _freedom(groups)
    if freedom < MIN_OCCASIONS - 1:
        return OccasionSpread(occasion_count=own_count)
    used = [group for group in groups if len(group) > 1]
    squares = sum((value - sum(group) / len(group)) ** 2 for group in used for value in group)
    return OccasionSpread(
        deviation=math.sqrt(squares / freedom),
        freedom=freedom,
        occasion_count=sum(map(len, used)),
        model_count=len(used),
        is_pooled=is_pooled,
    )


def _freedom(groups: Iterable[Sequence[float]]) -> int:
    return sum(len(group) - 1 for group in groups if group)


def next_time(own: Sequence[float], others: Iterable[Sequence[float]] = ()) -> NextTime | None:
    """Predict the next set from the medians of earlier sets; None with too few sets.

    Args:
        own: Medians of the sets of this model, including the present set.
        others: Medians of the sets of each other model on the same device.
    """
    spread = occasion_spread([own], others)
    if spread.deviation is None:
        return None
    reach = t_quantile(spread.freedom) * math.sqrt(2) * spread.deviation
    return NextTime(math.expm1(reach), spread.occasion_count, spread.model_count)
