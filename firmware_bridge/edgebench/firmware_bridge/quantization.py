"""Computes fixed-point factors that equal TFLite's factors bit for bit.

Source: tensorflow/lite/kernels/internal/quantization_util.cc, kernels/kernel_util.cc.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import lru_cache

_ACTIVATIONS = {0: (None, None), 1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
"""Maps the codes of the activations NONE, RELU, RELU_N1_TO_1 and RELU6 to their bounds."""
_FACTOR_ERROR = 2.0**-29
"""Upper bound of the relative difference between a real factor and the three closest int32 factors.
In fact, the difference is at most 1.5 · 2^-30."""


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """A factor in fixed point, with the value multiplier · 2^(shift - 31)."""

    multiplier: int
    shift: int

    def once(self, value: int) -> int:
        """Multiply a value by the factor; round once, halves up, as the firmware's `scale_once`."""
        bits = 31 - self.shift
        return (value * self.multiplier + (1 << (bits - 1))) >> bits


def float32(value: float) -> float:
    """Round to the nearest float32 number."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def rounded(value: float) -> int:
    """Round to the nearest integer, and halves away from zero, as C's function `round`."""
    whole = math.floor(abs(value))
    whole += abs(value) - whole >= 0.5
    return whole if value >= 0 else -whole


def fixed_point(factor: float) -> FixedPoint:
    """Convert a non-negative real factor to fixed point, as `QuantizeMultiplier` of TFLite."""
    if factor == 0:
        return FixedPoint(0, 0)
    mantissa, shift = math.frexp(factor)
    multiplier = rounded(mantissa * 2**31)
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift + 1
    return FixedPoint(0, 0) if shift < -31 else FixedPoint(multiplier, shift)


def fixed_point_once(factor: float, sums: range, outputs: range) -> FixedPoint:
    """Find the int32 factor that gives the same rounded products as double precision.

    LiteRT multiplies sums of FULLY_CONNECTED by the factor in double precision, and rounds halves
    away from zero. The nearest int32 factor gives a wrong output only if a product is about halfway
    between two outputs. In this case, the next larger or smaller int32 factor may give the right
    output.

    Args:
        factor: Non-negative real factor.
        sums: Range of the sums that can occur.
        outputs: Range of the products that are not clamped.

    Returns:
        The factor with which all outputs are right, or the nearest int32 factor if there is none.
    """
    nearest = fixed_point(factor)
    doubtful = [total for total in _sums_at_halves(factor, outputs) if total in sums]
    for offset in (0, 1, -1):
        tried = FixedPoint(nearest.multiplier + offset, nearest.shift)
        is_int32 = tried.multiplier < 1 << 31
        if is_int32 and all(tried.once(total) == rounded(total * factor) for total in doubtful):
            return tried
    return nearest


@lru_cache(maxsize=16)
def _sums_at_halves(factor: float, outputs: range) -> tuple[int, ...]:
    """Sums for which a real factor and a close int32 factor may give different outputs."""
    if fixed_point(factor).multiplier == 0:
        return ()
    halves = [(output + 0.5) / factor for output in outputs]
    return tuple(
        total
        for half in halves
        for total in range(
            math.ceil(half - _FACTOR_ERROR * abs(half)),
            math.floor(half + _FACTOR_ERROR * abs(half)) + 1,
        )
    )


def activation_range(
    code: int, scale: float, zero_point: int, bits: int = 8
) -> tuple[int, int] | None:
    """Bounds of an int8 or int16 output; None if the activation does more than clamp values."""
    if code not in _ACTIVATIONS:
        return None
    low, high = _ACTIVATIONS[code]
    lowest = -(1 << (bits - 1))
    highest = -1 - lowest
    return (
        lowest if low is None else max(lowest, zero_point + rounded(float32(low / scale))),
        highest if high is None else min(highest, zero_point + rounded(float32(high / scale))),
    )


def mean_factor(scale_in: float, scale_out: float, count: int) -> FixedPoint:
    """Factor of a mean, which is the ratio of the scales divided by the number of elements.

    Source: tensorflow/lite/kernels/internal/reference/reduce.h, `QuantizedMeanOrSum`.
    """
    factor = fixed_point(scale_in / scale_out)
    shift = min(count.bit_length() - 1, 32, 31 + factor.shift)
    return FixedPoint((factor.multiplier << shift) // count, factor.shift - shift)


def softmax_factor(scale: float, beta: float) -> tuple[FixedPoint, int]:
    """Factor of a softmax, and the lowest difference that affects its output.

    The factor applies to the differences of the inputs from the largest input.

    Source: tensorflow/lite/kernels/internal/quantization_util.cc, `PreprocessSoftmaxScaling` and
    `CalculateInputRadius`, with 5 bits before the point.
    """
    factor = fixed_point(min(beta * scale * 2**26, 2**31 - 1.0))
    return factor, -math.floor(31 * 2.0**26 / 2.0**factor.shift)
