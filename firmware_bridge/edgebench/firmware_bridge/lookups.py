"""Translates functions of a single element; each function becomes a table of 256 values.

Only LEAKY_RELU of int16 does not become a table. It becomes a PRELU with a slope of 1, and the
factor of the PRELU includes the slope of LEAKY_RELU.
"""

from __future__ import annotations

import math

from edgebench.firmware_bridge.blob import BlobKind, BlobOperator
from edgebench.firmware_bridge.fixed_functions import (
    fixed_table,
    float_table,
    logistic,
    logistic_of_q4,
    rectifier_table,
    tanh_of_q4,
)
from edgebench.firmware_bridge.lowering import (
    FACTOR_A,
    FACTOR_OUT,
    Lowering,
    clamp_parameters,
    only_alike,
    only_int8,
    pair,
)
from edgebench.firmware_bridge.quantization import (
    FixedPoint,
    activation_range,
    fixed_point,
    float32,
)
from edgebench.firmware_bridge.tflite import INT16, ModelOperator, ModelTensor, TfliteCode
from edgebench.protocol.errors import BoardModelRefused

_RELU, _RELU6 = 1, 3
"""Codes of `ActivationFunctionType`."""


def look_up(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate LOGISTIC, TANH, RELU, RELU6 or LEAKY_RELU.

    Raises:
        BoardModelRefused: the tensors are not int8 (or, for LEAKY_RELU, int16), the output of
            LOGISTIC or TANH has another scale than in TFLite, or a slope is negative.
    """
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    if source.type == INT16 and operator.code == TfliteCode.LEAKY_RELU:
        _rectify_words(lowering, operator, source, out)
        return
    only_int8(source, out)
    table = lowering.table(_table_of(lowering, operator, source, out))
    inputs = (lowering.view(operator.inputs[0]), table)
    lowering.operators.append(
        BlobOperator(BlobKind.LOOKUP, inputs, lowering.view(operator.outputs[0]))
    )


def _table_of(
    lowering: Lowering, operator: ModelOperator, source: ModelTensor, out: ModelTensor
) -> bytes:
    if operator.code in (TfliteCode.LOGISTIC, TfliteCode.TANH):
        is_logistic = operator.code == TfliteCode.LOGISTIC
        required = (1 / 256, -128) if is_logistic else (1 / 128, 0)
        if (out.scale, out.zero_point) != required:
            raise BoardModelRefused(
                f"{operator.name} has output {out.name!r} of scale {out.scale:g} and zero point "
                f"{out.zero_point}, not {required[0]:g} and {required[1]}"
            )
        if lowering.is_tflm:
            function = logistic_of_q4 if is_logistic else tanh_of_q4
            bits = 8 if is_logistic else 7
            return fixed_table(source.scale, source.zero_point, function, bits, out.zero_point)
        exact = logistic if is_logistic else math.tanh
        return float_table(source.scale, source.zero_point, out.scale, out.zero_point, exact)
    ratio = source.scale / out.scale
    is_single = not lowering.is_tflm or operator.code == TfliteCode.LEAKY_RELU
    positive = negative = fixed_point(float32(ratio) if is_single else ratio)
    bounds = -128, 127
    if operator.code == TfliteCode.LEAKY_RELU:
        negative = _slope_factor(operator, source, out)
    elif lowering.is_tflm and operator.code == TfliteCode.RELU6:
        # TensorFlow Lite Micro compares the bytes, whatever the scale of the output.
        positive = negative = fixed_point(1.0)
        bounds = activation_range(_RELU6, source.scale, source.zero_point) or bounds
        out = source
    else:
        code = _RELU if operator.code == TfliteCode.RELU else _RELU6
        bounds = activation_range(code, out.scale, out.zero_point) or bounds
    return rectifier_table(source.zero_point, out.zero_point, positive, negative, bounds)


def _slope_factor(operator: ModelOperator, source: ModelTensor, out: ModelTensor) -> FixedPoint:
    slope = 0.0 if operator.options is None else operator.options.real(0)
    if slope < 0:
        raise BoardModelRefused(
            f"{operator.name} with output {out.name!r} has negative slope {slope:g}"
        )
    return fixed_point(float32(float32(source.scale * slope) / out.scale))


def _rectify_words(
    lowering: Lowering, operator: ModelOperator, source: ModelTensor, out: ModelTensor
) -> None:
    only_alike(source, out)
    parameters = {
        **pair(FACTOR_A, fixed_point(float32(source.scale / out.scale))),
        **pair(FACTOR_OUT, _slope_factor(operator, source, out)),
        **clamp_parameters(0, out),
    }
    one = lowering.weights((1, 1, 1, 1), b"\1\0", INT16)
    inputs = (lowering.view(operator.inputs[0]), one)
    output = lowering.view(operator.outputs[0])
    lowering.operators.append(BlobOperator(BlobKind.PRELU, inputs, output, parameters))
