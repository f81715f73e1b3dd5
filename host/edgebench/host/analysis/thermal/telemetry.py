"""Telemetry for each sensor and window, computed from the trace by pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Nanoseconds = NDArray[np.int64]
WindowMask = NDArray[np.bool_]
"""True for each window with a property, shape (k,)."""
NONSENSE = 1e18
"""Value that no sensor reaches; a counter of cycles at 5 GHz reaches 1.6e17 in a year. Larger
values are dropped, because their sums may overflow."""


@dataclass(frozen=True, slots=True)
class Series:
    """Readings of a sensor over time; readings that are not numbers (such as NaN) are left out."""

    time_ns: Nanoseconds
    """Times of the readings, ascending, shape (n,), device clock."""
    value: Floats
    """Readings, shape (n,), in the unit that the suffix of the sensor's name states."""

    def medians(self, edges_ns: Nanoseconds) -> Floats:
        """Median of each window, shape (k,); NaN where a window has no reading."""
        return window_medians(self.time_ns, self.value, edges_ns)

    def midmeans(self, edges_ns: Nanoseconds) -> Floats:
        """Mean of the middle half of each window, shape (k,); NaN where a window has no reading."""
        return window_midmeans(self.time_ns, self.value, edges_ns)

    def means(self, edges_ns: Nanoseconds) -> Floats:
        """Mean of each window, shape (k,), which includes short dips; NaN without a reading."""
        sums = window_sums(self.time_ns, self.value, edges_ns)
        counts = np.diff(np.searchsorted(self.time_ns, edges_ns))
        return np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)

    def rates(self, edges_ns: Nanoseconds) -> Floats:
        """Growth of a counter in each window, 1/s, shape (k,); NaN outside the trace."""
        at = np.interp(edges_ns, self.time_ns, self.value, left=np.nan, right=np.nan)
        rates: Floats = np.diff(at) / (np.diff(edges_ns) / 1e9)
        return rates

    def growth(self) -> float:
        """Growth of a counter from the first reading to the last."""
        return float(self.value[-1] - self.value[0]) if self.value.size else 0.0


@dataclass(frozen=True, slots=True)
class TelemetryTrace:
    """All samples of a run, by sensor."""

    series: Mapping[str, Series] = field(default_factory=dict[str, Series])
    constants: Mapping[str, float] = field(default_factory=dict[str, float])
    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maps the name of each sensor or source that was not read to the reason."""

    def named(self, prefix: str, suffix: str) -> dict[str, Series]:
        """Sensors whose names have this prefix and suffix."""
        return {
            name: series
            for name, series in self.series.items()
            if name.startswith(prefix) and name.endswith(suffix)
        }


def split_by_sensor(
    time_ns: Nanoseconds, sensor: NDArray[np.int64], value: Floats, names: Iterable[str]
) -> dict[str, Series]:
    """Split the columns of a trace by sensor; omit values that are not numbers (such as NaN)."""
    by_sensor: dict[str, Series] = {}
    is_number = np.isfinite(value) & (np.abs(value) < NONSENSE)
    for index, name in enumerate(names):
        is_this = (sensor == index) & is_number
        if is_this.any():
            order = np.argsort(time_ns[is_this], kind="stable")
            by_sensor[name] = Series(time_ns[is_this][order], value[is_this][order])
    return by_sensor


def window_medians(time_ns: Nanoseconds, value: Floats, edges_ns: Nanoseconds) -> Floats:
    """Median of the values in each window, shape (k,); NaN for a window without values.

    Args:
        time_ns: Ascending, shape (n,).
        value: Shape (n,).
        edges_ns: Ascending, shape (k + 1,); a window includes its first edge and excludes its last.
    """
    bounds = np.searchsorted(time_ns, edges_ns)
    return np.array([_median(value[first:last]) for first, last in pairwise(bounds)])


def window_midmeans(time_ns: Nanoseconds, value: Floats, edges_ns: Nanoseconds) -> Floats:
    """Mean of the middle half of each window's values, shape (k,); NaN for a window without values.

    The result is as robust against outliers as a median, but does not jump between two modes.

    Args: as for `window_medians`.
    """
    bounds = np.searchsorted(time_ns, edges_ns)
    return np.array([_midmean(value[first:last]) for first, last in pairwise(bounds)])


def window_upper_trimmed_means(
    time_ns: Nanoseconds, value: Floats, edges_ns: Nanoseconds
) -> Floats:
    """Mean of each window without its highest tenth, shape (k,); NaN for a window without values.

    A slowdown during a quarter of the window raises the result; single outliers do not.

    Args: as for `window_medians`.
    """
    bounds = np.searchsorted(time_ns, edges_ns)
    return np.array([_upper_trimmed_mean(value[first:last]) for first, last in pairwise(bounds)])


def _median(values: Floats) -> float:
    """Median; for the few values of a window, five times as fast as the equivalent `np.median`."""
    if not values.size:
        return math.nan
    low, high = (values.size - 1) // 2, values.size // 2
    ordered = np.partition(values, (low, high))
    return (float(ordered[low]) + float(ordered[high])) / 2


def _upper_trimmed_mean(values: Floats) -> float:
    if not values.size:
        return math.nan
    cut = max(1, values.size // 10) if values.size > 2 else 0
    return float(np.sort(values)[: values.size - cut].mean())


def _midmean(values: Floats) -> float:
    if not values.size:
        return math.nan
    cut = values.size // 4
    return float(np.sort(values)[cut : values.size - cut].mean())


def window_sums(time_ns: Nanoseconds, value: Floats, edges_ns: Nanoseconds) -> Floats:
    """Sum of the values in each window, shape (k,)."""
    running = np.concatenate([[0.0], np.cumsum(value)])
    sums: Floats = np.diff(running[np.searchsorted(time_ns, edges_ns)])
    return sums
