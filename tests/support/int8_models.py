"""Models of one int8 operator each, with everything about it drawn: shapes, scales, weights."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

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
    channels, factor = int(generator.integers(1, 20)), int(generator.integers(1, 4))
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
    """FULLY_CONNECTED or CONV_2D of sums at the halves between two outputs."""
    return model(_halves(generator))


def unsigned_halves(generator: Generator) -> bytes:
    """The same of CONV_2D and uint8; weights are at their zero point."""
    graph = _halves(generator)
    if graph.operators[0].code != tb.CONV_2D:
        return unsigned_halves(generator)
    tensors = tuple(
        replace(tensor, type=tb.UINT8, zero_point=37, constant=bytes([37]) * len(tensor.constant))
        if tensor.name == "w"
        else _uint8(tensor)
        for tensor in graph.tensors
    )
    return model(replace(graph, tensors=tensors))


def _halves(generator: Generator) -> Graph:
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
    return Graph((source, weights, bias, out), (Operator(code, "x w b", "y", options),))


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


def _int32(name: str, values: list[int], shape: tuple[int, ...] | None = None) -> Tensor:
    """A constant."""
    size = (len(values),) if shape is None else shape
    return Tensor(name, tb.INT32, size, struct.pack(f"<{len(values)}i", *values))


def _float_bits(value: float) -> int:
    (bits,) = struct.unpack("<i", struct.pack("<f", value))
    return int(bits)


def lookup(generator: Generator) -> bytes:
    """LOGISTIC, TANH, RELU, RELU6, LEAKY_RELU of every int8."""
    code = int(generator.choice([tb.LOGISTIC, tb.TANH, tb.RELU, tb.RELU6, tb.LEAKY_RELU]))
    source = _int8("x", (1, 256), generator)
    every = np.arange(-128, 128).astype(np.int8).tobytes()
    constant = Tensor("c", tb.INT8, (1, 256), every, source.scales, source.zero_point)
    both = Tensor("b", tb.INT8, (2, 256), b"", source.scales, source.zero_point)
    out = _int8("y", (2, 256), generator)
    if code in (tb.LOGISTIC, tb.TANH):
        scale, zero_point = (1 / 256, -128) if code == tb.LOGISTIC else (1 / 128, 0)
        out = Tensor("y", tb.INT8, (2, 256), b"", (scale,), zero_point)
    options = {0: _float_bits(generator.uniform(0, 0.9))} if code == tb.LEAKY_RELU else {}
    operators = (Operator(tb.CONCATENATION, "x c", "b"), Operator(code, "b", "y", options))
    return model(Graph((source, constant, both, out), operators))


def binary(generator: Generator) -> bytes:
    """SUB, MAXIMUM, MINIMUM, PRELU, with a constant that may have to be repeated."""
    code = int(generator.choice([tb.SUB, tb.MAXIMUM, tb.MINIMUM, tb.PRELU]))
    shape = (1, *(int(size) for size in generator.integers(1, 8, 3)))
    other = tuple(int(generator.choice([1, size])) for size in shape[1:])
    other = (1, 1, other[2]) if code == tb.PRELU else (1, *other)
    content = generator.integers(-128, 128, other).astype(np.int8).tobytes()
    source, second = _int8("x", shape, generator), _int8("c", other, generator)
    constant = Tensor("c", tb.INT8, other, content, second.scales, second.zero_point)
    out = _int8("y", shape, generator)
    if code in (tb.MAXIMUM, tb.MINIMUM):
        constant = Tensor("c", tb.INT8, other, content, source.scales, source.zero_point)
        out = Tensor("y", tb.INT8, shape, b"", source.scales, source.zero_point)
    options = {0: int(generator.choice([0, 1, 3]))} if code == tb.SUB else {}
    return model(Graph((source, constant, out), (Operator(code, "x c", "y", options),)))


def transposition(generator: Generator) -> bytes:
    """TRANSPOSE."""
    rank = int(generator.integers(1, 5))
    shape = tuple(int(size) for size in generator.integers(1, 7, rank))
    order = [int(axis) for axis in generator.permutation(rank)]
    source = _int8("x", shape, generator)
    permuted = tuple(shape[axis] for axis in order)
    out = Tensor("y", tb.INT8, permuted, b"", source.scales, source.zero_point)
    tensors = (source, _int32("p", order), out)
    return model(Graph(tensors, (Operator(tb.TRANSPOSE, "x p", "y"),)))


def strided_slice(generator: Generator) -> bytes:
    """STRIDED_SLICE with drawn masks, steps back, and dimensions that go; or SLICE."""
    shape = tuple(int(size) for size in generator.integers(2, 8, 4))
    source = _int8("x", shape, generator)
    if generator.integers(4) == 0:
        begins = [int(generator.integers(0, size)) for size in shape]
        counts = [
            int(generator.integers(1, size - begin + 1))
            for begin, size in zip(begins, shape, strict=True)
        ]
        out = Tensor("y", tb.INT8, tuple(counts), b"", source.scales, source.zero_point)
        tensors = (source, _int32("b", begins), _int32("n", counts), out)
        return model(Graph(tensors, (Operator(tb.SLICE, "x b n", "y"),)))
    begins, ends, strides, places = [], [], [], []
    masks = [0, 0, 0]
    for axis, size in enumerate(shape):
        stride = int(generator.choice([1, 1, 2, 3, -1, -2]))
        begin, end = (int(place) for place in generator.integers(-size, size, 2))
        if generator.integers(4) == 0:
            masks[2] |= 1 << axis
            stride = 1
        for mask in range(2):
            if generator.integers(2) and not masks[2] >> axis & 1:
                masks[mask] |= 1 << axis
        kept = slice(
            None if masks[0] >> axis & 1 else begin,
            None if masks[1] >> axis & 1 else end,
            stride,
        )
        if not masks[2] >> axis & 1 and not range(size)[kept]:
            kept, stride = slice(None), 1
            masks = [mask | 1 << axis for mask in masks[:2]] + masks[2:]
        begins.append(begin)
        ends.append(end)
        strides.append(stride)
        if not masks[2] >> axis & 1:
            places.append(len(range(size)[kept]))
    if not places:
        return strided_slice(generator)
    out = Tensor("y", tb.INT8, tuple(places), b"", source.scales, source.zero_point)
    bounds = (_int32("b", begins), _int32("e", ends), _int32("s", strides))
    options = {0: masks[0], 1: masks[1], 4: masks[2]}
    return model(
        Graph((source, *bounds, out), (Operator(tb.STRIDED_SLICE, "x b e s", "y", options),))
    )


def split(generator: Generator) -> bytes:
    """SPLIT, SPLIT_V, into three tensors."""
    axis = int(generator.integers(4))
    shape = [int(size) for size in generator.integers(1, 6, 4)]
    is_equal = bool(generator.integers(2))
    sizes = [int(size) for size in generator.integers(1, 4, 3)]
    sizes = [sizes[0]] * 3 if is_equal else sizes
    shape[axis] = sum(sizes)
    source = _int8("x", tuple(shape), generator)
    parts = [
        Tensor(
            f"y{number}",
            tb.INT8,
            (*shape[:axis], size, *shape[axis + 1 :]),
            b"",
            source.scales,
            source.zero_point,
        )
        for number, size in enumerate(sizes)
    ]
    place = _int32("a", [axis], ())
    tensors = (source, place, _int32("n", sizes), *parts)
    names = "y0 y1 y2"
    operator = (
        Operator(tb.SPLIT, "a x", names, {0: 3})
        if is_equal
        else Operator(tb.SPLIT_V, "x n a", names, {0: 3})
    )
    return model(Graph(tensors, (operator,), outputs=names))


def resize(generator: Generator) -> bytes:
    """RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR, with corners or centres of pixels aligned."""
    height, width, channels = (int(size) for size in generator.integers(1, 9, 3))
    rows, columns = (int(size) for size in generator.integers(1, 20, 2))
    source = _int8("x", (1, height, width, channels), generator)
    shape = (1, rows, columns, channels)
    out = Tensor("y", tb.INT8, shape, b"", source.scales, source.zero_point)
    is_bilinear = bool(generator.integers(2))
    is_aligned, is_half = ((0, 0), (1, 0), (0, 1))[int(generator.integers(3))]
    options = {2: is_aligned, 3: is_half} if is_bilinear else {0: is_aligned, 1: is_half}
    code = tb.RESIZE_BILINEAR if is_bilinear else tb.RESIZE_NEAREST_NEIGHBOR
    tensors = (source, _int32("s", [rows, columns]), out)
    return model(Graph(tensors, (Operator(code, "x s", "y", options),)))


def transposed_convolution(generator: Generator) -> bytes:
    """TRANSPOSE_CONV."""
    rows, columns, depth, channels = (int(size) for size in generator.integers(1, 7, 4))
    filter_h, filter_w = (int(size) for size in generator.integers(1, 5, 2))
    stride_h, stride_w = (int(size) for size in generator.integers(1, 4, 2))
    padding = int(generator.integers(2))
    source = _int8("x", (1, rows, columns, depth), generator)
    weights = _weights((channels, filter_h, filter_w, depth), 0, channels, generator)
    bias = _bias(channels, source, weights, generator)
    height, width = rows * stride_h, columns * stride_w
    if padding == VALID:
        height, width = height + max(0, filter_h - stride_h), width + max(0, filter_w - stride_w)
    shape = (1, height, width, channels)
    out = _int8("y", shape, generator)
    tensors = (source, weights, bias, out, _int32("s", list(shape)))
    options = {0: padding, 1: stride_w, 2: stride_h}
    operator = Operator(tb.TRANSPOSE_CONV, "s w x b", "y", options)
    return model(Graph(tensors, (operator,)))


def stream(generator: Generator) -> bytes:
    """Variables, as models of wake words have them: CALL_ONCE gives them their first values.

    The last rows that were seen are joined with the new ones. A sum is assigned before what was
    read is used for the last time.
    """
    rows, new, channels = (int(size) for size in generator.integers(2, 6, 3))
    source = _int8("x", (1, new, 1, channels), generator)

    def like(name: str, shape: tuple[int, ...], content: bytes = b"") -> Tensor:
        return Tensor(name, tb.INT8, shape, content, source.scales, source.zero_point)

    kept, whole, row = (1, rows, 1, channels), (1, rows + new, 1, channels), (1, 1, 1, channels)
    handles = tuple(Tensor(name, tb.RESOURCE, ()) for name in ("h0", "h1"))
    tensors = (
        source,
        *handles,
        *(like("kept", kept), like("all", whole), like("last", kept), like("sum", row)),
        *(like("next", row), _int32("b", [0, -rows, 0, 0]), _int32("e", [0, 0, 0, 0])),
        *(_int32("s", [1] * 4), like("top", row), _int8("y", row, generator)),
    )
    operators = (
        Operator(tb.CALL_ONCE, "", "", {0: 1}),
        Operator(tb.VAR_HANDLE, "", "h0", {1: b"rows"}),
        Operator(tb.VAR_HANDLE, "", "h1", {1: b"sum"}),
        Operator(tb.READ_VARIABLE, "h0", "kept"),
        Operator(tb.READ_VARIABLE, "h1", "sum"),
        Operator(tb.CONCATENATION, "kept x", "all", {0: 1}),
        Operator(tb.STRIDED_SLICE, "all b e s", "last", {0: 0b1101, 1: 0b1111}),
        Operator(tb.ASSIGN_VARIABLE, "h0 last", ""),
        Operator(tb.MAX_POOL_2D, "all", "top", {0: VALID, 1: 1, 2: 1, 3: 1, 4: rows + new}),
        Operator(tb.SUB, "top sum", "next"),
        Operator(tb.ASSIGN_VARIABLE, "h1 next", ""),
        Operator(tb.ADD, "next sum", "y"),
    )
    drawn = generator.integers(-128, 128, rows * channels).astype(np.int8).tobytes()
    first = (like("f0", kept, drawn), like("f1", row, bytes([source.zero_point & 255]) * channels))
    calls = (
        Operator(tb.VAR_HANDLE, "", "h1", {1: b"sum"}),
        Operator(tb.ASSIGN_VARIABLE, "h1 f1", ""),
        Operator(tb.VAR_HANDLE, "", "h0", {1: b"rows"}),
        Operator(tb.ASSIGN_VARIABLE, "h0 f0", ""),
    )
    return model(Graph(tensors, operators), Graph((*handles, *first), calls, inputs="", outputs=""))


def two_inputs(generator: Generator) -> bytes:
    """Two inputs of different shapes, multiplied."""
    shape = tuple(int(size) for size in generator.integers(1, 8, 3))
    other = (1, 1, shape[2])
    tensors = (
        _int8("x", shape, generator),
        _int8("z", other, generator),
        _int8("y", shape, generator),
    )
    return model(Graph(tensors, (Operator(tb.MUL, "x z", "y"),), inputs="x z"))


def uint8_split(generator: Generator) -> bytes:
    """CONCATENATION of two inputs of uint8, and SPLIT, of which an output is in the middle."""
    shape = tuple(int(size) for size in generator.integers(2, 6, 2))
    same = (_scale(generator),), int(generator.integers(256))
    whole, part = (1, *shape, 6), (1, *shape, 2)
    tensors = (
        Tensor("x", tb.UINT8, (1, *shape, 4), b"", *same),
        Tensor("z", tb.UINT8, part, b"", *same),
        Tensor("all", tb.UINT8, whole, b"", *same),
        _int32("a", [3], ()),
        *(Tensor(name, tb.UINT8, part, b"", *same) for name in ("p", "y", "q")),
    )
    operators = (
        Operator(tb.CONCATENATION, "x z", "all", {0: 3}),
        Operator(tb.SPLIT, "a all", "p y q", {0: 3}),
    )
    return model(Graph(tensors, operators, inputs="x z"))


def _uint8(tensor: Tensor) -> Tensor:
    """The tensor as uint8: a constant keeps its bytes, and gets a zero point."""
    if tensor.type != tb.INT8:
        return tensor
    zero_point = (tensor.zero_point + 128) if tensor.name != "w" else tensor.shape[-1] * 37 % 256
    return replace(tensor, type=tb.UINT8, zero_point=zero_point)


_UINT8_OPERATORS = [
    *(tb.CONV_2D, tb.DEPTHWISE_CONV_2D, tb.FULLY_CONNECTED, tb.AVERAGE_POOL_2D),
    *(tb.MAX_POOL_2D, tb.ADD, tb.MUL, tb.SOFTMAX, tb.LOGISTIC),
]


def unsigned(generator: Generator) -> bytes:
    """An operator on uint8, as models of TensorFlow 1 have it; weights have a zero point."""
    code = int(generator.choice(_UINT8_OPERATORS))
    height, width = (int(size) for size in generator.integers(4, 9, 2))
    channels, count = (int(size) for size in generator.integers(1, 9, 2))
    filter_h, filter_w = (int(size) for size in generator.integers(1, 4, 2))
    source = _int8("x", (1, height, width, channels), generator)
    out = replace(source, name="y")
    others: tuple[Tensor, ...] = ()
    options: dict[int, int | bytes] = {}
    if code == tb.CONV_2D:
        options = {0: SAME, 1: 1, 2: 1, 4: 1, 5: 1}
        others = (_weights((count, filter_h, filter_w, channels), 0, 1, generator),)
        out = _int8("y", (1, height, width, count), generator)
    elif code == tb.DEPTHWISE_CONV_2D:
        options = {0: SAME, 1: 1, 2: 1, 3: 1, 5: 1, 6: 1}
        others = (_weights((1, filter_h, filter_w, channels), 0, 1, generator),)
        out = _int8("y", source.shape, generator)
    elif code == tb.FULLY_CONNECTED:
        options = {0: int(generator.choice([0, 1, 3]))}
        source = replace(source, shape=(height, channels))
        others = (_weights((count, channels), 0, 1, generator),)
        out = _int8("y", (height, count), generator)
    elif code in (tb.AVERAGE_POOL_2D, tb.MAX_POOL_2D):
        options = {0: SAME, 1: 1, 2: 1, 3: filter_w, 4: filter_h}
    elif code in (tb.ADD, tb.MUL):
        content = generator.integers(0, 256, (1, 1, 1, channels)).astype(np.uint8).tobytes()
        others = (replace(_int8("c", (1, 1, 1, channels), generator), constant=content),)
        out = _int8("y", source.shape, generator)
    else:
        options = {0: _float_bits(1.0)} if code == tb.SOFTMAX else {}
        out = replace(out, scales=(1 / 256,), zero_point=-128)
    if others and others[0].name == "w":
        others = (others[0], _bias(out.shape[-1], source, others[0], generator))
    tensors = tuple(_uint8(tensor) for tensor in (source, *others, out))
    names = " ".join(tensor.name for tensor in (source, *others))
    return model(Graph(tensors, (Operator(code, names, "y", options),)))


def svdf(generator: Generator) -> bytes:
    """SVDF, whose weights of time and variable are int16."""
    return _svdf(generator, is_wide=True)


def narrow_svdf(generator: Generator) -> bytes:
    """SVDF, whose weights of time and variable are int8: TensorFlow Lite Micro alone has that."""
    return _svdf(generator, is_wide=False)


def _svdf(generator: Generator, *, is_wide: bool) -> bytes:
    rank, units, width, memory = (int(size) for size in generator.integers(1, 7, 4))
    filters = rank * units
    source = _int8("x", (1, width), generator)
    features = replace(_weights((filters, width), 0, 1, generator), name="f")
    low, high, element = (-32767, 32768, "<i2") if is_wide else (-127, 128, "<i1")
    drawn = generator.integers(low, high, (filters, memory)).astype(element).tobytes()
    kind = tb.INT16 if is_wide else tb.INT8
    state_scale = float(np.float32(generator.uniform(0.001, 0.01)))
    state_scale = state_scale / 16 if is_wide else state_scale
    time = Tensor("t", kind, (filters, memory), drawn, (0.0001 if is_wide else 0.01,))
    zero_point = 0 if is_wide else int(generator.integers(-128, 128))
    state = Tensor(
        "s",
        kind,
        (1, filters * memory),
        scales=(state_scale,),
        zero_point=zero_point,
        is_variable=True,
    )
    bias = Tensor("b", tb.INT32, (units,), generator.integers(-9999, 9999, units, "<i4").tobytes())
    bias = replace(bias, scales=(state_scale * time.scales[0],))
    out = _int8("y", (1, units), generator)
    operator = Operator(tb.SVDF, "x f t b s", "y", {0: rank, 1: 1})
    return model(Graph((source, features, time, bias, state, out), (operator,)))


def lstm(generator: Generator) -> bytes:
    """UNIDIRECTIONAL_SEQUENCE_LSTM, with scales at which gates saturate, too."""
    batches, steps, width, cells = (int(size) for size in generator.integers(1, 7, 4))
    source = _int8("x", (batches, steps, width), generator)
    state_scale, gain = (
        float(np.float32(generator.uniform(0.003, 0.01))),
        generator.uniform(0.05, 2),
    )
    same = (state_scale,), int(generator.integers(-20, 21))

    def matrix(name: str, columns: int) -> Tensor:
        drawn = _weights((cells, columns), 0, 1, generator)
        return replace(drawn, name=name, scales=(drawn.scales[0] * gain,))

    inputs = [matrix(f"i{gate}", width) for gate in range(4)]
    recurrents = [matrix(f"r{gate}", cells) for gate in range(4)]
    biases = [
        replace(_bias(cells, source, weights, generator), name=f"b{gate}")
        for gate, weights in enumerate(inputs)
    ]
    cell_scale = 2.0 ** -int(generator.integers(11, 16))
    states = (
        Tensor("h", tb.INT8, (batches, cells), b"", *same, is_variable=True),
        Tensor("c", tb.INT16, (batches, cells), scales=(cell_scale,), is_variable=True),
    )
    inner = (Tensor("n", tb.FLOAT32, (0,)), Tensor("m", tb.INT8, (0,), b"", *same))
    out = Tensor("y", tb.INT8, (batches, steps, cells), b"", *same)
    clip = float(generator.choice([0.0, 10.0, 0.3]))
    names = "x i0 i1 i2 i3 r0 r1 r2 r3 - - - b0 b1 b2 b3 - - h c - - - -"
    options = {0: 4, 1: _float_bits(clip)}
    operator = Operator(tb.UNIDIRECTIONAL_SEQUENCE_LSTM, names, "y", options, "n n n n m")
    tensors = (source, *inputs, *recurrents, *biases, *states, *inner, out)
    return model(Graph(tensors, (operator,)))


def words(generator: Generator) -> bytes:
    """PAD, STRIDED_SLICE, or QUANTIZE to int8 or int32, of int16; SOFTMAX to int16."""
    rows, columns = (int(size) for size in generator.integers(2, 9, 2))
    source = Tensor("x", tb.INT16, (rows, columns), scales=(_scale(generator) / 64,))
    kind = int(generator.integers(5))
    others: tuple[Tensor, ...] = ()
    padded = (rows + 3, columns + 1)
    if kind == 0:
        others = (Tensor("p", tb.INT32, (2, 2), struct.pack("<4i", 1, 2, 0, 1)),)
        out = replace(source, name="y", shape=padded)
        operator = Operator(tb.PAD, "x p", "y")
    elif kind == 1:
        numbers = {"b": [1, 0], "e": [rows, columns], "s": [1, 2]}
        others = tuple(_int32(name, values) for name, values in numbers.items())
        out = replace(source, name="y", shape=(rows - 1, -(-columns // 2)))
        operator = Operator(tb.STRIDED_SLICE, "x b e s", "y")
    elif kind == 4:
        source = _int8("x", (rows, columns), generator)
        out = Tensor("y", tb.INT16, (rows, columns), b"", (1 / 65536,), -32768)
        operator = Operator(tb.SOFTMAX, "x", "y", {0: _float_bits(1.0)})
    else:
        out = _int8("y", (rows, columns), generator)
        out = out if kind == 2 else replace(out, type=tb.INT32, zero_point=0)
        operator = Operator(tb.QUANTIZE, "x", "y")
    return model(Graph((source, *others, out), (operator,)))


def _int16(name: str, shape: tuple[int, ...], generator: Generator) -> Tensor:
    return Tensor(name, tb.INT16, shape, scales=(_scale(generator) / 64,))


def wide_convolution(generator: Generator) -> bytes:
    """CONV_2D or TRANSPOSE_CONV of int16, whose bias of int64 a TRANSPOSE_CONV may leave out."""
    is_transposed = bool(generator.integers(2))
    rows, columns, depth, channels = (int(size) for size in generator.integers(1, 7, 4))
    filter_h, filter_w, stride_h, stride_w = (int(size) for size in generator.integers(1, 4, 4))
    source = _int16("x", (1, rows, columns, depth), generator)
    weights = _weights((channels, filter_h, filter_w, depth), 0, channels, generator)
    content = generator.integers(-(2**20), 2**20, channels, "<i8").tobytes()
    scales = tuple(source.scales[0] * scale for scale in weights.scales)
    bias = Tensor("b", tb.INT64, (channels,), content, scales)
    high, wide = (
        (rows * stride_h, columns * stride_w)
        if is_transposed
        else (_out(rows, filter_h, stride_h, 1, SAME), _out(columns, filter_w, stride_w, 1, SAME))
    )
    shape = (1, high, wide, channels)
    out = _int16("y", shape, generator)
    tensors = (source, weights, bias, out, _int32("s", list(shape)))
    is_without = is_transposed and bool(generator.integers(2))
    options = {0: SAME, 1: stride_w, 2: stride_h}
    if is_transposed:
        operator = Operator(tb.TRANSPOSE_CONV, "s w x" if is_without else "s w x b", "y", options)
    else:
        activation = int(generator.choice([0, 1, 3]))
        operator = Operator(tb.CONV_2D, "x w b", "y", options | {3: activation, 4: 1, 5: 1})
    return model(Graph(tensors, (operator,)))


def wide_binary(generator: Generator) -> bytes:
    """ADD, SUB, MUL, MAXIMUM of int16 with a constant that may be repeated, or LEAKY_RELU."""
    code = int(generator.choice([tb.ADD, tb.SUB, tb.MUL, tb.MAXIMUM, tb.LEAKY_RELU]))
    shape = (1, *(int(size) for size in generator.integers(1, 8, 3)))
    source, out = _int16("x", shape, generator), _int16("y", shape, generator)
    if code == tb.LEAKY_RELU:
        options = {0: _float_bits(generator.uniform(0, 0.9))}
        return model(Graph((source, out), (Operator(code, "x", "y", options),)))
    other = tuple(int(generator.choice([1, size])) for size in shape)
    drawn = generator.integers(-32768, 32768, other).astype("<i2").tobytes()
    constant = replace(_int16("c", other, generator), constant=drawn)
    options = {0: int(generator.choice([0, 1, 3]))}
    if code == tb.MAXIMUM:
        options, constant = {}, replace(constant, scales=source.scales)
        out = replace(source, name="y")
    return model(Graph((source, constant, out), (Operator(code, "x c", "y", options),)))


def places(generator: Generator) -> bytes:
    """ARG_MAX along any dimension, of values that are often equal."""
    shape = tuple(int(size) for size in generator.integers(1, 7, int(generator.integers(1, 5))))
    axis = int(generator.integers(len(shape)))
    source = _int8("x", shape, generator)
    bound = Tensor("c", tb.INT8, (1,), b"\x05", source.scales, source.zero_point)
    lower = Tensor("z", tb.INT8, shape, b"", source.scales, source.zero_point)
    out = Tensor("y", tb.INT32, (*shape[:axis], *shape[axis + 1 :]))
    operators = (
        Operator(tb.MINIMUM, "x c", "z"),
        Operator(tb.ARG_MAX, "z a", "y", {0: tb.INT32}),
    )
    axis_tensor = _int32("a", [axis - len(shape)], ())
    return model(Graph((source, bound, lower, axis_tensor, out), operators))


def log_softmax(generator: Generator) -> bytes:
    """LOG_SOFTMAX of float32, after DEQUANTIZE."""
    shape = tuple(int(size) for size in generator.integers(1, 20, 2))
    source = replace(_int8("x", shape, generator), scales=(float(generator.uniform(0.01, 2)),))
    tensors = (source, Tensor("f", tb.FLOAT32, shape), Tensor("y", tb.FLOAT32, shape))
    operators = (Operator(tb.DEQUANTIZE, "x", "f"), Operator(tb.LOG_SOFTMAX, "f", "y"))
    return model(Graph(tensors, operators))


def uint8_resize(generator: Generator) -> bytes:
    """RESIZE_BILINEAR of uint8, which is computed in single precision, and ARG_MAX to int64."""
    height, width, channels = (int(size) for size in generator.integers(1, 9, 3))
    rows, columns = (int(size) for size in generator.integers(1, 20, 2))
    is_aligned, is_half = ((0, 0), (1, 0), (0, 1))[int(generator.integers(3))]
    same = (_scale(generator),), int(generator.integers(256))
    tensors = (
        Tensor("x", tb.UINT8, (1, height, width, channels), b"", *same),
        _int32("s", [rows, columns]),
        Tensor("y", tb.UINT8, (1, rows, columns, channels), b"", *same),
        _int32("a", [3], ()),
        Tensor("z", tb.INT64, (1, rows, columns)),
    )
    operators = (
        Operator(tb.RESIZE_BILINEAR, "x s", "y", {2: is_aligned, 3: is_half}),
        Operator(tb.ARG_MAX, "y a", "z", {0: tb.INT64}),
    )
    return model(Graph(tensors, operators, outputs="y z"))


def dynamic_reshape(generator: Generator) -> bytes:
    """RESHAPE as Keras writes it: to a shape made of that of the input, which is constant."""
    rows, columns = (int(size) for size in generator.integers(1, 9, 2))
    source = _int8("x", (1, rows, columns, 2), generator)
    same = source.scales, source.zero_point
    tensors = (
        source,
        *(_int32("b", [0]), _int32("e", [1]), _int32("s", [1]), _int32("n", [2 * columns], ())),
        _int32("r", [rows], ()),
        *(Tensor(name, tb.INT32, (4,)) for name in ("size",)),
        *(Tensor("batch", tb.INT32, ()), Tensor("shape", tb.INT32, (3,))),
        Tensor("y", tb.INT8, (1, rows, 2 * columns), b"", *same),
    )
    operators = (
        Operator(tb.SHAPE, "x", "size", {0: tb.INT32}),
        Operator(tb.STRIDED_SLICE, "size b e s", "batch", {4: 1}),
        Operator(tb.PACK, "batch r n", "shape", {0: 3}),
        Operator(tb.RESHAPE, "x shape", "y"),
    )
    return model(Graph(tensors, operators))


KINDS: dict[str, Callable[[Generator], bytes]] = {
    "binary": binary,
    "concatenation": concatenation,
    "conversion": conversion,
    "convolution": convolution,
    "elementwise": elementwise,
    "dynamic_reshape": dynamic_reshape,
    "fully_connected": fully_connected,
    "halves": halves,
    "log_softmax": log_softmax,
    "lookup": lookup,
    "mean": mean,
    "padding": padding,
    "places": places,
    "pool": pool,
    "products": products,
    "resize": resize,
    "softmax": softmax,
    "split": split,
    "strided_slice": strided_slice,
    "transposed_convolution": transposed_convolution,
    "transposition": transposition,
    "wide_binary": wide_binary,
    "wide_convolution": wide_convolution,
    "words": words,
}
