"""Tables with all 256 results of functions of an int8 value, equal to TFLite's results.

LiteRT computes a table in single precision when it loads a model. TensorFlow Lite Micro
computes each value in fixed point, with gemmlowp's functions. Qn denotes a fixed-point number in an
int32, with n bits before the point.

Sources: tensorflow/lite/kernels/internal/common.h (`LUTPopulate`),
tensorflow/lite/kernels/internal/reference/integer_ops/logistic.h and tanh.h,
gemmlowp/fixedpoint/fixedpoint.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from edgebench.firmware_bridge.quantization import (
    FixedPoint,
    fixed_point,
    float32,
    rounded,
)

_INT8 = range(-128, 128)
_ONE = 2**31 - 1
"""The largest number in Q0, which represents 1."""
_EXPONENTIALS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-2^n) in Q0, for n from -2 to 4."""


def doubling_high(a: int, b: int) -> int:
    """Compute a · b / 2^31, rounded to the nearest integer (halves up), and saturated to int32."""
    return min((a * b + 2**30) >> 31, _ONE)


def rounding_right(value: int, bits: int) -> int:
    """Compute value / 2^bits, rounded to the nearest integer (halves away from zero)."""
    if bits == 0:
        return value
    half = 1 << (bits - 1)
    return (value + half) >> bits if value >= 0 else -((-value + half) >> bits)


def scale_twice(value: int, factor: FixedPoint) -> int:
    """Compute value · factor with two roundings, as TFLite's `MultiplyByQuantizedMultiplier`."""
    left, right = max(factor.shift, 0), max(-factor.shift, 0)
    return rounding_right(doubling_high(value << left, factor.multiplier), right)


def _saturating_left(value: int, bits: int) -> int:
    return max(-(2**31), min(value << bits, _ONE))


def _exponential(value: int, integer_bits: int) -> int:
    """exp(x) in Q0, for x ≤ 0 in fixed point with `integer_bits` bits before the point."""
    if value == 0:
        return _ONE
    quarter = 1 << (31 - integer_bits - 2)
    small = (value & (quarter - 1)) - quarter
    # exp of [-1/4, 0): the first terms of a Taylor series around -1/8
    x = _saturating_left(small, integer_bits) + (1 << 28)
    x2 = doubling_high(x, x)
    x3, x4 = doubling_high(x2, x), doubling_high(x2, x2)
    rest = doubling_high(rounding_right(x4, 2) + x3, 715827883) + x2
    result = 1895147668 + doubling_high(1895147668, x + rounding_right(rest, 1))
    remainder = small - value
    for number, power in enumerate(_EXPONENTIALS):
        place = 31 - integer_bits - 2 + number
        if number - 2 < integer_bits and remainder >> place & 1:
            result = doubling_high(result, power)
    if integer_bits > 5 and value < -(1 << (36 - integer_bits)):
        return 0
    return result


def _reciprocal(a: int) -> int:
    """2 / (1 + a) in Q2, for a in [0, 1] as Q0, by three steps of Newton's division."""
    half = (a + _ONE + 1) >> 1
    x = 1515870810 + doubling_high(half, -1010580540)
    for _ in range(3):
        x += _saturating_left(doubling_high(x, (1 << 29) - doubling_high(half, x)), 2)
    return x


def logistic_of_q4(value: int) -> int:
    """Logistic function 1 / (1 + exp(-x)) in Q0, for x in Q4."""
    if value == 0:
        return 1 << 30
    positive = _saturating_left(_reciprocal(_exponential(-abs(value), 4)), 1)
    return positive if value > 0 else _ONE - positive


def tanh_of_q4(value: int) -> int:
    """Hyperbolic tangent of x in Q0, for x in Q4."""
    if value == 0:
        return 0
    # exp(-2 |x|): the bits of x, interpreted with another bit before the point
    positive = _saturating_left(_reciprocal(_exponential(-abs(value), 5)) - (1 << 29), 2)
    return positive if value > 0 else -positive


def _quantized(value: float) -> int:
    return max(-128, min(127, int(value)))


def float_table(
    scale: float,
    zero_point: int,
    out_scale: float,
    out_zero_point: int,
    function: Callable[[float], float],
) -> bytes:
    """Table of a function for all int8 inputs, as LiteRT computes it."""
    inverse = float32(1 / out_scale)
    values: list[int] = []
    for code in _INT8:
        result = float32(function(float32(scale * (code - zero_point))))
        values.append(_quantized(rounded(float32(result * inverse)) + out_zero_point))
    return _packed(values)


def logistic(value: float) -> float:
    """1 / (1 + exp(-x)), in single precision."""
    try:
        exponential = float32(math.exp(-value))
    except OverflowError:
        return 0.0
    return float32(1 / float32(1 + exponential))


def fixed_table(
    scale: float, zero_point: int, function: Callable[[int], int], fraction_bits: int, offset: int
) -> bytes:
    """Table of a function for all int8 inputs, as TensorFlow Lite Micro computes it.

    Args:
        scale: Scale of the input.
        zero_point: Zero point of the input.
        function: Function of a number in Q4, with a result in Q0.
        fraction_bits: Number of bits of the output after the point.
        offset: Zero point of the output.
    """
    factor = fixed_point(scale * 2**27)
    # Source: `CalculateInputRadius`, with 4 bits before the point
    radius = math.floor(15 * 2.0**27 / 2.0**factor.shift)
    values: list[int] = []
    for code in _INT8:
        value = code - zero_point
        if abs(value) >= radius:
            values.append(127 if value > 0 else -128)
            continue
        result = function(scale_twice(value, factor))
        values.append(_quantized(rounding_right(result, 31 - fraction_bits) + offset))
    return _packed(values)


def rectifier_table(
    zero_point: int,
    out_zero_point: int,
    positive: FixedPoint,
    negative: FixedPoint,
    bounds: tuple[int, int],
) -> bytes:
    """Table of a bounded function with one factor for positive and one for negative inputs."""
    values: list[int] = []
    for code in _INT8:
        value = code - zero_point
        result = scale_twice(value, positive if value >= 0 else negative) + out_zero_point
        values.append(max(bounds[0], min(bounds[1], result)))
    return _packed(values)


def _packed(values: list[int]) -> bytes:
    return bytes(value & 0xFF for value in values)
