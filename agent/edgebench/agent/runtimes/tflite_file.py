"""Reads, from a TensorFlow Lite file, which element types its operators multiply.

Theory of operation. A .tflite file is a FlatBuffer:

    model ─▶ operator codes
          ─▶ buffers (bytes of the constants)
          ─▶ graphs ─▶ tensors (shape, type, number of a buffer)
                    ─▶ operators (number of a code, inputs, outputs: numbers of tensors)

Operators that multiply by weights are inspected. Graphs of signatures that do not run are skipped.
The weights are constants. Another operator may unpack the weights, or convert them to floats,
before the multiplication.

The file is read after the measurement, so the runtime has already accepted it. A file that still
cannot be parsed yields no facts.

Source: tensorflow/lite/schema/schema.fbs (order of the fields, codes, types).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path

from edgebench.agent.runtimes.arithmetic import (
    arithmetic_name,
    bits_of,
    element_name,
    is_float,
    precision_of,
)
from edgebench.protocol import flatbuffer
from edgebench.protocol.flatbuffer import FlatbufferError, FlatFile, FlatTable
from edgebench.protocol.record import QuantizedOperands

_MODEL_CODES, _MODEL_GRAPHS, _MODEL_BUFFERS = 1, 2, 4
_CODE_OLD, _CODE = 0, 3
"""Fields of an operator code. A code up to 127 is also stored as a byte in the first field; old
files have only the first field."""
_GRAPH_TENSORS, _GRAPH_OPERATORS = 0, 3
_TENSOR_SHAPE, _TENSOR_TYPE, _TENSOR_BUFFER = 0, 1, 2
_OPERATOR_CODE, _OPERATOR_INPUTS, _OPERATOR_OUTPUTS = 0, 1, 2
_BUFFER_DATA = 0
MAX_CHECKED_BYTES = 256 * 2**20
"""Size of the largest weight tensor whose range of values is checked."""

_TRANSPOSE_CONV, _CONV_3D_TRANSPOSE = 67, 133
_MULTIPLYING = {3, 4, 9, 16, 24, 27, 35, 44, 46, 52, 126, 132, _TRANSPOSE_CONV, _CONV_3D_TRANSPOSE}
"""Codes of the operators that multiply by weights: CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED,
LSTM, RNN, SVDF, unidirectional and bidirectional sequence RNN and LSTM, BATCH_MATMUL, CONV_3D,
TRANSPOSE_CONV and CONV_3D_TRANSPOSE."""
_ACTIVATION = {_TRANSPOSE_CONV: 2, _CONV_3D_TRANSPOSE: 2}
"""Maps an operator to the position of the activation among its inputs, if the activation is not the
first input."""
_VAR_HANDLE = 142
_UNPACKING = {6, 124}
"""Codes of the operators that unpack weights or convert them to floats: DEQUANTIZE and DENSIFY."""
_TYPES = {
    0: "float32",
    1: "float16",
    3: "uint8",
    7: "int16",
    9: "int8",
    10: "float64",
    17: "int4",
}
"""Names of the values of `TensorType` that activations and weights have; other values are types of
indices, flags and texts."""


@dataclass(slots=True)
class TfliteFacts:
    """Numeric types of a model's weights, tensors and multiplications."""

    weight_counts: Counter[str] = field(default_factory=Counter[str])
    """Maps the name of an arithmetic (see `arithmetic_name`) to the number of its weights."""
    tensor_counts: Counter[str] = field(default_factory=Counter[str])
    """Maps each element type to the number of tensors of this type that operators read."""
    operands: set[QuantizedOperands] = field(default_factory=set[QuantizedOperands])

    @property
    def quantized(self) -> tuple[QuantizedOperands, ...] | None:
        """Types that quantised operators multiply, sorted; None if there are no such operators."""
        return tuple(sorted(self.operands, key=repr)) or None

    @property
    def precision(self) -> str | None:
        """Precision of most weights; in a model without weights, the precision of most tensors."""
        return precision_of(self.weight_counts) or precision_of(
            Counter({element_name(kind): n for kind, n in self.tensor_counts.items()})
        )


def inspect_tflite(path: str, *, without: Collection[int] = ()) -> TfliteFacts:
    """Read a model file; the facts are empty if the file cannot be parsed.

    Args:
        path: The file.
        without: Numbers of the graphs to skip, which belong to signatures that do not run.
    """
    try:
        with Path(path).open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            return _read_model(data, without)
    except (OSError, ValueError, IndexError, FlatbufferError):
        return TfliteFacts()


def has_variables(path: str) -> bool:
    """Whether a model file has resource variables; False if it is not a readable .tflite file.

    Resource variables keep their values between inferences, and no call of the interpreter resets
    them. Source: `Interpreter::ResetVariableTensors`, tensorflow/lite/core/interpreter.cc.
    """
    try:
        with Path(path).open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            is_tflite = data[4:8] == b"TFL3"
            return is_tflite and _VAR_HANDLE in _codes(FlatFile(data, flatbuffer.MAX_ITEMS).root())
    except (OSError, ValueError, IndexError, FlatbufferError):
        return False


def _codes(model: FlatTable) -> list[int]:
    return [
        max(table.number(_CODE_OLD, "<b"), table.number(_CODE))
        for table in model.tables(_MODEL_CODES)
    ]


@dataclass(frozen=True, slots=True)
class _Tensor:
    type: str | None
    shape: tuple[int, ...]
    constant: tuple[int, int]
    """Offset and number of the tensor's bytes in the file; the number is 0 for a computed
    tensor."""

    @property
    def size(self) -> int:
        return prod(max(1, size) for size in self.shape)

    @property
    def is_weight(self) -> bool:
        return self.constant[1] > 0 and len(self.shape) >= 2


@dataclass(frozen=True, slots=True)
class _Operator:
    code: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def _read_model(data: mmap, without: Collection[int]) -> TfliteFacts:
    model = FlatFile(data, flatbuffer.MAX_ITEMS).root()
    codes = _codes(model)
    buffers = [table.vector(_BUFFER_DATA) for table in model.tables(_MODEL_BUFFERS)]
    facts = TfliteFacts()
    for number, graph in enumerate(model.tables(_MODEL_GRAPHS)):
        if number in without:
            continue
        tensors = [
            _Tensor(
                _TYPES.get(table.number(_TENSOR_TYPE, "<b")),
                table.numbers(_TENSOR_SHAPE),
                buffers[table.number(_TENSOR_BUFFER)],
            )
            for table in graph.tables(_GRAPH_TENSORS)
        ]
        operators = [
            _Operator(
                codes[table.number(_OPERATOR_CODE)],
                table.numbers(_OPERATOR_INPUTS),
                table.numbers(_OPERATOR_OUTPUTS),
            )
            for table in graph.tables(_GRAPH_OPERATORS)
        ]
        _read_graph(data, facts, operators, tensors)
    return facts


def _read_graph(
    data: mmap, facts: TfliteFacts, operators: Sequence[_Operator], tensors: Sequence[_Tensor]
) -> None:
    """Count the weights: constants of two or more dimensions (other constants are biases)."""
    sources: dict[int, _Tensor] = {}
    """Maps the number of each derived tensor to the constant from which it is derived."""
    for operator in operators:
        present = [index for index in operator.inputs if index >= 0]  # the others are left out
        kinds = [tensors[index].type for index in present]
        facts.tensor_counts.update(kind for kind in kinds if kind is not None)
        if operator.code in _UNPACKING:
            sources[operator.outputs[0]] = sources.get(present[0], tensors[present[0]])
        if operator.code not in _MULTIPLYING:
            continue
        activation = tensors[operator.inputs[_ACTIVATION.get(operator.code, 0)]].type
        for index, multiplied in zip(present, kinds, strict=True):
            source = sources.get(index, tensors[index])
            if source.is_weight and activation and source.type and multiplied:
                _add_weights(data, facts, source, activation, source.type, multiplied)


def _add_weights(
    data: mmap, facts: TfliteFacts, source: _Tensor, activation: str, stored: str, multiplied: str
) -> None:
    name = arithmetic_name(activation=activation, stored=stored, multiplied=multiplied)
    facts.weight_counts[name] += source.size
    if not is_float(multiplied):
        start, byte_count = source.constant
        raw = data[start : start + byte_count] if byte_count <= MAX_CHECKED_BYTES else b""
        bits = bits_of(stored, raw)
        facts.operands.add(QuantizedOperands(activation, stored, bits, is_qdq=False))
