"""Translation of a model's operators to those of the firmware, with precomputed parameters.

FULLY_CONNECTED becomes a convolution of 1 x 1, and a depthwise convolution of a single channel an
ordinary convolution. The zero point of the input is folded into the bias. An operator that only
changes a shape becomes another view of the same bytes.

Rounding: `docs/model-blob.md`. Parameters are those of `core/blob.h`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod

from edgebench.firmware_bridge import lookups, movement, variables
from edgebench.firmware_bridge.blob import BlobKind, BlobOperator
from edgebench.firmware_bridge.lowering import (
    ACT_MAX,
    ACT_MIN,
    ZERO_OUT,
    Lowering,
    append,
    clamp_parameters,
    integers,
    only_int8,
    optional_input,
    pair,
)
from edgebench.firmware_bridge.quantization import (
    FixedPoint,
    fixed_point,
    float32,
    mean_factor,
    softmax_factor,
)
from edgebench.firmware_bridge.tflite import (
    FLOAT32,
    INT8,
    INT16,
    INT32,
    UINT8,
    ModelOperator,
    ModelTensor,
    TfliteCode,
    TfliteGraph,
)
from edgebench.protocol.errors import BoardModelRefused

_STRIDE_H, _STRIDE_W, _PAD_TOP, _PAD_LEFT = range(4)
_DILATION_H, _DILATION_W, _ZERO_IN, _MULTIPLIERS, _SHIFTS = range(7, 12)
_ZERO_WEIGHTS = 12
_FILTER_H, _FILTER_W = 7, 8
_ZERO_A, _ZERO_B, _FACTOR_A, _FACTOR_B, _FACTOR_OUT = 0, 1, 7, 9, 11
_ADD_LEFT_SHIFT = 20
"""Left shift of an addition. Source: tensorflow/lite/kernels/add.cc."""
_SCALE_TOLERANCE = 0.001
"""Relative difference to 1/65536 that TFLite ignores. Source: tensorflow/lite/micro/kernels/
softmax_common.cc."""
_SAME = 0
_CONV_OPTIONS = {"act": 3, "dilation_w": 4, "dilation_h": 5}
_DEPTHWISE_OPTIONS = {"act": 4, "dilation_w": 5, "dilation_h": 6}


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
            raise BoardModelRefused(f"bias {tensor.name!r} is not {len(sums)} constants of int32")
        biases = array("i", tensor.content)
    folded = [bias - zero_point * total for bias, total in zip(biases, sums, strict=True)]
    return lowering.constant([(value + 2**31) % 2**32 - 2**31 for value in folded])


def _weights_of(lowering: Lowering, number: int) -> tuple[ModelTensor, array[int]]:
    tensor = lowering.tensor(number)
    only_int8(tensor)
    is_shifted = any(tensor.zero_points)
    if len(tensor.content) != tensor.size or not tensor.scales:
        raise BoardModelRefused(f"weights {tensor.name!r} are not constants of int8")
    if is_shifted and len(tensor.scales) != 1:
        raise BoardModelRefused(f"weights {tensor.name!r} have several scales and zero points")
    return tensor, array("b", tensor.content)


def _add_conv(
    lowering: Lowering,
    operator: BlobOperator,
    factors: list[FixedPoint],
    channels: int,
) -> None:
    """Append a convolution; its factors are per channel, or a single factor for all."""
    if len(factors) not in (1, channels):
        raise BoardModelRefused(f"weights have {len(factors)} scales, not 1 or {channels}")
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
    only_int8(source, out)
    weights, values = _weights_of(lowering, operator.inputs[1])
    if len(source.shape) != 4 or len(out.shape) != 4 or len(weights.shape) != 4:
        raise BoardModelRefused(f"convolution to {out.name!r} is not in four dimensions")
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
        _ZERO_WEIGHTS: weights.zero_point,
        **clamp_parameters(operator.option(fields["act"]), out),
    }
    is_really_depthwise = is_depthwise and source.shape[3] > 1
    if is_depthwise and not is_really_depthwise:
        # The weights of a channel are made contiguous, as in an ordinary convolution.
        values = array("b", b"".join(values[c::channels].tobytes() for c in range(channels)))
    depth, taps, zero = len(values) // channels, filter_h * filter_w, weights.zero_point
    if is_really_depthwise:
        sums = [sum(values[c::channels]) - taps * zero for c in range(channels)]
        shape = (1, filter_h, filter_w, channels)
        scratch = filter_h * filter_w * 4 + -(-source.shape[3] // 4) * 4
    else:
        sums = [sum(values[c * depth : (c + 1) * depth]) - depth * zero for c in range(channels)]
        shape = (channels, filter_h, filter_w, source.shape[3])
        scratch = _conv_scratch(depth, prod(out.shape[:3]))
    inputs = (
        lowering.view(operator.inputs[0]),
        lowering.weights(shape, values.tobytes()),
        _bias(lowering, optional_input(operator, 2), sums, source.zero_point),
    )
    kind = BlobKind.DEPTHWISE if is_really_depthwise else BlobKind.CONV
    output = lowering.view(operator.outputs[0])
    added = BlobOperator(kind, inputs, output, parameters, scratch_bytes=scratch)
    _add_conv(lowering, added, _factors(source, weights, out), channels)


def _transposed_convolution(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[2]), lowering.tensor(operator.outputs[0])
    only_int8(source, out)
    weights, values = _weights_of(lowering, operator.inputs[1])
    channels, filter_h, filter_w, depth = weights.shape
    strides = operator.option(2, "<i"), operator.option(1, "<i")
    parameters = {
        _STRIDE_H: strides[0],
        _STRIDE_W: strides[1],
        _PAD_TOP: _transposed_padding(out.shape[1], filter_h, strides[0]),
        _PAD_LEFT: _transposed_padding(out.shape[2], filter_w, strides[1]),
        _DILATION_H: 1,
        _DILATION_W: 1,
        _ZERO_IN: source.zero_point,
        _ZERO_WEIGHTS: weights.zero_point,
        **clamp_parameters(operator.option(3), out),
    }
    if operator.option(0) != _SAME:
        parameters |= {_PAD_TOP: 0, _PAD_LEFT: 0}
    inputs = (
        lowering.view(operator.inputs[2]),
        lowering.weights((channels, filter_h, filter_w, depth), values.tobytes()),
        _bias(lowering, optional_input(operator, 3), [0] * channels, 0),
    )
    output = lowering.view(operator.outputs[0])
    added = BlobOperator(BlobKind.TRANSPOSE_CONV, inputs, output, parameters)
    _add_conv(lowering, added, _factors(source, weights, out), channels)


def _transposed_padding(size: int, filter_size: int, stride: int) -> int:
    """Padding of the convolution whose transpose it is: from the output to the input."""
    return _padding(True, size, filter_size, stride, -(-size // stride))


def _fully_connected(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    only_int8(source, out)
    weights, values = _weights_of(lowering, operator.inputs[1])
    if len(weights.shape) != 2 or operator.option(1):
        raise BoardModelRefused(f"weights {weights.name!r} are not in the default order")
    units, depth = weights.shape
    rows = source.size // depth
    zero = weights.zero_point
    sums = [sum(values[unit * depth : (unit + 1) * depth]) - depth * zero for unit in range(units)]
    inputs = (
        lowering.view(operator.inputs[0], (1, rows, 1, depth)),
        lowering.weights((units, 1, 1, depth), values.tobytes()),
        _bias(lowering, optional_input(operator, 2), sums, source.zero_point),
    )
    ones = dict.fromkeys((_STRIDE_H, _STRIDE_W, _DILATION_H, _DILATION_W), 1)
    added = BlobOperator(
        BlobKind.CONV,
        inputs,
        lowering.view(operator.outputs[0], (1, rows, 1, units)),
        {
            **ones,
            _ZERO_IN: source.zero_point,
            _ZERO_WEIGHTS: zero,
            **clamp_parameters(operator.option(0), out),
        },
        is_rounded_once=not lowering.is_tflm,
        scratch_bytes=_conv_scratch(depth, rows),
    )
    _add_conv(lowering, added, _factors(source, weights, out), units)


def _pool(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    only_int8(source, out)
    if (source.scales, source.zero_points) != (out.scales, out.zero_points):
        raise BoardModelRefused(f"pool to {out.name!r} changes the scale")
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
        **clamp_parameters(operator.option(5), out),
    }
    kind = BlobKind.MAX_POOL if operator.code == TfliteCode.MAX_POOL_2D else BlobKind.AVERAGE_POOL
    append(lowering, operator, kind, parameters)
    lowering.operators[-1].has_halves_up = lowering.was_uint8


def _add_or_subtract(lowering: Lowering, operator: ModelOperator) -> None:
    a, b = (lowering.tensor(number) for number in operator.inputs)
    out = lowering.tensor(operator.outputs[0])
    only_int8(a, b, out)
    twice = 2 * max(a.scale, b.scale)
    parameters = {
        _ZERO_A: a.zero_point,
        _ZERO_B: b.zero_point,
        **pair(_FACTOR_A, fixed_point(a.scale / twice)),
        **pair(_FACTOR_B, fixed_point(b.scale / twice)),
        **pair(_FACTOR_OUT, fixed_point(twice / (2**_ADD_LEFT_SHIFT * out.scale))),
        **clamp_parameters(operator.option(0), out),
    }
    kind = BlobKind.ADD if operator.code == TfliteCode.ADD else BlobKind.SUB
    append(lowering, operator, kind, parameters)


def _product_factor(
    lowering: Lowering, a: ModelTensor, b: ModelTensor, out: ModelTensor
) -> FixedPoint:
    """LiteRT computes this in single precision, TensorFlow Lite Micro in double."""
    if lowering.is_tflm:
        return fixed_point(a.scale * b.scale / out.scale)
    return fixed_point(float32(float32(a.scale * b.scale) / out.scale))


def _multiply_tensors(lowering: Lowering, operator: ModelOperator) -> None:
    a, b = (lowering.tensor(number) for number in operator.inputs)
    out = lowering.tensor(operator.outputs[0])
    only_int8(a, b, out)
    parameters = {
        _ZERO_A: a.zero_point,
        _ZERO_B: b.zero_point,
        **pair(_FACTOR_OUT, _product_factor(lowering, a, b, out)),
        **clamp_parameters(operator.option(0), out),
    }
    append(lowering, operator, BlobKind.MUL, parameters)


def _rectify(lowering: Lowering, operator: ModelOperator) -> None:
    source, slope = (lowering.tensor(number) for number in operator.inputs)
    out = lowering.tensor(operator.outputs[0])
    only_int8(source, slope, out)
    ratio = source.scale / out.scale
    parameters = {
        _ZERO_A: source.zero_point,
        _ZERO_B: slope.zero_point,
        **pair(_FACTOR_A, fixed_point(ratio if lowering.is_tflm else float32(ratio))),
        **pair(_FACTOR_OUT, _product_factor(lowering, source, slope, out)),
        **clamp_parameters(0, out),
    }
    append(lowering, operator, BlobKind.PRELU, parameters)


def _choose(lowering: Lowering, operator: ModelOperator) -> None:
    """The larger or smaller of two int8, whatever their scales, as in TFLite."""
    out = lowering.tensor(operator.outputs[0])
    only_int8(*(lowering.tensor(number) for number in operator.inputs), out)
    kind = BlobKind.MAXIMUM if operator.code == TfliteCode.MAXIMUM else BlobKind.MINIMUM
    append(lowering, operator, kind, {ACT_MIN: -128, ACT_MAX: 127})


def _reshape(lowering: Lowering, operator: ModelOperator) -> None:
    """Another view of the same bytes; a copy if both pieces exist already."""
    source, out = operator.inputs[0], operator.outputs[0]
    if out in lowering.storages or lowering.tensor(source).content:
        inputs = (lowering.view(source),)
        lowering.operators.append(BlobOperator(BlobKind.COPY, inputs, lowering.view(out)))
        return
    lowering.storages[out] = lowering.storages.setdefault(source, source)


def _pad(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    if (source.type, out.type, out.zero_point) != (INT16, INT16, 0):
        only_int8(source, out)
    before = integers(lowering, operator.inputs[1])[::2]
    parameters = dict(enumerate([0] * (4 - len(before)) + before))
    parameters[ZERO_OUT] = out.zero_point
    inputs = (lowering.view(operator.inputs[0]),)
    added = BlobOperator(BlobKind.PAD, inputs, lowering.view(operator.outputs[0]), parameters)
    lowering.operators.append(added)


def _softmax(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    only_int8(source)
    steps, smallest_code = (65536, -32768) if out.type == INT16 else (256, -128)
    is_same_scale = (
        abs(out.scale * steps - 1) < _SCALE_TOLERANCE
        if out.type == INT16
        else (out.scale * steps == 1)
    )
    if out.type not in (INT8, INT16) or not is_same_scale or out.zero_point != smallest_code:
        raise BoardModelRefused(f"softmax to {out.name!r} has a scale other than 1/{steps}")
    beta = 1.0 if operator.options is None else operator.options.real(0)
    factor, smallest = softmax_factor(source.scale, beta)
    append(lowering, operator, BlobKind.SOFTMAX, {**pair(0, factor), 2: smallest})


def _mean(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    only_int8(source, out)
    rank = len(source.shape)
    axes = {axis % rank for axis in integers(lowering, operator.inputs[1])}
    kept = [1 if axis in axes else size for axis, size in enumerate(source.shape)]
    factor = mean_factor(source.scale, out.scale, source.size // prod(kept))
    parameters = {
        0: sum(1 << (axis + 4 - rank) for axis in axes),
        **pair(1, factor),
        _ZERO_IN: source.zero_point,
        ZERO_OUT: out.zero_point,
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
        raise BoardModelRefused(f"concatenation to {out.name!r} has an activation")
    for number in operator.inputs:
        source = lowering.tensor(number)
        only_int8(source, out)
        if (source.scales, source.zero_points) != (out.scales, out.zero_points):
            raise BoardModelRefused(f"concatenation to {out.name!r} changes the scale")
        inputs = (lowering.view(number),)
        parameters = {0: axis + 4 - rank, 1: place}
        output = lowering.view(operator.outputs[0])
        lowering.operators.append(BlobOperator(BlobKind.CONCAT, inputs, output, parameters))
        place += source.shape[axis]


def _convert(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    integers = (INT8, UINT8)
    if source.type in integers and out.type == FLOAT32:
        append(lowering, operator, BlobKind.DEQUANTIZE, {})
    elif source.type == FLOAT32 and out.type == INT8:
        append(lowering, operator, BlobKind.QUANTIZE, {})
    elif (source.type in integers and out.type in integers) or (
        source.type == INT16 and out.type in (INT8, INT32)
    ):
        parameters = {
            **pair(0, fixed_point(source.scale / out.scale)),
            _ZERO_IN: source.zero_point,
            ZERO_OUT: out.zero_point,
        }
        append(lowering, operator, BlobKind.REQUANTIZE, parameters)
    else:
        raise BoardModelRefused(f"no conversion from {source.type} to {out.type}")


def to_uint8(lowering: Lowering, number: int, view: int) -> int:
    """Append a conversion of int8 to uint8 with the same scale; returns the new tensor."""
    tensor = lowering.tensor(number)
    parameters = {
        **pair(0, fixed_point(1.0)),
        _ZERO_IN: tensor.zero_point,
        ZERO_OUT: tensor.zero_point + 128,
    }
    output = lowering.intermediate(UINT8, tensor.shape, tensor.scale, tensor.zero_point + 128)
    lowering.operators.append(BlobOperator(BlobKind.REQUANTIZE, (view,), output, parameters))
    return output


_LOWERINGS: dict[int, Callable[[Lowering, ModelOperator], None]] = {
    TfliteCode.ADD: _add_or_subtract,
    TfliteCode.ASSIGN_VARIABLE: variables.assign,
    TfliteCode.AVERAGE_POOL_2D: _pool,
    TfliteCode.CALL_ONCE: variables.call_once,
    TfliteCode.CONCATENATION: _concatenate,
    TfliteCode.CONV_2D: _convolution,
    TfliteCode.DEPTHWISE_CONV_2D: _convolution,
    TfliteCode.DEQUANTIZE: _convert,
    TfliteCode.EXPAND_DIMS: _reshape,
    TfliteCode.FULLY_CONNECTED: _fully_connected,
    TfliteCode.LEAKY_RELU: lookups.look_up,
    TfliteCode.LOGISTIC: lookups.look_up,
    TfliteCode.MAXIMUM: _choose,
    TfliteCode.MAX_POOL_2D: _pool,
    TfliteCode.MEAN: _mean,
    TfliteCode.MINIMUM: _choose,
    TfliteCode.MUL: _multiply_tensors,
    TfliteCode.PAD: _pad,
    TfliteCode.PRELU: _rectify,
    TfliteCode.QUANTIZE: _convert,
    TfliteCode.READ_VARIABLE: variables.read,
    TfliteCode.RELU: lookups.look_up,
    TfliteCode.RELU6: lookups.look_up,
    TfliteCode.RESHAPE: _reshape,
    TfliteCode.RESIZE_BILINEAR: movement.resize,
    TfliteCode.RESIZE_NEAREST_NEIGHBOR: movement.resize,
    TfliteCode.SLICE: movement.strided_slice,
    TfliteCode.SOFTMAX: _softmax,
    TfliteCode.SPLIT: movement.split,
    TfliteCode.SPLIT_V: movement.split,
    TfliteCode.SQUEEZE: _reshape,
    TfliteCode.STRIDED_SLICE: movement.strided_slice,
    TfliteCode.SUB: _add_or_subtract,
    TfliteCode.SVDF: variables.svdf,
    TfliteCode.TANH: lookups.look_up,
    TfliteCode.TRANSPOSE: movement.transpose,
    TfliteCode.TRANSPOSE_CONV: _transposed_convolution,
    TfliteCode.VAR_HANDLE: variables.declare,
}


def refuse_missing(model: TfliteGraph) -> None:
    """Check that the firmware supports every operator.

    Raises:
        BoardModelRefused: it does not; the error has all of the missing operators.
    """
    counts = Counter(
        operator.name for operator in model.operators if operator.code not in _LOWERINGS
    )
    if missing := dict(sorted(counts.items())):
        total, names = sum(missing.values()), ", ".join(f"{n} ({c})" for n, c in missing.items())
        raise BoardModelRefused(
            f"the firmware does not support {total} of {len(model.operators)} operators: {names}",
            missing_operators=missing,
        )


def lower(lowering: Lowering) -> None:
    """Translate every operator of a model, all of which the firmware supports.

    Raises:
        BoardModelRefused: it does not support the tensors of an operator.
    """
    for operator in lowering.model.operators:
        _LOWERINGS[operator.code](lowering, operator)
