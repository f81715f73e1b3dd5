"""Whether a model file is whole, for the advice after a runtime has refused it.

    .tflite   FlatBuffer: the tables and the data of all buffers are inside the file
    .onnx     protobuf: the fields of the outermost message fill the file

Only positions are checked, not the model: a whole file may still be refused.

Sources: https://flatbuffers.dev/internals, tensorflow/compiler/mlir/lite/schema/schema.fbs
(table Model), https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import BinaryIO

_IDENTIFIER = b"TFL3"
_OPERATOR_CODES, _SUBGRAPHS, _BUFFERS = 1, 2, 4
"""Numbers of the fields of the table Model."""
_TENSORS, _OPERATORS, _DATA = 0, 3, 0
"""Numbers of fields of the tables SubGraph and Buffer."""
_MAX_FIELDS = 100_000
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
"""Wire types of protobuf."""


def fault_of_model(path: Path) -> str | None:
    """What is wrong with a model file as a file; None if it is whole, or if it cannot be read."""
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
            model_at = _u32(content, 0)
            for buffer_at in _tables(content, model_at, _BUFFERS):
                data_at = _field_at(content, buffer_at, _DATA)
                if data_at is not None:
                    begin = data_at + _u32(content, data_at)
                    if begin + 4 + _u32(content, begin) > len(content):
                        return f"it is cut after {len(content):,} bytes"
            _tables(content, model_at, _OPERATOR_CODES)
            for graph_at in _tables(content, model_at, _SUBGRAPHS):
                for number in (_TENSORS, _OPERATORS):
                    _tables(content, graph_at, number)
        except struct.error:  # a position beyond the end
            return f"it is cut after {len(content):,} bytes"
    return None


def _u32(content: mmap.mmap, at: int) -> int:
    return int(struct.unpack_from("<I", content, at)[0])


def _field_at(content: mmap.mmap, table_at: int, number: int) -> int | None:
    """Position of a field of a table; None if the table lacks it."""
    vtable_at = table_at - int(struct.unpack_from("<i", content, table_at)[0])
    size_bytes = int(struct.unpack_from("<H", content, max(vtable_at, 0))[0])
    entry = 4 + 2 * number
    if entry + 2 > size_bytes:
        return None
    offset = int(struct.unpack_from("<H", content, vtable_at + entry)[0])
    return table_at + offset if offset else None


def _tables(content: mmap.mmap, table_at: int, number: int) -> list[int]:
    """Positions of the tables in a vector, which is a field of a table.

    Raises:
        struct.error: one of them is beyond the end.
    """
    field_at = _field_at(content, table_at, number)
    if field_at is None:
        return []
    begin = field_at + _u32(content, field_at)
    entries = range(begin + 4, begin + 4 + 4 * min(_u32(content, begin), _MAX_FIELDS), 4)
    tables = [entry + _u32(content, entry) for entry in entries]
    for table in tables:
        _u32(content, table)
    return tables


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
            return f"it is cut after {size_bytes:,} bytes"
    return None


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, at
