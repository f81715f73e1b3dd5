"""Facts about an ONNX file, read before the runtime loads it.

Theory of operation. An ONNX file is a protobuf message. Only the parts that decide whether a
measurement is meaningful are read. The types that operators multiply are read for two reasons: the
types determine the precision, and on some CPUs a runtime computes some pairs of types wrongly.
References to other files are read because only a single file is sent to the device. The depth of
control flow is read because a runtime recurses over it. A file that is not protobuf is passed on to
the runtime, whose error message is better.

Weights reach their operator directly, or through operators that transpose, cast or dequantise them:

    constant ─▶ DequantizeLinear ─▶ Transpose ─▶ MatMul

Field numbers: onnx/onnx, onnx/onnx.proto3. Encoding: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from edgebench.agent.runtimes.arithmetic import arithmetic_name, bits_of, precision_of
from edgebench.agent.runtimes.text import library_line
from edgebench.protocol.errors import ExternalDataRefused, ModelRefused
from edgebench.protocol.record import QuantizedOperands

MAX_GRAPH_DEPTH = 16
"""Maximum number of levels of nested graphs; real models have 3 or fewer."""
MAX_INSPECTED_BYTES = 256 * 2**20
"""Size of the largest file that is inspected; larger files are measured without inspection."""

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_NODE_INPUT, _NODE_OUTPUT, _NODE_OP_TYPE, _NODE_ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_INT, _ATTRIBUTE_TENSOR = 1, 3, 5
_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS = 6, 11
_TENSOR_SIZES, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_RAW, _TENSOR_EXTERNAL, _TENSOR_LOCATION = (
    1,
    2,
    8,
    9,
    13,
    14,
)
_LOCATION_EXTERNAL = 1
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
MAX_LOCATION_CHARS = 80
"""Maximum number of characters of another file's name in an error message."""
_QUANTIZED = {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul"}
_DYNAMIC = {
    "ConvInteger",
    "DynamicQuantizeLSTM",
    "DynamicQuantizeLinear",
    "DynamicQuantizeMatMul",
    "MatMulInteger",
    "MatMulIntegerToFloat",
}
_FLOAT32, _FLOAT16 = 1, 10
_ELEMENTS = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    10: "float16",
    11: "float64",
}
"""Names of the values of TensorProto.DataType that activations and weights have."""
_FOUR_BITS = {21: "uint4", 22: "int4"}
_TYPE_NAMES = {2: "uint8", 3: "int8"}
"""Names of the values of TensorProto.DataType that weights of a quantised model have."""
_UINT8 = 2
_FLOAT_OPERATORS = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
"""Operators on floats that a runtime computes in integers if both inputs come from
DequantizeLinear."""
_QUANTIZED_INPUTS = {
    "QLinearConv": (0, 3),
    "QLinearMatMul": (0, 3),
    "ConvInteger": (0, 1),
    "MatMulInteger": (0, 1),
}
"""Positions of activation and weight among the inputs of operators that multiply integers. Source:
onnx, docs/Operators.md."""
_ZERO_POINTS = {"QuantizeLinear": 2, "QLinearConv": 7, "QLinearMatMul": 7}
"""Position of the output's zero point among the inputs of an operator; the zero point has the type
of the output."""
_WEIGHTS = {
    "Conv": (1,),
    "ConvTranspose": (1,),
    "Gemm": (0, 1),
    "MatMul": (0, 1),
    "LSTM": (1, 2),
    "GRU": (1, 2),
    "RNN": (1, 2),
    "QLinearConv": (3,),
    "QLinearMatMul": (0, 3),
    "ConvInteger": (1,),
    "MatMulInteger": (0, 1),
    "Attention": (1,),
    "FusedConv": (1,),
    "FusedGemm": (0, 1),
    "FusedMatMul": (0, 1),
    "QGemm": (0, 3),
    "QAttention": (1,),
    "DynamicQuantizeLSTM": (1, 2),
    "DynamicQuantizeMatMul": (1,),
    "MatMulIntegerToFloat": (1,),
}
"""Maps each operator to the positions of its inputs that may be weights. Source: onnx,
docs/Operators.md; onnxruntime, docs/ContribOperators.md."""
_PASSING = {"DequantizeLinear", "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity"}
"""Operators that may lie between constants and the operator that uses them as weights."""
MAX_PASSED = 8
"""Maximum number of `_PASSING` operators between a constant and the operator that uses it."""
MAX_RANK = 16
"""Maximum number of dimensions of a constant that are read; real constants have 5 or fewer."""


@dataclass(slots=True)
class OnnxFacts:
    """Operators and weight types of a model."""

    operators: set[str] = field(default_factory=set)
    weight_types: set[int] = field(default_factory=set)
    weight_counts: Counter[str] = field(default_factory=Counter[str])
    """Maps the name of an arithmetic (see `arithmetic_name`) to the number of its weights."""
    operands: set[QuantizedOperands] = field(default_factory=set)

    @property
    def quantized(self) -> tuple[QuantizedOperands, ...] | None:
        """Types that quantised operators multiply, sorted; None if there are no such operators."""
        return tuple(sorted(self.operands, key=repr)) or None

    @property
    def precision(self) -> str | None:
        """Precision of most weights, or of operators and constants in a model without weights.

        None if the file has no operators.
        """
        if not self.operators or self.weight_counts:
            return precision_of(self.weight_counts)
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
        ExternalDataRefused: the file refers to other files.
        ModelRefused: control flow is nested too deep, or the file has 4-bit weights.
    """
    facts = OnnxFacts()
    if Path(path).stat().st_size > MAX_INSPECTED_BYTES:
        return facts
    try:
        for number, value in _fields(memoryview(Path(path).read_bytes())):
            if number == _MODEL_GRAPH and isinstance(value, memoryview):
                _add_weights(_read_graph(value, facts, depth=1), ChainMap(), ChainMap(), facts)
    except _NotProtobuf:
        return facts
    for code in sorted(facts.weight_types & _FOUR_BITS.keys()):
        # docs/decisions/0009-no-4-bit-models-yet.md
        raise ModelRefused(
            f"{_FOUR_BITS[code]} weights are not supported: their computation differs between "
            "onnxruntime versions, and their outputs cannot be checked"
        )
    return facts


class _NotProtobuf(Exception):
    """The bytes cannot be read as protobuf."""


@dataclass(slots=True)
class _Tensor:
    """A constant of the file."""

    name: str = ""
    type: int = 0
    raw: memoryview = field(default_factory=lambda: memoryview(b""))
    sizes: list[int] = field(default_factory=list[int])
    is_external: bool = False
    location: str = ""
    """Name of the external file with the values; empty if the values are in this file."""


@dataclass(slots=True)
class _Node:
    operator: str = ""
    inputs: list[str] = field(default_factory=list[str])
    outputs: list[str] = field(default_factory=list[str])
    graphs: list[_Graph] = field(default_factory=list["_Graph"])
    constant: _Tensor | None = None
    """Value of a Constant operator."""
    cast_to: int = 0
    """Output type of a Cast operator."""

    def input(self, index: int) -> str:
        """Name of an input; empty if it is omitted."""
        return self.inputs[index] if 0 <= index < len(self.inputs) else ""


@dataclass(slots=True)
class _Graph:
    nodes: list[_Node] = field(default_factory=list[_Node])
    tensors: dict[str, _Tensor] = field(default_factory=dict[str, _Tensor])


def _read_graph(message: memoryview, facts: OnnxFacts, depth: int) -> _Graph:
    if depth > MAX_GRAPH_DEPTH:
        raise ModelRefused(f"control flow is nested more than {MAX_GRAPH_DEPTH} graphs deep")
    graph = _Graph()
    for number, value in _fields(message):
        if not isinstance(value, memoryview):
            continue
        if number == _GRAPH_NODE:
            node = _read_node(value, facts, depth)
            graph.nodes.append(node)
            if node.constant is not None:
                graph.tensors.update(dict.fromkeys(node.outputs, node.constant))
        elif number == _GRAPH_INITIALIZER:
            tensor = _read_tensor(value)
            facts.weight_types.add(tensor.type)
            graph.tensors[tensor.name] = tensor
    return graph


def _read_node(message: memoryview, facts: OnnxFacts, depth: int) -> _Node:
    node = _Node()
    for number, value in _fields(message):
        if not isinstance(value, memoryview):
            continue
        if number == _NODE_INPUT:
            node.inputs.append(_string(value))
        elif number == _NODE_OUTPUT:
            node.outputs.append(_string(value))
        elif number == _NODE_OP_TYPE:
            node.operator = _string(value)
        elif number == _NODE_ATTRIBUTE:
            _read_attribute(value, node, facts, depth)
    facts.operators.add(node.operator)
    return node


def _read_attribute(message: memoryview, node: _Node, facts: OnnxFacts, depth: int) -> None:
    name, integer = "", 0
    for number, value in _fields(message):
        if isinstance(value, int):
            integer = value if number == _ATTRIBUTE_INT else integer
        elif number == _ATTRIBUTE_NAME:
            name = _string(value)
        elif number == _ATTRIBUTE_TENSOR:
            node.constant = _read_tensor(value)
        elif number in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS):
            node.graphs.append(_read_graph(value, facts, depth + 1))
    if name == "to":
        node.cast_to = integer


def _read_tensor(message: memoryview) -> _Tensor:
    tensor = _Tensor()
    for number, value in _fields(message):
        if number == _TENSOR_TYPE and isinstance(value, int):
            tensor.type = value
        elif number == _TENSOR_NAME and isinstance(value, memoryview):
            tensor.name = _string(value)
        elif number == _TENSOR_RAW and isinstance(value, memoryview):
            tensor.raw = value
        elif number == _TENSOR_SIZES and len(tensor.sizes) < MAX_RANK:
            tensor.sizes += [value] if isinstance(value, int) else _varints(value, MAX_RANK)
        elif number == _TENSOR_LOCATION and value == _LOCATION_EXTERNAL:
            tensor.is_external = True
        elif number == _TENSOR_EXTERNAL and isinstance(value, memoryview):
            tensor.is_external = True
            tensor.location = _location(value) or tensor.location
    if tensor.is_external:
        where = f", {tensor.location}" if tensor.location else ""
        raise ExternalDataRefused(
            f"weights are in another file (external data{where}); "
            "only a single file can be measured"
        )
    return tensor


def _location(entry: memoryview) -> str:
    """Name of the external file, if this entry of the external data contains it; else empty."""
    words = dict(_fields(entry))
    key, value = words.get(_ENTRY_KEY), words.get(_ENTRY_VALUE)
    if not isinstance(key, memoryview) or not isinstance(value, memoryview):
        return ""
    return library_line(_string(value))[:MAX_LOCATION_CHARS] if _string(key) == "location" else ""


_Makers = Mapping[str, _Node]
_Tensors = Mapping[str, _Tensor]


def _add_weights(
    graph: _Graph,
    outer_makers: ChainMap[str, _Node],
    outer_tensors: ChainMap[str, _Tensor],
    facts: OnnxFacts,
) -> None:
    """Inspect every operator; an operator of an inner graph may use tensors of outer graphs."""
    makers = outer_makers.new_child({name: node for node in graph.nodes for name in node.outputs})
    tensors = outer_tensors.new_child(graph.tensors)
    for node in graph.nodes:
        for position in _WEIGHTS.get(node.operator, ()):
            name, count = _arithmetic(node, position, makers, tensors)
            if count:
                facts.weight_counts[name] += count
        if operands := _operands(node, makers, tensors):
            facts.operands.add(operands)
        for inner in node.graphs:
            _add_weights(inner, makers, tensors, facts)


def _arithmetic(node: _Node, position: int, makers: _Makers, tensors: _Tensors) -> tuple[str, int]:
    """Arithmetic of an operator with the constant at this input, and the constant's size.

    The result is an empty name and 0 if the input is not derived from a constant.
    """
    name, passed = node.input(position), list[_Node]()
    while (maker := makers.get(name)) and maker.operator in _PASSING and len(passed) < MAX_PASSED:
        passed.append(maker)
        name = maker.input(0)
    constant = tensors.get(name)
    if constant is None or constant.type not in _ELEMENTS:
        return "", 0
    stored, count = _ELEMENTS[constant.type], prod(constant.sizes)
    if node.operator in _DYNAMIC:
        return f"{stored}-dynamic", count
    cast = next(
        (_ELEMENTS.get(other.cast_to) for other in passed if other.operator == "Cast"), None
    )
    multiplied, activation = cast or stored, ""
    if any(other.operator == "DequantizeLinear" for other in passed):
        source = makers.get(node.input(0 if position else 1))
        if source is not None and source.operator == "DequantizeLinear":
            activation = _ELEMENTS.get(_type(source.input(0), makers, tensors) or 0, "")
        else:
            multiplied = "float32"
    return arithmetic_name(activation=activation, stored=stored, multiplied=multiplied), count


def _operands(node: _Node, makers: _Makers, tensors: _Tensors) -> QuantizedOperands | None:
    """Types that this operator multiplies, if the file shows that both are 8-bit integers."""
    is_qdq = node.operator in _FLOAT_OPERATORS
    if not is_qdq and node.operator not in _QUANTIZED_INPUTS:
        return None
    activation, weight = map(node.input, _QUANTIZED_INPUTS.get(node.operator, (0, 1)))
    if is_qdq:
        operands = makers.get(activation), makers.get(weight)
        if not all(maker and maker.operator == "DequantizeLinear" for maker in operands):
            return None
        activation, weight = (maker.input(0) for maker in operands if maker)
    # The type of a graph's input is not read; the input's zero point, if any, has the same type.
    zero_point = node.input(2) if node.operator in _QUANTIZED_INPUTS else ""
    activation_type = _type(activation, makers, tensors) or _type(zero_point, makers, tensors)
    constant = tensors.get(weight)
    if constant is None or activation_type not in _TYPE_NAMES or constant.type not in _TYPE_NAMES:
        return None
    weight_type = _TYPE_NAMES[constant.type]
    return QuantizedOperands(
        activation=_TYPE_NAMES[activation_type],
        weight=weight_type,
        # `raw` is empty if the exporter stored the values as a list of numbers.
        weight_bits=bits_of(weight_type, bytes(constant.raw)),
        is_qdq=is_qdq,
    )


def _type(name: str, makers: _Makers, tensors: _Tensors) -> int | None:
    """Element type of a quantised tensor, derived from the file's constants; None if unknown."""
    if name in tensors:
        return tensors[name].type
    maker = makers.get(name)
    if maker is None:
        return None
    if maker.operator == "DynamicQuantizeLinear":
        return _UINT8
    if maker.operator == "QuantizeLinear" and not maker.input(2):
        return _UINT8  # the default without a zero point
    zero_point = tensors.get(maker.input(_ZERO_POINTS.get(maker.operator, -1)))
    return zero_point.type if zero_point else None


def _string(value: memoryview) -> str:
    return bytes(value).decode("utf-8", "replace")


def _varints(message: memoryview, limit: int) -> list[int]:
    """The first `limit` integers of a packed list."""
    values, at = list[int](), 0
    while at < len(message) and len(values) < limit:
        value, at = _varint(message, at)
        values.append(value)
    return values


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field; the value is an integer, or bytes of a given length."""
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
