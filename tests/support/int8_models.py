"""Models of one int8 operator each, with everything about it drawn: shapes, scales, weights."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from support import tflite_bytes as tb
from support.tflite_bytes import Graph, Operator, Tensor, model

SAME, VALID = 0, 1
_HALF_PRODUCTS = (
    (0.05076971277594566, 0.06300575286149979, 0.24019283056259155, 1764),
    (0.18523091077804565, 0.0799095630645752, 2.8113582134246826, 6552),
    (0.18922479450702667, 0.13356849551200867, 0.9378610849380493, 3840),
)
"""Scales of two factors and of their product, and a product: it is rounded up or down by whether
the factor was computed in single or in double precision."""


def _scale(generator: Generator) -> float:
    return float(np.float32(generator.uniform(0.002, 0.2)))


def _int8(name: str, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """An activation."""
    zero_point = int(generator.integers(-128, 128))
    return Tensor(name, tb.INT8, shape, scales=(_scale(generator),), zero_point=zero_point)


def _weights(shape: tuple[int, ...], axis: int, count: int, generator: Generator) -> Tensor:
    content = generator.integers(-127, 128, shape).astype(np.int8).tobytes()
    scales = tuple(_scale(generator) / 8 for _ in range(count))
    return Tensor("w", tb.INT8, shape, content, scales, axis=axis)


def _bias(count: int, source: Tensor, weights: Tensor, generator: Generator) -> Tensor:
    content = generator.integers(-20000, 20000, count).astype("<i4").tobytes()
    scales = tuple(source.scales[0] * scale for scale in weights.scales)
    return Tensor("b", tb.INT32, (count,), content, scales)


def _out(size: int, filter_size: int, stride: int, dilation: int, padding: int) -> int:
    reach = (filter_size - 1) * dilation + 1
    return -(-size // stride) if padding == SAME else (size - reach) // stride + 1


def convolution(generator: Generator) -> bytes:
    """CONV_2D, or DEPTHWISE_CONV_2D with any multiplier."""
    is_depthwise = bool(generator.integers(2))
    filter_h, filter_w = (int(size) for size in generator.integers(1, 5, 2))
    dilation = int(generator.choice([1, 1, 2]))
    strides = [1, 1] if dilation > 1 else [int(size) for size in generator.integers(1, 4, 2)]
    if is_depthwise:
        strides[1] = strides[0]  # the kernel of LiteRT asks for it
    height, width = (int(size) for size in generator.integers(9, 14, 2))
    channels, factor = int(generator.integers(1, 11)), int(generator.integers(1, 4))
    padding, activation = int(generator.integers(2)), int(generator.choice([0, 1, 3]))
    out_channels = channels * factor if is_depthwise else int(generator.integers(1, 12))
    source = _int8("x", (1, height, width, channels), generator)
    if is_depthwise:
        shape, axis = (1, filter_h, filter_w, out_channels), 3
        options = {3: factor, 4: activation, 5: dilation, 6: dilation}
    else:
        shape, axis = (out_channels, filter_h, filter_w, channels), 0
        options = {3: activation, 4: dilation, 5: dilation}
    options |= {0: padding, 1: strides[1], 2: strides[0]}
    weights = _weights(shape, axis, out_channels, generator)
    rows = _out(height, filter_h, strides[0], dilation, padding)
    columns = _out(width, filter_w, strides[1], dilation, padding)
    code = tb.DEPTHWISE_CONV_2D if is_depthwise else tb.CONV_2D
    bias = _bias(out_channels, source, weights, generator)
    out = _int8("y", (1, rows, columns, out_channels), generator)
    operator = Operator(code, "x w b", "y", options)
    return model(Graph((source, weights, bias, out), (operator,)))


def fully_connected(generator: Generator) -> bytes:
    """FULLY_CONNECTED."""
    rows, depth, units = (int(size) for size in generator.integers(1, 20, 3))
    source = _int8("x", (rows, depth), generator)
    weights = _weights((units, depth), 0, 1, generator)
    bias = _bias(units, source, weights, generator)
    options = {0: int(generator.choice([0, 1, 3]))}
    operator = Operator(tb.FULLY_CONNECTED, "x w b", "y", options)
    out = _int8("y", (rows, units), generator)
    return model(Graph((source, weights, bias, out), (operator,)))


def halves(generator: Generator) -> bytes:
    """FULLY_CONNECTED or CONV_2D of sums that lie at and beside the halves between two outputs.

    There a rounding shows, and the last bit of the factor: no weights, all of the sum is bias.
    """
    is_conv = bool(generator.integers(2))
    scale, weight_scale = _scale(generator), _scale(generator)
    out_scale = float(np.float32(scale * weight_scale * 2 ** generator.uniform(12, 23)))
    factor = scale * weight_scale / out_scale
    beside = np.array([-16, -4, -1, 0, 1, 4, 16])
    sums = (np.round((np.arange(-128, 128) + 0.5) / factor)[:, None] + beside).ravel()
    one, count = ((1, 1, 1, 1), len(sums)) if is_conv else ((1, 1), len(sums))
    shape = (count, *one[1:])
    source = Tensor("x", tb.INT8, one, scales=(scale,))
    weights = Tensor("w", tb.INT8, shape, bytes(count), (weight_scale,), axis=0)
    bias = Tensor("b", tb.INT32, (count,), sums.astype("<i4").tobytes(), (scale * weight_scale,))
    out = Tensor("y", tb.INT8, (*one[:-1], count), scales=(out_scale,))
    code, options = (tb.CONV_2D, {1: 1, 2: 1, 4: 1, 5: 1}) if is_conv else (tb.FULLY_CONNECTED, {})
    return model(Graph((source, weights, bias, out), (Operator(code, "x w b", "y", options),)))


def pool(generator: Generator) -> bytes:
    """AVERAGE_POOL_2D, MAX_POOL_2D."""
    height, width, channels = (int(size) for size in generator.integers(5, 12, 3))
    filter_h, filter_w, stride_h, stride_w = (int(size) for size in generator.integers(1, 5, 4))
    padding, activation = int(generator.integers(2)), int(generator.choice([0, 1, 3]))
    rows = _out(height, filter_h, stride_h, 1, padding)
    columns = _out(width, filter_w, stride_w, 1, padding)
    source = _int8("x", (1, height, width, channels), generator)
    shape = (1, rows, columns, channels)
    out = Tensor("y", tb.INT8, shape, b"", source.scales, source.zero_point)
    options = {0: padding, 1: stride_w, 2: stride_h, 3: filter_w, 4: filter_h, 5: activation}
    code = int(generator.choice([tb.AVERAGE_POOL_2D, tb.MAX_POOL_2D]))
    return model(Graph((source, out), (Operator(code, "x", "y", options),)))


def elementwise(generator: Generator) -> bytes:
    """ADD, MUL, with a constant that may have to be repeated."""
    shape = (1, *(int(size) for size in generator.integers(1, 8, 3)))
    other = tuple(int(generator.choice([1, size])) for size in shape)
    content = generator.integers(-128, 128, other).astype(np.int8).tobytes()
    second = _int8("c", other, generator)
    constant = Tensor("c", tb.INT8, other, content, second.scales, second.zero_point)
    options = {0: int(generator.choice([0, 1, 3]))}
    operator = Operator(int(generator.choice([tb.ADD, tb.MUL])), "x c", "y", options)
    tensors = (_int8("x", shape, generator), constant, _int8("y", shape, generator))
    return model(Graph(tensors, (operator,)))


def products(generator: Generator) -> bytes:
    """MUL of products that lie at a half between two outputs: the last bit of the factor shows."""
    scale, other, out_scale, product = _HALF_PRODUCTS[int(generator.integers(len(_HALF_PRODUCTS)))]
    divisors = [n for n in range(-128, 128) if n and product % n == 0]
    content = np.array(divisors, np.int8).tobytes()
    constant = Tensor("c", tb.INT8, (1, 1, 1, len(divisors)), content, (other,))
    source = Tensor("x", tb.INT8, (1, 1, 512, 1), scales=(scale,))
    out = Tensor("y", tb.INT8, (1, 1, 512, len(divisors)), scales=(out_scale,))
    return model(Graph((source, constant, out), (Operator(tb.MUL, "x c", "y", {}),)))


def padding(generator: Generator) -> bytes:
    """PAD."""
    shape = tuple(int(size) for size in generator.integers(1, 6, 4))
    around = generator.integers(0, 3, (4, 2)).astype("<i4")
    padded = tuple(int(size + pair.sum()) for size, pair in zip(shape, around, strict=True))
    source = _int8("x", shape, generator)
    paddings = Tensor("p", tb.INT32, (4, 2), around.tobytes())
    out = Tensor("y", tb.INT8, padded, b"", source.scales, source.zero_point)
    return model(Graph((source, paddings, out), (Operator(tb.PAD, "x p", "y"),)))


def mean(generator: Generator) -> bytes:
    """MEAN over some dimensions, which stay or go."""
    shape = tuple(int(size) for size in generator.integers(1, 7, 4))
    axes = sorted(int(axis) for axis in generator.choice(4, int(generator.integers(1, 4)), False))
    stay = int(generator.integers(2))
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    gone = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    list_of_axes = Tensor("a", tb.INT32, (len(axes),), struct.pack(f"<{len(axes)}i", *axes))
    out = _int8("y", kept if stay else gone, generator)
    tensors = (_int8("x", shape, generator), list_of_axes, out)
    return model(Graph(tensors, (Operator(tb.MEAN, "x a", "y", {0: stay}),)))


def concatenation(generator: Generator) -> bytes:
    """CONCATENATION of a constant and the input."""
    axis = int(generator.integers(4))
    shape = [int(size) for size in generator.integers(1, 6, 4)]
    other, whole = list(shape), list(shape)
    other[axis] = int(generator.integers(1, 4))
    whole[axis] += other[axis]
    source = _int8("x", tuple(shape), generator)
    content = generator.integers(-128, 128, other).astype(np.int8).tobytes()
    same = source.scales, source.zero_point
    constant = Tensor("c", tb.INT8, tuple(other), content, *same)
    out = Tensor("y", tb.INT8, tuple(whole), b"", *same)
    operator = Operator(tb.CONCATENATION, "c x", "y", {0: axis})
    return model(Graph((source, constant, out), (operator,)))


def softmax(generator: Generator) -> bytes:
    """SOFTMAX."""
    shape = tuple(int(size) for size in generator.integers(1, 30, 2))
    source = _int8("x", shape, generator)
    out = Tensor("y", tb.INT8, shape, b"", (1 / 256,), -128)
    (beta,) = struct.unpack("<i", struct.pack("<f", generator.choice([1.0, 0.7])))
    return model(Graph((source, out), (Operator(tb.SOFTMAX, "x", "y", {0: beta}),)))


def conversion(generator: Generator) -> bytes:
    """QUANTIZE and DEQUANTIZE: int8 to other int8, uint8, and float32."""
    shape = (1, int(generator.integers(1, 50)))
    kind = int(generator.integers(3))
    out = (
        _int8("y", shape, generator)
        if kind == 0
        else Tensor("y", tb.UINT8, shape, b"", (_scale(generator),), int(generator.integers(256)))
        if kind == 1
        else Tensor("y", tb.FLOAT32, shape)
    )
    code = tb.DEQUANTIZE if kind == 2 else tb.QUANTIZE
    return model(Graph((_int8("x", shape, generator), out), (Operator(code, "x", "y"),)))


KINDS: dict[str, Callable[[Generator], bytes]] = {
    "concatenation": concatenation,
    "conversion": conversion,
    "convolution": convolution,
    "elementwise": elementwise,
    "fully_connected": fully_connected,
    "halves": halves,
    "mean": mean,
    "padding": padding,
    "pool": pool,
    "products": products,
    "softmax": softmax,
}
