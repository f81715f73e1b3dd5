"""Prepares a model's graph by constant folding and by conversion of uint8 to int8.

Keras expresses a reshape with an unknown batch size by the operators SHAPE, STRIDED_SLICE and PACK.
In a .tflite file all sizes are known, so the outputs of these operators are constants. A uint8
tensor is equivalent to an int8 tensor with values and a zero point that are smaller by 128.
"""

from __future__ import annotations

from array import array
from dataclasses import replace

from edgebench.firmware_bridge.lowering import constant_integers
from edgebench.firmware_bridge.movement import slice_bounds, steps_of
from edgebench.firmware_bridge.tflite import (
    INT8,
    INT32,
    UINT8,
    ModelOperator,
    ModelTensor,
    TfliteCode,
    TfliteGraph,
)

_CONVERSIONS = {TfliteCode.QUANTIZE, TfliteCode.DEQUANTIZE}


def folded(model: TfliteGraph) -> TfliteGraph:
    """Replace each SHAPE, STRIDED_SLICE or PACK that has a constant result by this constant."""
    tensors = list(model.tensors)
    operators: list[ModelOperator] = []
    for operator in model.operators:
        values = _constant_output(operator, tensors)
        if values is None:
            operators.append(operator)
            continue
        number = operator.outputs[0]
        content = array("i", values).tobytes()
        tensors[number] = replace(tensors[number], type=INT32, content=content)
    return replace(model, tensors=tuple(tensors), operators=tuple(operators))


def _constant_output(operator: ModelOperator, tensors: list[ModelTensor]) -> list[int] | None:
    if operator.code == TfliteCode.SHAPE:
        return list(tensors[operator.inputs[0]].shape)
    if operator.code not in (TfliteCode.STRIDED_SLICE, TfliteCode.PACK):
        return None
    inputs = [constant_integers(tensors[number]) for number in operator.inputs]
    known = [values for values in inputs if values is not None]
    if len(known) != len(inputs):
        return None
    if operator.code == TfliteCode.PACK:
        return [value for values in known for value in values] if _is_list(known) else None
    shape = tensors[operator.inputs[0]].shape
    starts, counts, strides, _ = slice_bounds(operator, shape, known[1:])
    places = [0]
    for start, count, stride, step in zip(starts, counts, strides, steps_of(shape), strict=True):
        places = [at + (start + stride * n) * step for at in places for n in range(count)]
    return [known[0][place] for place in places]


def _is_list(values: list[list[int]]) -> bool:
    """Whether all inputs of a PACK are scalars, so that its axis makes no difference."""
    return all(len(numbers) == 1 for numbers in values)


def is_of_uint8(model: TfliteGraph) -> bool:
    """Whether any operator, except conversions, has a uint8 tensor."""
    return any(
        model.tensors[number].type == UINT8
        for operator in model.operators
        if operator.code not in _CONVERSIONS
        for number in (*operator.inputs, *operator.outputs)
        if number >= 0
    )


def shifted(model: TfliteGraph) -> TfliteGraph:
    """Convert all uint8 tensors of the model to int8."""
    return replace(model, tensors=tuple(_shifted(tensor) for tensor in model.tensors))


def _shifted(tensor: ModelTensor) -> ModelTensor:
    if tensor.type != UINT8:
        return tensor
    return replace(
        tensor,
        type=INT8,
        content=bytes(value ^ 0x80 for value in tensor.content),
        zero_points=tuple(zero_point - 128 for zero_point in tensor.zero_points),
    )
