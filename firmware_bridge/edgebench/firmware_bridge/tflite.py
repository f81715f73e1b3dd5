"""A TensorFlow Lite model for the generator: a graph of tensors and operators.

Source: tensorflow/lite/schema/schema.fbs (order of the fields, codes, types).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from math import prod

from edgebench.firmware_bridge.operator_names import operator_name
from edgebench.protocol.errors import BoardModelRefused, ModelRefused
from edgebench.protocol.flatbuffer import FlatbufferError, FlatFile, FlatTable

INT8, UINT8, INT16 = "int8", "uint8", "int16"
INT32, INT64, FLOAT32 = "int32", "int64", "float32"
_TYPES = {0: FLOAT32, 1: "float16", 2: INT32, 3: UINT8, 4: INT64, 7: INT16, 9: INT8}
ELEMENT_BYTES = {INT8: 1, UINT8: 1, INT16: 2, INT32: 4, FLOAT32: 4, INT64: 8}
_DAMAGED = "the file is not a TensorFlow Lite model, or is damaged"


class TfliteCode(IntEnum):
    """Operators that the generator supports, with the codes of TFLite's `BuiltinOperator`."""

    ADD = 0
    AVERAGE_POOL_2D = 1
    CONCATENATION = 2
    CONV_2D = 3
    DEPTHWISE_CONV_2D = 4
    DEQUANTIZE = 6
    FULLY_CONNECTED = 9
    LOGISTIC = 14
    MAX_POOL_2D = 17
    MUL = 18
    RELU = 19
    RELU6 = 21
    RESHAPE = 22
    RESIZE_BILINEAR = 23
    SOFTMAX = 25
    SVDF = 27
    TANH = 28
    PAD = 34
    TRANSPOSE = 39
    MEAN = 40
    SUB = 41
    SQUEEZE = 43
    UNIDIRECTIONAL_SEQUENCE_LSTM = 44
    STRIDED_SLICE = 45
    SPLIT = 49
    LOG_SOFTMAX = 50
    PRELU = 54
    MAXIMUM = 55
    ARG_MAX = 56
    MINIMUM = 57
    SLICE = 65
    TRANSPOSE_CONV = 67
    EXPAND_DIMS = 70
    SHAPE = 77
    PACK = 83
    RESIZE_NEAREST_NEIGHBOR = 97
    LEAKY_RELU = 98
    SPLIT_V = 102
    QUANTIZE = 114
    CALL_ONCE = 129
    VAR_HANDLE = 142
    READ_VARIABLE = 143
    ASSIGN_VARIABLE = 144


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """A tensor of the graph."""

    name: str
    type: str
    shape: tuple[int, ...]
    content: bytes
    """Bytes of a constant tensor; empty for a tensor that an operator computes."""
    scales: tuple[float, ...]
    """Scale of the tensor, or of each slice along `axis`; empty if the tensor is not quantised."""
    zero_points: tuple[int, ...]
    axis: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def scale(self) -> float:
        """The tensor's only scale.

        Raises:
            BoardModelRefused: the tensor has no scale, or several.
        """
        if len(self.scales) != 1:
            raise BoardModelRefused(f"tensor {self.name!r} has {len(self.scales)} scales, not 1")
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """The tensor's first zero point; 0 if it has none."""
        return self.zero_points[0] if self.zero_points else 0


@dataclass(frozen=True, slots=True)
class ModelOperator:
    """An operator; inputs and outputs are numbers of tensors, -1 for an omitted input."""

    code: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: FlatTable | None
    intermediates: tuple[int, ...] = ()
    """Numbers of tensors that only give the scales of intermediate values in the operator."""

    def option(self, field: int, form: str = "<b", default: int = 0) -> int:
        """Value of a field of the operator's options; `default` if the field is absent.

        Raises:
            ModelRefused: the field is outside of the file.
        """
        if self.options is None:
            return default
        try:
            return self.options.number(field, form, default)
        except FlatbufferError as error:
            raise ModelRefused(_DAMAGED) from error


@dataclass(frozen=True, slots=True)
class TfliteGraph:
    """A graph of a model, with its tensors and operators."""

    tensors: tuple[ModelTensor, ...]
    operators: tuple[ModelOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    others: tuple[TfliteGraph, ...] = ()
    """Further graphs that operators of the model's first graph call; empty in further graphs."""


def read_model(data: bytes) -> TfliteGraph:
    """Read a .tflite file.

    Raises:
        ModelRefused: the file is damaged.
    """
    try:
        root = FlatFile(data).root()
        if data[4:8] != b"TFL3":
            raise ModelRefused(_DAMAGED)
        buffers = [table.content(0) for table in root.tables(4)]
        codes = [_code(table) for table in root.tables(1)]
        first, *others = [_graph(table, buffers, codes) for table in root.tables(2)]
    except (FlatbufferError, IndexError, ValueError) as error:
        raise ModelRefused(_DAMAGED) from error
    return replace(first, others=tuple(others))


def _code(table: FlatTable) -> tuple[int, str]:
    code = max(table.number(0, "<b"), table.number(3))
    return code, operator_name(code, table.content(1).decode(errors="replace"))


def _graph(table: FlatTable, buffers: list[bytes], codes: list[tuple[int, str]]) -> TfliteGraph:
    return TfliteGraph(
        tensors=tuple(_tensor(tensor, buffers) for tensor in table.tables(0)),
        operators=tuple(_operator(operator, codes) for operator in table.tables(3)),
        inputs=table.numbers(1),
        outputs=table.numbers(2),
    )


def _tensor(table: FlatTable, buffers: list[bytes]) -> ModelTensor:
    quantization = table.table(4)
    return ModelTensor(
        name=table.content(3).decode(errors="replace"),
        type=_TYPES.get(table.number(1, "<b"), "other"),
        shape=table.numbers(0),
        content=buffers[table.number(2)],
        scales=quantization.reals(2) if quantization else (),
        zero_points=quantization.numbers(3, "q") if quantization else (),
        axis=quantization.number(6) if quantization else 0,
    )


def _operator(table: FlatTable, codes: list[tuple[int, str]]) -> ModelOperator:
    code, name = codes[table.number(0)]
    tensors = table.numbers(1), table.numbers(2)
    return ModelOperator(code, name, *tensors, table.table(4), intermediates=table.numbers(8))
