"""How far an instrument smears a change of power, by the load code that it recorded.

Theory of operation. Many instruments filter, and few files say so. A filter delays every change,
which the alignment by those changes contains, and makes it less steep, which costs a window the
power at its ends. The code has changes of many spacings; behind a filter of the time constant T
they are those of the code passed through it. So the powers of quarters of chips are compared with
the code behind filters of several T, each at several shifts, by least squares for the two levels.
The largest T that fits as well as the best counts.

Source: our own; a mean over L is fitted by T between L / 4 and L / 2, as simulated in the tests.
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
"""Pieces of a chip that are compared."""
FINE = 64
"""Steps of the filtered code in a chip."""
RATIOS = (0.0, 0.0625, 0.125, 0.1875, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0, 1.5, 2.0)
"""Time constants that are tried, in chips; of a longer one, the code itself is not seen."""
SHIFTS = 33
ENOUGH_BETTER = 0.8
"""Ratio of the squares with a filter to those without, above which there may be none."""
AS_GOOD = 1.1
"""Ratio of the squares to the least ones up to which a filter fits as well."""


def smear_s(codes: Sequence[LoadCode], cumulative: Cumulative, line: ClockLine) -> float:
    """Time constant of what smears the changes of the codes; 0 where they are sharp.

    Args:
        codes: Codes that are seen in the trace.
        cumulative: Energy of the trace.
        line: Line from the device's clock to the trace's, by those codes.
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
        squares += [_left(powers_w, is_busy, ratio) for ratio in RATIOS]
    best = float(squares.min())
    if best > ENOUGH_BETTER * squares[0]:
        return 0.0
    as_good = np.flatnonzero(squares <= AS_GOOD * best)
    return chip_s * RATIOS[int(as_good[-1])]


def _quarters(edges_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Edges of the quarters of chips."""
    places = np.arange((len(edges_ns) - 1) * QUARTERS + 1) / QUARTERS
    return np.rint(np.interp(places, np.arange(len(edges_ns)), edges_ns)).astype(np.int64)


def _left(powers_w: Floats, is_busy: NDArray[np.float64], ratio: float) -> float:
    """Least squares left of the powers by a code behind a filter, of any shift, shape ()."""
    fine = np.repeat(is_busy, FINE)
    if ratio:
        kept = np.exp(-1 / (FINE * ratio))
        level = 0.0
        filtered = np.empty_like(fine)
        for step, value in enumerate(fine):
            level = kept * level + (1 - kept) * value
            filtered[step] = level
        fine = filtered
    passed = np.concatenate([[0.0], np.cumsum(fine)]) / FINE
    at = np.arange(len(powers_w) + 1) / QUARTERS
    reach = max(ratio, 1 / 8)
    least = np.inf
    for shift in np.linspace(-0.5 * reach, 2 * reach, SHIFTS):
        model = np.diff(np.interp(at + shift, np.arange(len(passed)) / FINE, passed))
        centred = model - model.mean()
        power_w = powers_w - powers_w.mean()
        scale = float(centred @ centred)
        slope = float(centred @ power_w) / scale if scale else 0.0
        off = power_w - slope * centred
        least = min(least, float(off @ off))
    return least
