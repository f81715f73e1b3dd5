"""Reading unchecked FlatBuffers."""

from __future__ import annotations

import struct

import pytest
from support.tflite_bytes import Graph, Tensor, model

from edgebench.protocol.flatbuffer import FlatbufferError, FlatFile

TENSOR = Tensor("x", shape=(1, 2, 3), scales=(0.5, 0.25), zero_point=-7, axis=2)


def test_fields_of_every_kind_are_read() -> None:
    """Otherwise a scale or a zero point would be taken from another place of the file."""
    root = FlatFile(model(Graph((TENSOR, Tensor("y")), ()))).root()
    (graph,) = root.tables(2)
    tensor, other = graph.tables(0)
    assert tensor.numbers(0) == (1, 2, 3)
    assert tensor.content(3) == b"x"
    quantization = tensor.table(4)
    assert quantization is not None
    assert quantization.reals(2) == (0.5, 0.25)
    assert quantization.numbers(3, "q") == (-7, -7)
    assert quantization.number(6) == 2
    assert other.table(4) is None
    assert other.number(20, default=5) == 5


@pytest.mark.parametrize("data", [b"", b"\x04", struct.pack("<I", 2**31), bytes(3) + b"\xff" * 9])
def test_place_outside_of_the_file_is_an_error(data: bytes) -> None:
    """Otherwise memory behind the file would be read, or a traceback of struct be shown."""
    with pytest.raises(FlatbufferError):
        FlatFile(data).root().numbers(0)


def test_number_of_items_is_bounded() -> None:
    """Otherwise a small file with overlapping lists would be followed for hours."""
    data = model(Graph((TENSOR, Tensor("y")), ()))
    root = FlatFile(data, max_items=4).root()
    with pytest.raises(FlatbufferError):
        root.tables(2)[0].tables(0)[0].numbers(0)
