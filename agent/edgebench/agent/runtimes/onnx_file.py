"""Facts about an ONNX file, read before the runtime loads it.

Theory of operation. An ONNX file is one protobuf message. Only those parts are read that decide
whether a measurement makes sense: quantised operators and weight types (precision), references to
other files (only one file travels to the device), and the depth of control flow (a runtime recurses
over it). A file that is not protobuf at all is left to the runtime, whose message is better.

Field numbers: onnx/onnx, onnx/onnx.proto3. Encoding: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.protocol.errors import ModelRefused

MAX_GRAPH_DEPTH = 16
"""Levels of graphs inside graphs; real models have 3 or fewer."""
MAX_INSPECTED_BYTES = 256 * 2**20
"""Largest file that is inspected; larger ones are measured without that."""

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_NODE_OP_TYPE, _NODE_ATTRIBUTE = 4, 5
_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS = 6, 11
_TENSOR_TYPE, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 2, 13, 14
_LOCATION_EXTERNAL = 1
_QUANTIZED = {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul"}
_DYNAMIC = {"DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"}
_FLOAT32, _FLOAT16 = 1, 10
_FOUR_BITS = {21: "uint4", 22: "int4"}
_TYPE_NAMES = {2: "uint8", 3: "int8"}
"""TensorProto.DataType of the weights of a quantised model."""


@dataclass(slots=True)
class OnnxFacts:
    """Operators and weight types of a model."""

    operators: set[str] = field(default_factory=set)
    weight_types: set[int] = field(default_factory=set)

    @property
    def precision(self) -> str | None:
        """int8, uint8, int8-dynamic, fp16 or fp32; None for a file without operators."""
        if not self.operators:
            return None
        if self.operators & _DYNAMIC:
            return "int8-dynamic"
        if self.operators & _QUANTIZED:
            # Weights are int8 in most files; uint8 alone is the older style.
            codes = self.weight_types & _TYPE_NAMES.keys()
            return _TYPE_NAMES[max(codes)] if codes else "int8"
        return "fp16" if {_FLOAT16} == self.weight_types & {_FLOAT16, _FLOAT32} else "fp32"


def inspect_onnx(path: str) -> OnnxFacts:
    """Read a model file.

    Raises:
        ModelRefused: it refers to other files, nests too deep, or has 4-bit weights.
    """
    facts = OnnxFacts()
    if Path(path).stat().st_size > MAX_INSPECTED_BYTES:
        return facts
    try:
        for number, value in _fields(memoryview(Path(path).read_bytes())):
            if number == _MODEL_GRAPH and isinstance(value, memoryview):
                _read_graph(value, facts, depth=1)
    except _NotProtobuf:
        return facts
    for code in sorted(facts.weight_types & _FOUR_BITS.keys()):
        # docs/decisions/0009-no-4-bit-models-yet.md
        raise ModelRefused(
            f"{_FOUR_BITS[code]} weights are not measured yet: how they run differs between "
            "onnxruntime versions, and nothing here checks their outputs"
        )
    return facts


class _NotProtobuf(Exception):
    """The bytes cannot be read as protobuf."""


def _read_graph(graph: memoryview, facts: OnnxFacts, depth: int) -> None:
    if depth > MAX_GRAPH_DEPTH:
        raise ModelRefused(f"control flow is nested over {MAX_GRAPH_DEPTH} graphs deep")
    for number, value in _fields(graph):
        if not isinstance(value, memoryview):
            continue
        if number == _GRAPH_NODE:
            _read_node(value, facts, depth)
        elif number == _GRAPH_INITIALIZER:
            _read_initializer(value, facts)


def _read_node(node: memoryview, facts: OnnxFacts, depth: int) -> None:
    for number, value in _fields(node):
        if not isinstance(value, memoryview):
            continue
        if number == _NODE_OP_TYPE:
            facts.operators.add(bytes(value).decode("utf-8", "replace"))
        elif number == _NODE_ATTRIBUTE:
            for kind, graph in _fields(value):
                is_graph = kind in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS)
                if is_graph and isinstance(graph, memoryview):
                    _read_graph(graph, facts, depth + 1)


def _read_initializer(tensor: memoryview, facts: OnnxFacts) -> None:
    for number, value in _fields(tensor):
        if number == _TENSOR_TYPE and isinstance(value, int):
            facts.weight_types.add(value)
        is_external = number == _TENSOR_LOCATION and value == _LOCATION_EXTERNAL
        if is_external or number == _TENSOR_EXTERNAL:
            raise ModelRefused(
                "weights are in another file (external data); only a single file can be measured"
            )


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field: integers, or the bytes of the length-delimited ones."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield number, value
        elif kind == 2:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise _NotProtobuf
            yield number, message[at : at + size]
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise _NotProtobuf


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise _NotProtobuf
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _NotProtobuf
