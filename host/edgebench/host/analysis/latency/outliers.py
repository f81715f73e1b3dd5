"""Outliers among latencies. They are labelled and counted, and never dropped.

The fences are those of a box plot. The score is the distance from the median, in units of the
median absolute deviation, which a few outliers do not change.

Source: Tukey, Exploratory Data Analysis (1977), 2C, for fences of 1.5 and 3 interquartile ranges;
Iglewicz & Hoaglin, How to detect and handle outliers (1993), 3.3, for the modified score and its
limit of 3.5, with 0.6745 the 0.75 quantile of the normal distribution.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgebench.host.result.latency import Outliers
from edgebench.protocol.errors import MeasurementError

MILD_RANGES = 1.5
SEVERE_RANGES = 3.0
SCORE_FACTOR = 0.6745
SCORE_LIMIT = 3.5

Values = NDArray[np.int64] | NDArray[np.float64]


def label_outliers(latency_ns: Values) -> Outliers:
    """Count the mild and severe outliers beyond the fences, and the outliers by score.

    Args:
        latency_ns: Shape (n,), n >= 1, in any order.

    Raises:
        MeasurementError: `latency_ns` is empty.
    """
    if latency_ns.size == 0:
        raise MeasurementError("no query was measured")
    first, median, third = (float(q) for q in np.quantile(latency_ns, (0.25, 0.5, 0.75)))
    mild = _fences(first, third, MILD_RANGES)
    severe = _fences(first, third, SEVERE_RANGES)
    low, high = _counts_beyond(latency_ns, mild)
    low_severe, high_severe = _counts_beyond(latency_ns, severe)
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

    None if that deviation is zero, because every value other than the median would be infinitely
    far.
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


def _counts_beyond(values: Values, fences: tuple[float, float]) -> tuple[int, int]:
    return int(np.count_nonzero(values < fences[0])), int(np.count_nonzero(values > fences[1]))
