"""Outliers are labelled and counted, never dropped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MILD_RANGES, SEVERE_RANGES = 1.5, 3.0
"""Interquartile ranges beyond the quartiles. Source: Tukey, Exploratory Data Analysis (1977)."""


@dataclass(frozen=True, slots=True)
class Outliers:
    """How many values are far out, and on which side."""

    low_count: int
    mild_count: int
    """Above, but not severely."""
    severe_count: int


def label_outliers(values: NDArray[np.int64]) -> Outliers:
    """Count the outliers of a sample, shape (n,), n >= 1."""
    low, high = np.percentile(values, (25, 75))
    reach = high - low
    above_mild = int(np.count_nonzero(values > high + MILD_RANGES * reach))
    above_severe = int(np.count_nonzero(values > high + SEVERE_RANGES * reach))
    below = int(np.count_nonzero(values < low - MILD_RANGES * reach))
    return Outliers(below, above_mild - above_severe, above_severe)
