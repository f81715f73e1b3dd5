"""Translation state of a model that becomes a blob, and functions that several operators use."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from edgebench.firmware_bridge.blob import MAX_DIMENSION, BlobKind, BlobOperator, BlobTensor
from edgebench.firmware_bridge.quantization import FixedPoint, activation_range
from edgebench.firmware_bridge.tflite import (
    ELEMENT_BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    ModelOperator,
    ModelTensor,
    TfliteGraph,
)
from edgebench.protocol.errors import BoardModelRefused

ACT_MIN, ACT_MAX, ZERO_OUT, ZERO_IN = 4, 5, 6, 9
"""Indexes of parameters that most operators have, as in `core/blob.h`."""
FACTOR_A, FACTOR_B, FACTOR_OUT = 7, 9, 11
"""Indexes of the parameters with multipliers of an operator; each is followed by its shift."""

Shape = tuple[int, int, int, int]


def four(shape: Sequence[int]) -> Shape:
    """Extend a shape to four dimensions: batch, height, width, channels.

    Raises:
        BoardModelRefused: the shape has more than four dimensions, or a dimension is too large.
    """
    if len(shape) > 4 or any(not 1 <= size <= MAX_DIMENSION for size in shape):
        raise BoardModelRefused(
            f"a tensor must have at most 4 dimensions, each of size 1 to {MAX_DIMENSION}; got "
            f"shape {list(shape)}"
        )
    a, b, c, d = (1,) * (4 - len(shape)) + tuple(shape)
    return a, b, c, d


def rows_of(count: int) -> tuple[int, int]:
    """Split `count` elements into equal rows, which are as long as a dimension allows."""
    row = max(size for size in range(1, MAX_DIMENSION + 1) if count % size == 0)
    return count // row, row


@dataclass(slots=True)
class Lowering:
    """State of the translation of a model to a blob."""

    model: TfliteGraph
    is_tflm: bool
    was_uint8: bool = False
    """Whether the tensors of the model were uint8, before their conversion to int8."""
    tensors: list[BlobTensor] = field(default_factory=list[BlobTensor])
    operators: list[BlobOperator] = field(default_factory=list[BlobOperator])
    storages: dict[int, int] = field(default_factory=dict[int, int])
    """Maps each tensor of the model to the number of its piece of the arena."""
    handles: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """Maps the number of each tensor that refers to a variable to the variable's name."""
    states: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """Maps each variable to the number of its piece of the arena, which no other tensor may use."""
    added: int = 0
    """Number of tensors in the arena that were added to those of the model."""
    tables: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """Maps each table's content to the number of its tensor, so that equal tables share a
    tensor."""

    def tensor(self, number: int) -> ModelTensor:
        """A tensor of the model.

        Raises:
            IndexError: the number does not exist, or is -1, which means an omitted input.
        """
        if number < 0:
            raise IndexError(number)
        return self.model.tensors[number]

    def view(self, number: int, shape: Sequence[int] | None = None) -> int:
        """Add a tensor of the model to the blob, optionally reshaped; return its number."""
        tensor = self.tensor(number)
        if tensor.type not in ELEMENT_BYTES:
            raise BoardModelRefused(f"tensor {tensor.name!r} has type {tensor.type}")
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
                raise BoardModelRefused(f"tensor {tensor.name!r} has {len(tensor.content)} bytes")
        else:
            entry.storage = self.storages.setdefault(number, number)
        return self._add(entry)

    def constant(self, values: Sequence[int]) -> int:
        """Add a constant tensor of int32 to the blob, and return the tensor's number."""
        content = struct.pack(f"<{len(values)}i", *values)
        return self._add(BlobTensor(INT32, (1, 1, 1, len(values)), len(content), content=content))

    def weights(self, shape: Shape, content: bytes, type_name: str = INT8) -> int:
        """Add weights to the blob; return the number of their tensor."""
        return self._add(BlobTensor(type_name, shape, len(content), content=content))

    def wide_constant(self, values: Sequence[int]) -> int:
        """Add a constant tensor of int64 to the blob, and return the tensor's number."""
        content = struct.pack(f"<{len(values)}q", *values)
        return self._add(BlobTensor(INT64, (1, 1, 1, len(values)), len(content), content=content))

    def bytes_view(self, number: int) -> int:
        """Add to the blob a view of a model's tensor as rows of bytes; return the view's number."""
        tensor = self.tensor(number)
        if tensor.type not in ELEMENT_BYTES:
            raise BoardModelRefused(f"tensor {tensor.name!r} has type {tensor.type}")
        size_bytes = tensor.size * ELEMENT_BYTES[tensor.type]
        storage = self.storages.setdefault(number, number)
        shape = four(rows_of(size_bytes))
        return self._add(BlobTensor(INT8, shape, size_bytes, storage=storage))

    def constant_view(self, number: int, shape: Shape) -> int:
        """Add a constant of the model to the blob; return the number of its tensor.

        Raises:
            BoardModelRefused: the tensor is not a constant.
        """
        if not self.tensor(number).content:
            raise BoardModelRefused(f"tensor {self.tensor(number).name!r} is not constant")
        return self.view(number, shape)

    def intermediate(
        self, type_name: str, shape: Sequence[int], scale: float, zero_point: int
    ) -> int:
        """Add to the blob a tensor that the model does not have; return its number."""
        self.added += 1
        return self._add(
            BlobTensor(
                type_name,
                four(shape),
                math.prod(shape) * ELEMENT_BYTES[type_name],
                zero_point,
                scale,
                storage=-1 - self.added,
            )
        )

    def table(self, content: bytes) -> int:
        """Return the number of the tensor with a table of 256 int8 values; add it at first use."""
        if content not in self.tables:
            self.tables[content] = self.weights((1, 1, 1, len(content)), content)
        return self.tables[content]

    def state(self, name: bytes, tensor: ModelTensor) -> int:
        """Add a view of a variable, with the type and shape of a tensor; return its number."""
        storage = self.states.setdefault(name, len(self.model.tensors) + len(self.states))
        scale = tensor.scale if len(tensor.scales) == 1 else 1.0
        size_bytes = tensor.size * ELEMENT_BYTES[tensor.type]
        return self._add(
            BlobTensor(
                tensor.type,
                four(tensor.shape),
                size_bytes,
                tensor.zero_point,
                scale,
                storage=storage,
            )
        )

    def _add(self, tensor: BlobTensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1


def only_int8(*tensors: ModelTensor) -> None:
    """Check that all tensors are int8.

    Raises:
        BoardModelRefused: a tensor is not int8.
    """
    for tensor in tensors:
        if tensor.type != INT8:
            raise BoardModelRefused(f"tensor {tensor.name!r} has type {tensor.type}, not int8")


def only_alike(*tensors: ModelTensor) -> None:
    """Check that all tensors are int8, or all are int16 with a zero point of 0.

    Raises:
        BoardModelRefused: the types or zero points of the tensors are not supported.
    """
    if tensors[0].type != INT16:
        only_int8(*tensors)
        return
    for tensor in tensors:
        if (tensor.type, tensor.zero_point) != (INT16, 0):
            raise BoardModelRefused(
                f"tensor {tensor.name!r} has type {tensor.type} and zero point "
                f"{tensor.zero_point}, not int16 and 0"
            )


def clamp_parameters(code: int, out: ModelTensor) -> dict[int, int]:
    """Parameters for the bounds and the zero point of an output.

    Raises:
        BoardModelRefused: the activation does more than clamp values to bounds.
    """
    bits = 16 if out.type == INT16 else 8
    bounds = activation_range(code, out.scale, out.zero_point, bits)
    if bounds is None:
        raise BoardModelRefused(f"the firmware does not support activation {code} of {out.name!r}")
    return {ACT_MIN: bounds[0], ACT_MAX: bounds[1], ZERO_OUT: out.zero_point}


def optional_input(operator: ModelOperator, position: int) -> int:
    """Number of the tensor of an operator's input; -1 if the operator omits the input."""
    return operator.inputs[position] if position < len(operator.inputs) else -1


def append(
    lowering: Lowering, operator: ModelOperator, kind: BlobKind, parameters: dict[int, int]
) -> None:
    """Append an operator that has all inputs and the first output of the model's operator."""
    inputs = tuple(lowering.view(number) for number in operator.inputs)
    lowering.operators.append(
        BlobOperator(kind, inputs, lowering.view(operator.outputs[0]), parameters)
    )


def pair(position: int, factor: FixedPoint) -> dict[int, int]:
    """Parameters for a factor: the multiplier at `position`, and the shift after it."""
    return {position: factor.multiplier, position + 1: factor.shift}


def constant_integers(tensor: ModelTensor) -> list[int] | None:
    """Values of a constant of int32 or int64; None if the tensor is not such a constant."""
    forms = {INT32: "i", INT64: "q"}
    if tensor.type not in forms or not tensor.content:
        return None
    values = array(forms[tensor.type])
    if len(tensor.content) != values.itemsize * tensor.size:
        return None
    values.frombytes(tensor.content)
    return list(values)


def integers(lowering: Lowering, number: int) -> list[int]:
    """Values of a constant of int32 or int64.

    Raises:
        BoardModelRefused: the tensor is not such a constant.
    """
    tensor = lowering.tensor(number)
    values = constant_integers(tensor)
    if values is None:
        raise BoardModelRefused(f"tensor {tensor.name!r} is not constant")
    return values
