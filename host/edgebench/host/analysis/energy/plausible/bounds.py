"""Powers that a board can draw, and the factors that show a wrong unit."""

from __future__ import annotations

from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.result.energy import SYNTHETIC
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons.plausible import power_impossible
from edgebench.meters.base import Capability
from edgebench.protocol.thermal import ExpectedPower

UNKNOWN_BOARD = ExpectedPower("any device", 0.0, 3680.0)
"""Possible powers of an unknown device: at most the power of a mains outlet (16 A, 230 V)."""
PEAK_RATIO = 10.0
"""Highest power of a single sample, relative to the highest mean power. It is assumed that a supply
that is switched on charges its capacitors with several times its rated current."""
INRUSH_S = 0.1
"""Longest time in which a supply charges its capacitors, assumed as several periods of 50 Hz."""
UNIT_FACTORS = (1e-3, 1e3, 1 / 60, 60.0, 1e-6, 1e6, 1 / 3600, 3600.0)
"""Factors between a power in a wrong unit and the power in watts. In this order, they stand for the
prefix milli, minutes for seconds, the prefix micro, and hours for seconds, each in both
directions."""
PACKAGE_LOWEST_W = 0.05
"""Lowest power of a processor package that runs a model. It is assumed as a tenth of the power of
the smallest processors with an energy counter."""
GPU_LOWEST_W = 1.0
"""Lowest power of a GPU's board while its counter is read, which keeps the GPU awake. It is assumed
as less than half of the idle power of the smallest boards with such a counter (Volta or newer)."""
_LOWEST_W = {
    "package": PACKAGE_LOWEST_W,
    "GPU board": GPU_LOWEST_W,
    "rail": 0.0,
    "sum of rails": 0.0,
    SYNTHETIC: 0.0,
}
"""Lowest power, W, by boundary, for the boundaries that need not contain the whole device."""


def refused_power(power_w: float, boundary: str, board: ExpectedPower | None) -> Reason | None:
    """Reason why no board of this class draws this mean power while it runs a model, or None.

    Args:
        power_w: Mean power of the timed inferences.
        boundary: What the measured power includes.
        board: Possible powers of the board; None if they are unknown.
    """
    if boundary == SYNTHETIC:
        return None
    known = board or UNKNOWN_BOARD
    lowest_w = _LOWEST_W.get(boundary, known.lowest_w)
    if lowest_w <= power_w <= known.highest_w or power_w <= 0:
        return None
    fitting = (factor for factor in UNIT_FACTORS if lowest_w <= power_w * factor <= known.highest_w)
    return power_impossible(
        power_w=power_w,
        lowest_w=lowest_w,
        highest_w=known.highest_w,
        device_class=known.device_class,
        factor=next(fitting, None),
    )


def peak_w(capability: Capability, board: ExpectedPower | None) -> float:
    """Highest power of a single sample of this meter.

    If the meter averages over a longer time than a supply needs to charge its capacitors, the limit
    of the mean power applies.
    """
    highest_w = (board or UNKNOWN_BOARD).highest_w
    is_long = capability.is_averaging and capability.rate_hz < 1 / INRUSH_S
    return highest_w if is_long else PEAK_RATIO * highest_w


def ceiling_w(power: PowerTrace, board: ExpectedPower | None) -> float:
    """Highest possible power of samples at a range's end; 0 if a higher range measured them."""
    loss = power.loss
    if loss.saturated_count <= loss.bounded_count:
        return 0.0
    return (board or UNKNOWN_BOARD).highest_w
