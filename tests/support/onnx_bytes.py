"""ONNX files written by hand, field by field, so that tests need no library to make odd ones.

Field numbers: onnx/onnx, onnx/onnx.proto3.
"""

from __future__ import annotations

import struct

FLOAT, UINT8, INT8, INT64, STRING, FLOAT16, UINT4, INT4 = 1, 2, 3, 7, 8, 10, 21, 22
"""TensorProto.DataType."""


def varint(value: int) -> bytes:
    """A protobuf variable-length integer."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    """An integer field."""
    return varint(field << 3) + varint(value)


def block(field: int, content: bytes | str) -> bytes:
    """A length-delimited field: text, bytes, or a message."""
    raw = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def node(op_type: str, *, attributes: bytes = b"", inputs: str = "", outputs: str = "") -> bytes:
    """A NodeProto; inputs and outputs are names with blanks between them."""
    names = [block(1, name) for name in inputs.split()] + [block(2, n) for n in outputs.split()]
    return b"".join(names) + block(4, op_type) + attributes


def subgraph_attribute(graph: bytes, *, is_list: bool = False) -> bytes:
    """A node's attribute that holds a graph, as in If and Loop."""
    return block(5, block(1, "body") + block(11 if is_list else 6, graph))


def initializer(
    data_type: int, *, name: str = "w", raw: bytes = b"", location: int | None = None,
    external: bool = False,
) -> bytes:  # fmt: skip
    """A TensorProto of one dimension."""
    parts = [number(1, max(1, len(raw))), number(2, data_type), block(8, name), block(9, raw)]
    if location is not None:
        parts.append(number(14, location))
    if external:
        parts.append(block(13, block(1, "location") + block(2, "other.bin")))
    return b"".join(parts)


def graph(*, nodes: tuple[bytes, ...] = (), initializers: tuple[bytes, ...] = ()) -> bytes:
    """A GraphProto."""
    return b"".join([block(1, n) for n in nodes] + [block(5, tensor) for tensor in initializers])


def model(graph_bytes: bytes) -> bytes:
    """A ModelProto: IR version 8, opset 13."""
    return number(1, 8) + block(8, number(2, 13)) + block(7, graph_bytes)


def addition(constant: float) -> bytes:
    """A whole model that really runs: y = x + constant, on one float."""
    raw = struct.pack("<f", constant)
    return _addition_of(number(1, 1) + number(2, FLOAT) + block(8, "c") + block(9, raw))


def addition_outside(name: str) -> bytes:
    """The same model; the constant is the first float of a file beside it."""
    entries = {"location": name, "offset": "0", "length": "4"}
    tensor = number(1, 1) + number(2, FLOAT) + block(8, "c")
    tensor += b"".join(block(13, block(1, key) + block(2, text)) for key, text in entries.items())
    return _addition_of(tensor + number(14, 1))


def _addition_of(tensor: bytes) -> bytes:
    body = graph(nodes=(node("Add", inputs="x c", outputs="y"),), initializers=(tensor,))
    ends = block(11, value_info("x", FLOAT, 1)) + block(12, value_info("y", FLOAT, 1))
    return model(body + block(2, "addition") + ends)


def identity_of_strings() -> bytes:
    """A whole model that really runs: y = x, on one string."""
    body = graph(nodes=(node("Identity", inputs="x", outputs="y"),))
    ends = block(11, value_info("x", STRING, 1)) + block(12, value_info("y", STRING, 1))
    return model(body + block(2, "strings") + ends)


def positions() -> bytes:
    """A whole model that really runs: where four floats are not zero; as many as there are."""
    body = graph(nodes=(node("NonZero", inputs="x", outputs="y"),))
    ends = block(11, value_info("x", FLOAT, 4)) + block(12, value_info("y", INT64, 1, "count"))
    return model(body + block(2, "positions") + ends)


def open_addition() -> bytes:
    """A whole model that really runs: y = x + z, on floats of any batch and length."""
    body = graph(nodes=(node("Add", inputs="x z", outputs="y"),))
    ends = [value_info(name, FLOAT, "batch", "length", 3) for name in "xzy"]
    return model(
        body + block(2, "open") + block(11, ends[0]) + block(11, ends[1]) + block(12, ends[2])
    )


def embedding() -> bytes:
    """A whole model that really runs: token ids, segments and a mask, as of BERT.

    Its tables have two rows: other indices than 0 and 1 are refused by the runtime.
    """
    table = number(1, 2) + number(1, 3) + number(2, FLOAT) + block(9, struct.pack("<6f", *range(6)))
    body = graph(
        nodes=(
            node("Gather", inputs="words input_ids", outputs="w"),
            node("Gather", inputs="words token_type_ids", outputs="s"),
            node("Gather", inputs="words attention_mask", outputs="m"),
            node("Add", inputs="w s", outputs="e"),
            node("Mul", inputs="e m", outputs="y"),
        ),
        initializers=(table + block(8, "words"),),
    )
    inputs = "input_ids", "token_type_ids", "attention_mask"
    ends = [block(11, value_info(name, INT64, "batch", "length")) for name in inputs]
    ends.append(block(12, value_info("y", FLOAT, "batch", "length", 3)))
    return model(body + block(2, "embedding") + b"".join(ends))


def classifier(*, has_text_labels: bool = False) -> bytes:
    """A whole model that really runs, with the outputs of a scikit-learn export.

    A label, and a list with a dictionary of probabilities for each sample.
    """
    name = "classlabels_strings" if has_text_labels else "classlabels_int64s"
    values = (
        b"".join(block(9, label) for label in ("no", "yes", "maybe")) + number(20, 8)
        if has_text_labels
        else b"".join(number(8, label) for label in (0, 1, 7)) + number(20, 7)
    )
    labels = block(5, block(1, name) + values)
    body = graph(
        nodes=(
            node("Softmax", inputs="x", outputs="p"),
            node("ArgMax", inputs="p", outputs="label"),
            node("ZipMap", inputs="p", outputs="probabilities", attributes=labels + block(7, ML)),
        )
    )
    table = block(5, number(1, STRING if has_text_labels else INT64) + block(2, _FLOAT_TENSOR))
    ends = (
        block(11, value_info("x", FLOAT, 2, 3))
        + block(12, value_info("label", INT64, 1, 3))
        + block(12, block(1, "probabilities") + block(2, block(4, block(1, table))))
    )
    return model(body + block(2, "classifier") + ends) + block(8, block(1, ML) + number(2, 3))


def pair_of_tensors() -> bytes:
    """A whole model that really runs: a list of its two inputs."""
    body = graph(nodes=(node("SequenceConstruct", inputs="x z", outputs="y"),))
    ends = block(11, value_info("x", FLOAT, 2)) + block(11, value_info("z", FLOAT, 3))
    ends += block(12, block(1, "y") + block(2, block(4, block(1, _FLOAT_TENSOR))))
    return model(body + block(2, "pair") + ends)


ML = "ai.onnx.ml"
"""Domain of the operators of classical machine learning."""
_FLOAT_TENSOR = block(1, number(1, FLOAT))
"""TypeProto of a tensor of floats."""


def value_info(name: str, data_type: int, *sizes: int | str) -> bytes:
    """A ValueInfoProto: a tensor at one end of a graph; a name is an open dimension."""
    dimensions = [number(1, size) if isinstance(size, int) else block(2, size) for size in sizes]
    shape = block(2, b"".join(block(1, dimension) for dimension in dimensions))
    return block(1, name) + block(2, block(1, number(1, data_type) + shape))
