"""Translates UNIDIRECTIONAL_SEQUENCE_LSTM as quantised by TensorFlow.

Input, output and weights are int8; gates and cell are int16. The weights of the four gates are
stacked to two matrices, and the zero points of input and hidden state are folded into biases. The
hidden state and the cell are variables. `core/blob.h` describes the parameters.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Sequence

from edgebench.firmware_bridge.blob import NO_TENSOR, BlobKind, BlobOperator
from edgebench.firmware_bridge.lowering import (
    FACTOR_OUT,
    ZERO_OUT,
    Lowering,
    constant_integers,
    only_int8,
    optional_input,
    pair,
)
from edgebench.firmware_bridge.quantization import FixedPoint, fixed_point, float32, rounded
from edgebench.firmware_bridge.tflite import INT8, INT16, ModelOperator, ModelTensor
from edgebench.firmware_bridge.variables import variable_tensor
from edgebench.protocol.errors import BoardModelRefused

_INPUT_BIAS, _RECURRENT_BIAS, _GATE_FACTORS, _HIDDEN, _CELL, _TABLE = range(6)
_CELL_BITS, _CELL_CLIP = 7, 8
_INPUT_WEIGHTS, _RECURRENT_WEIGHTS, _BIASES = range(1, 5), range(5, 9), range(12, 16)
"""Indexes of the operator's inputs for its input, forget, cell and output gates, in this order."""
_HIDDEN_STATE, _CELL_STATE = 18, 19
_ABSENT = (*range(9, 12), 16, 17, *range(20, 24))
"""Indexes of the inputs for peepholes, projection and layer normalisation, which must be absent."""
_TANH = 4
_GATE_SCALE = 2.0**-12
_HIDDEN_INTERMEDIATE = 4
_TABLE_ITEMS = 256
_ROUNDED_UP = {
    *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41),
    *(43, 44, 45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
}
"""Indexes at which the value in TFLite's table is 1 more than the correctly rounded value."""
_MAX_CELL_BITS = 4
"""The firmware computes tanh of cell values with at most this number of bits before the point."""


def lstm(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate UNIDIRECTIONAL_SEQUENCE_LSTM.

    Raises:
        BoardModelRefused: the tensors are not int8, or the operator has peepholes, a projection,
            layer normalisation, no input gate, or another property that the firmware does not
            support.

    Source: tensorflow/lite/kernels/unidirectional_sequence_lstm.cc, and for TensorFlow Lite Micro
    tensorflow/lite/micro/kernels/lstm_eval_common.cc.
    """
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    only_int8(source, out)
    _check_form(operator, source, out)
    hidden, cell = (lowering.tensor(operator.inputs[at]) for at in (_HIDDEN_STATE, _CELL_STATE))
    inputs = [lowering.tensor(operator.inputs[at]) for at in _INPUT_WEIGHTS]
    recurrents = [lowering.tensor(operator.inputs[at]) for at in _RECURRENT_WEIGHTS]
    biases = [_bias(lowering, optional_input(operator, at), out.shape[2]) for at in _BIASES]
    only_int8(hidden, *inputs, *recurrents)
    parameters = {
        _INPUT_BIAS: lowering.constant(_folded(inputs, biases, source.zero_point)),
        _RECURRENT_BIAS: lowering.constant(
            _folded(recurrents, [[0] * len(bias) for bias in biases], hidden.zero_point)
        ),
        _GATE_FACTORS: lowering.constant(
            [
                number
                for weights in zip(inputs, recurrents, strict=True)
                for tensor, one in zip(weights, (source, hidden), strict=True)
                for number in _gate_factor(lowering, tensor, one)
            ]
        ),
        _HIDDEN: variable_tensor(lowering, operator.inputs[_HIDDEN_STATE]),
        _CELL: variable_tensor(lowering, operator.inputs[_CELL_STATE]),
        _TABLE: _logistic_table(lowering) if lowering.is_tflm else NO_TENSOR - 2**32,
        **_output_parameters(lowering, operator, hidden),
        **_cell_parameters(operator, cell),
    }
    views = (
        lowering.view(operator.inputs[0]),
        _stacked(lowering, inputs),
        _stacked(lowering, recurrents),
    )
    output = lowering.view(operator.outputs[0])
    added = BlobOperator(BlobKind.LSTM, views, output, parameters, scratch_bytes=8 * out.shape[2])
    lowering.operators.append(added)


def _check_form(operator: ModelOperator, source: ModelTensor, out: ModelTensor) -> None:
    name = f"{operator.name} with output {out.name!r}"
    if any(optional_input(operator, at) >= 0 for at in _ABSENT):
        raise BoardModelRefused(f"{name} has peepholes, a projection or layer normalisation")
    if operator.inputs[1] < 0:
        raise BoardModelRefused(f"{name} has no input gate")
    if operator.option(0) != _TANH:
        raise BoardModelRefused(f"{name} has activation {operator.option(0)}, not tanh")
    if len(source.shape) != 3 or (operator.option(3) and source.shape[1] != 1):
        raise BoardModelRefused(f"{name} has several sequences in time-major order")


def _bias(lowering: Lowering, number: int, count: int) -> list[int]:
    tensor = lowering.tensor(number)
    values = constant_integers(tensor)
    if values is None or len(values) != count:
        raise BoardModelRefused(f"bias {tensor.name!r} must be {count} int32 constants")
    return values


def _folded(
    matrices: Sequence[ModelTensor], biases: Sequence[Sequence[int]], zero_point: int
) -> list[int]:
    """Biases of all gates, with the zero point of the input folded into them, modulo 2^32."""
    values: list[int] = []
    for matrix, bias in zip(matrices, biases, strict=True):
        rows, columns = matrix.shape
        weights = array("b", matrix.content)
        if len(weights) != rows * columns or len(bias) != rows or matrix.zero_point:
            raise BoardModelRefused(f"weights {matrix.name!r} are not int8 constants")
        totals = [sum(weights[row * columns : (row + 1) * columns]) for row in range(rows)]
        values += [start - zero_point * total for start, total in zip(bias, totals, strict=True)]
    return [(value + 2**31) % 2**32 - 2**31 for value in values]


def _gate_factor(lowering: Lowering, weights: ModelTensor, source: ModelTensor) -> tuple[int, int]:
    """Factor of a gate; LiteRT computes it in single precision, TFLite Micro in double."""
    product = weights.scale * source.scale
    ratio = (product if lowering.is_tflm else float32(product)) / _GATE_SCALE
    factor = fixed_point(ratio)
    return factor.multiplier, factor.shift


def _output_parameters(
    lowering: Lowering, operator: ModelOperator, hidden: ModelTensor
) -> dict[int, int]:
    """Factor of a product of two Q0 numbers (no bits before the point); zero point of the output.

    LiteRT uses scale and zero point of an intermediate tensor; TensorFlow Lite Micro uses scale and
    zero point of the hidden state.
    """
    factor: FixedPoint
    if lowering.is_tflm:
        factor, zero_point = fixed_point(2.0**-30 / hidden.scale), hidden.zero_point
    else:
        inner = lowering.tensor(operator.intermediates[_HIDDEN_INTERMEDIATE])
        factor = fixed_point(float32(float32(2.0**-15 / inner.scale) * 2.0**-15))
        zero_point = inner.zero_point
    return {**pair(FACTOR_OUT, factor), ZERO_OUT: zero_point}


def _cell_parameters(operator: ModelOperator, cell: ModelTensor) -> dict[int, int]:
    mantissa, exponent = math.frexp(cell.scale)
    bits = 15 + exponent - 1
    if cell.type != INT16 or mantissa != 0.5 or not 0 <= bits <= _MAX_CELL_BITS:
        raise BoardModelRefused(
            f"cell {cell.name!r} has type {cell.type} and scale {cell.scale:g}, not int16 and a "
            f"power of two from {2.0**-15:g} to {2.0 ** (_MAX_CELL_BITS - 15):g}"
        )
    clip = 0.0 if operator.options is None else operator.options.real(1)
    return {_CELL_BITS: bits, _CELL_CLIP: int(min(max(clip, 0) / cell.scale, 32767))}


def _logistic_table(lowering: Lowering) -> int:
    """Add a table of logistic(i / 24) in units of 2^-16, for i from 0 to 255; return its number.

    Source: `sigmoid_table_uint16` of tensorflow/lite/kernels/internal/common.cc.
    """
    values = [
        rounded(65536 / (1 + math.exp(-place / 24))) + (place in _ROUNDED_UP)
        for place in range(_TABLE_ITEMS)
    ]
    content = struct.pack(f"<{_TABLE_ITEMS}H", *values)
    return lowering.weights((1, 1, 1, _TABLE_ITEMS), content, INT16)


def _stacked(lowering: Lowering, matrices: Sequence[ModelTensor]) -> int:
    content = b"".join(matrix.content for matrix in matrices)
    rows, columns = matrices[0].shape
    if any(matrix.shape != (rows, columns) for matrix in matrices):
        name = matrices[0].name
        raise BoardModelRefused(f"weights {name!r} differ in shape from those of other gates")
    return lowering.weights((1, 1, 4 * rows, columns), content, INT8)
