"""Is there a steady state, and from which query on?

Theory of operation, in five steps:

1. A long series is reduced to at most `MAX_SEARCHED_POINTS` blocks, each by the mean of its
   middle half. Cutting n points costs n², and what is looked for (a device that warms up or slows
   down) lasts much longer than a block: a warm-up that is shorter than 1/2000 of the run moves no
   percentile that the run supports. The mean of the middle half ignores spikes as a median
   does, up to a quarter of the block, and unlike a median it does not jump by a whole tick when
   the clock is coarse and the share of the two neighbouring ticks changes a little.
2. Values far from their neighbours are pulled in to a bound, for the search of changepoints only.
   A normal cost would give every spike a segment of its own.
3. Changepoints of mean or variance are found (`changepoints.py`). If the values inside the
   segments depend on each other, noise looks like shifts; the search is repeated with a penalty
   that is stricter by the autocorrelation time.
4. From the end backwards, segments belong to the steady state while their level equals that of
   the last one, within 1 % and what the noise leaves open. Short excursions that return to the
   level (another process ran for a moment) do not end it, nor do the last few queries.
5. The steady state has to cover the last quarter of the run. Its level against the fastest
   lasting segment tells a warm-up from a slow-down.

Nothing is dropped: a class and an index are returned, the series is left alone.

Source: Barrett et al., Virtual machine warmup blows hot and cold (2017), section 4, and
softdevteam/warmup_stats for the classes, the filter window and the penalty; steps 1 and 3, the
middle half and the excursions are our own, measured in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.latency.changepoints import find_changepoints

MIN_QUERY_COUNT = 20
"""Fewest queries that can be classified: a quarter of fewer is not even a handful."""
MAX_SEARCHED_POINTS = 2000
"""Most points that are searched; that takes 0.05 s."""
DELTA_RATIO = 0.01
"""Relative difference below which two levels are equal."""
STEADY_RATIO = 0.25
"""Part of the run, at its end, that has to be steady. Source: warmup_stats, 500 of 2000."""
LASTING_RATIO = 0.02
"""Part of the run that a segment must last to say something about the device."""
EXCURSIONS_RATIO = 0.10
"""Part of the steady state that excursions from its level may take in total. On a shared virtual
machine, 5 % called every fourth run of 2 s unsteady that otherwise stayed on its level."""
FILTER_WINDOW = 201
"""Neighbourhood that says whether a value is far. Source: warmup_stats, 200, here with a centre."""
FILTER_RANGES = 3.0
"""Distance from the median that is far, in P90-P10. Source: warmup_stats, outliers."""
LEVEL_STANDARD_ERRORS = 3.0
"""Distance of two levels that noise alone may explain."""
MAX_STRICTNESS = 20.0
"""Longest autocorrelation time that is believed; an AR(1) series with 0.9 has 19."""


class SteadyClass(str, Enum):
    """Course of a run's latencies."""

    FLAT = "flat"
    WARMUP = "warmup"
    """Another level at first, then the fastest lasting one until the end."""
    SLOWDOWN = "slowdown"
    """Steady at the end, on a slower level than an earlier lasting one."""
    SWITCHING = "switching"
    """Between two levels, over and over (`stability.py`)."""
    NO_STEADY_STATE = "no_steady_state"


@dataclass(frozen=True, slots=True)
class Segment:
    """Stretch of queries between two changepoints."""

    start_index: int
    end_index: int
    """Index after the last query."""
    level_ns: float
    """Mean of the middle half: a median that does not jump on coarse clocks."""

    @property
    def query_count(self) -> int:
        """Length of the segment."""
        return self.end_index - self.start_index


@dataclass(frozen=True, slots=True)
class SteadyState:
    """Class of a run, and where its steady state begins."""

    steady_class: SteadyClass | None
    """Class of the run; None: too few queries to tell."""
    first_steady_index: int | None
    """Index into the given series; None where there is no steady state or too few queries."""
    segments: tuple[Segment, ...]
    block_size: int
    """Queries per point that was searched; indexes are multiples of it."""


def level_range_ratio(segments: Sequence[Segment]) -> float:
    """Range of the levels of a run, over the lowest one.

    Levels that less than `LASTING_RATIO` of the queries are beyond are left out, at either end.

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
    # The series with every value within a bound of its neighbourhood.
    half = min(FILTER_WINDOW // 2, values.size - 1)
    padded = np.pad(values, half, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    low, middle, high = np.percentile(windows, (10, 50, 90), axis=1)
    reach = FILTER_RANGES * np.maximum(high - low, DELTA_RATIO * middle)
    bounded = np.clip(values, middle - reach, middle + reach)
    # Finer changes than a third of what counts as a change are not looked for: segments of a
    # nearly constant series would otherwise be infinitely certain.
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
                # The last block reaches to the end.
                end_index=count
                if segment.end_index == values.size
                else segment.end_index * block_size,
            )
            for segment in segments
        ),
        block_size,
    )


def _reduced(latency_ns: NDArray[np.int64]) -> tuple[NDArray[np.float64], int]:
    """At most `MAX_SEARCHED_POINTS` values for the series, and the queries per value.

    The last block also holds what is left over.
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
    """Number of values that are worth one independent value, by the typical segment.

    The median over the segments, weighted by their length, so that a ramp that was cut into
    steps does not speak for the rest. 1.0 where no correlation is certain.

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
    """First steady point, None where there is none, and the class."""
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
