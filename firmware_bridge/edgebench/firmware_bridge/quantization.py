"""Fixed-point factors, equal to those of TFLite to the last bit.

Source: tensorflow/lite/kernels/internal/quantization_util.cc, kernels/kernel_util.cc.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import lru_cache

_ACTIVATIONS = {0: (None, None), 1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
"""Bounds of `ActivationFunctionType`: NONE, RELU, RELU_N1_TO_1, RELU6."""
_FACTOR_ERROR = 2.0**-29
"""More than the relative distance of a real factor from the int32 factors beside the nearest, which
is at most 1.5 · 2^-30."""


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """A factor: multiplier · 2^(shift - 31)."""

    multiplier: int
    shift: int

    def once(self, value: int) -> int:
        """Product with a value, rounded once, halves up (`scale_once` of the firmware)."""
        bits = 31 - self.shift
        return (value * self.multiplier + (1 << (bits - 1))) >> bits


def float32(value: float) -> float:
    """The nearest float32 number."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def rounded(value: float) -> int:
    """The nearest integer, halves away from zero, as C's `round`."""
    whole = math.floor(abs(value))
    whole += abs(value) - whole >= 0.5
    return whole if value >= 0 else -whole


def fixed_point(factor: float) -> FixedPoint:
    """The int32 factor for a non-negative real factor (`QuantizeMultiplier`)."""
    if factor == 0:
        return FixedPoint(0, 0)
    mantissa, shift = math.frexp(factor)
    multiplier = rounded(mantissa * 2**31)
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift + 1
    return FixedPoint(0, 0) if shift < -31 else FixedPoint(multiplier, shift)


def fixed_point_once(factor: float, sums: range, outputs: range) -> FixedPoint:
    """The int32 factor whose products, rounded once, are those of double precision.

    LiteRT multiplies sums of FULLY_CONNECTED by the factor in double precision, and rounds halves
    away from zero. The nearest int32 factor gives other outputs only for sums at a half between two
    outputs; there, one of the factors beside it may be right.

    Args:
        factor: Non-negative real factor.
        sums: Sums that can occur.
        outputs: Products that are not clamped.

    Returns:
        The factor; the nearest one if none has all products of double precision.
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
    """Sums for which an int32 factor beside a real one may give another output."""
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
    """Bounds of an output of 8 or 16 bits; None for an activation that is not a clamp."""
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
    """Factor of a mean: that of the scales, divided by the count.

    Source: tensorflow/lite/kernels/internal/reference/reduce.h, `QuantizedMeanOrSum`.
    """
    factor = fixed_point(scale_in / scale_out)
    shift = min(count.bit_length() - 1, 32, 31 + factor.shift)
    return FixedPoint((factor.multiplier << shift) // count, factor.shift - shift)


def softmax_factor(scale: float, beta: float) -> tuple[FixedPoint, int]:
    """Factor of the differences to the largest input, and the lowest difference with an effect.

    Source: tensorflow/lite/kernels/internal/quantization_util.cc, `PreprocessSoftmaxScaling` and
    `CalculateInputRadius`, with 5 bits before the point.
    """
    factor = fixed_point(min(beta * scale * 2**26, 2**31 - 1.0))
    return factor, -math.floor(31 * 2.0**26 / 2.0**factor.shift)
