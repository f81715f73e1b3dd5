"""Detection of the steady state of a run and of its first steady query.

Theory of operation, in five steps:

1. A long series is reduced to at most `MAX_SEARCHED_POINTS` blocks; the mean of the middle half of
   a block represents the block. The time to cut n points grows with n². The events of interest (a
   device that warms up or slows down) last much longer than a block. A warm-up that is shorter than
   1/2000 of the run does not change any percentile that the run supports. Like a median, the mean
   of the middle half ignores spikes, as long as they make up at most a quarter of the block.
   Unlike a median, it does not jump by a whole tick when the clock is coarse and the share of the
   two neighbouring ticks changes slightly.
2. Values far from their neighbours are clipped, for the search of changepoints only. A normal cost
   would give every spike its own segment.
3. Changepoints of mean or variance are found (`changepoints.py`). If the values inside the segments
   depend on each other, noise resembles shifts. The search is then repeated, with the penalty
   multiplied by the autocorrelation time.
4. From the end backwards, segments belong to the steady state while their level equals the level of
   the last segment. Levels are equal within 1 % plus the uncertainty due to noise. A short
   excursion that returns to the level, for example when another process runs for a moment, does not
   end the steady state. A different level of the last few queries does not end it either.
5. The steady state has to cover the last quarter of the run. Its level, relative to the fastest
   of the segments that are long enough, distinguishes a warm-up from a slowdown.

No query is dropped: the result is a class and an index, and the series is unchanged.

Source: Barrett et al., Virtual machine warmup blows hot and cold (2017), section 4, and
softdevteam/warmup_stats for the classes, the filter window and the penalty; steps 1 and 3, the
middle half and the excursions are edgebench's own, measured in the tests.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.latency.changepoints import find_changepoints

MIN_QUERY_COUNT = 20
"""Minimum number of queries of a run that can be classified. The last quarter of the run then has
five queries."""
MAX_SEARCHED_POINTS = 2000
"""Largest number of points that are searched for changepoints; the search takes 0.01 s."""
DELTA_RATIO = 0.01
"""Two levels count as equal if they differ by at most this ratio."""
STEADY_RATIO = 0.25
"""Share of the run that has to be steady, counted from its end. Source: warmup_stats, 500 of
2000."""
LASTING_RATIO = 0.02
"""Minimum share of the run that a segment must last to characterise the device."""
EXCURSIONS_RATIO = 0.10
"""Largest share of the steady state that all excursions from its level together may take. On a
shared virtual machine, a limit of 5 % classified every fourth run of 2 s as unsteady although it
otherwise stayed on its level."""
FILTER_WINDOW = 201
"""Number of values from whose percentiles the limits for clipping a value are computed: the value
and its neighbours. Source: warmup_stats, which has 200, without the value itself."""
FILTER_RANGES = 3.0
"""Values are clipped beyond this distance from the median, in units of P90 - P10. Source:
warmup_stats, outliers."""
LEVEL_STANDARD_ERRORS = 3.0
"""Noise alone may explain a difference of two levels by up to this many standard errors."""
MAX_STRICTNESS = 20.0
"""Largest accepted autocorrelation time; an AR(1) series with the coefficient 0.9 has 19."""


class SteadyClass(str, Enum):
    """Course of a run's latencies."""

    FLAT = "flat"
    WARMUP = "warmup"
    """The latency is on another level at first, then on the fastest lasting level until the end."""
    SLOWDOWN = "slowdown"
    """The latency is steady at the end, on a slower level than an earlier lasting level."""
    SWITCHING = "switching"
    """The latency changes repeatedly between two levels (`stability.py`)."""
    NO_STEADY_STATE = "no_steady_state"


@dataclass(frozen=True, slots=True)
class Segment:
    """Stretch of queries between two changepoints."""

    start_index: int
    end_index: int
    """Index of the first query after the segment."""
    level_ns: float
    """Mean of the middle half, which does not jump on coarse clocks as a median does."""

    @property
    def query_count(self) -> int:
        """Number of queries in the segment."""
        return self.end_index - self.start_index


@dataclass(frozen=True, slots=True)
class SteadyState:
    """Class of a run, and the start of its steady state."""

    steady_class: SteadyClass | None
    """Class of the run; None if it has too few queries."""
    first_steady_index: int | None
    """Index in the given series; None if no steady state exists, or for too few queries."""
    segments: tuple[Segment, ...]
    block_size: int
    """Number of queries per searched point; all indexes are multiples of this number."""


def drift_ratio(steady: SteadyState) -> float | None:
    """Relative range of the levels of a run that became slower or never steady; else None."""
    is_drifting = steady.steady_class in (SteadyClass.SLOWDOWN, SteadyClass.NO_STEADY_STATE)
    return level_range_ratio(steady.segments) if is_drifting else None


def level_range_ratio(segments: Sequence[Segment]) -> float:
    """Range of the levels of a run, relative to the lowest level.

    The levels of the fastest and of the slowest `LASTING_RATIO` of the queries are left out.

    Args:
        segments: All segments of the run, at least one.
    """
    levels_ns = np.array([part.level_ns for part in segments])
    shares = np.array([part.query_count for part in segments]) / segments[-1].end_index
    order = np.argsort(levels_ns)
    reached = np.cumsum(shares[order])
    places = np.searchsorted(reached, (LASTING_RATIO, 1 - LASTING_RATIO))
    low_ns, high_ns = levels_ns[order][np.minimum(places, len(segments) - 1)]
    return float(high_ns / max(low_ns, 1.0)) - 1


def find_steady_state(latency_ns: NDArray[np.int64]) -> SteadyState:
    """Classify a run and find its first steady query.

    Args:
        latency_ns: Per-query latency, shape (n,), nanoseconds, issue order, warm-up included.
    """
    count = int(latency_ns.size)
    if count < MIN_QUERY_COUNT:
        return SteadyState(None, None, (), 1)
    values, block_size = _reduced(latency_ns)
    # The series, with every value clipped to a range around its neighbourhood.
    half = min(FILTER_WINDOW // 2, values.size - 1)
    low, middle, high = _sliding_percentiles(np.pad(values, half, mode="reflect"), 2 * half + 1)
    reach = FILTER_RANGES * np.maximum(high - low, DELTA_RATIO * middle)
    bounded = np.clip(values, middle - reach, middle + reach)
    # The floor is a third of the smallest difference of levels. Without it, the segments of a
    # nearly constant series would be infinitely certain.
    floor = max(DELTA_RATIO / 3 * float(np.median(bounded)), 1e-9)
    ends = find_changepoints(bounded, floor=floor)
    dependence = _autocorrelation_time(bounded, ends)
    if dependence > 1.0 and len(ends) > 1:
        ends = find_changepoints(bounded, floor=floor, strictness=dependence)
        dependence = _autocorrelation_time(bounded, ends)
    segments = [
        Segment(start, end, float(_middle_mean(values[np.newaxis, start:end])[0]))
        for start, end in pairwise([0, *ends])
    ]
    # Error of each segment's level by noise alone, 3 standard errors. `dependence` is the number of
    # values that are worth one independent value. Source: standard error of a median of normal
    # values, 1.2533 s / sqrt(n); s from the median absolute deviation, 1.4826 MAD.
    deviations = np.concatenate(
        [np.abs(values[part.start_index : part.end_index] - part.level_ns) for part in segments]
    )
    spread = 1.4826 * float(np.median(deviations))
    tolerances = [
        LEVEL_STANDARD_ERRORS * 1.2533 * spread * (dependence / part.query_count) ** 0.5
        for part in segments
    ]
    first, steady_class = _classify(segments, tolerances)
    return SteadyState(
        steady_class,
        None if first is None else first * block_size,
        tuple(
            replace(
                segment,
                start_index=segment.start_index * block_size,
                # The last block extends to the end of the series.
                end_index=count
                if segment.end_index == values.size
                else segment.end_index * block_size,
            )
            for segment in segments
        ),
        block_size,
    )


def _sliding_percentiles(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """10th, 50th and 90th percentile of each window, shape (n,) to (3, n - width + 1).

    The result equals that of np.percentile, which sorts each window anew. For 2000 windows of 201
    values, np.percentile takes 10 ms, and this function takes 2 ms.
    """
    places = (width - 1) * np.array([0.1, 0.5, 0.9])
    below = places.astype(np.int64)
    shares = (places - below)[:, np.newaxis]
    above = np.minimum(below + 1, width - 1)
    chosen = itemgetter(*below.tolist(), *above.tolist())
    listed = values.tolist()
    ordered = sorted(listed[:width])
    rows = [chosen(ordered)]
    for left, entered in zip(listed, listed[width:], strict=False):
        del ordered[bisect_left(ordered, left)]
        insort(ordered, entered)
        rows.append(chosen(ordered))
    low, high = np.array(rows).T.reshape(2, 3, -1)
    percentiles: NDArray[np.float64] = np.where(
        shares < 0.5, low + (high - low) * shares, high - (high - low) * (1 - shares)
    )
    return percentiles


def _reduced(latency_ns: NDArray[np.int64]) -> tuple[NDArray[np.float64], int]:
    """Reduce a series to at most `MAX_SEARCHED_POINTS` values, each of several queries.

    The last value also represents the queries that are left over.
    """
    size = -(-latency_ns.size // MAX_SEARCHED_POINTS)
    if size == 1:
        return latency_ns.astype(np.float64), 1
    blocks = latency_ns.size // size
    values = _middle_mean(latency_ns[: blocks * size].reshape(blocks, size))
    values[-1] = _middle_mean(latency_ns[(blocks - 1) * size :][np.newaxis])[0]
    return values, size


def _middle_mean(rows: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the middle half of each row, shape (k, m) to (k,)."""
    length = rows.shape[1]
    low, high = length // 4, length - length // 4
    ordered = np.partition(rows, (low, high - 1), axis=1)
    middle: NDArray[np.float64] = ordered[:, low:high].mean(axis=1)
    return middle


def _autocorrelation_time(values: NDArray[np.float64], ends: list[int]) -> float:
    """Number of dependent values that are worth one independent value, in a typical segment.

    It is the median over the segments, weighted by their length, so that a ramp that was cut into
    steps does not determine the result. It is 1.0 if no correlation is significant.

    Source: AR(1): n_eff = n (1 - r) / (1 + r); |r| < 2 / sqrt(n) is noise (Bartlett 1946).
    """
    by_segment: list[tuple[float, int]] = []
    for start, end in pairwise([0, *ends]):
        if end - start >= MIN_QUERY_COUNT:
            deviations = values[start:end] - values[start:end].mean()
            power = float(deviations @ deviations)
            lagged = float(deviations[1:] @ deviations[:-1])
            r = lagged / power if power > 0 else 0.0
            by_segment.append((r if r > 2 / (end - start) ** 0.5 else 0.0, end - start))
    if not by_segment:
        return 1.0
    by_segment.sort()
    weights = np.cumsum([weight for _, weight in by_segment])
    r = by_segment[int(np.searchsorted(weights, weights[-1] / 2))][0]
    return min((1 + r) / max(1 - r, 1e-9), MAX_STRICTNESS)


def _classify(segments: list[Segment], tolerances: list[float]) -> tuple[int | None, SteadyClass]:
    """First steady point (None without a steady state), and the class of the run."""
    count = segments[-1].end_index
    lasting = [
        index for index, part in enumerate(segments) if part.query_count >= LASTING_RATIO * count
    ] or [len(segments) - 1]
    anchor = lasting[-1]

    def is_equal(one: int, other: int) -> bool:
        a, b = segments[one], segments[other]
        reach = DELTA_RATIO * min(a.level_ns, b.level_ns)
        noise = math.hypot(tolerances[one], tolerances[other])
        return abs(a.level_ns - b.level_ns) <= reach + noise

    are_equal = [is_equal(index, anchor) for index in range(len(segments))]
    # Backwards from the anchor: excursions that return to its level do not end the steady state.
    first_segment = anchor
    excursions = 0
    for index in range(anchor - 1, -1, -1):
        span = count - segments[index].start_index
        if not are_equal[index]:
            excursions += segments[index].query_count
        elif excursions <= EXCURSIONS_RATIO * span:
            first_segment = index
    first = segments[first_segment].start_index
    away = sum(segments[i].query_count for i in range(anchor, len(segments)) if not are_equal[i])
    if first > (1 - STEADY_RATIO) * count or away > LASTING_RATIO * count:
        return None, SteadyClass.NO_STEADY_STATE
    if first == 0:
        return 0, SteadyClass.FLAT
    fastest = min(lasting, key=lambda index: segments[index].level_ns)
    return first, SteadyClass.WARMUP if is_equal(fastest, anchor) else SteadyClass.SLOWDOWN
