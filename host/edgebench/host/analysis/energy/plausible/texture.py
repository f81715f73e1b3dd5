"""Differences between successive samples; a source with noise repeats no value for long.

The summary of a part of a recording determines whether its samples must be read, so an hour of a
fast meter with noise is checked without reading samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Texture:
    """Summary of a part of a recording: repeated values, mean power, and voltage times current."""

    longest_repeat: int
    """Largest number of successive samples with equal values."""
    highest: float
    """Highest value of the measured quantity: the current if it was recorded, else the power."""
    at_highest_count: int
    """Number of samples with the highest value."""
    power_w: float
    """Mean of the samples."""
    product_w: float | None = None
    """Mean of voltage times current; None if either was not recorded."""


@dataclass(frozen=True, slots=True, eq=False)
class SampleRows:
    """Samples of a channel that have a value, except repeats marked by the driver; shape (n,)."""

    time_ns: Nanoseconds
    power_w: Floats
    current_a: Floats | None = None
    voltage_v: Floats | None = None

    @property
    def measured(self) -> Floats:
        """The quantity that the instrument's range limits: the current if it was recorded."""
        return self.power_w if self.current_a is None else self.current_a

    def is_same(self) -> NDArray[np.bool_]:
        """Whether all values of a sample equal those of the sample before it, shape (n - 1,)."""
        is_same: NDArray[np.bool_] = np.diff(self.power_w) == 0
        for column in (self.current_a, self.voltage_v):
            if column is not None:
                is_same = is_same & (np.diff(column) == 0)
        return is_same


def repeats_in(rows: SampleRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last index of each run of equal samples, both of shape (k,)."""
    return runs_in(rows.is_same())


def runs_in(is_same: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last index of each run of equal samples, both of shape (k,).

    Args:
        is_same: Whether a sample equals the sample before it, for all samples but the first, shape
            (n - 1,), n >= 1.
    """
    starts = np.flatnonzero(np.concatenate([[True], ~is_same]))
    return starts, np.append(starts[1:], len(is_same) + 1) - 1


def texture_of(rows: SampleRows) -> Texture | None:
    """Summary of samples; None if there are none."""
    if not len(rows.power_w):
        return None
    first, last = repeats_in(rows)
    measured = rows.measured
    product_w = None
    if rows.current_a is not None and rows.voltage_v is not None:
        product_w = float((rows.voltage_v * rows.current_a).mean())
    return Texture(
        longest_repeat=int((last - first).max()) + 1,
        highest=float(measured.max()),
        at_highest_count=int(np.count_nonzero(measured == measured.max())),
        power_w=float(rows.power_w.mean()),
        product_w=product_w,
    )
