"""Translates a model's operators to the firmware's operators, with precomputed parameters.

An operator that only changes a shape becomes another view of the same bytes.

docs/model-blob.md describes the rounding, and `core/blob.h` describes the parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import log2, prod

from edgebench.firmware_bridge import lookups, lstm, movement, variables, windows
from edgebench.firmware_bridge.blob import BlobKind, BlobOperator, OperatorSource
from edgebench.firmware_bridge.lowering import (
    FACTOR_A,
    FACTOR_B,
    FACTOR_OUT,
    ZERO_IN,
    ZERO_OUT,
    Lowering,
    append,
    clamp_parameters,
    integers,
    only_alike,
    only_int8,
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
    INT64,
    UINT8,
    ModelOperator,
    ModelTensor,
    TfliteCode,
    TfliteGraph,
)
from edgebench.protocol.errors import BoardModelRefused

_ZERO_A, _ZERO_B = 0, 1
_ADD_LEFT_SHIFT, _ADD_LEFT_SHIFT_OF_WORDS = 20, 15
"""Left shifts that an addition applies to int8 inputs, and (`_OF_WORDS`) to int16 inputs.
Source: tensorflow/lite/kernels/add.cc."""
_LOG2_TOLERANCE = 0.00101
"""LiteRT treats a scale as a power of two if its binary logarithm differs from an integer by at
most 0.001. This value includes the error of a logarithm in single precision. Source:
tensorflow/lite/kernels/kernel_util.h, `CheckedLog2`."""
_SCALE_TOLERANCE = 0.001
"""Maximum relative difference from 1/65536 that TFLite accepts for the scale of an int16 softmax.
Source: tensorflow/lite/micro/kernels/softmax_common.cc."""


def _add_or_subtract(lowering: Lowering, operator: ModelOperator) -> None:
    a, b = (lowering.tensor(number) for number in operator.inputs)
    out = lowering.tensor(operator.outputs[0])
    only_alike(a, b, out)
    if out.type == INT16 and not lowering.is_tflm and operator.option(1, "<b", 1):
        _refuse_powers_of_two(operator, a, b, out)
    twice = 2 * max(a.scale, b.scale)
    left_shift = _ADD_LEFT_SHIFT_OF_WORDS if out.type == INT16 else _ADD_LEFT_SHIFT
    parameters = {
        _ZERO_A: a.zero_point,
        _ZERO_B: b.zero_point,
        **pair(FACTOR_A, fixed_point(a.scale / twice)),
        **pair(FACTOR_B, fixed_point(b.scale / twice)),
        **pair(FACTOR_OUT, fixed_point(twice / (2**left_shift * out.scale))),
        **clamp_parameters(operator.option(0), out),
    }
    kind = BlobKind.ADD if operator.code == TfliteCode.ADD else BlobKind.SUB
    append(lowering, operator, kind, parameters)


def _refuse_powers_of_two(operator: ModelOperator, *tensors: ModelTensor) -> None:
    """Reject an int16 addition with scales near powers of two, which LiteRT computes by shifts."""
    logarithms = [log2(tensor.scale) for tensor in tensors]
    if all(abs(value - round(value)) < _LOG2_TOLERANCE for value in logarithms):
        raise BoardModelRefused(
            f"int16 {operator.name} with output {tensors[-1].name!r} has power-of-two scales"
        )


def _product_factor(
    lowering: Lowering, a: ModelTensor, b: ModelTensor, out: ModelTensor
) -> FixedPoint:
    """Factor of a product; LiteRT computes it in single precision, TFLite Micro in double."""
    if lowering.is_tflm:
        return fixed_point(a.scale * b.scale / out.scale)
    return fixed_point(float32(float32(a.scale * b.scale) / out.scale))


def _multiply_tensors(lowering: Lowering, operator: ModelOperator) -> None:
    a, b = (lowering.tensor(number) for number in operator.inputs)
    out = lowering.tensor(operator.outputs[0])
    only_alike(a, b, out)
    parameters = {
        _ZERO_A: a.zero_point,
        _ZERO_B: b.zero_point,
        **pair(FACTOR_OUT, _product_factor(lowering, a, b, out)),
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
        **pair(FACTOR_A, fixed_point(ratio if lowering.is_tflm else float32(ratio))),
        **pair(FACTOR_OUT, _product_factor(lowering, source, slope, out)),
        **clamp_parameters(0, out),
    }
    append(lowering, operator, BlobKind.PRELU, parameters)


def _choose(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate MAXIMUM or MINIMUM, which compare integers and ignore scales, as in TFLite."""
    out = lowering.tensor(operator.outputs[0])
    only_alike(*(lowering.tensor(number) for number in operator.inputs), out)
    kind = BlobKind.MAXIMUM if operator.code == TfliteCode.MAXIMUM else BlobKind.MINIMUM
    append(lowering, operator, kind, clamp_parameters(0, out))


def _reshape(lowering: Lowering, operator: ModelOperator) -> None:
    """Make the output a view of the input's bytes, or if this is not possible, a copy of them.

    A copy is needed if the output already has a piece of the arena, or the input is a constant.
    """
    source, out = operator.inputs[0], operator.outputs[0]
    if out in lowering.storages or lowering.tensor(source).content:
        inputs = (lowering.view(source),)
        lowering.operators.append(BlobOperator(BlobKind.COPY, inputs, lowering.view(out)))
        return
    lowering.storages[out] = lowering.storages.setdefault(source, source)


def _pad(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    only_alike(source, out)
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
        raise BoardModelRefused(
            f"softmax with output {out.name!r} has a scale other than 1/{steps}"
        )
    beta = 1.0 if operator.options is None else operator.options.real(0)
    factor, smallest = softmax_factor(source.scale, beta)
    append(lowering, operator, BlobKind.SOFTMAX, {**pair(0, factor), 2: smallest})


def _log_softmax(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    for tensor in (source, out):
        if tensor.type != FLOAT32:
            raise BoardModelRefused(f"tensor {tensor.name!r} has type {tensor.type}, not float32")
    append(lowering, operator, BlobKind.LOG_SOFTMAX, {})


def _place_of_largest(lowering: Lowering, operator: ModelOperator) -> None:
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    only_int8(source)
    if out.type not in (INT32, INT64):
        raise BoardModelRefused(f"tensor {out.name!r} has type {out.type}, not int32 or int64")
    (axis,) = integers(lowering, operator.inputs[1])
    rank = len(source.shape)
    views = (lowering.view(operator.inputs[0]),), lowering.view(operator.outputs[0])
    lowering.operators.append(BlobOperator(BlobKind.ARG_MAX, *views, {0: axis % rank + 4 - rank}))


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
        ZERO_IN: source.zero_point,
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
        raise BoardModelRefused(f"concatenation with output {out.name!r} has an activation")
    for number in operator.inputs:
        source = lowering.tensor(number)
        only_int8(source, out)
        if (source.scales, source.zero_points) != (out.scales, out.zero_points):
            raise BoardModelRefused(f"concatenation with output {out.name!r} changes the scale")
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
            ZERO_IN: source.zero_point,
            ZERO_OUT: out.zero_point,
        }
        append(lowering, operator, BlobKind.REQUANTIZE, parameters)
    else:
        raise BoardModelRefused(f"no conversion from {source.type} to {out.type}")


def to_uint8(lowering: Lowering, number: int, view: int) -> int:
    """Append a conversion from int8 to uint8 that keeps the scale; return the tensor's number."""
    tensor = lowering.tensor(number)
    parameters = {
        **pair(0, fixed_point(1.0)),
        ZERO_IN: tensor.zero_point,
        ZERO_OUT: tensor.zero_point + 128,
    }
    output = lowering.intermediate(UINT8, tensor.shape, tensor.scale, tensor.zero_point + 128)
    lowering.operators.append(BlobOperator(BlobKind.REQUANTIZE, (view,), output, parameters))
    return output


_LOWERINGS: dict[int, Callable[[Lowering, ModelOperator], None]] = {
    TfliteCode.ADD: _add_or_subtract,
    TfliteCode.ARG_MAX: _place_of_largest,
    TfliteCode.ASSIGN_VARIABLE: variables.assign,
    TfliteCode.AVERAGE_POOL_2D: windows.pool,
    TfliteCode.CALL_ONCE: variables.call_once,
    TfliteCode.CONCATENATION: _concatenate,
    TfliteCode.CONV_2D: windows.convolution,
    TfliteCode.DEPTHWISE_CONV_2D: windows.convolution,
    TfliteCode.DEQUANTIZE: _convert,
    TfliteCode.EXPAND_DIMS: _reshape,
    TfliteCode.FULLY_CONNECTED: windows.fully_connected,
    TfliteCode.LEAKY_RELU: lookups.look_up,
    TfliteCode.LOGISTIC: lookups.look_up,
    TfliteCode.LOG_SOFTMAX: _log_softmax,
    TfliteCode.MAXIMUM: _choose,
    TfliteCode.MAX_POOL_2D: windows.pool,
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
    TfliteCode.TRANSPOSE_CONV: windows.transposed_convolution,
    TfliteCode.UNIDIRECTIONAL_SEQUENCE_LSTM: lstm.lstm,
    TfliteCode.VAR_HANDLE: variables.declare,
}


def refuse_missing(model: TfliteGraph) -> None:
    """Check that the firmware supports every operator of a model.

    Raises:
        BoardModelRefused: operators are not supported; the error lists all of them.
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
    """Translate every operator of a model, after `refuse_missing` has checked the operators.

    Raises:
        BoardModelRefused: the firmware does not support the tensors or options of an operator.
    """
    for operator in lowering.model.operators:
        begin = len(lowering.operators)
        try:
            _LOWERINGS[operator.code](lowering, operator)
        except BoardModelRefused as error:
            if count := _float_count(lowering.model):
                of_all = f"{count} of {len(lowering.model.operators)} operators"
                raise BoardModelRefused(
                    f"{error} ({of_all} compute with floats; quantise the model's weights "
                    "and activations with its converter)"
                ) from error
            raise
        name = lowering.tensor(operator.outputs[0]).name if operator.outputs else ""
        for lowered in lowering.operators[begin:]:
            lowered.source = OperatorSource(operator.name, name)


def _float_count(model: TfliteGraph) -> int:
    """Number of operators with float results, except conversions from and to integers."""
    return sum(
        model.tensors[number].type == FLOAT32
        for operator in model.operators
        if operator.name not in ("QUANTIZE", "DEQUANTIZE")
        for number in operator.outputs[:1]
    )
