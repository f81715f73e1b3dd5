"""Runs of a machine whose state outlasts a set: warmth, neighbours, a level that wanders."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.compare.blocks import Blocks, jump_beside_drift
from edgebench.host.analysis.compare.comparison import (
    ComparisonOutcome,
    Design,
    Rules,
    compare,
)
from edgebench.host.analysis.compare.runs import DEFAULT_MARGIN_RATIO
from edgebench.host.analysis.occasions import next_time, occasion_spread

Floats = NDArray[np.float64]
State = Callable[[np.random.Generator, int, int], Floats]
"""Logarithm of the level for each run of each occasion, shape (occasions, runs)."""

RUNS = 8
"""Runs of a set, as `bench --quick` makes."""
RUN_S = 2.0
"""Time from one run to the next, seconds."""
GAP_RUNS = 1
"""Runs that would fit between two sets that are made one after the other."""
NOISE = 0.003
"""Standard deviation between runs beside the state, on the logarithm."""


def steady(_draw: np.random.Generator, occasions: int, runs: int) -> Floats:
    """A level that never changes."""
    return np.zeros((occasions, runs))


def wandering(correlation: float, spread: float) -> State:
    """An AR(1) level, with this correlation from run to run and this standard deviation."""

    def level(draw: np.random.Generator, occasions: int, runs: int) -> Floats:
        levels = np.empty((occasions, runs))
        levels[:, 0] = draw.standard_normal(occasions)
        for run in range(1, runs):
            fresh = math.sqrt(1 - correlation**2) * draw.standard_normal(occasions)
            levels[:, run] = correlation * levels[:, run - 1] + fresh
        return spread * levels

    return level


def warming_up(rise: float, time_constant_s: float) -> State:
    """A device that is cold when an occasion begins, and becomes slower by the rise."""

    def level(_draw: np.random.Generator, occasions: int, runs: int) -> Floats:
        warmth = 1 - np.exp(-np.arange(runs) * RUN_S / time_constant_s)
        return np.tile(np.log1p(rise * warmth), (occasions, 1))

    return level


def shared(rise: float, rate: float = 0.1) -> State:
    """A machine with a neighbour that comes or goes before a run with this probability."""

    def level(draw: np.random.Generator, occasions: int, runs: int) -> Floats:
        begins = draw.random((occasions, 1)) < 0.5
        changes = draw.random((occasions, runs)) < rate
        is_busy = begins ^ (np.cumsum(changes, axis=1) % 2 == 1)
        return np.where(is_busy, math.log1p(rise), 0.0)

    return level


STATES: dict[str, State] = {
    "steady": steady,
    "AR(1) 0.9, sd 2 %": wandering(0.9, 0.02),
    "AR(1) 0.97, sd 2 %": wandering(0.97, 0.02),
    "AR(1) 0.99, sd 2 %": wandering(0.99, 0.02),
    "warms up by 5 %, 60 s": warming_up(0.05, 60.0),
    "warms up by 10 %, 60 s": warming_up(0.10, 60.0),
    "neighbour +4 %": shared(0.04),
    "neighbour +8 %": shared(0.08),
}
"""The states of the findings of 2026-11-27, tables 2 and 3, with runs of 2 s."""
RECORDED = {"neighbour +4 %", "neighbour +8 %"}
"""States whose disturbed runs can be known: telemetry records the load of a neighbour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTrial:
    """A comparison of two sides that were measured one after the other."""

    occasions: int
    """Earlier occasions of the baseline, of which the newest is, or the newest are, compared."""
    compared: int = 1
    """Occasions of each side."""
    is_within_occasion: bool = False
    """Whether the candidate follows the baseline at once, and not on another occasion."""
    change: float = 0.0
    """True change of the candidate."""
    knows_occasions: bool = True
    """Whether the comparison uses the occasions; if not, only the runs."""
    is_recorded: bool = False
    """Whether the runs beside a neighbour are known: a disturbed run of a set is left out (really
    it is replaced, so real sets have more runs), and sets of which half or more are disturbed are
    left out if both sides have others."""

    def outcome(self, state: State, draw: np.random.Generator) -> ComparisonOutcome:
        """Simulate the occasions and compare."""
        runs = 2 * RUNS + GAP_RUNS if self.is_within_occasion else RUNS
        later = 0 if self.is_within_occasion else self.compared
        levels = state(draw, self.occasions + later, runs)
        logs = levels + NOISE * draw.standard_normal(levels.shape)
        times_s = np.arange(runs) * RUN_S
        earlier = logs[: self.occasions, :RUNS]
        baseline, jump = earlier[-self.compared :].ravel(), None
        if self.is_within_occasion:
            candidate = logs[-1, -RUNS:] + math.log1p(self.change)
            jump = jump_beside_drift((times_s[:RUNS], times_s[-RUNS:]), (baseline, candidate))
            groups = [earlier]
        else:
            candidate = logs[-later:].ravel() + math.log1p(self.change)
            groups = [earlier, logs[-later:]]
        if self.is_recorded:
            return self._recorded_outcome(logs, levels > 0)
        spread = occasion_spread([list(np.exp(np.median(one, axis=1))) for one in groups])
        blocks = Blocks(spread, (self.compared, self.compared), jump)
        rules = Rules(
            Design.INDEPENDENT,
            margin_ratio=DEFAULT_MARGIN_RATIO,
            blocks=blocks if self.knows_occasions else None,
        )
        return compare(np.exp(baseline), np.exp(candidate), rules).outcome

    def _recorded_outcome(self, logs: Floats, is_busy: NDArray[np.bool_]) -> ComparisonOutcome:
        """Outcome if all occasions of the baseline are compared, and the neighbour is recorded."""
        assert len(logs) > self.occasions, "the candidate has occasions of its own"
        logs = logs.copy()
        logs[self.occasions :] += math.log1p(self.change)
        is_disturbed = 2 * is_busy.sum(axis=1) >= is_busy.shape[1]
        whole, quiet = ([list[Floats](), list[Floats]()] for _ in range(2))
        for place, (runs, busy) in enumerate(zip(logs, is_busy, strict=True)):
            side = int(place >= self.occasions)
            whole[side].append(runs if is_disturbed[place] else runs[~busy])
            if not is_disturbed[place]:
                quiet[side].append(runs[~busy])
        spreads = [
            occasion_spread([[math.exp(np.median(runs)) for runs in side] for side in sides])
            for sides in (quiet, whole)
        ]
        is_quiet = all(quiet) and spreads[0].deviation is not None
        (before, after), spread = (quiet, spreads[0]) if is_quiet else (whole, spreads[1])
        rules = Rules(
            Design.INDEPENDENT,
            margin_ratio=DEFAULT_MARGIN_RATIO,
            blocks=Blocks(spread, (len(before), len(after))),
        )
        return compare(np.exp(np.concatenate(before)), np.exp(np.concatenate(after)), rules).outcome


def next_is_within(state: State, draw: np.random.Generator, occasions: int) -> bool:
    """Whether the next set lies within the ratio that earlier occasions give."""
    logs = state(draw, occasions + 1, RUNS)
    medians = np.exp(np.median(logs + NOISE * draw.standard_normal(logs.shape), axis=1))
    found = next_time(list(medians[:-1]))
    assert found is not None
    ratio = medians[-1] / medians[-2]
    return bool(max(ratio, 1 / ratio) - 1 <= found.half_width_ratio)
