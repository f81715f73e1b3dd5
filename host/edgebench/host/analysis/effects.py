"""Effect of each factor in a matrix of runs, with an interval from the spread between runs.

The runs of two levels are compared at each place, which is a combination of the levels of all other
factors. At each place, the two levels are compared round by round. A round measures every
combination of levels once, so a drift affects both levels. The ratio of two levels is the geometric
mean over the places. The range of the ratio over the places is reported too, because a factor may
help in some places and harm in others.

Source: randomised complete block design, with the contrast of two levels as the mean of the strata
and its interval by Welch and Satterthwaite; Montgomery, Design and Analysis of Experiments, ch. 4.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.host.analysis.median import LEVEL
from edgebench.host.result.marks import ResultMarks, together
from edgebench.host.result.verdict import State

MIN_ROUNDS = 3
"""A place (combination of other factors) counts if the levels share at least this many rounds."""

Levels = Mapping[str, Hashable]


@dataclass(frozen=True, slots=True)
class Observation:
    """Metric of a valid run, with the level of each factor."""

    levels: Levels
    round: int
    value: float
    """Metric of the run, above zero."""
    marks: ResultMarks


@dataclass(frozen=True, slots=True)
class FactorEffect:
    """Effect of a level of a factor, relative to another level."""

    factor: str
    baseline: Hashable
    level: Hashable
    ratio: float
    """Metric at this level, divided by the metric at the baseline level."""
    ci95: tuple[float, float]
    """95 % interval of the ratio for the measured places, from the differences between runs."""
    lowest_ratio: float
    """Lowest ratio at any place, that is, at any combination of the other factors."""
    highest_ratio: float
    place_count: int
    """Number of combinations of the other factors at which both levels were measured."""
    pair_count: int
    marks: ResultMarks
    """Marks of the runs of both levels."""

    @property
    def verdict(self) -> State:
        """Suspect if a run of either level is suspect."""
        return State(self.marks.state)


def factor_effects(
    observations: Sequence[Observation], factors: Sequence[str]
) -> list[FactorEffect]:
    """Compute the effect of every level of every factor, relative to the factor's first level.

    Args:
        observations: The valid runs. The first level of each factor is the level of the first run.
        factors: The factors to report. Factors with a single level are left out.
    """
    effects: list[FactorEffect] = []
    for factor in factors:
        baseline, *others = dict.fromkeys(
            observation.levels[factor] for observation in observations
        ) or [None]
        for level in others:
            effect = _effect(observations, factor, baseline, level)
            if effect is not None:
                effects.append(effect)
    return effects


def _effect(
    observations: Sequence[Observation], factor: str, baseline: Hashable, level: Hashable
) -> FactorEffect | None:
    """The effect of a level; None if no place has enough shared rounds of both levels."""
    sides: dict[Hashable, dict[Hashable, dict[int, float]]] = {}
    for observation in observations:
        place = tuple(value for name, value in observation.levels.items() if name != factor)
        sides.setdefault(place, {}).setdefault(observation.levels[factor], {})[
            observation.round
        ] = observation.value
    marks = together(
        observation.marks
        for observation in observations
        if observation.levels[factor] in (baseline, level)
    )
    strata = [
        np.array([math.log(after[number] / before[number]) for number in sorted(shared)])
        for place in sides.values()
        if (before := place.get(baseline)) and (after := place.get(level))
        if len(shared := before.keys() & after.keys()) >= MIN_ROUNDS
    ]
    if not strata:
        return None
    means = np.array([stratum.mean() for stratum in strata])
    parts = np.array([stratum.var(ddof=1) / stratum.size for stratum in strata]) / means.size**2
    variance = float(parts.sum())
    half_width = 0.0
    if variance > 0:
        from scipy import stats  # only here: its import takes longer than a measurement

        freedoms = np.array([stratum.size - 1 for stratum in strata])
        freedom = variance**2 / float((parts**2 / freedoms).sum())
        half_width = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(variance)
    mean = float(means.mean())
    return FactorEffect(
        factor=factor,
        baseline=baseline,
        level=level,
        ratio=math.exp(mean),
        ci95=(math.exp(mean - half_width), math.exp(mean + half_width)),
        lowest_ratio=math.exp(float(means.min())),
        highest_ratio=math.exp(float(means.max())),
        place_count=len(strata),
        pair_count=sum(stratum.size for stratum in strata),
        marks=marks,
    )
