"""Comparisons in blocks, that is, of sides that were measured on different occasions.

Theory of operation. The state of a machine (other programs, heat, the memory layout since boot)
lasts longer than a set of runs. Between two sets of the same model, this state may change the
values by more than the values vary within a set. The rank test of the runs then finds a change in
up to half of such pairs of sets. So a comparison in blocks has two tests in addition to the rank
test, both with Student's t. A change counts only if every test that applies finds the change:

    occasions   compares the ratio with the spread between occasions, s · sqrt(1/m + 1/n), for sides
                with m and n occasions; the degrees of freedom are those of s
    drift       only if both sides were measured within one occasion: examines the step between the
                sides after subtraction of a common linear drift, by least squares

A set is left out if other programs disturbed at least half of its runs, provided that the remaining
runs can still show a significant change. Such a disturbance of one side would be taken for a
change, and a disturbance of both sides would hide a change. Only recorded disturbances count, and
only if the model cannot have caused them (`analysis/extra_runs.py`). A set is never left out
because of its own latencies.

The interval of the ratio contains the intervals of all tests. The spread s is computed from the
medians of earlier sets of the models on the device (`analysis/occasions.py`). It includes the
variation between runs, because the median of a set varies with the runs of the set, too.

Source: Kalibera & Jones, Rigorous benchmarking in reasonable time (2013), 9.1; the step after
subtraction of a common drift is the analysis of covariance: Montgomery, Design and Analysis of
Experiments (2017), 15.3. For the requirement that all tests find the change: Berger, Multiparameter
hypothesis testing and acceptance sampling (1982), the intersection-union test, which needs no
correction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.compare.ranks import Bounds
from edgebench.host.analysis.extra_runs import external_disturbances_of, without_disturbed_sets
from edgebench.host.analysis.occasions import OCCASION_S, OccasionSpread, occasion_starts, start_s
from edgebench.host.result.run import Run

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StudentShift:
    """A difference of logarithms, with its standard error and the error's degrees of freedom."""

    shift: float
    error: float
    freedom: int

    def p_value(self, direction: float) -> float:
        """Two-sided p value for no shift; 1 if the shift and `direction` have opposite signs."""
        from scipy.special import stdtr

        towards = math.copysign(self.shift, self.shift * direction)
        if towards <= 0:
            return 1.0
        return 2 * float(stdtr(self.freedom, -towards / self.error)) if self.error else 0.0

    def interval(self, level: float) -> Bounds:
        """Interval of the shift at this confidence level, such as 0.95."""
        reach = self.reach((1 + level) / 2)
        return self.shift - reach, self.shift + reach

    def reach(self, probability: float) -> float:
        """Quantile of the shift's error, which has Student's t distribution."""
        from scipy.special import stdtrit

        return float(stdtrit(self.freedom, probability)) * self.error


@dataclass(frozen=True, slots=True)
class Blocks:
    """Inputs of a comparison in blocks, in addition to the values of the runs."""

    spread: OccasionSpread
    """Spread of the compared models between occasions."""
    occasion_counts: tuple[int, int] = (1, 1)
    """Number of occasions of the baseline and of the candidate."""
    jump: StudentShift | None = None
    """Step between the sides after subtraction of a common drift. None if the step cannot be
    determined, or if the sides were measured on different occasions."""

    def tests(self, shift: float) -> list[StudentShift]:
        """Tests of a difference of logarithms; empty if the spread is not known."""
        if self.spread.deviation is None:
            return []
        share = math.sqrt(sum(1 / count for count in self.occasion_counts))
        test = StudentShift(shift, self.spread.deviation * share, self.spread.freedom)
        return [test, *([self.jump] if self.jump else [])]


def are_in_blocks(baseline: Sequence[Run], candidate: Sequence[Run]) -> bool:
    """Whether a side has a set during which no run of the other side was made.

    Runs that belong to no set count as one set of their side. With a single run per side the result
    is false, because the order of two runs has no meaning.
    """
    before, after = _spans(baseline), _spans(candidate)
    return len(baseline) + len(candidate) > 2 and not (
        all(_overlaps(span, after) for span in before)
        and all(_overlaps(span, before) for span in after)
    )


def find_blocks(
    baseline: Sequence[Run], candidate: Sequence[Run], values: tuple[Floats, Floats]
) -> Blocks:
    """Count the occasions of two sides and find the step between them, but not the spread.

    Args:
        baseline: Runs of the baseline.
        candidate: Runs of the candidate.
        values: Values of these runs, all positive, shapes (m,) and (n,).
    """
    sides = baseline, candidate
    starts_s = [
        [min(start_s(run.created_utc) for run in runs) for runs in _sets(side).values()]
        for side in sides
    ]
    before, after = (len(occasion_starts(starts)) for starts in starts_s)
    times_s = [np.array([start_s(run.created_utc) for run in side]) for side in sides]
    gap_s = max(times_s[1].min() - times_s[0].max(), times_s[0].min() - times_s[1].max())
    jump = None
    if before == after == 1 and gap_s < OCCASION_S:
        jump = jump_beside_drift((times_s[0], times_s[1]), (np.log(values[0]), np.log(values[1])))
    return Blocks(OccasionSpread(), (before, after), jump)


def jump_beside_drift(
    times_s: tuple[Floats, Floats], logs: tuple[Floats, Floats]
) -> StudentShift | None:
    """Shift of the second side after subtraction of a common linear drift; None if undetermined.

    Args:
        times_s: Start of each run, seconds, shapes (m,) and (n,).
        logs: Logarithm of the value of each run, same shapes.
    """
    freedom = logs[0].size + logs[1].size - 3
    time_s, log = ([side - side.mean() for side in sides] for sides in (times_s, logs))
    squares = sum(float((side**2).sum()) for side in time_s)
    if freedom < 1 or not squares:
        return None
    products = sum(float((a * b).sum()) for a, b in zip(time_s, log, strict=True))
    rate = products / squares
    rest = sum(float(((b - rate * a) ** 2).sum()) for a, b in zip(time_s, log, strict=True))
    lag_s = float(times_s[1].mean() - times_s[0].mean())
    shift = float(logs[1].mean() - logs[0].mean()) - rate * lag_s
    share = 1 / logs[0].size + 1 / logs[1].size + lag_s**2 / squares
    return StudentShift(shift, math.sqrt(rest / freedom * share), freedom)


def without_disturbed(runs: Sequence[Run]) -> list[Run]:
    """The runs of a side, except sets in which at least half of the runs were disturbed."""
    return without_disturbed_sets(
        runs, lambda run: run.set_id, lambda run: bool(external_disturbances_of(run))
    )


def _sets(runs: Sequence[Run]) -> dict[str | None, list[Run]]:
    sets: dict[str | None, list[Run]] = {}
    for run in runs:
        sets.setdefault(run.set_id, []).append(run)
    return sets


def _spans(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Ids of the first and the last run of each set; an id begins with the run's time."""
    ids = [[run.run_id for run in group] for group in _sets(runs).values()]
    return [(min(group), max(group)) for group in ids]


def _overlaps(span: tuple[str, str], others: Sequence[tuple[str, str]]) -> bool:
    return any(span[0] < last and first < span[1] for first, last in others)
