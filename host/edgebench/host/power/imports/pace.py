"""How regularly a table's samples come, and where some of them are not there.

A table numbers nothing, so all that shows a loss is a hole in its times. Where the steps are alike,
one that is about as long as several is a hole; where they are not, as in a log that writes changes
only, nobody can tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Gap

STEADY_SHARE = 0.9
"""Of the steps, that are alike in a table whose holes show: our own choice."""
ALIKE_RATIO = 0.5
"""Of the typical step, by which one that is like it may be off: a log by a busy computer is."""
HOLE_STEPS = 1.9
"""A step of so many is a hole: as of a meter that is polled."""
LATE_STEPS = 2.5
"""With the step behind it: less are two samples of which the first was written late."""
GAPS_MAX = 1000
"""Gaps that are told apart; the last of them has all that follow."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What the first samples show."""

    rate_hz: float
    """Without the holes, where they show."""
    is_steady: bool


def pace_of(time_ns: NDArray[np.int64]) -> Pace:
    """The pace of samples at these times, shape (n,), nanoseconds, ascending, n >= 2."""
    steps_ns = np.diff(time_ns)
    typical_ns = np.median(steps_ns)
    is_alike = np.abs(steps_ns - typical_ns) <= ALIKE_RATIO * typical_ns
    is_steady = bool(is_alike.mean() >= STEADY_SHARE)
    kept_ns = steps_ns[is_alike] if is_steady else steps_ns
    return Pace(1e9 / float(kept_ns.mean()), is_steady)


@dataclass(slots=True)
class Holes:
    """Counts the samples that are not there."""

    count: int = 0
    gaps: list[Gap] = field(default_factory=list[Gap])

    def look(self, pace: Pace, time_ns: NDArray[np.int64]) -> None:
        """Look at samples one after another, shape (n,), the last of those before included."""
        if not pace.is_steady:
            return
        steps = np.diff(time_ns) * (pace.rate_hz / 1e9)
        # A sample that was only written late has the next one close behind it.
        with_next = steps + np.append(steps[1:], np.inf)
        for place in np.flatnonzero((steps > HOLE_STEPS) & (with_next > LATE_STEPS)):
            begin_ns, end_ns = int(time_ns[place]), int(time_ns[place + 1])
            self._add(begin_ns, end_ns, round(float(steps[place])) - 1)

    def _add(self, begin_ns: int, end_ns: int, count: int) -> None:
        self.count += count
        if len(self.gaps) == GAPS_MAX:
            last = self.gaps.pop()
            begin_ns, count = last.begin_ns, last.count + count
        self.gaps.append(Gap(begin_ns, end_ns, count, "no samples in the file"))
