"""TensorFlow Lite files written by hand, so that tests need no converter to make odd ones.

Order of the fields, codes and types: tensorflow/lite/schema/schema.fbs. Encoding:
https://flatbuffers.dev/internals/: a table starts with the distance back to its vtable, everything
that it refers to comes after it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

FLOAT32, FLOAT16, INT32, UINT8, INT64, INT16, INT8 = 0, 1, 2, 3, 4, 7, 9
RESOURCE = 13
"""TensorType."""
ADD, CONV_2D, DEQUANTIZE, FULLY_CONNECTED, BATCH_MATMUL, TRANSPOSE_CONV = 0, 3, 6, 9, 126, 67
AVERAGE_POOL_2D, CONCATENATION, DEPTHWISE_CONV_2D, MAX_POOL_2D, MUL, RESHAPE = 1, 2, 4, 17, 18, 22
SOFTMAX, PAD, MEAN, QUANTIZE = 25, 34, 40, 114
LOGISTIC, RELU, RELU6, TANH, LEAKY_RELU, PRELU = 14, 19, 21, 28, 98, 54
SUB, MAXIMUM, MINIMUM, TRANSPOSE, STRIDED_SLICE, SLICE = 41, 55, 57, 39, 45, 65
SPLIT, SPLIT_V, SHAPE, PACK, RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR = 49, 102, 77, 83, 23, 97
CALL_ONCE, VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE = 129, 142, 143, 144
SVDF, UNIDIRECTIONAL_SEQUENCE_LSTM, LOG_SOFTMAX, ARG_MAX = 27, 44, 50, 56
"""BuiltinOperator."""
_OPTIONS = {
    ADD: 11,
    ARG_MAX: 40,
    ASSIGN_VARIABLE: 113,
    AVERAGE_POOL_2D: 5,
    CALL_ONCE: 103,
    CONCATENATION: 10,
    CONV_2D: 1,
    DEPTHWISE_CONV_2D: 2,
    FULLY_CONNECTED: 8,
    LEAKY_RELU: 75,
    LOG_SOFTMAX: 36,
    MAXIMUM: 39,
    MAX_POOL_2D: 5,
    MEAN: 27,
    MINIMUM: 39,
    MUL: 21,
    PACK: 59,
    PAD: 22,
    READ_VARIABLE: 112,
    RESHAPE: 17,
    RESIZE_BILINEAR: 15,
    RESIZE_NEAREST_NEIGHBOR: 74,
    SHAPE: 55,
    SLICE: 48,
    SOFTMAX: 9,
    SPLIT: 35,
    SPLIT_V: 79,
    STRIDED_SLICE: 32,
    SUB: 28,
    SVDF: 6,
    TRANSPOSE: 26,
    TRANSPOSE_CONV: 49,
    UNIDIRECTIONAL_SEQUENCE_LSTM: 71,
    VAR_HANDLE: 111,
}
"""BuiltinOptions of the operators that really run here."""

Value: TypeAlias = "int | bytes | list[int] | tuple[int, ...] | list[Table] | Table"
"""A tuple is a vector of int64."""


@dataclass(frozen=True)
class Table:
    """A table: values by the number of their field."""

    fields: Mapping[int, Value]


@dataclass(frozen=True)
class Tensor:
    """A tensor; with bytes it is a constant."""

    name: str
    type: int = FLOAT32
    shape: tuple[int, ...] = (1, 4)
    """Sizes; -1 is a dimension to be chosen."""
    constant: bytes = b""
    scales: tuple[float, ...] = ()
    """Of its quantisation, if it has any."""
    zero_point: int = 0
    axis: int = 0
    is_variable: bool = False
    """Whether it stays from one inference to the next."""


@dataclass(frozen=True)
class Operator:
    """An operator on tensors by their names; an empty name is an input that is left out."""

    code: int
    inputs: str
    outputs: str
    options: Mapping[int, int | bytes] = field(default_factory=dict[int, "int | bytes"])
    """Fields of its options; what is left out has its default."""
    intermediates: str = ""
    """Tensors with the scales of values within the operator."""


@dataclass(frozen=True)
class Graph:
    """A graph; inputs and outputs are names with blanks between them."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: str = "x"
    outputs: str = "y"


def model(*graphs: Graph, signatures: Mapping[str, int] | None = None) -> bytes:
    """A whole file.

    Args:
        graphs: Its graphs.
        signatures: Number of the graph of each signature, whose inputs and outputs have the names
            of the tensors.
    """
    codes = sorted({one.code for graph in graphs for one in graph.operators})
    buffers = [Table({})]
    content: dict[int, Value] = {
        0: 3,
        1: [Table({0: min(code, 127), 2: 1, 3: code}) for code in codes],
        2: [_graph(graph, codes, buffers) for graph in graphs],
        4: buffers,
    }
    if signatures:
        content[7] = [_signature(name, at, graphs[at]) for name, at in signatures.items()]
    out = bytearray(struct.pack("<I4s", 0, b"TFL3"))
    struct.pack_into("<I", out, 0, _write(out, Table(content)))
    return bytes(out)


def addition(*shape: int) -> bytes:
    """A whole model that really runs: y = x + 1, on floats; -1 is a dimension to be chosen."""
    tensors = (
        Tensor("x", FLOAT32, shape),
        Tensor("one", FLOAT32, (1,), struct.pack("<f", 1.0)),
        Tensor("y", FLOAT32, shape),
    )
    return model(Graph(tensors, (Operator(ADD, "x one", "y"),)))


def _signature(name: str, number: int, graph: Graph) -> Table:
    places = {tensor.name: place for place, tensor in enumerate(graph.tensors)}

    def named(names: str) -> list[Table]:
        return [Table({0: one.encode(), 1: places[one]}) for one in names.split()]

    return Table({0: named(graph.inputs), 1: named(graph.outputs), 2: name.encode(), 4: number})


def _graph(graph: Graph, codes: Sequence[int], buffers: list[Table]) -> Table:
    places = {tensor.name: number for number, tensor in enumerate(graph.tensors)} | {"-": -1}
    return Table(
        {
            0: [_tensor(tensor, buffers) for tensor in graph.tensors],
            1: [places[name] for name in graph.inputs.split()],
            2: [places[name] for name in graph.outputs.split()],
            3: [_operator(one, codes, places) for one in graph.operators],
        }
    )


def _tensor(tensor: Tensor, buffers: list[Table]) -> Table:
    fields: dict[int, Value] = {
        0: [1 if size < 0 else size for size in tensor.shape],
        1: tensor.type,
        2: len(buffers) if tensor.constant else 0,
        3: tensor.name.encode(),
    }
    if tensor.is_variable:
        fields[5] = 1
    if -1 in tensor.shape:
        fields[7] = list(tensor.shape)
    if tensor.scales:
        bits = struct.unpack(
            f"<{len(tensor.scales)}I", struct.pack(f"<{len(tensor.scales)}f", *tensor.scales)
        )
        zero_points = (tensor.zero_point,) * len(tensor.scales)
        fields[4] = Table({2: list(bits), 3: zero_points, 6: tensor.axis})
    if tensor.constant:
        buffers.append(Table({0: tensor.constant}))
    return Table(fields)


def _operator(operator: Operator, codes: Sequence[int], places: Mapping[str, int]) -> Table:
    fields: dict[int, Value] = {
        0: codes.index(operator.code),
        1: [places[name] for name in operator.inputs.split()],
        2: [places[name] for name in operator.outputs.split()],
    }
    if operator.code in _OPTIONS:
        fields |= {3: _OPTIONS[operator.code], 4: Table(operator.options)}
    if operator.intermediates:
        fields[8] = [places[name] for name in operator.intermediates.split()]
    return Table(fields)


def _write(out: bytearray, value: bytes | list[int] | tuple[int, ...] | list[Table] | Table) -> int:
    """Append a value with everything that it refers to; its place."""
    if isinstance(value, Table):
        return _write_table(out, value.fields)
    if isinstance(value, bytes):
        # The data of a buffer must be aligned; its length stands before it. Names end with a zero.
        _align(out, 16, before=4)
        start = len(out)
        out += struct.pack("<I", len(value)) + value + b"\0"
        return start
    if isinstance(value, tuple):
        _align(out, 8, before=4)
        start = len(out)
        out += struct.pack(f"<I{len(value)}q", len(value), *value)
        return start
    _align(out, 4)
    start = len(out)
    out += struct.pack("<I", len(value)) + bytes(4 * len(value))
    items: Sequence[int | Table] = value
    for number, item in enumerate(items):
        _put(out, start + 4 + 4 * number, item)
    return start


def _write_table(out: bytearray, fields: Mapping[int, Value]) -> int:
    _align(out, 4)
    entries = [0] * (max(fields, default=-1) + 1)
    for place, number in enumerate(fields):
        entries[number] = 4 + 4 * place
    vtable = len(out)
    sizes = 4 + 2 * len(entries), 4 + 4 * len(fields)
    out += struct.pack(f"<HH{len(entries)}H", *sizes, *entries)
    _align(out, 4)
    start = len(out)
    out += struct.pack("<i", start - vtable) + bytes(4 * len(fields))
    for place, value in enumerate(fields.values()):
        _put(out, start + 4 + 4 * place, value)
    return start


def _put(out: bytearray, at: int, value: Value) -> None:
    """An integer itself; of anything else, how far away it is."""
    if isinstance(value, int):
        struct.pack_into("<i", out, at, value)
    else:
        struct.pack_into("<I", out, at, _write(out, value) - at)


def _align(out: bytearray, size: int, before: int = 0) -> None:
    out += bytes(-(len(out) + before) % size)
