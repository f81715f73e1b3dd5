"""Preparation of a model's graph: what can be computed ahead is, and uint8 becomes int8.

SHAPE, and STRIDED_SLICE and PACK of constants are how Keras writes a reshaping with an unknown
batch size; in a .tflite file all sizes are known. A tensor of uint8 is one of int8 whose values and
zero point are smaller by 128.
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
    """The model without the operators whose outputs are known ahead."""
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
    """Whether all are scalars, so that they are in order along any dimension."""
    return all(len(numbers) == 1 for numbers in values)


def is_of_uint8(model: TfliteGraph) -> bool:
    """Whether operators compute with uint8, and do not only convert it."""
    return any(
        model.tensors[number].type == UINT8
        for operator in model.operators
        if operator.code not in _CONVERSIONS
        for number in (*operator.inputs, *operator.outputs)
        if number >= 0
    )


def shifted(model: TfliteGraph) -> TfliteGraph:
    """The model with int8 in place of uint8, everywhere."""
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
