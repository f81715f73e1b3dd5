"""Fixed-point factors, equal to those of TFLite to the last bit.

Source: tensorflow/lite/kernels/internal/quantization_util.cc, kernels/kernel_util.cc.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

_ACTIVATIONS = {0: (None, None), 1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
"""Bounds of `ActivationFunctionType`: NONE, RELU, RELU_N1_TO_1, RELU6."""


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """A factor: multiplier · 2^(shift - 31)."""

    multiplier: int
    shift: int


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
