"""Whether inferences may be in step with a meter that samples by a clock of its own.

Then every sample falls on the same few moments of an inference, in every run again, and nothing in
the trace shows it. A loop is in step when M samples take as long as k inferences. The samples then
fall on M moments, 1 / k of their interval apart, until the difference, summed over the loop, or the
random walk of the inferences' own spread has moved them to where the next ones are; moving further
reduces the error by as much.

Source: our own, compared with simulated loops in the tests; the error of M evenly spaced samples of
a power with two steps in a period, each anywhere between two samples, is span / M · sqrt(2 / 12).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_PHASES = 1 << 20
"""Number of different moments up to which all are tried; beyond, what is left is taken: 4e-7."""
_BLOCK = 1 << 12
"""Numbers of moments that are tried together."""
_WHOLE = math.sqrt(2 / 12)
"""Error of one moment of a power with two steps in a period, in spans of that power."""
_LEFT = 3.0
"""Factor on what is left of the error where the samples moved by as much as they are apart: a drift
leaves less, a drift with a random walk this much. From the tests."""
_QUARTILES_OF_NORMAL = 1.349
"""Distance between the quartiles of a normal distribution, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Inferences one after another."""

    period_s: float
    deviation_s: float
    """Spread of a period, by its quartiles: a rare late one moves the samples once, not evenly."""
    count: int

    @classmethod
    def of(cls, start_ns: NDArray[np.int64]) -> Loop | None:
        """Loop of these starts, shape (n,); None for fewer than three."""
        if len(start_ns) < 3:
            return None
        periods_s = np.diff(start_ns) / 1e9
        low_s, high_s = np.percentile(periods_s, [25, 75])
        deviation_s = float(high_s - low_s) / _QUARTILES_OF_NORMAL
        return cls(float(np.median(periods_s)), deviation_s, len(periods_s))


def in_step_ratio(loop: Loop, interval_s: float, rate_error: float = 0.0) -> float:
    """Standard uncertainty of the mean power, in spans of the power: the largest of any M.

    Args:
        loop: The inferences.
        interval_s: Interval of the samples, on the same clock.
        rate_error: Relative error of that interval: a smaller drift may be none.
    """
    largest = 0.0
    for first in range(1, MAX_PHASES, _BLOCK):
        if _WHOLE / first <= largest:
            return largest  # more moments leave less of the span, in step or not
        phases = np.arange(first, first + _BLOCK)
        largest = max(largest, float(_ratios(loop, interval_s, rate_error, phases).max()))
    return max(largest, _WHOLE / MAX_PHASES)


def _ratios(
    loop: Loop, interval_s: float, rate_error: float, phases: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Uncertainty for each number of samples after which the moments are the same, shape (n,)."""
    inferences = np.maximum(1.0, np.rint(phases * interval_s / loop.period_s))
    off_s = np.abs(loop.period_s - phases * interval_s / inferences)
    off_s = np.maximum(0.0, off_s - rate_error * loop.period_s)
    moved_s = loop.count * off_s + math.sqrt(loop.count) * loop.deviation_s
    left = np.ones(len(phases))
    np.divide(_LEFT * interval_s / inferences, moved_s, out=left, where=moved_s > 0)
    ratios: NDArray[np.float64] = _WHOLE / phases * np.minimum(1.0, left)
    return ratios
