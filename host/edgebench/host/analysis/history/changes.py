"""Changes of levels in many histories, with the conditions that changed, worst change first."""

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
"""Number of points before a change, and after it, whose temperatures are compared."""
TEMPERATURE_STEP_C = 5.0
"""Minimum difference between the start temperatures of runs that is reported. Sensors of boards
have a resolution of 0.5 to 1 °C, and start temperatures vary by a few °C from run to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChange:
    """A level of a history that differs from the level before it."""

    history: History
    number: int
    """Index of the level in `history.levels`, at least 1."""
    start_temp_c: Bounds | None = None
    """Median temperature after the warm-up, of the runs before the change and of those after it.
    None if it is unknown or hardly differs."""

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
        """Judgement of the change, as if it were the newest change of its history."""
        return level_outcome(self.history, self.number)

    @property
    def worsening(self) -> float:
        """Ratio of the new level to the level before it, where above 1 is worse."""
        ratio = self.level.ratio or 1.0
        return ratio if self.history.better is Better.LOWER else 1 / ratio

    @property
    def changed(self) -> Differences:
        """For each condition that changed with the level: its values before and after."""
        return self.level.changed


def find_changes(histories: Sequence[History], since_utc: str) -> list[LevelChange]:
    """Find the levels that began at this time or later, the greatest worsening first.

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
    """Ids of the first runs of the points that are nearest to a change, before and after it."""
    first, last = change.level.first, change.level.first + change.level.count
    points = change.history.points
    before = points[max(change.before.first, first - NEAR_POINTS) : first]
    after = points[first : min(last, first + NEAR_POINTS)]
    return [point.run_ids[0] for point in before], [point.run_ids[0] for point in after]


def start_temperatures_c(before: Sequence[Run], after: Sequence[Run]) -> Bounds | None:
    """Median temperature after warm-up, before and after a change; None if hardly different."""
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
