"""Where a history changes its level: the greatest contrast of two means, judged by permutations.

Theory of operation. A history has few points, of an unknown distribution, and nobody knows how far
two of them differ while nothing changes: the interval between the runs of one command knows nothing
of the next day. So the points themselves say it. While nothing changes, their order means nothing:
the greatest contrast of the real order is then one of those of random orders, and is above 95 % of
them with a chance of 5 %, whatever the distribution. A history is searched

    for a level that lasts to its end       before | after            80 % of alpha
    else for one that comes and goes        before | level | after    20 % of alpha

and each part is searched again, with its share of alpha by its length. Without the second search, a
level of ten points in the midst of 200 is lost: neither of its ends is a contrast of all points.

The contrast is the share of the sum of squares that the two means explain. It is t² / (t² + n - 2)
of Student's t, so under permutations both have the same order. Values beyond three robust standard
deviations are clipped first: one run beside a neighbour must not hide a change.

Five to seven points have too few orders for 5 %: theirs are held against normal values. A step of
five standard deviations is then found more often than not, and a heavy tail makes Student's t
cautious, not rash; `benchmarks/history_calibration.py` has the rates.

A cut is kept if the levels on both sides differ by more than chance, and by more than the intervals
of their points allow. Neighbours that are correlated, as on a device that drifts for days, are not
exchangeable: a drift is found as steps.

Source: Olshen et al., Circular binary segmentation for the analysis of array-based DNA copy number
data, Biostatistics 5 (2004), for the contrast of a level in the midst and its permutations; Good,
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

ALPHA = 0.05
"""Chance that a history without a change is said to have one."""
MIN_POINTS = 5
"""Shortest history that is searched."""
MIN_PERMUTED = 8
"""Fewest points whose orders can show anything: two halves of 8 are apart in 2 of 70."""
MIN_LENGTH = 2
"""Shortest level: one point that differs is an outlier until another confirms it."""
_LASTING_SHARE = 0.8
"""Share of alpha of the search for a level that lasts to the end."""
_DRAWS, _BATCH = 1999, 200
"""Random orders, and those that are looked at together: most searches end after the first."""
_TINY = float(np.finfo(np.float64).tiny)
"""For points that are all the same."""
_CLIP_SIGMAS = 3.0
_SIGMA_OF_MAD = 1.4826
"""Standard deviation of normal values over their median absolute deviation."""


def find_level_starts(
    values: Floats, *, errors: Floats | None = None, alpha: float = ALPHA, seed: int = 0
) -> list[int]:
    """Positions at which a new level begins, ascending; empty while nothing changes.

    Args:
        values: Points in the order of time, on a scale on which they scatter alike, as logarithms;
            shape (n,).
        errors: Standard error of each point as its own interval has it, 0 where it has none; unit
            of the values, shape (n,).
        alpha: Chance of any false alarm in the whole history.
        seed: Seed of the random orders; the result is a pure function of the arguments.

    Source: see the head of this module.
    """
    clipped = _clipped(values) if values.size >= MIN_PERMUTED else values
    starts = _search(clipped, alpha, np.random.default_rng(seed))
    floor = 0.0 if errors is None else float(np.mean(np.square(errors)))
    return _without_doubtful(clipped, starts, floor, alpha)


def find_exact_starts(values: Floats, *, resolution: float) -> list[int]:
    """Positions at which a count that does not scatter is another one.

    Args:
        values: Logarithms of the counts in the order of time, shape (n,).
        resolution: Largest difference of two logarithms that may be the same count.
    """
    return [int(one) + 1 for one in np.flatnonzero(np.abs(np.diff(values)) > resolution)]


def _clipped(values: Floats) -> Floats:
    centre = np.median(values)
    limit = _CLIP_SIGMAS * _SIGMA_OF_MAD * float(np.median(np.abs(values - centre)))
    return np.clip(values, centre - limit, centre + limit) if limit else values


def _search(values: Floats, alpha: float, draw: np.random.Generator) -> list[int]:
    """Cuts of these points and, with its share of alpha, of each part."""
    count = values.size
    if count < MIN_POINTS or not np.ptp(values):
        return []
    cuts = _found(values, alpha * _LASTING_SHARE, draw, lasts=True)
    if not cuts and count >= MIN_PERMUTED:
        cuts = _found(values, alpha * (1 - _LASTING_SHARE), draw, lasts=False)
    if not cuts:
        return []
    parts = pairwise([0, *cuts, count])
    inside = [
        begin + start
        for begin, end in parts
        for start in _search(values[begin:end], alpha * (end - begin) / count, draw)
    ]
    return sorted([*cuts, *inside])


def _found(
    values: Floats, alpha: float, draw: np.random.Generator, *, lasts: bool
) -> tuple[int, ...]:
    """Cut or cuts of the greatest contrast, if it is greater than that of random orders."""
    contrasts = _lasting_contrasts if lasts else _passing_contrasts
    [greatest], [cuts] = contrasts(values[np.newaxis])
    most = math.floor(alpha * (_DRAWS + 1)) - 1
    # Equal contrasts differ by their rounding.
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
    """Greatest share of the squares that one cut explains, and the cut; shapes (r,) and (r, 1)."""
    count = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    lengths = np.arange(MIN_LENGTH, count - MIN_LENGTH + 1)
    sums = np.cumsum(centred, axis=1)[:, lengths - 1]
    explained = sums**2 * (count / (lengths * (count - lengths)))
    best = explained.argmax(axis=1)
    squares = np.maximum((centred**2).sum(axis=1), _TINY)
    return explained[np.arange(len(rows)), best] / squares, lengths[best][:, np.newaxis]


def _passing_contrasts(rows: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Greatest share that a level in the midst explains, and its ends; shapes (r,) and (r, 2)."""
    count = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(centred, axis=1)], axis=1)
    greatest = np.zeros(len(rows))
    ends = np.zeros((len(rows), 2), np.int64)
    for length in range(MIN_LENGTH, count - 2 * MIN_LENGTH + 1):
        first = slice(MIN_LENGTH, count - MIN_LENGTH - length + 1)
        last = slice(MIN_LENGTH + length, count - MIN_LENGTH + 1)
        differences = np.abs(sums[:, last] - sums[:, first])
        best = differences.argmax(axis=1)
        explained = differences[np.arange(len(rows)), best] ** 2
        explained *= count / (length * (count - length))
        is_better = explained > greatest
        greatest[is_better] = explained[is_better]
        begins = best[is_better] + MIN_LENGTH
        ends[is_better] = np.column_stack([begins, begins + length])
    squares = np.maximum((centred**2).sum(axis=1), _TINY)
    return greatest / squares, ends


def _without_doubtful(
    values: Floats, starts: Sequence[int], floor: float, alpha: float
) -> list[int]:
    """The cuts between levels that differ, by Student's t with the spread within all levels.

    The least certain one goes first, as what is left then has other levels around it.
    """
    from scipy.special import stdtr

    kept = list(starts)
    while kept:
        levels = [values[begin:end] for begin, end in pairwise([0, *kept, values.size])]
        freedom = values.size - len(levels)
        within = sum(float(((level - level.mean()) ** 2).sum()) for level in levels) / freedom
        deviation = math.sqrt(max(within, floor, _TINY))
        chances = [
            2 * float(stdtr(freedom, -abs(float(after.mean() - before.mean())) / deviation / share))
            for before, after in pairwise(levels)
            for share in [math.sqrt(1 / before.size + 1 / after.size)]
        ]
        if max(chances) <= alpha:
            break
        del kept[chances.index(max(chances))]
    return kept
