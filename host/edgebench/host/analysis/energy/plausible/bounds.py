"""Powers that a board can take, and the factor by which a wrong unit is recognised."""

from __future__ import annotations

from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.result.energy import SYNTHETIC
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons.plausible import power_impossible
from edgebench.protocol.thermal import ExpectedPower

UNKNOWN_BOARD = ExpectedPower("any device", 0.0, 3680.0)
"""Powers of a recording whose device is unknown: none is above that of an outlet (16 A, 230 V)."""
PEAK_RATIO = 10.0
"""Highest single sample, relative to the highest mean power. Assumed: a supply that is switched on
charges its capacitors with several times its rated current."""
UNIT_FACTORS = (1e-3, 1e3, 1 / 60, 60.0, 1e-6, 1e6, 1 / 3600, 3600.0)
"""Errors of a unit: milli for none, minutes for seconds, micro for none, hours for seconds."""
PACKAGE_LOWEST_W = 0.05
"""Lowest power of a processor package that runs a model. Assumed: a tenth of what the smallest
processors with such a counter take."""
_PARTS = {"rail", "sum of rails", "GPU board", SYNTHETIC}
"""Boundaries that need not contain the whole device: they have no lowest power."""


def refused_power(power_w: float, boundary: str, board: ExpectedPower | None) -> Reason | None:
    """Why no board of this class takes this mean power while a model runs; None if one can.

    Args:
        power_w: Mean power of the timed inferences.
        boundary: What the measured power includes.
        board: Possible powers; None: unknown.
    """
    if boundary == SYNTHETIC:
        return None
    known = board or UNKNOWN_BOARD
    lowest_w = PACKAGE_LOWEST_W if boundary == "package" else known.lowest_w
    if boundary in _PARTS:
        lowest_w = 0.0
    if lowest_w <= power_w <= known.highest_w or power_w <= 0:
        return None
    fitting = (one for one in UNIT_FACTORS if lowest_w <= power_w * one <= known.highest_w)
    return power_impossible(
        power_w=power_w,
        lowest_w=lowest_w,
        highest_w=known.highest_w,
        device_class=known.device_class,
        factor=next(fitting, None),
    )


def ceiling_w(power: PowerTrace, board: ExpectedPower | None) -> float:
    """Highest power of samples at the end of a range; 0 if a higher range shows their power."""
    loss = power.loss
    if loss.saturated_count <= loss.bounded_count:
        return 0.0
    return (board or UNKNOWN_BOARD).highest_w
