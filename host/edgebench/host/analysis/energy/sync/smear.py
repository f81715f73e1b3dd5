"""Time over which an instrument smears a change of power, from the recorded load code.

Theory of operation. Many instruments filter the power, and few files state this. A filter delays
every change of power; the alignment, which uses these changes, includes the delay. A filter also
makes changes less steep, which changes the power at the ends of a window. The code changes at many
different intervals, so a recording through a filter of time constant T shows the shape of the
filtered code. The powers of quarters of chips (elements of the code) are compared with filtered
versions of the code, for several T and several shifts of each. The two levels of the power are
fitted by least squares. The largest T whose fit is about as good as the best fit is used.

Source: our own; a moving average over a time L is fitted with T between L / 4 and L / 2, as
simulated in the tests.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.integrate import Floats
from edgebench.host.analysis.energy.sync.alignment import ClockLine
from edgebench.host.analysis.energy.sync.load_code import Cumulative
from edgebench.protocol.record import LoadCode

QUARTERS = 4
"""Number of pieces of each chip (element of the code) whose powers are compared."""
FINE = 64
"""Number of time steps per chip in which the filtered code is computed."""
RATIOS = (0.0, 0.0625, 0.125, 0.1875, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0, 1.25, 1.5, 2.0)
"""Time constants that are tried, in chips. A code with a longer time constant is not detected."""
ENOUGH_BETTER = 0.8
"""No filter is assumed if the best filter leaves more than this share of the unfiltered sum of
squares."""
AS_GOOD = 1.1
"""A filter counts as equal to the best one if its sum of squares is at most this multiple of the
least."""


def smear_s(
    codes: Sequence[LoadCode], cumulative: Cumulative, line: ClockLine, sample_s: float
) -> float:
    """Time constant that smears the changes of the codes; 0 if they are sharp.

    The true value lies between two of the time constants tried; the larger of them is returned.

    Args:
        codes: Codes that were found in the trace.
        cumulative: Energy of the trace.
        line: Line from the device's clock to the trace's, from those codes.
        sample_s: Sample interval, which is the shortest time over which samples are averaged.
    """
    squares = np.zeros(len(RATIOS))
    chip_s = float(np.median(np.diff(codes[0].edges_ns))) / 1e9
    for code in codes:
        edges_ns = _quarters(np.array(code.edges_ns, np.int64))
        seen_j = cumulative(line.to_meter(edges_ns))
        if np.isnan(seen_j).any():
            return 0.0
        powers_w = np.diff(seen_j) / np.diff(edges_ns)
        is_busy = np.array(code.is_busy, np.float64)
        squares += [_left(powers_w, is_busy, ratio, sample_s / chip_s) for ratio in RATIOS]
    best = float(squares.min())
    if best > ENOUGH_BETTER * squares[0]:
        return 0.0
    as_good = np.flatnonzero(squares <= AS_GOOD * best)
    above = min(int(as_good[-1]) + 1, len(RATIOS) - 1)
    return chip_s * RATIOS[above]


def _quarters(edges_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Edges between the quarters of the chips, which are the elements of the code."""
    places = np.arange((len(edges_ns) - 1) * QUARTERS + 1) / QUARTERS
    return np.rint(np.interp(places, np.arange(len(edges_ns)), edges_ns)).astype(np.int64)


def _left(powers_w: Floats, is_busy: NDArray[np.float64], ratio: float, sample: float) -> float:
    """Sum of squared differences between the powers and a filtered code, at the best shift.

    Args:
        powers_w: Mean powers of the quarters of chips, shape (n,).
        is_busy: Whether each chip is active, shape (n / 4,).
        ratio: Time constant of the filter, in chips.
        sample: Interval of the samples, in chips.
    """
    # Imported here: the import takes a second of CPU, and few runs have a code.
    from scipy.optimize import minimize_scalar
    from scipy.signal import lfilter

    fine = np.repeat(is_busy, FINE)
    if ratio:
        kept = float(np.exp(-1 / (FINE * ratio)))
        fine = lfilter([1 - kept], [1, -kept], fine)
    width = max(1, round(FINE * sample))
    fine = np.convolve(fine, np.full(width, 1 / width))[: len(fine)]
    passed = np.concatenate([[0.0], np.cumsum(fine)]) / FINE
    at, steps = np.arange(len(powers_w) + 1) / QUARTERS, np.arange(len(passed)) / FINE
    power_w = powers_w - powers_w.mean()

    def left(shift: float) -> float:
        model = np.diff(np.interp(at + shift, steps, passed))
        model -= model.mean()
        scale = float(model @ model)
        slope = float(model @ power_w) / scale if scale else 0.0
        off = power_w - slope * model
        return float(off @ off)

    # The alignment includes the delay of the filter and half a sample.
    reach = ratio + sample + 1 / 16
    first = min(np.linspace(-reach, 2 * reach, 25), key=left)
    minimum = minimize_scalar(left, bounds=(first - reach / 8, first + reach / 8), method="bounded")
    return min(left(float(first)), float(minimum.fun))
