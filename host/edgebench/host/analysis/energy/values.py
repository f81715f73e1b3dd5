"""Noise, step, update interval and isolated spikes of a meter, estimated from its values.

All functions take consecutive values of a channel, in watts, without NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds

ROUNDING = 1e-9
"""A step below this share of the power is a rounding error and not a step of the meter."""
NOISE_BLOCKS = (1, 2, 4, 8)
"""Lengths, in values, of the blocks whose means are compared. The noise of an instrument with a
filter is correlated over several values, so it averages out less than independent noise."""
MIN_BLOCKS = 30
"""Minimum number of blocks; with fewer blocks, their scatter is known only to within 20 %."""
MAD_TO_SIGMA = 1.4826
MIN_DISTINCT = 2
"""Minimum number of distinct values for a common step; a single value does not show a step."""
ENOUGH_DISTINCT = 8
"""Minimum number of distinct values whose greatest common divisor is taken as the step. Fewer
values may have a larger common divisor by chance, so their divisor is rounded down to a power of
ten."""
FINE_RATIO = 1e-4
"""A step below this share of the power is not searched, because it changes an energy by 0.003 %."""
_SAME_RATIO = 1e-6
"""Two values are equal if they differ by less than this share of the highest power."""
REPEATED = 1.5
"""A meter counts as repeating its values if new values are more than this many samples apart."""
SPIKE_SIGMAS = 8.0
"""Minimum distance of a spike from its neighbours, in standard deviations of the noise."""
SPIKE_STEPS = 3.0
"""Minimum distance of a spike from its neighbours, in quantisation steps of the values."""
SPIKE_LIMIT_RATIO = 0.02
"""Maximum share of values that count as spikes. If more values differ from their neighbours, the
power itself changes from value to value, and there are no spikes."""


def noise_w(runs: Sequence[Floats]) -> float:
    """Standard deviation of independent noise with the same effect on means as the values' noise.

    It is estimated from the median difference between successive values. It is also estimated from
    the median difference between successive block means, times the square root of the block length.
    The highest estimate counts. Occasional activity of the device does not change a median.

    Args:
        runs: Values of several windows, each of shape (n,).

    Source: Rousseeuw & Croux, Alternatives to the median absolute deviation (1993), for 1.4826;
    Flyvbjerg & Petersen, Error estimates on averages of correlated data (1989), for the blocks.
    """
    highest_w = max((float(np.abs(values).max(initial=0)) for values in runs), default=0.0)
    found_w = single_w = 0.0
    for length in NOISE_BLOCKS:
        means = [
            values[: len(values) // length * length].reshape(-1, length).mean(axis=1)
            for values in runs
        ]
        steps_w = np.concatenate([np.zeros(0), *(np.abs(np.diff(mean)) for mean in means)])
        if not len(steps_w) or (length > 1 and len(steps_w) < MIN_BLOCKS):
            break
        block_w = MAD_TO_SIGMA * float(np.median(steps_w)) * math.sqrt(length / 2)
        if length == 1:
            single_w = found_w = block_w if block_w > ROUNDING * highest_w else 0.0
        # Noise that is equal within a block is limited to this; the rest is a change of power.
        found_w = max(found_w, min(block_w, length * single_w))
    return found_w


def step_w(values: Floats) -> float:
    """Step of a meter's values; 0 if there is none, or if it is below `FINE_RATIO` of the values.

    All values are multiples of the step, which is the largest such number. For 1.8, 2.0 and 2.3 W,
    it is 0.1 W. Products of two rounded quantities usually have no such number; the step is then
    the smallest difference between two values.
    """
    distinct = np.unique(np.abs(values))
    highest_w = float(distinct.max(initial=0))
    # Computed values of the same reading differ in their last digits.
    distinct = distinct[np.diff(distinct, prepend=-1.0) > ROUNDING * highest_w]
    if len(distinct) < MIN_DISTINCT:
        return 0.0
    step_w = 0.0
    for value in distinct.tolist():
        step_w = _common(step_w, value, _SAME_RATIO * highest_w)
        if 0 < step_w < FINE_RATIO * highest_w:
            break
    else:
        is_shown = len(distinct) >= ENOUGH_DISTINCT
        return step_w if is_shown else 10.0 ** math.floor(math.log10(step_w) + _SAME_RATIO)
    if len(distinct) < ENOUGH_DISTINCT:
        return 0.0
    return float(np.diff(distinct).min())


def _common(one: float, other: float, tolerance: float) -> float:
    """Greatest common divisor of two numbers, by Euclid's algorithm; 0 for two zeros."""
    larger, smaller = max(one, other), min(one, other)
    while smaller > tolerance:
        rest = math.fmod(larger, smaller)
        # Just below a multiple, the rest is almost the divisor.
        larger, smaller = smaller, min(rest, smaller - rest)
    return larger


def is_new(values: Floats) -> NDArray[np.bool_]:
    """Whether each value differs from the previous value, shape (n,); true for the first value."""
    new: NDArray[np.bool_] = np.concatenate([[True], np.diff(values) != 0])[: len(values)]
    return new


def update_interval_s(time_ns: Nanoseconds, values: Floats, sample_s: float) -> float:
    """Interval between new values of the meter; 0 if each sample may have a new value.

    A meter that repeats its last value never has two new values in quick succession. So the result
    is one of the shortest intervals between changes, plus one sample interval, because a change may
    be seen late by that time. The result is too long for a coarse meter whose value rarely changes.

    Args:
        time_ns: Times of the samples, ascending, shape (n,).
        values: Values, shape (n,).
        sample_s: Mean sample interval.
    """
    changed_ns = time_ns[is_new(values)][1:]
    if len(changed_ns) < 2:
        return 0.0
    shortest_s = float(np.percentile(np.diff(changed_ns), 5)) / 1e9
    return shortest_s + sample_s if shortest_s > REPEATED * sample_s else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Spikes:
    """Isolated spikes among values: errors of the meter, or brief activity of the device."""

    height_w: Floats
    """Height of each spike above its neighbours, shape (k,)."""
    value_count: int
    """Number of values that were searched."""

    @property
    def most_w(self) -> float:
        """Upper bound of the power that the spikes add to the mean of all values.

        The number of spikes is random, so two standard deviations of this number are added.
        """
        total_w = abs(float(self.height_w.sum())) + 2 * math.hypot(*self.height_w)
        return total_w / max(1, self.value_count)

    @property
    def deviation_w(self) -> float:
        """Standard deviation that the spikes add to each value."""
        return math.hypot(*self.height_w) / math.sqrt(max(1, self.value_count))


def idle_spikes(runs: Sequence[Floats], limit_w: float) -> Spikes:
    """Spikes of an idle device, each far from four similar values around it.

    Args:
        runs: Values of the idle windows, each of shape (n,).
        limit_w: Least distance of a spike from its neighbours; if 0, no spikes are searched.
    """
    heights_w = [np.zeros(0)]
    for values in runs:
        if len(values) >= 5 and limit_w:
            around_w = _around(values)
            height_w = values[2:-2] - np.median(around_w, axis=0)
            is_spike = (np.abs(height_w) > limit_w) & (np.ptp(around_w, axis=0) <= limit_w)
            heights_w.append(height_w[is_spike])
    return _sporadic(np.concatenate(heights_w), sum(map(len, runs)))


def loop_spikes(values: Floats, limit_w: float, inference_count: float) -> Spikes:
    """Spikes in the loop: single values far above the values of all inferences.

    Bursts that recur with the inferences are not spikes. So no value counts as a spike if the
    number of values as high as a spike is at least half of the number of inferences.

    Args:
        values: Values in the loop, shape (n,).
        limit_w: Least distance of a spike from the other values; if 0, no spikes are searched.
        inference_count: Number of inferences during these values.
    """
    if len(values) < 5 or not limit_w:
        return Spikes(np.zeros(0), len(values))
    usual_w = float(np.percentile(values, 100 * (1 - SPIKE_LIMIT_RATIO)))
    height_w = values[2:-2] - np.maximum(usual_w, _around(values).max(axis=0))
    height_w = height_w[height_w > limit_w]
    if len(height_w) >= inference_count / 2:
        height_w = np.zeros(0)
    return _sporadic(height_w, len(values))


def _around(values: Floats) -> Floats:
    """The two values before and the two values after each inner value, shape (4, n - 4)."""
    return np.stack([values[:-4], values[1:-3], values[3:-1], values[4:]])


def _sporadic(height_w: Floats, value_count: int) -> Spikes:
    """The spikes; none if there are so many that the power itself changes from value to value."""
    is_sporadic = len(height_w) <= SPIKE_LIMIT_RATIO * value_count
    return Spikes(height_w if is_sporadic else np.zeros(0), value_count)
