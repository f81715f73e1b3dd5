"""Translates a model's variables, which are memory that keeps its content between inferences.

A variable is a piece of the arena that no other tensor uses. READ_VARIABLE becomes a view of the
piece, or a copy if the variable is assigned before the last use of the value that was read. The
initial values are in the graph that CALL_ONCE calls. These values are written by operators that run
only when the state is reset.
"""

from __future__ import annotations

from math import prod

from edgebench.firmware_bridge.blob import BlobKind, BlobOperator
from edgebench.firmware_bridge.lowering import (
    FACTOR_A,
    FACTOR_OUT,
    ZERO_IN,
    ZERO_OUT,
    Lowering,
    integers,
    only_int8,
    optional_input,
    pair,
)
from edgebench.firmware_bridge.quantization import fixed_point, float32
from edgebench.firmware_bridge.tflite import (
    INT8,
    INT16,
    ModelOperator,
    ModelTensor,
    TfliteCode,
    TfliteGraph,
)
from edgebench.protocol.errors import BoardModelRefused

_TIME_WEIGHTS, _STATE, _RANK, _ZERO_STATE = range(4)
_VIEWS = {TfliteCode.RESHAPE, TfliteCode.SQUEEZE, TfliteCode.EXPAND_DIMS}


def _handles(graph: TfliteGraph) -> dict[int, bytes]:
    """Map the number of each tensor that refers to a variable to the variable's name."""
    return {
        operator.outputs[0]: operator.options.content(1)
        for operator in graph.operators
        if operator.code == TfliteCode.VAR_HANDLE and operator.options is not None
    }


def declare(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate VAR_HANDLE; memory for the variable is allocated later, when its size is known."""
    if not lowering.handles:
        lowering.handles.update(_handles(lowering.model))
    lowering.storages[operator.outputs[0]] = -1


def _variable(lowering: Lowering, handle: int, tensor: ModelTensor) -> int:
    """Add a view of a variable, with the shape of a tensor; return its number."""
    name = lowering.handles.get(handle)
    if name is None:
        raise BoardModelRefused(
            f"variable of tensor {tensor.name!r} is not the output of a VAR_HANDLE"
        )
    if tensor.type != INT8:
        raise BoardModelRefused(
            f"variable of tensor {tensor.name!r} has type {tensor.type}, not int8"
        )
    return lowering.state(name, tensor)


def read(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate READ_VARIABLE.

    Raises:
        BoardModelRefused: the variable is not int8, or its handle is unknown.
    """
    handle, out = operator.inputs[0], operator.outputs[0]
    view = _variable(lowering, handle, lowering.tensor(out))
    if _is_read_before_assigned(lowering, operator):
        lowering.storages[out] = lowering.tensors[view].storage
        return
    lowering.operators.append(BlobOperator(BlobKind.COPY, (view,), lowering.view(out)))


def _is_read_before_assigned(lowering: Lowering, operator: ModelOperator) -> bool:
    name, out = lowering.handles[operator.inputs[0]], operator.outputs[0]
    is_assigned = False
    for other in lowering.model.operators:
        if out in other.inputs and (is_assigned or other.code in _VIEWS):
            return False
        if other.code == TfliteCode.ASSIGN_VARIABLE:
            is_assigned |= lowering.handles.get(other.inputs[0]) == name
    return out not in lowering.model.outputs


def assign(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate ASSIGN_VARIABLE.

    Raises:
        BoardModelRefused: the variable is not int8, or its handle is unknown.
    """
    handle, source = operator.inputs
    target = _variable(lowering, handle, lowering.tensor(source))
    lowering.operators.append(BlobOperator(BlobKind.COPY, (lowering.view(source),), target))


def call_once(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate CALL_ONCE of a graph that only assigns constants to variables.

    Raises:
        BoardModelRefused: the graph does not exist, or has other operators or values.
    """
    number = operator.option(0, "<i")
    if not 1 <= number <= len(lowering.model.others):
        raise BoardModelRefused(f"{operator.name} calls graph {number}, which does not exist")
    graph = lowering.model.others[number - 1]
    handles = _handles(graph)
    for other in graph.operators:
        if other.code == TfliteCode.VAR_HANDLE:
            continue
        if other.code != TfliteCode.ASSIGN_VARIABLE:
            raise BoardModelRefused(f"{operator.name} calls a graph with operator {other.name}")
        tensor = graph.tensors[other.inputs[1]]
        if tensor.type != INT8 or len(tensor.content) != tensor.size or not tensor.content:
            raise BoardModelRefused(
                f"initial value {tensor.name!r} of a variable is not an int8 constant"
            )
        fill(lowering, lowering.state(handles[other.inputs[0]], tensor), tensor.content)


def fill(lowering: Lowering, target: int, content: bytes) -> None:
    """Append an operator that writes `content` to a variable when the state is reset."""
    if len(set(content)) == 1:
        # Padding around a single element: the blob need not contain all bytes of the variable.
        value = content[0] - 256 if content[0] > 127 else content[0]
        variable = lowering.tensors[target]
        width = variable.size_bytes // prod(variable.shape)
        source = lowering.weights((1, 1, 1, 1), content[:width], variable.type)
        added = BlobOperator(BlobKind.PAD, (source,), target, {ZERO_OUT: value})
    else:
        source = lowering.weights(lowering.tensors[target].shape, content)
        added = BlobOperator(BlobKind.COPY, (source,), target)
    added.is_reset = True
    lowering.operators.append(added)


def variable_tensor(lowering: Lowering, number: int) -> int:
    """Add a view of a variable tensor, and its initial values; return its number.

    Source: `ResetVariableTensors`: an int8 tensor is filled with its zero point, other tensors with
    zeros.
    """
    tensor = lowering.tensor(number)
    variable = lowering.state(b"%d" % number, tensor)
    first = tensor.zero_point if tensor.type == INT8 else 0
    fill(lowering, variable, bytes([first & 0xFF]) * lowering.tensors[variable].size_bytes)
    return variable


def svdf(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate SVDF, which keeps the last values of each feature in a variable.

    Raises:
        BoardModelRefused: the type of the weights or of the variable is not supported.

    Source: tensorflow/lite/kernels/svdf.cc.
    """
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    features, time, state = (lowering.tensor(operator.inputs[number]) for number in (1, 2, 4))
    only_int8(source, features, out)
    if time.type not in (INT8, INT16) or state.type != time.type:
        raise BoardModelRefused(f"{operator.name} with output {out.name!r} has {time.type} weights")
    rank = operator.option(0, "<i")
    filters, memory = time.shape
    batches, width = source.shape
    bias = optional_input(operator, 3)
    sums = integers(lowering, bias) if bias >= 0 else [0] * (filters // rank)
    variable = variable_tensor(lowering, operator.inputs[4])
    parameters = {
        _TIME_WEIGHTS: lowering.constant_view(operator.inputs[2], (1, 1, filters, memory)),
        _STATE: variable,
        _RANK: rank,
        _ZERO_STATE: state.zero_point if state.type == INT8 else 0,
        ZERO_OUT: out.zero_point,
        ZERO_IN: source.zero_point,
        **pair(FACTOR_A, fixed_point(_ratio(source, features, state))),
        **pair(FACTOR_OUT, fixed_point(_ratio(state, time, out))),
    }
    inputs = (
        lowering.view(operator.inputs[0], (batches, width)),
        lowering.constant_view(operator.inputs[1], (1, 1, filters, width)),
        lowering.constant(sums),
    )
    output = lowering.view(operator.outputs[0])
    lowering.operators.append(BlobOperator(BlobKind.SVDF, inputs, output, parameters))


def _ratio(a: ModelTensor, b: ModelTensor, out: ModelTensor) -> float:
    """Scale of a product, in single precision as TFLite computes it."""
    return float32(float32(a.scale * b.scale) / out.scale)
