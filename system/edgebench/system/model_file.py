"""Check whether a model file is complete; used for advice after a runtime has refused the file.

    .tflite   FlatBuffer: the tables and the data of all buffers are inside the file
    .onnx     protobuf: the fields of the outermost message fill the file

Only the positions of tables and fields are checked, not the model itself. A runtime may therefore
refuse a file that passes this check.

Sources: https://flatbuffers.dev/internals, tensorflow/compiler/mlir/lite/schema/schema.fbs
(table Model), https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import BinaryIO

from edgebench.protocol.flatbuffer import FlatbufferError, FlatFile

_IDENTIFIER = b"TFL3"
_OPERATOR_CODES, _SUBGRAPHS, _BUFFERS = 1, 2, 4
"""Numbers of the fields of the table Model."""
_TENSORS, _OPERATORS, _DATA = 0, 3, 0
"""Numbers of fields of the tables SubGraph and Buffer."""
_MAX_FIELDS = 100_000
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
"""Wire types of protobuf."""


def fault_of_model(path: Path) -> str | None:
    """Reason why a model file is incomplete or damaged; None if it is complete or unreadable."""
    try:
        with path.open("rb") as file:
            size_bytes = path.stat().st_size
            if size_bytes == 0:
                return "it is empty"
            if path.suffix == ".tflite":
                return _fault_of_tflite(file)
            return _fault_of_onnx(file, size_bytes) if path.suffix == ".onnx" else None
    except OSError:
        return None


def _fault_of_tflite(file: BinaryIO) -> str | None:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[4:8] != _IDENTIFIER:
            return "it does not begin like a .tflite file"
        try:
            model = FlatFile(content).root()
            for buffer in model.tables(_BUFFERS):
                data_at, length = buffer.vector(_DATA)
                if data_at + length > len(content):
                    raise FlatbufferError
            model.tables(_OPERATOR_CODES)
            for graph in model.tables(_SUBGRAPHS):
                for number in (_TENSORS, _OPERATORS):
                    graph.tables(number)
        except FlatbufferError:  # a position beyond the end
            return f"it is cut after {len(content):,} bytes, or damaged"
    return None


def _fault_of_onnx(file: BinaryIO, size_bytes: int) -> str | None:
    at = 0
    for _ in range(_MAX_FIELDS):
        if at == size_bytes:
            return None
        file.seek(at)
        head = file.read(20)
        try:
            tag, used = _varint(head, 0)
            kind = tag & 7
            if kind == _BYTES:
                length, used = _varint(head, used)
                used += length
            elif kind == _VARINT:
                _, used = _varint(head, used)
            elif kind in (_FIXED_32, _FIXED_64):
                used += 4 if kind == _FIXED_32 else 8
            else:
                return "it is not an .onnx file, or it is damaged"
        except IndexError:  # the file ends inside a field
            used = size_bytes + 1
        at += used
        if at > size_bytes:
            return f"it is cut after {size_bytes:,} bytes, or damaged"
    return None


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Decode a varint; returns the number and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, at
