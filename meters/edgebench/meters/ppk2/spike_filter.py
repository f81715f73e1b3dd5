"""Filter for artefacts at range switches, as in the PPK2's own application.

The first sample in a new range, and the two samples after it, are artefacts of the instrument. The
application replaces these three samples by an exponential moving average, with the weight 0.18, or
0.06 in the highest range. In the highest range, the averages exclude the first two of the three
samples.

Theory of operation. Which samples are excluded depends only on the ranges. So the excluded samples
are removed, the averages of the remaining samples are computed with array operations, and the
results are inserted where the filter applies.

Source: IRNAS/ppk2-api-python, src/ppk2_api/ppk2_api.py, get_adc_result.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Floats

WEIGHT, WEIGHT_HIGHEST = 0.18, 0.06
HIGHEST_RANGE = 4
TOUCHED = 3
"""Number of samples after each range switch whose values come from the filter."""
HELD = 2
"""Number of samples that the averages exclude after a switch to the highest range."""
_NEGLIGIBLE = 1e-18
"""Weight that is too small to change an average in double precision."""
_NEVER = TOUCHED


class MovingAverage:
    """Exponential moving average that continues from one chunk of samples to the next."""

    def __init__(self, weight: float) -> None:
        self._weight = weight
        self.last: float | None = None

    def over(self, values: Floats) -> Floats:
        """Compute the average after each value, shape (n,), n >= 1.

        The sums are computed in steps. After the step with distance 2^k, each element is the
        weighted sum of the last 2^(k+1) values.
        """
        decay = 1 - self._weight
        average = self._weight * values
        average[0] += decay * (values[0] if self.last is None else self.last)
        distance = 1
        while distance < len(average) and decay > _NEGLIGIBLE:
            average[distance:] += decay * average[:-distance]
            decay *= decay
            distance *= 2
        self.last = float(average[-1])
        return average


@dataclass(slots=True)
class SpikeFilter:
    """Filter that keeps its state from one chunk of samples to the next."""

    _average: MovingAverage = field(default_factory=lambda: MovingAverage(WEIGHT))
    _highest: MovingAverage = field(default_factory=lambda: MovingAverage(WEIGHT_HIGHEST))
    _since: int = _NEVER
    """Number of samples from the last range switch to the next sample."""
    _last_range: int | None = None

    def apply(
        self, current_a: Floats, ranges: NDArray[np.uint8]
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Filter a current; returns it with a mask of the replaced samples, shapes (n,), n >= 1."""
        since = self._samples_since(ranges)
        touched = since < TOUCHED
        held = touched & (ranges == HIGHEST_RANGE) & (since < HELD) | np.isnan(current_a)
        self._since = int(min(since[-1] + 1, _NEVER))
        self._last_range = int(ranges[-1])
        before = self._average.last, self._highest.last
        fed = current_a[~held] if held.any() else current_a
        if not len(fed):
            pair = (np.zeros(0), np.zeros(0))
        else:
            pair = (self._average.over(fed), self._highest.over(fed))
        filtered = current_a.copy()
        if touched.any():
            where = np.flatnonzero(touched)
            place = np.cumsum(~held)[where]  # 0: no sample so far
            is_highest = ranges[where] == HIGHEST_RANGE
            low, high = (
                np.concatenate([[np.nan if last is None else last], average])
                for last, average in zip(before, pair, strict=True)
            )
            filtered[where] = np.where(is_highest, high[place], low[place])
        return filtered, touched

    def _samples_since(self, ranges: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Number of samples from the last range switch to each sample; 0 at a switch."""
        count = len(ranges)
        first = ranges[0] if self._last_range is None else self._last_range
        is_switch = np.empty(count, np.bool_)
        is_switch[0], is_switch[1:] = ranges[0] != first, ranges[1:] != ranges[:-1]
        place = np.arange(count)
        last = np.maximum.accumulate(np.where(is_switch, place, -self._since))
        since: NDArray[np.int64] = place - last
        return since
