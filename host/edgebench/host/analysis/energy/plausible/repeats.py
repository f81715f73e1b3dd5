"""Values that are stuck, or clipped at the end of a range, in a source that has noise.

Theory of operation. A reading with noise of more than two of its steps repeats a value rarely, and
hardly ever 8 times in a row. So a run of equal values among samples with such noise is not a
measurement. Either the program or the bus repeated the last value, or the instrument reached the
end of its range. Two kinds of runs are not suspicious: runs of a source without noise, and runs of
a value that the recording often repeats. A plug with steps of 0.1 W may repeat its values for
hours.

    held      the samples around the run have noise, and the value lies among the samples before the
              run
    clipped   the value is the highest of the recording, is repeated for long, and makes up at least
              5 % of the samples near it

The length from which a run is suspicious follows from the share of equal neighbours in the rest of
the samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.integrate import Floats
from edgebench.host.analysis.energy.plausible.texture import SampleRows, repeats_in, runs_in

LONG_REPEAT = 8
"""Minimum length of a suspicious run of equal samples. Such runs are left out when the noise is
computed. The length follows from the accepted chance `_CHANCE`, for 1,000 samples with 5 % of equal
neighbours."""
_NEAR = 64
"""Number of samples whose noise is examined, before and after a run of equal values."""
_MARGIN = 2.0
"""Distance by which a stuck value may be outside the range of the samples before it, in standard
deviations. Even without a fault, 1 in 32 values is outside the range of the 64 values before it."""
_LEAST = 32
"""Minimum number of differences from which the noise of a source is judged."""
_LEAST_VALUES = 16
"""Minimum number of different values in a source with noise. A load with two levels and no noise
has only two values."""
_MAX_SAME_RATIO = 0.25
"""Maximum share of equal neighbours in a source that has noise. It is the share 1 / (sqrt(4 pi) ·
sigma) of normal noise with a standard deviation sigma of 1.1 quantisation steps."""
_QUARTILE_SIGMAS = 0.4506
"""Lower quartile of the absolute difference of two normal values, in their standard deviations."""
_CHANCE = 14.0
"""Negative natural logarithm of the accepted chance that a sound recording has a suspicious run."""
_LEAST_SAME_RATIO = 0.05
"""Share of equal neighbours that is assumed for a source with a lower share."""
_BELOW_SIGMAS = 4.0
"""Distance below the highest value, in standard deviations. Without clipping, most samples of a
load are within this distance."""
_CLIPPED_RATIO = 0.05
"""Samples with the highest value count as clipped if they are at least this share of all samples
within `_BELOW_SIGMAS` of the highest value."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Differences of successive samples, outside long runs of equal samples."""

    steps: Floats
    """Absolute differences, shape (n,)."""
    value_count: int

    @property
    def same_ratio(self) -> float:
        """Share of differences that are zero."""
        return float(np.mean(self.steps == 0)) if len(self.steps) else 1.0

    @property
    def sigma(self) -> float:
        """Standard deviation of a sample, from the lower quartile of the differences.

        Changes of the load hardly affect this quartile, because they enlarge less than half of the
        differences.
        """
        return float(np.quantile(self.steps, 0.25)) / _QUARTILE_SIGMAS if len(self.steps) else 0.0

    @property
    def is_seen(self) -> bool:
        """Whether the source's noise spans at least two of its quantisation steps."""
        return self.is_seen_in(_LEAST, _LEAST_VALUES)

    def is_seen_in(self, step_count: int, value_count: int) -> bool:
        """Whether at least this many differences and distinct values exist, and show this noise."""
        return (
            len(self.steps) >= step_count
            and self.value_count >= value_count
            and self.same_ratio <= _MAX_SAME_RATIO
            and self.sigma > 0
        )

    def is_by_chance(self, repeat_count: int, sample_count: int, same_ratio: float = 0.0) -> bool:
        """Whether a run of equal samples of this length may occur by chance.

        Args:
            repeat_count: Number of samples in the run.
            sample_count: Number of samples that were searched for runs.
            same_ratio: Share of equal neighbours elsewhere. If the share in this noise is higher,
                the share in this noise is used.
        """
        ratio = min(max(same_ratio, self.same_ratio, _LEAST_SAME_RATIO), 0.999)
        return repeat_count - 1 < (math.log(sample_count) + _CHANCE) / -math.log(ratio)


def noise_of(values: Floats, is_loose: NDArray[np.bool_]) -> Noise:
    """Noise of those samples, shape (n,), that `is_loose` marks as outside long runs."""
    kept = values[is_loose]
    steps = np.abs(np.diff(values))[is_loose[1:] & is_loose[:-1]]
    return Noise(steps, len(np.unique(kept)))


def held_in(rows: SampleRows, *, is_end: bool) -> NDArray[np.bool_]:
    """Whether each sample repeats the last value of a source that has noise, shape (n,).

    Args:
        rows: Samples of a part of a recording.
        is_end: Whether the recording ends with these samples. No noise is then required after a run
            at the end, because the source may have stopped.
    """
    is_held = np.zeros(len(rows.power_w), np.bool_)
    first, last = repeats_in(rows)
    values, is_loose = rows.measured, _is_loose(first, last)
    if not noise_of(values, is_loose).is_seen:
        return is_held
    for begin, end in _long(first, last):
        near = slice(max(0, begin - _NEAR), begin), slice(end + 1, end + 1 + _NEAR)
        before, after = (noise_of(values[part], is_loose[part]) for part in near)
        is_stopped = is_end and end == len(values) - 1
        if not (before.is_seen and (after.is_seen or is_stopped)):
            continue
        value = values[begin]
        lowest, highest = values[near[0]].min(), values[near[0]].max()
        if not lowest - _MARGIN * before.sigma <= value <= highest + _MARGIN * before.sigma:
            continue
        same_ratio = _same_ratio(values, begin, end)
        if not before.is_by_chance(end - begin + 1, len(values), same_ratio):
            is_held[begin + 1 : end + 1] = True
    return is_held


def _same_ratio(values: Floats, begin: int, end: int) -> float:
    """Share of samples followed by an equal one, among those with a run's value outside the run."""
    others = np.concatenate([values[:begin], [np.nan], values[end + 1 :]])
    is_value = others == values[begin]
    count = int(np.count_nonzero(is_value))
    return int(np.count_nonzero(is_value[1:] & is_value[:-1])) / count if count else 0.0


def clipped_in(parts: Sequence[SampleRows]) -> list[NDArray[np.bool_]]:
    """Whether each sample is at the end of the instrument's range, for each part.

    If the current shows no clipping, the power is examined. A power that was recorded in addition
    to the current may have finer steps, and thus show the noise.

    Args:
        parts: Parts that contain the highest value of the recording, and parts that show the noise.
    """
    by_current = _clipped_in([rows.measured for rows in parts])
    if any(is_clipped.any() for is_clipped in by_current):
        return by_current
    return _clipped_in([rows.power_w for rows in parts])


def _clipped_in(parts: Sequence[Floats]) -> list[NDArray[np.bool_]]:
    """Whether each value is at the end of the range, for each part of a quantity's values."""
    nothing = [np.zeros(len(values), np.bool_) for values in parts]
    highest = max((float(values.max()) for values in parts if len(values)), default=math.nan)
    is_at_end: list[NDArray[np.bool_]] = []
    steps: list[Floats] = []
    others: list[Floats] = []
    longest_count = 0
    for values in parts:
        first, last = runs_in(np.diff(values) == 0)
        is_in_run = np.zeros(len(values), np.bool_)
        for begin, end in _long(first, last):
            if values[begin] == highest:
                is_in_run[begin : end + 1] = True
                longest_count = max(longest_count, end - begin + 1)
        is_at_end.append(is_in_run)
        # A sample on each side of the highest value belongs to a change of the load.
        noise = noise_of(values, _is_loose(first, last) & (values != highest))
        steps.append(noise.steps)
        others.append(values[values != highest])
    below = np.concatenate(others) if others else np.zeros(0)
    noise = Noise(np.concatenate(steps) if steps else np.zeros(0), len(np.unique(below)))
    count = sum(int(np.count_nonzero(part)) for part in is_at_end)
    if not noise.is_seen or noise.is_by_chance(longest_count, count + len(below)):
        return nothing
    near_count = int(np.count_nonzero(below > highest - _BELOW_SIGMAS * noise.sigma))
    return is_at_end if count >= _CLIPPED_RATIO * (count + near_count) else nothing


def _is_loose(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each sample is outside long runs of equal samples."""
    lengths = last - first + 1
    return np.repeat(lengths < LONG_REPEAT, lengths)


def _long(first: NDArray[np.int64], last: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """First and last index of each suspiciously long run."""
    for place in np.flatnonzero(last - first + 1 >= LONG_REPEAT):
        yield int(first[place]), int(last[place])
