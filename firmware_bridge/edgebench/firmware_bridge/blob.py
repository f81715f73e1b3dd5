"""Bytes of a model blob, in the format of docs/model-blob.md and the firmware's `core/blob.h`."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from edgebench.firmware_bridge.arena import aligned

MAGIC = b"EBMB"
VERSION = 1
NO_TENSOR = 0xFFFFFFFF
SPARE_BYTES = 16
"""Padding after the last tensor, because kernels may read up to a word beyond a tensor's end."""
MAX_TENSORS, MAX_OPERATORS, MAX_OUTPUTS, MAX_DIMENSION, MAX_ID = 1024, 1024, 8, 32767, 31
PARAMETER_COUNT = 16
_TYPES = {"int8": 0, "int32": 1, "float32": 2, "uint8": 3, "int16": 4, "int64": 5}
_HEADER = struct.Struct("<4s10I8I3I32s")
_TENSOR = struct.Struct("<4I4Iif")
_OPERATOR = struct.Struct(f"<8I{PARAMETER_COUNT}i")
_CHECKED_FROM = 16


class BlobKind(IntEnum):
    """Codes of the operators that the firmware implements."""

    CONV = 1
    DEPTHWISE = 2
    AVERAGE_POOL = 3
    MAX_POOL = 4
    ADD = 5
    MUL = 6
    COPY = 7
    PAD = 8
    SOFTMAX = 9
    MEAN = 10
    CONCAT = 11
    QUANTIZE = 12
    REQUANTIZE = 13
    DEQUANTIZE = 14
    SUB = 15
    MAXIMUM = 16
    MINIMUM = 17
    PRELU = 18
    LOOKUP = 19
    STRIDED = 20
    RESIZE_BILINEAR = 21
    RESIZE_NEAREST = 22
    TRANSPOSE_CONV = 23
    SVDF = 24
    ARG_MAX = 25
    LOG_SOFTMAX = 26
    LSTM = 27


@dataclass(slots=True)
class BlobTensor:
    """A tensor of the blob; every shape has four dimensions."""

    type: str
    shape: tuple[int, int, int, int]
    size_bytes: int
    zero_point: int = 0
    scale: float = 1.0
    content: bytes = b""
    """Bytes of a constant tensor; empty for a tensor in the arena."""
    storage: int = -1
    """Number of the arena's piece that holds the tensor; several tensors may share a piece."""
    place: int = 0
    """Offset of the tensor in bytes; in the blob for a constant, in the arena for other tensors."""


@dataclass(frozen=True, slots=True)
class OperatorSource:
    """An operator of a model, with the names in the model's file."""

    operator: str
    """Type of the operator, such as CONV_2D."""
    name: str
    """Name of the operator's first output tensor."""


@dataclass(slots=True)
class BlobOperator:
    """An operator of the blob; inputs and output are the numbers of tensors."""

    kind: BlobKind
    inputs: tuple[int, ...]
    output: int
    parameters: dict[int, int] = field(default_factory=dict[int, int])
    is_rounded_once: bool = False
    has_halves_up: bool = False
    """Whether average pooling rounds halves up; otherwise, it rounds halves away from zero."""
    is_reset: bool = False
    """Whether the operator runs only when the model's state is reset, not in inferences."""
    scratch_bytes: int = 0
    scratch_place: int = 0
    source: OperatorSource | None = None
    """Operator of the model that this operator implements; None if it only converts inputs or
    outputs."""


@dataclass(frozen=True, slots=True)
class BlobHeader:
    """Values in the blob's header that cannot be computed from the tensors and operators."""

    model_id: str
    arena_bytes: int
    input: int
    outputs: tuple[int, ...]
    input_encoding: int
    output_encoding: int
    rounding: int


def pack(
    header: BlobHeader, tensors: Sequence[BlobTensor], operators: Sequence[BlobOperator]
) -> bytes:
    """Pack a blob, and set `place` of constants; `place` of other tensors must already be set."""
    tensors_at = _HEADER.size
    operators_at = tensors_at + _TENSOR.size * len(tensors)
    end = aligned(operators_at + _OPERATOR.size * len(operators))
    contents = bytearray(end)
    for tensor in tensors:
        if tensor.content:
            tensor.place = len(contents)
            contents += tensor.content
            contents += bytes(aligned(len(contents)) - len(contents))
    contents += bytes(SPARE_BYTES)
    for number, tensor in enumerate(tensors):
        at = tensors_at + number * _TENSOR.size
        is_constant = bool(tensor.content)
        first = (int(is_constant), tensor.place, tensor.size_bytes, _TYPES[tensor.type])
        _TENSOR.pack_into(contents, at, *first, *tensor.shape, tensor.zero_point, tensor.scale)
    for number, operator in enumerate(operators):
        inputs = [*operator.inputs, NO_TENSOR, NO_TENSOR, NO_TENSOR][:3]
        parameters = [operator.parameters.get(index, 0) for index in range(PARAMETER_COUNT)]
        at = operators_at + number * _OPERATOR.size
        flags = operator.is_rounded_once | operator.is_reset << 1 | operator.has_halves_up << 2
        scratch = (operator.scratch_place, operator.scratch_bytes)
        words = (operator.kind, flags, *inputs, operator.output, *scratch, *parameters)
        _OPERATOR.pack_into(contents, at, *words)
    outputs = [*header.outputs, *[NO_TENSOR] * MAX_OUTPUTS][:MAX_OUTPUTS]
    counts = (header.arena_bytes, len(tensors), len(operators), tensors_at, operators_at)
    encodings = (header.input_encoding, header.output_encoding, header.rounding)
    head = (MAGIC, VERSION, len(contents), 0, *counts, header.input, len(header.outputs))
    _HEADER.pack_into(contents, 0, *head, *outputs, *encodings, header.model_id.encode())
    crc = zlib.crc32(contents[_CHECKED_FROM:])
    struct.pack_into("<I", contents, _CHECKED_FROM - 4, crc)
    return bytes(contents)
