"""Pace of a table's samples, and the gaps between them.

A table numbers no samples, so a loss shows only as a gap in its times. Where the steps are alike, a
step about as long as several is a gap; where they are not, as in a log that writes changes only,
nobody can tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Gap

STEADY_SHARE = 0.9
"""Share of the steps that are alike in a table whose gaps show: our own choice."""
ALIKE_RATIO = 0.5
"""Deviation of a step from the typical one, relative to that: a busy computer logs late."""
GAP_STEPS = 1.9
"""Length of a gap in typical steps, as for a meter that is polled."""
LATE_STEPS = 2.5
"""Length of a gap with the step behind it; a sample that was only written late has less."""
GAPS_MAX = 1000
"""Gaps that are listed; the last one includes all that follow."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Rate of the first samples, and how steady it is."""

    rate_hz: float
    """Rate without the gaps, where they show."""
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
class GapFinder:
    """Finds the gaps, and counts the samples that are missing in them."""

    count: int = 0
    gaps: list[Gap] = field(default_factory=list[Gap])

    def look(self, pace: Pace, time_ns: NDArray[np.int64]) -> None:
        """Look at the times of samples, shape (n,), which begin with the last one seen before."""
        if not pace.is_steady:
            return
        steps = np.diff(time_ns) * (pace.rate_hz / 1e9)
        # A sample that was only written late has the next one close behind it.
        with_next = steps + np.append(steps[1:], np.inf)
        for place in np.flatnonzero((steps > GAP_STEPS) & (with_next > LATE_STEPS)):
            begin_ns, end_ns = int(time_ns[place]), int(time_ns[place + 1])
            count = round(float(steps[place])) - 1
            self.count += count
            if len(self.gaps) == GAPS_MAX:
                last = self.gaps.pop()
                begin_ns, count = last.begin_ns, last.count + count
            self.gaps.append(Gap(begin_ns, end_ns, count, "no samples in the file"))
