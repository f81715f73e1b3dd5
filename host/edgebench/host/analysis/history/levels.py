"""Changepoints of a history, found as the greatest contrast of two means, by permutation test.

Theory of operation. A history has few points with an unknown distribution, and the scatter between
days is unknown too: the interval between the runs of a command does not include the scatter between
days. So this scatter is estimated from the points. Under the null hypothesis of no change the
points are exchangeable. Then, with a probability of 5 %, the greatest contrast of the observed
order is above 95 % of the greatest contrasts of random orders, whatever the distribution. A history
is searched

    for a level that lasts to the end       before | after            80 % of alpha
    else for a temporary level              before | level | after    20 % of alpha

Each part is then searched again, with a share of alpha proportional to the length of the part.
Without the search for a temporary level, a level of ten points in the middle of 200 is missed. A
single cut at either end of this level has no large contrast over all points.

The contrast is the share of the sum of squares that the two means explain. It equals
t² / (t² + n - 2) with Student's t, so both statistics rank permutations alike. Values beyond three
robust standard deviations are clipped first, so that an outlier does not hide a change.

Five to seven points have too few permutations for 5 %, so they are compared with samples of normal
values. A step of five standard deviations is then found more often than not, and heavy tails make
Student's t conservative; `benchmarks/history_calibration.py` has the rates.

A changepoint is kept if the levels before and after it differ by more than chance explains, and by
more than the intervals of their points allow. Correlated neighbours, as on a device that drifts for
days, are not exchangeable: a drift is reported as steps.

Source: Olshen et al., Circular binary segmentation for the analysis of array-based DNA copy number
data, Biostatistics 5 (2004), for the contrast of a temporary level and its permutations; Good,
Permutation, Parametric and Bootstrap Tests of Hypotheses (2005), for their exactness; Vostrikova,
Detecting disorder in multidimensional random processes (1981), for binary segmentation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FALSE_ALARM_RATE = 0.05
"""False alarm rate: probability that a change is reported in a history without a change."""
MIN_POINTS = 5
"""Shortest history that is searched."""
MIN_PERMUTED = 8
"""Shortest history for a permutation test. 8 points can be halved in 70 ways, and 2 of these
separate all low points from all high points."""
MIN_LEVEL_LENGTH = 2
"""Minimum number of points of a level; a single deviating point is an outlier."""
_LASTING_SHARE = 0.8
"""Share of alpha that the search for a level that lasts to the end may use."""
_DRAWS, _BATCH = 1999, 200
"""Number of random orders, and number of orders in a batch; most searches end after one batch."""
_TINY = float(np.finfo(np.float64).tiny)
"""Lower bound of a variance, for points that are all equal."""
_CLIP_SIGMAS = 3.0
_SIGMA_OF_MAD = 1.4826
"""Ratio of standard deviation to median absolute deviation for normal values."""


def find_level_starts(
    values: Floats, *, errors: Floats | None = None, alpha: float = FALSE_ALARM_RATE, seed: int = 0
) -> list[int]:
    """Indices at which a new level begins, ascending; empty if no change is found.

    Args:
        values: Points in order of time, on a scale with constant scatter, such as logarithms;
            shape (n,).
        errors: Standard error of each point, from the point's interval, in the unit of the values,
            shape (n,). 0 for a point without an interval.
        alpha: Probability that the whole history has at least one false alarm.
        seed: Seed of the random orders; the result is a pure function of the arguments.

    Source: see the module's docstring.
    """
    clipped = _clipped(values) if values.size >= MIN_PERMUTED else values
    starts = _search(clipped, alpha, np.random.default_rng(seed))
    floor = 0.0 if errors is None else float(np.mean(np.square(errors)))
    return _without_insignificant(clipped, starts, floor, alpha)


def find_exact_starts(values: Floats, *, resolution: float) -> list[int]:
    """Indices at which a count without scatter changes.

    Args:
        values: Logarithms of the counts in order of time, shape (n,).
        resolution: Largest difference between two logarithms of equal counts.
    """
    return [int(place) + 1 for place in np.flatnonzero(np.abs(np.diff(values)) > resolution)]


def _clipped(values: Floats) -> Floats:
    centre = np.median(values)
    limit = _CLIP_SIGMAS * _SIGMA_OF_MAD * float(np.median(np.abs(values - centre)))
    return np.clip(values, centre - limit, centre + limit) if limit else values


def _search(values: Floats, alpha: float, draw: np.random.Generator) -> list[int]:
    """Find the cuts of these points, and recursively of each part with its share of alpha."""
    count = values.size
    if count < MIN_POINTS or not np.ptp(values):
        return []
    cuts = _significant_cuts(values, alpha * _LASTING_SHARE, draw, lasts=True)
    if not cuts and count >= MIN_PERMUTED:
        cuts = _significant_cuts(values, alpha * (1 - _LASTING_SHARE), draw, lasts=False)
    if not cuts:
        return []
    parts = pairwise([0, *cuts, count])
    inside = [
        begin + start
        for begin, end in parts
        for start in _search(values[begin:end], alpha * (end - begin) / count, draw)
    ]
    return sorted([*cuts, *inside])


def _significant_cuts(
    values: Floats, alpha: float, draw: np.random.Generator, *, lasts: bool
) -> tuple[int, ...]:
    """Find the cut or cuts of greatest contrast, if this contrast exceeds that of random orders."""
    contrasts = _lasting_contrasts if lasts else _passing_contrasts
    [greatest], [cuts] = contrasts(values[np.newaxis])
    most = math.floor(alpha * (_DRAWS + 1)) - 1
    # Equal contrasts may differ by rounding.
    limit, exceeding = greatest * (1 - 1e-9), 0
    for begin in range(0, _DRAWS, _BATCH):
        shape = min(_BATCH, _DRAWS - begin), values.size
        if values.size < MIN_PERMUTED:
            orders = draw.standard_normal(shape)
        else:
            orders = draw.permuted(np.broadcast_to(values, shape), axis=1)
        exceeding += int(np.count_nonzero(contrasts(orders)[0] >= limit))
        if exceeding > most:
            return ()
    return tuple(int(cut) for cut in cuts)


def _lasting_contrasts(rows: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Greatest contrast of one cut in each row of points, and the cut; shapes (r,), (r, 1)."""
    count = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    lengths = np.arange(MIN_LEVEL_LENGTH, count - MIN_LEVEL_LENGTH + 1)
    sums = np.cumsum(centred, axis=1)[:, lengths - 1]
    explained = sums**2 * (count / (lengths * (count - lengths)))
    best = explained.argmax(axis=1)
    squares = np.maximum((centred**2).sum(axis=1), _TINY)
    return explained[np.arange(len(rows)), best] / squares, lengths[best][:, np.newaxis]


def _passing_contrasts(rows: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Greatest contrast of a temporary level in each row, and its ends, shapes (r,), (r, 2)."""
    count = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(centred, axis=1)], axis=1)
    greatest = np.zeros(len(rows))
    ends = np.zeros((len(rows), 2), np.int64)
    for length in range(MIN_LEVEL_LENGTH, count - 2 * MIN_LEVEL_LENGTH + 1):
        first = slice(MIN_LEVEL_LENGTH, count - MIN_LEVEL_LENGTH - length + 1)
        last = slice(MIN_LEVEL_LENGTH + length, count - MIN_LEVEL_LENGTH + 1)
        differences = np.abs(sums[:, last] - sums[:, first])
        best = differences.argmax(axis=1)
        explained = differences[np.arange(len(rows)), best] ** 2
        explained *= count / (length * (count - length))
        is_better = explained > greatest
        greatest[is_better] = explained[is_better]
        begins = best[is_better] + MIN_LEVEL_LENGTH
        ends[is_better] = np.column_stack([begins, begins + length])
    squares = np.maximum((centred**2).sum(axis=1), _TINY)
    return greatest / squares, ends


def _without_insignificant(
    values: Floats, starts: Sequence[int], floor: float, alpha: float
) -> list[int]:
    """The cuts between levels that differ significantly, by Student's t.

    The variance is pooled over all levels. The least significant cut is removed first, because its
    removal changes the levels beside the remaining cuts.
    """
    from scipy.special import stdtr

    kept = list(starts)
    while kept:
        levels = [values[begin:end] for begin, end in pairwise([0, *kept, values.size])]
        freedom = values.size - len(levels)
        within = sum(float(((level - level.mean()) ** 2).sum()) for level in levels) / freedom
        deviation = math.sqrt(max(within, floor, _TINY))
        p_values = [
            2 * float(stdtr(freedom, -abs(float(after.mean() - before.mean())) / deviation / share))
            for before, after in pairwise(levels)
            for share in [math.sqrt(1 / before.size + 1 / after.size)]
        ]
        if max(p_values) <= alpha:
            break
        del kept[p_values.index(max(p_values))]
    return kept
