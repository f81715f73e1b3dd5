"""Translates operators with a sliding window, which are convolutions and pooling.

FULLY_CONNECTED becomes a convolution of 1 x 1. A depthwise convolution of a single channel becomes
an ordinary convolution. The zero point of the input is folded into the bias. `core/blob.h`
describes the parameters.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import prod

from edgebench.firmware_bridge.blob import BlobKind, BlobOperator
from edgebench.firmware_bridge.lowering import (
    ZERO_IN,
    Lowering,
    append,
    clamp_parameters,
    only_alike,
    only_int8,
    optional_input,
)
from edgebench.firmware_bridge.quantization import (
    FixedPoint,
    fixed_point,
    fixed_point_once,
    float32,
)
from edgebench.firmware_bridge.tflite import (
    INT16,
    INT32,
    INT64,
    ModelOperator,
    ModelTensor,
    TfliteCode,
)
from edgebench.protocol.errors import BoardModelRefused

_STRIDE_H, _STRIDE_W, _PAD_TOP, _PAD_LEFT = range(4)
_DILATION_H, _DILATION_W = 7, 8
_MULTIPLIERS, _SHIFTS, _ZERO_WEIGHTS = range(10, 13)
_FILTER_H, _FILTER_W = 7, 8
_MAX_SHIFT, _MAX_SHIFT_OF_WORDS = 30, 7
"""Maximum shifts of a factor, for 32-bit sums and for 64-bit sums (of int16 inputs). Source:
`core/model.c`."""
_SAME = 0
_CONV_OPTIONS = {"act": 3, "dilation_w": 4, "dilation_h": 5}
_DEPTHWISE_OPTIONS = {"act": 4, "dilation_w": 5, "dilation_h": 6}


def _padding(is_same: bool, size: int, filter_size: int, stride: int, out: int) -> int:
    """Rows of padding before the first row, as in `ComputePaddingHeightWidth`."""
    return max((out - 1) * stride + filter_size - size, 0) // 2 if is_same else 0


def _real_factors(
    source: ModelTensor, weights: ModelTensor, out: ModelTensor, *, is_single: bool = False
) -> list[float]:
    """Factors that scale sums to outputs: a factor for each channel, or a single factor for all.

    Args:
        source: Input.
        weights: Weights, with a scale for each channel, or a single scale for all channels.
        out: Output.
        is_single: Whether the product of scales is computed in single precision, as for uint8.
            Source: tensorflow/lite/kernels/kernel_util.cc, `GetQuantizedConvolutionMultipler`.

    Raises:
        BoardModelRefused: a factor is too large for the firmware.
    """
    products = [source.scale * scale for scale in weights.scales]
    factors = [(float32(product) if is_single else product) / out.scale for product in products]
    limit = _MAX_SHIFT_OF_WORDS if source.type == INT16 else _MAX_SHIFT
    if any(fixed_point(factor).shift > limit for factor in factors):
        raise BoardModelRefused(
            f"scales of {weights.name!r} and {out.name!r} multiply sums of {source.type} by "
            f"{max(factors):.6g}; this factor must be below 2^{limit}"
        )
    return factors


def _factors(
    source: ModelTensor, weights: ModelTensor, out: ModelTensor, *, is_single: bool = False
) -> list[FixedPoint]:
    """Factors of `_real_factors`, converted to fixed point.

    Raises:
        BoardModelRefused: a factor is too large for the firmware.
    """
    factors = _real_factors(source, weights, out, is_single=is_single)
    return [fixed_point(factor) for factor in factors]


def _biases(lowering: Lowering, number: int, count: int, source: ModelTensor) -> Sequence[int]:
    """Values of an operator's bias.

    A bias of int32 with an input of int16 is rejected, because LiteRT computes this case
    differently.
    """
    if number < 0:
        return [0] * count
    tensor = lowering.tensor(number)
    name, form = (INT64, "q") if source.type == INT16 else (INT32, "i")
    if tensor.type != name:
        raise BoardModelRefused(
            f"bias {tensor.name!r} has type {tensor.type}; an input of {source.type} "
            f"requires {name}"
        )
    if len(tensor.content) != array(form).itemsize * count:
        raise BoardModelRefused(f"bias {tensor.name!r} must be {count} {name} constants")
    return array(form, tensor.content)


def _bias(lowering: Lowering, number: int, sums: Sequence[int], source: ModelTensor) -> int:
    """Add the bias to the blob, as int64 for an int16 input, else as int32; return its number.

    An int32 bias includes the zero point of the input, modulo 2^32.
    """
    biases = _biases(lowering, number, len(sums), source)
    if source.type == INT16:
        return lowering.wide_constant(biases)
    return lowering.constant(_folded(biases, sums, source))


def _folded(biases: Sequence[int], sums: Sequence[int], source: ModelTensor) -> list[int]:
    """Fold the zero point of the input into biases, modulo 2^32."""
    folded = [bias - source.zero_point * total for bias, total in zip(biases, sums, strict=True)]
    return [(value + 2**31) % 2**32 - 2**31 for value in folded]


def _weights_of(lowering: Lowering, number: int) -> tuple[ModelTensor, array[int]]:
    tensor = lowering.tensor(number)
    only_int8(tensor)
    is_shifted = any(tensor.zero_points)
    if len(tensor.content) != tensor.size or not tensor.scales:
        raise BoardModelRefused(f"weights {tensor.name!r} are not int8 constants")
    if is_shifted and len(tensor.scales) != 1:
        raise BoardModelRefused(f"weights {tensor.name!r} have zero points and several scales")
    return tensor, array("b", tensor.content)


def _add_conv(
    lowering: Lowering,
    operator: BlobOperator,
    factors: list[FixedPoint],
    channels: int,
) -> None:
    """Append a convolution, with a factor for each channel, or a single factor for all channels."""
    if len(factors) not in (1, channels):
        raise BoardModelRefused(f"weights have {len(factors)} scales, not 1 or {channels}")
    every = factors * channels if len(factors) == 1 else factors
    operator.parameters[_MULTIPLIERS] = lowering.constant([factor.multiplier for factor in every])
    operator.parameters[_SHIFTS] = lowering.constant([factor.shift for factor in every])
    lowering.operators.append(operator)


def _conv_scratch(depth: int, rows: int) -> int:
    """Size of the scratch memory in bytes, as `conv_scratch_bytes` of the firmware computes it."""
    row = -(-depth // 4) * 4
    return (2 if rows > 1 else 1) * row * 2 + row


def convolution(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate CONV_2D or DEPTHWISE_CONV_2D.

    Raises:
        BoardModelRefused: the firmware does not support the types, or the shape of the weights.
    """
    is_depthwise = operator.code == TfliteCode.DEPTHWISE_CONV_2D
    fields = _DEPTHWISE_OPTIONS if is_depthwise else _CONV_OPTIONS
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    only_alike(source, out)
    if is_depthwise:
        only_int8(source)
    weights, values = _weights_of(lowering, operator.inputs[1])
    if len(source.shape) != 4 or len(out.shape) != 4 or len(weights.shape) != 4:
        raise BoardModelRefused(f"convolution with output {out.name!r} is not four-dimensional")
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
        ZERO_IN: source.zero_point,
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
        _bias(lowering, optional_input(operator, 2), sums, source),
    )
    kind = BlobKind.DEPTHWISE if is_really_depthwise else BlobKind.CONV
    output = lowering.view(operator.outputs[0])
    added = BlobOperator(kind, inputs, output, parameters, scratch_bytes=scratch)
    factors = _factors(source, weights, out, is_single=lowering.was_uint8)
    _add_conv(lowering, added, factors, channels)


def transposed_convolution(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate TRANSPOSE_CONV; the output's shape is in the file, so the shape input is ignored.

    Raises:
        BoardModelRefused: the firmware does not support the types.
    """
    source, out = lowering.tensor(operator.inputs[2]), lowering.tensor(operator.outputs[0])
    only_alike(source, out)
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
        ZERO_IN: source.zero_point,
        _ZERO_WEIGHTS: weights.zero_point,
        **clamp_parameters(operator.option(3), out),
    }
    if operator.option(0) != _SAME:
        parameters |= {_PAD_TOP: 0, _PAD_LEFT: 0}
    inputs = (
        lowering.view(operator.inputs[2]),
        lowering.weights((channels, filter_h, filter_w, depth), values.tobytes()),
        _bias(lowering, optional_input(operator, 3), [0] * channels, source),
    )
    output = lowering.view(operator.outputs[0])
    added = BlobOperator(BlobKind.TRANSPOSE_CONV, inputs, output, parameters)
    factors = _factors(source, weights, out, is_single=lowering.was_uint8)
    _add_conv(lowering, added, factors, channels)


def _transposed_padding(size: int, filter_size: int, stride: int) -> int:
    """Padding of the ordinary convolution that a transposed convolution reverses."""
    return _padding(True, size, filter_size, stride, -(-size // stride))


def _factors_once(
    factors: Sequence[float],
    biases: Sequence[int],
    values: Sequence[int],
    zero: int,
    out: ModelTensor,
) -> list[FixedPoint]:
    """Fixed-point factor of each channel, for products that are rounded once.

    Args:
        factors: A real factor for each channel, or a single factor for all channels.
        biases: Biases, including the zero point of the input.
        values: Weights, a row for each channel.
        zero: Zero point of the weights.
        out: Output.
    """
    count = len(biases)
    depth = len(values) // count
    every = list(factors) * count if len(factors) == 1 else factors
    outputs = range(-128 - out.zero_point, 127 - out.zero_point)
    chosen: list[FixedPoint] = []
    for unit, (factor, bias) in enumerate(zip(every, biases, strict=True)):
        row = [value - zero for value in values[unit * depth : (unit + 1) * depth]]
        above = sum(filter((0).__lt__, row))
        below = sum(row) - above
        # Inputs are from -128 to 127.
        sums = range(bias - 128 * above + 127 * below, bias + 127 * above - 128 * below + 1)
        chosen.append(fixed_point_once(factor, sums, outputs))
    return chosen


def fully_connected(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate FULLY_CONNECTED.

    Raises:
        BoardModelRefused: tensors are not int8, or the weights are shuffled.
    """
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    only_int8(source, out)
    weights, values = _weights_of(lowering, operator.inputs[1])
    if len(weights.shape) != 2 or operator.option(1):
        raise BoardModelRefused(f"weights {weights.name!r} are not in the default order")
    units, depth = weights.shape
    rows = source.size // depth
    zero = weights.zero_point
    sums = [sum(values[unit * depth : (unit + 1) * depth]) - depth * zero for unit in range(units)]
    biases = _folded(_biases(lowering, optional_input(operator, 2), units, source), sums, source)
    inputs = (
        lowering.view(operator.inputs[0], (1, rows, 1, depth)),
        lowering.weights((units, 1, 1, depth), values.tobytes()),
        lowering.constant(biases),
    )
    ones = dict.fromkeys((_STRIDE_H, _STRIDE_W, _DILATION_H, _DILATION_W), 1)
    added = BlobOperator(
        BlobKind.CONV,
        inputs,
        lowering.view(operator.outputs[0], (1, rows, 1, units)),
        {
            **ones,
            ZERO_IN: source.zero_point,
            _ZERO_WEIGHTS: zero,
            **clamp_parameters(operator.option(0), out),
        },
        is_rounded_once=not lowering.is_tflm,
        scratch_bytes=_conv_scratch(depth, rows),
    )
    real = _real_factors(source, weights, out)
    if added.is_rounded_once and len(real) in (1, units):
        factors = _factors_once(real, biases, values, zero, out)
    else:
        factors = [fixed_point(factor) for factor in real]
    _add_conv(lowering, added, factors, units)


def pool(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate AVERAGE_POOL_2D or MAX_POOL_2D.

    Raises:
        BoardModelRefused: tensors are not int8, or input and output differ in scale or zero point.
    """
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    only_int8(source, out)
    if (source.scales, source.zero_points) != (out.scales, out.zero_points):
        raise BoardModelRefused(f"pooling with output {out.name!r} changes the scale")
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
