"""Which latencies stick out. They are labelled, counted and kept: nothing is ever dropped.

Fences are the usual ones of a box plot; the score is the distance from the median in units of
the median absolute deviation, which a few outliers cannot move.

Source: Tukey, Exploratory Data Analysis (1977), 2C, for fences of 1.5 and 3 interquartile ranges;
Iglewicz & Hoaglin, How to detect and handle outliers (1993), 3.3, for the modified score and its
limit of 3.5, with 0.6745 the 0.75 quantile of the normal distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.protocol.errors import MeasurementError

MILD_RANGES = 1.5
SEVERE_RANGES = 3.0
SCORE_FACTOR = 0.6745
SCORE_LIMIT = 3.5

Values = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outliers:
    """How many latencies lie outside of the fences, and where those are, nanoseconds."""

    count: int
    """Of all latencies."""
    low_mild_count: int
    low_severe_count: int
    high_mild_count: int
    high_severe_count: int
    mild_fences: tuple[float, float]
    severe_fences: tuple[float, float]
    score_max: float | None
    """The largest modified score; None where more than half of the latencies are equal."""
    score_outlier_count: int | None
    """Latencies with a modified score above 3.5."""

    @property
    def mild_count(self) -> int:
        """Between the fences, on both sides."""
        return self.low_mild_count + self.high_mild_count

    @property
    def severe_count(self) -> int:
        """Beyond the outer fences, on both sides."""
        return self.low_severe_count + self.high_severe_count


def label_outliers(latency_ns: Values) -> Outliers:
    """Count what sticks out.

    Args:
        latency_ns: Shape (n,), n >= 1, in any order.

    Raises:
        MeasurementError: there is no query.
    """
    if latency_ns.size == 0:
        raise MeasurementError("no query was measured")
    first, median, third = (float(q) for q in np.quantile(latency_ns, (0.25, 0.5, 0.75)))
    mild = _fences(first, third, MILD_RANGES)
    severe = _fences(first, third, SEVERE_RANGES)
    low, high = (int(np.count_nonzero(beyond)) for beyond in _beyond(latency_ns, mild))
    low_severe, high_severe = (
        int(np.count_nonzero(beyond)) for beyond in _beyond(latency_ns, severe)
    )
    scores = modified_scores(latency_ns, median)
    return Outliers(
        count=int(latency_ns.size),
        low_mild_count=low - low_severe,
        low_severe_count=low_severe,
        high_mild_count=high - high_severe,
        high_severe_count=high_severe,
        mild_fences=mild,
        severe_fences=severe,
        score_max=None if scores is None else float(scores.max()),
        score_outlier_count=None if scores is None else int((scores > SCORE_LIMIT).sum()),
    )


def modified_scores(values: Values, median: float | None = None) -> NDArray[np.float64] | None:
    """0.6745 · distance from the median / median absolute deviation, shape (n,).

    None where that deviation is zero: every other value would be infinitely far.
    """
    distances = np.abs(values - (float(np.median(values)) if median is None else median))
    deviation = float(np.median(distances))
    if deviation == 0:
        return None
    scores: NDArray[np.float64] = SCORE_FACTOR * distances / deviation
    return scores


def _fences(first: float, third: float, ranges: float) -> tuple[float, float]:
    reach = ranges * (third - first)
    return first - reach, third + reach


def _beyond(
    values: Values, fences: tuple[float, float]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    return values < fences[0], values > fences[1]
