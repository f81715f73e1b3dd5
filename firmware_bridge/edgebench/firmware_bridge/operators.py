"""Translation of a model's operators to those of the firmware, with precomputed parameters.

FULLY_CONNECTED becomes a convolution of 1 x 1, and a depthwise convolution of a single channel an
ordinary convolution. The zero point of the input is folded into the bias. An operator that only
changes a shape becomes another view of the same bytes.

Rounding: `docs/model-blob.md`. Parameters are those of `core/blob.h`.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from edgebench.firmware_bridge.blob import MAX_DIMENSION, BlobKind, BlobOperator, BlobTensor
from edgebench.firmware_bridge.quantization import (
    FixedPoint,
    activation_range,
    fixed_point,
    float32,
    mean_factor,
    softmax_factor,
)
from edgebench.firmware_bridge.tflite import (
    ELEMENT_BYTES,
    FLOAT32,
    INT8,
    INT32,
    UINT8,
    ModelOperator,
    ModelTensor,
    TfliteCode,
    TfliteGraph,
)
from edgebench.protocol.errors import ModelRefused

_STRIDE_H, _STRIDE_W, _PAD_TOP, _PAD_LEFT, _ACT_MIN, _ACT_MAX, _ZERO_OUT = range(7)
_DILATION_H, _DILATION_W, _ZERO_IN, _MULTIPLIERS, _SHIFTS = range(7, 12)
_FILTER_H, _FILTER_W = 7, 8
_ZERO_A, _ZERO_B, _FACTOR_A, _FACTOR_B, _FACTOR_OUT = 0, 1, 7, 9, 11
_ADD_LEFT_SHIFT = 20
"""Left shift of an addition. Source: tensorflow/lite/kernels/add.cc."""
_SAME = 0
_CONV_OPTIONS = {"act": 3, "dilation_w": 4, "dilation_h": 5}
_DEPTHWISE_OPTIONS = {"act": 4, "dilation_w": 5, "dilation_h": 6}

Shape = tuple[int, int, int, int]


def four(shape: Sequence[int]) -> Shape:
    """A shape in four dimensions: batch, height, width, channels.

    Raises:
        ModelRefused: the shape has more than four dimensions, or a dimension is too large.
    """
    if len(shape) > 4 or any(not 1 <= size <= MAX_DIMENSION for size in shape):
        raise ModelRefused(f"tensor of shape {list(shape)} exceeds 4 sizes of 1 to {MAX_DIMENSION}")
    a, b, c, d = (1,) * (4 - len(shape)) + tuple(shape)
    return a, b, c, d


@dataclass(slots=True)
class Lowering:
    """State of the translation of a model to a blob."""

    model: TfliteGraph
    is_tflm: bool
    tensors: list[BlobTensor] = field(default_factory=list[BlobTensor])
    operators: list[BlobOperator] = field(default_factory=list[BlobOperator])
    storages: dict[int, int] = field(default_factory=dict[int, int])
    """Piece of the arena of each tensor of the model."""

    def run(self) -> None:
        """Translate every operator.

        Raises:
            ModelRefused: the firmware does not support an operator.
        """
        for operator in self.model.operators:
            _LOWERINGS[operator.code](self, operator)

    def tensor(self, number: int) -> ModelTensor:
        """A tensor of the model.

        Raises:
            IndexError: the number does not exist, or is -1, for an omitted input.
        """
        if number < 0:
            raise IndexError(number)
        return self.model.tensors[number]

    def view(self, number: int, shape: Sequence[int] | None = None) -> int:
        """Add a tensor of the model to the blob, optionally reshaped; returns its number."""
        tensor = self.tensor(number)
        if tensor.type not in ELEMENT_BYTES:
            raise ModelRefused(f"tensor {tensor.name!r} has type {tensor.type}")
        size_bytes = tensor.size * ELEMENT_BYTES[tensor.type]
        entry = BlobTensor(
            tensor.type,
            four(tensor.shape if shape is None else shape),
            size_bytes,
            tensor.zero_point,
            tensor.scale if len(tensor.scales) == 1 else 1.0,
            tensor.content,
        )
        if tensor.content:
            if len(tensor.content) != size_bytes:
                raise ModelRefused(f"tensor {tensor.name!r} has {len(tensor.content)} bytes")
        else:
            entry.storage = self.storages.setdefault(number, number)
        return self._add(entry)

    def constant(self, values: Sequence[int]) -> int:
        """Add a list of int32 to the blob; returns its number."""
        content = struct.pack(f"<{len(values)}i", *values)
        return self._add(BlobTensor(INT32, (1, 1, 1, len(values)), len(content), content=content))

    def weights(self, shape: Shape, content: bytes) -> int:
        """Add int8 weights to the blob; returns their number."""
        return self._add(BlobTensor(INT8, shape, len(content), content=content))

    def _add(self, tensor: BlobTensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1


def _only_int8(*tensors: ModelTensor) -> None:
    for tensor in tensors:
        if tensor.type != INT8:
            raise ModelRefused(f"tensor {tensor.name!r} has type {tensor.type}, not int8")


def _clamp(code: int, out: ModelTensor) -> dict[int, int]:
    bounds = activation_range(code, out.scale, out.zero_point)
    if bounds is None:
        raise ModelRefused(f"the firmware does not support activation {code} of {out.name!r}")
    return {_ACT_MIN: bounds[0], _ACT_MAX: bounds[1], _ZERO_OUT: out.zero_point}


def _padding(is_same: bool, size: int, filter_size: int, stride: int, out: int) -> int:
    """Rows of padding before the first row, as in `ComputePaddingHeightWidth`."""
    return max((out - 1) * stride + filter_size - size, 0) // 2 if is_same else 0


def _factors(source: ModelTensor, weights: ModelTensor, out: ModelTensor) -> list[FixedPoint]:
    """A factor for each channel of the output, or a single factor for all."""
    return [fixed_point(source.scale * scale / out.scale) for scale in weights.scales]


def _bias(lowering: Lowering, number: int, sums: Sequence[int], zero_point: int) -> int:
    """The bias with the zero point of the input folded into it, modulo 2^32."""
    biases: Sequence[int] = [0] * len(sums)
    if number >= 0:
        tensor = lowering.tensor(number)
        if tensor.type != INT32 or len(tensor.content) != 4 * len(sums):
            raise ModelRefused(f"bias {tensor.name!r} is not {len(sums)} constants of int32")
        biases = array("i", tensor.content)
    folded = [bias - zero_point * total for bias, total in zip(biases, sums, strict=True)]
    return lowering.constant([(value + 2**31) % 2**32 - 2**31 for value in folded])


def _weights_of(lowering: Lowering, number: int) -> tuple[ModelTensor, array[int]]:
    tensor = lowering.tensor(number)
    _only_int8(tensor)
    if len(tensor.content) != tensor.size or any(tensor.zero_points) or not tensor.scales:
        raise ModelRefused(f"weights {tensor.name!r} are not symmetric constants of int8")
    return tensor, array("b", tensor.content)


def _add_conv(
    lowering: Lowering,
    operator: BlobOperator,
    factors: list[FixedPoint],
    channels: int,
) -> None:
    """Append a convolution; its factors are per channel, or a single factor for all."""
    if len(factors) not in (1, channels):
        raise ModelRefused(f"weights have {len(factors)} scales, not 1 or {channels}")
    every = factors * channels if len(factors) == 1 else factors
    operator.parameters[_MULTIPLIERS] = lowering.constant([factor.multiplier for factor in every])
    operator.parameters[_SHIFTS] = lowering.constant([factor.shift for factor in every])
    lowering.operators.append(operator)


def _conv_scratch(depth: int, rows: int) -> int:
    """Size of the scratch memory, equal to `conv_scratch_bytes` of the firmware."""
    row = -(-depth // 4) * 4
    return (2 if rows > 1 else 1) * row * 2 + row


def _convolution(lowering: Lowering, operator: ModelOperator) -> None:
    is_depthwise = operator.code == TfliteCode.DEPTHWISE_CONV_2D
    fields = _DEPTHWISE_OPTIONS if is_depthwise else _CONV_OPTIONS
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    _only_int8(source, out)
    weights, values = _weights_of(lowering, operator.inputs[1])
    if len(source.shape) != 4 or len(out.shape) != 4 or len(weights.shape) != 4:
        raise ModelRefused(f"convolution to {out.name!r} is not in four dimensions")
    channels, (filter_h, filter_w) = out.shape[3], weights.shape[1:3]
    strides = operator.option(2, "<i"), operator.option(1, "<i")
    dilations = (
        operator.option(fields["dilation_h"], "<i", 1),
        operator.option(fields["dilation_w"], "<i", 1),
    )
    is_same = operator.option(0) == _SAME
    reach = (filter_h - 1) * dilations[0] + 1, (filter_w - 1) * dilations[1] + 1
    parameters = {
        _STRIDE_H: strides[0],
        _STRIDE_W: strides[1],
        _PAD_TOP: _padding(is_same, source.shape[1], reach[0], strides[0], out.shape[1]),
        _PAD_LEFT: _padding(is_same, source.shape[2], reach[1], strides[1], out.shape[2]),
        _DILATION_H: dilations[0],
        _DILATION_W: dilations[1],
        _ZERO_IN: source.zero_point,
        **_clamp(operator.option(fields["act"]), out),
    }
    is_really_depthwise = is_depthwise and source.shape[3] > 1
    if is_depthwise and not is_really_depthwise:
        # The weights of a channel are made contiguous, as in an ordinary convolution.
        values = array("b", b"".join(values[c::channels].tobytes() for c in range(channels)))
    depth = len(values) // channels
    if is_really_depthwise:
        sums = [sum(values[c::channels]) for c in range(channels)]
        shape = (1, filter_h, filter_w, channels)
        scratch = filter_h * filter_w * 4 + -(-source.shape[3] // 4) * 4
    else:
        sums = [sum(values[c * depth : (c + 1) * depth]) for c in range(channels)]
        shape = (channels, filter_h, filter_w, source.shape[3])
        scratch = _conv_scratch(depth, prod(out.shape[:3]))
    inputs = (
        lowering.view(operator.inputs[0]),
        lowering.weights(shape, values.tobytes()),
        _bias(lowering, _input(operator, 2), sums, source.zero_point),
    )
    kind = BlobKind.DEPTHWISE if is_really_depthwise else BlobKind.CONV
    output = lowering.view(operator.outputs[0])
    added = BlobOperator(kind, inputs, output, parameters, scratch_bytes=scratch)
    _add_conv(lowering, added, _factors(source, weights, out), channels)


def _input(operator: ModelOperator, position: int) -> int:
    return operator.inputs[position] if position < len(operator.inputs) else -1


def _fully_connected(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    _only_int8(source, out)
    weights, values = _weights_of(lowering, operator.inputs[1])
    if len(weights.shape) != 2 or operator.option(1):
        raise ModelRefused(f"weights {weights.name!r} are not in the default order")
    units, depth = weights.shape
    rows = source.size // depth
    sums = [sum(values[unit * depth : (unit + 1) * depth]) for unit in range(units)]
    inputs = (
        lowering.view(operator.inputs[0], (1, rows, 1, depth)),
        lowering.weights((units, 1, 1, depth), values.tobytes()),
        _bias(lowering, _input(operator, 2), sums, source.zero_point),
    )
    ones = dict.fromkeys((_STRIDE_H, _STRIDE_W, _DILATION_H, _DILATION_W), 1)
    added = BlobOperator(
        BlobKind.CONV,
        inputs,
        lowering.view(operator.outputs[0], (1, rows, 1, units)),
        {**ones, _ZERO_IN: source.zero_point, **_clamp(operator.option(0), out)},
        is_rounded_once=not lowering.is_tflm,
        scratch_bytes=_conv_scratch(depth, rows),
    )
    _add_conv(lowering, added, _factors(source, weights, out), units)


def _pool(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    _only_int8(source, out)
    if (source.scales, source.zero_points) != (out.scales, out.zero_points):
        raise ModelRefused(f"pool to {out.name!r} changes the scale")
    stride_w, stride_h = operator.option(1, "<i"), operator.option(2, "<i")
    filter_w, filter_h = operator.option(3, "<i"), operator.option(4, "<i")
    is_same = operator.option(0) == _SAME
    parameters = {
        _STRIDE_H: stride_h,
        _STRIDE_W: stride_w,
        _PAD_TOP: _padding(is_same, source.shape[1], filter_h, stride_h, out.shape[1]),
        _PAD_LEFT: _padding(is_same, source.shape[2], filter_w, stride_w, out.shape[2]),
        _FILTER_H: filter_h,
        _FILTER_W: filter_w,
        **_clamp(operator.option(5), out),
    }
    kind = BlobKind.MAX_POOL if operator.code == TfliteCode.MAX_POOL_2D else BlobKind.AVERAGE_POOL
    _append(lowering, operator, kind, parameters)


def _append(
    lowering: Lowering, operator: ModelOperator, kind: BlobKind, parameters: dict[int, int]
) -> None:
    inputs = tuple(lowering.view(number) for number in operator.inputs)
    lowering.operators.append(
        BlobOperator(kind, inputs, lowering.view(operator.outputs[0]), parameters)
    )


def _pair(position: int, factor: FixedPoint) -> dict[int, int]:
    return {position: factor.multiplier, position + 1: factor.shift}


def _add_tensors(lowering: Lowering, operator: ModelOperator) -> None:
    a, b = (lowering.tensor(number) for number in operator.inputs)
    out = lowering.tensor(operator.outputs[0])
    _only_int8(a, b, out)
    twice = 2 * max(a.scale, b.scale)
    parameters = {
        _ZERO_A: a.zero_point,
        _ZERO_B: b.zero_point,
        **_pair(_FACTOR_A, fixed_point(a.scale / twice)),
        **_pair(_FACTOR_B, fixed_point(b.scale / twice)),
        **_pair(_FACTOR_OUT, fixed_point(twice / (2**_ADD_LEFT_SHIFT * out.scale))),
        **_clamp(operator.option(0), out),
    }
    _append(lowering, operator, BlobKind.ADD, parameters)


def _multiply_tensors(lowering: Lowering, operator: ModelOperator) -> None:
    a, b = (lowering.tensor(number) for number in operator.inputs)
    out = lowering.tensor(operator.outputs[0])
    _only_int8(a, b, out)
    # LiteRT computes this in single precision, TensorFlow Lite Micro in double.
    factor = float32(float32(a.scale * b.scale) / out.scale)
    if lowering.is_tflm:
        factor = a.scale * b.scale / out.scale
    parameters = {
        _ZERO_A: a.zero_point,
        _ZERO_B: b.zero_point,
        **_pair(_FACTOR_OUT, fixed_point(factor)),
        **_clamp(operator.option(0), out),
    }
    _append(lowering, operator, BlobKind.MUL, parameters)


def _reshape(lowering: Lowering, operator: ModelOperator) -> None:
    """Another view of the same bytes; a copy if both pieces exist already."""
    source, out = operator.inputs[0], operator.outputs[0]
    if out in lowering.storages or lowering.tensor(source).content:
        inputs = (lowering.view(source),)
        lowering.operators.append(BlobOperator(BlobKind.COPY, inputs, lowering.view(out)))
        return
    lowering.storages[out] = lowering.storages.setdefault(source, source)


def _integers(lowering: Lowering, number: int) -> list[int]:
    tensor = lowering.tensor(number)
    if tensor.type != INT32 or len(tensor.content) != 4 * tensor.size:
        raise ModelRefused(f"tensor {tensor.name!r} is not constant")
    return list(array("i", tensor.content))


def _pad(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    _only_int8(source, out)
    before = _integers(lowering, operator.inputs[1])[::2]
    parameters = dict(enumerate([0] * (4 - len(before)) + before))
    parameters[_ZERO_OUT] = out.zero_point
    inputs = (lowering.view(operator.inputs[0]),)
    added = BlobOperator(BlobKind.PAD, inputs, lowering.view(operator.outputs[0]), parameters)
    lowering.operators.append(added)


def _softmax(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    _only_int8(source, out)
    if out.scale != 1 / 256 or out.zero_point != -128:
        raise ModelRefused(f"softmax to {out.name!r} has a scale other than 1/256")
    beta = 1.0 if operator.options is None else operator.options.real(0)
    factor, smallest = softmax_factor(source.scale, beta)
    _append(lowering, operator, BlobKind.SOFTMAX, {**_pair(0, factor), 2: smallest})


def _mean(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    _only_int8(source, out)
    rank = len(source.shape)
    axes = {axis % rank for axis in _integers(lowering, operator.inputs[1])}
    kept = [1 if axis in axes else size for axis, size in enumerate(source.shape)]
    factor = mean_factor(source.scale, out.scale, source.size // prod(kept))
    parameters = {
        0: sum(1 << (axis + 4 - rank) for axis in axes),
        **_pair(1, factor),
        _ZERO_IN: source.zero_point,
        _ZERO_OUT: out.zero_point,
    }
    added = BlobOperator(
        BlobKind.MEAN,
        (lowering.view(operator.inputs[0]),),
        lowering.view(operator.outputs[0], kept),
        parameters,
        scratch_bytes=4 * out.size,
    )
    lowering.operators.append(added)


def _concatenate(lowering: Lowering, operator: ModelOperator) -> None:
    out = lowering.tensor(operator.outputs[0])
    rank, place = len(out.shape), 0
    axis = operator.option(0, "<i") % rank
    if operator.option(1):
        raise ModelRefused(f"concatenation to {out.name!r} has an activation")
    for number in operator.inputs:
        source = lowering.tensor(number)
        _only_int8(source, out)
        if (source.scales, source.zero_points) != (out.scales, out.zero_points):
            raise ModelRefused(f"concatenation to {out.name!r} changes the scale")
        inputs = (lowering.view(number),)
        parameters = {0: axis + 4 - rank, 1: place}
        output = lowering.view(operator.outputs[0])
        lowering.operators.append(BlobOperator(BlobKind.CONCAT, inputs, output, parameters))
        place += source.shape[axis]


def _convert(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    integers = (INT8, UINT8)
    if source.type in integers and out.type == FLOAT32:
        _append(lowering, operator, BlobKind.DEQUANTIZE, {})
    elif source.type == FLOAT32 and out.type == INT8:
        _append(lowering, operator, BlobKind.QUANTIZE, {})
    elif source.type in integers and out.type in integers:
        parameters = {
            **_pair(0, fixed_point(source.scale / out.scale)),
            _ZERO_IN: source.zero_point,
            _ZERO_OUT: out.zero_point,
        }
        _append(lowering, operator, BlobKind.REQUANTIZE, parameters)
    else:
        raise ModelRefused(f"no conversion from {source.type} to {out.type}")


_LOWERINGS: dict[TfliteCode, Callable[[Lowering, ModelOperator], None]] = {
    TfliteCode.ADD: _add_tensors,
    TfliteCode.AVERAGE_POOL_2D: _pool,
    TfliteCode.CONCATENATION: _concatenate,
    TfliteCode.CONV_2D: _convolution,
    TfliteCode.DEPTHWISE_CONV_2D: _convolution,
    TfliteCode.DEQUANTIZE: _convert,
    TfliteCode.EXPAND_DIMS: _reshape,
    TfliteCode.FULLY_CONNECTED: _fully_connected,
    TfliteCode.MAX_POOL_2D: _pool,
    TfliteCode.MEAN: _mean,
    TfliteCode.MUL: _multiply_tensors,
    TfliteCode.PAD: _pad,
    TfliteCode.QUANTIZE: _convert,
    TfliteCode.RESHAPE: _reshape,
    TfliteCode.SOFTMAX: _softmax,
    TfliteCode.SQUEEZE: _reshape,
}
