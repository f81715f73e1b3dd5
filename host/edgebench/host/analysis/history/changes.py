"""Changes of levels in many histories, the worst first, with the conditions that changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from edgebench.host.analysis.compare.comparability import Differences
from edgebench.host.analysis.compare.ranks import Bounds
from edgebench.host.analysis.history.history import (
    History,
    HistoryLevel,
    HistoryOutcome,
    HistoryPoint,
    level_outcome,
)
from edgebench.host.result.metrics import Better
from edgebench.host.result.run import Run

NEAR_POINTS = 5
"""Number of points on each side of a change whose temperatures are compared."""
TEMPERATURE_STEP_C = 5.0
"""Minimum difference between temperatures at the start that is reported: sensors of boards have a
resolution of 0.5 to 1 °C, and the start of a run differs by a few °C from run to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChange:
    """A level of a history that differs from the level before it."""

    history: History
    number: int
    """Index of the level in `history.levels`, at least 1."""
    start_temp_c: Bounds | None = None
    """Median temperature after the warm-up of runs before and after the change; None if it is not
    known or hardly differs."""

    @property
    def level(self) -> HistoryLevel:
        """The new level."""
        return self.history.levels[self.number]

    @property
    def before(self) -> HistoryLevel:
        """The level before the new level."""
        return self.history.levels[self.number - 1]

    @property
    def first(self) -> HistoryPoint:
        """The first point of the new level."""
        return self.history.points[self.level.first]

    @property
    def points(self) -> tuple[HistoryPoint, ...]:
        """The points of both levels."""
        return self.history.points[self.before.first : self.level.first + self.level.count]

    @property
    def suspect_count(self) -> int:
        """Number of points of both levels with a suspect run."""
        return sum(point.is_suspect for point in self.points)

    @property
    def outcome(self) -> HistoryOutcome:
        """Judgement of the change, by the rules for the newest change of a history."""
        return level_outcome(self.history, self.number)

    @property
    def worsening(self) -> float:
        """Ratio of the levels; above 1 is worse."""
        ratio = self.level.ratio or 1.0
        return ratio if self.history.better is Better.LOWER else 1 / ratio

    @property
    def changed(self) -> Differences:
        """Conditions that changed with the level, with both values."""
        return self.level.changed


def find_changes(histories: Sequence[History], since_utc: str) -> list[LevelChange]:
    """Levels that began at this time or later, the greatest worsening first.

    Args:
        histories: Histories whose points reach back before this time.
        since_utc: Time, in the format of `created_utc`.
    """
    changes = [
        LevelChange(history=history, number=number)
        for history in histories
        for number in range(1, len(history.levels))
        if history.points[history.levels[number].first].created_utc >= since_utc
    ]
    return sorted(changes, key=lambda change: -change.worsening)


def runs_beside(change: LevelChange) -> tuple[list[str], list[str]]:
    """Id of the first run of each of the nearest points before and after a change."""
    first, last = change.level.first, change.level.first + change.level.count
    points = change.history.points
    before = points[max(change.before.first, first - NEAR_POINTS) : first]
    after = points[first : min(last, first + NEAR_POINTS)]
    return [point.run_ids[0] for point in before], [point.run_ids[0] for point in after]


def start_temperatures_c(before: Sequence[Run], after: Sequence[Run]) -> Bounds | None:
    """Median temperature after the warm-up before and after a change; None if it hardly differs."""
    sides = [
        [
            run.metrics.thermal.start_temp_c
            for run in runs
            if run.metrics.thermal is not None and run.metrics.thermal.start_temp_c is not None
        ]
        for runs in (before, after)
    ]
    if not all(sides):
        return None
    was_c, now_c = map(median, sides)
    is_other = math.isfinite(was_c - now_c) and abs(now_c - was_c) >= TEMPERATURE_STEP_C
    return (was_c, now_c) if is_other else None
