"""What the inspector reads out of ONNX files: real ones, hand-made ones, and any bytes."""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import onnx_bytes as ob
from support.tools import need_shared

from edgebench.agent.runtimes.onnx_file import MAX_GRAPH_DEPTH, OnnxFacts, inspect_onnx
from edgebench.protocol.errors import ExternalDataRefused, ModelRefused
from edgebench.protocol.record import QuantizedOperands

BUILT_IN = Path(str(files("edgebench.host") / "builtin_models"))


def inspect(folder: Path, data: bytes) -> OnnxFacts:
    """Inspect these bytes as a file."""
    path = folder / "model.onnx"
    path.write_bytes(data)
    return inspect_onnx(str(path))


def nested(levels: int, *, is_list: bool = False) -> bytes:
    """A model whose graphs are nested this deep."""
    inner = ob.graph(nodes=(ob.node("Relu"),))
    for _ in range(levels - 1):
        attribute = ob.subgraph_attribute(inner, is_list=is_list)
        inner = ob.graph(nodes=(ob.node("If", attributes=attribute),))
    return ob.model(inner)


@pytest.mark.parametrize(
    ("name", "precision", "operator"),
    [("digits_fp32.onnx", "fp32", "Conv"), ("digits_int8.onnx", "int8", "DequantizeLinear")],
)
def test_built_in_models_tell_their_precision(name: str, precision: str, operator: str) -> None:
    """Otherwise the table would show int8 where floats are multiplied, or vice versa."""
    facts = inspect_onnx(str(BUILT_IN / name))
    assert facts.precision == precision
    assert operator in facts.operators


@pytest.mark.parametrize(
    ("operators", "weights", "precision"),
    [
        (("MatMul",), (ob.FLOAT,), "fp32"),
        (("MatMul",), (ob.FLOAT16,), "fp16"),
        (("MatMul",), (ob.FLOAT16, ob.FLOAT), "fp32"),
        (("Relu",), (), "fp32"),
        (("QLinearConv",), (ob.INT8, ob.FLOAT), "int8"),
        (("QuantizeLinear", "Conv"), (ob.UINT8,), "uint8"),
        (("DequantizeLinear",), (ob.UINT8, ob.INT8), "int8"),
        (("QLinearMatMul",), (), "int8"),
        (("DynamicQuantizeLinear", "MatMulInteger"), (ob.UINT8,), "int8-dynamic"),
        ((), (), None),
    ],
)
def test_precision_follows_from_operators_and_weights(
    tmp_path: Path, operators: tuple[str, ...], weights: tuple[int, ...], precision: str | None
) -> None:
    """Otherwise two runs of different arithmetic would be compared as equal."""
    body = ob.graph(
        nodes=tuple(map(ob.node, operators)), initializers=tuple(map(ob.initializer, weights))
    )
    facts = inspect(tmp_path, ob.model(body))
    assert facts.precision == precision
    assert facts.operators == set(operators)


def gemm(weight: int, *before: bytes, name: str = "w", raw: bytes = b"ww") -> bytes:
    """A file with an operator whose weights are a constant, or are made of one."""
    nodes = (*before, ob.node("Gemm", inputs=f"x {name} bias", outputs="y"))
    constants = (ob.initializer(weight, raw=raw), ob.initializer(ob.UINT8, name="u"))
    return ob.model(ob.graph(nodes=nodes, initializers=constants))


DEQUANTIZED = ob.node("DequantizeLinear", inputs="w s z", outputs="wf")
BOTH = (DEQUANTIZED, ob.node("DequantizeLinear", inputs="xq s u", outputs="x"))
TO_FLOAT = ob.block(5, ob.block(1, "to") + ob.number(3, ob.FLOAT))
HALVES = ob.node("Cast", inputs="w", outputs="wf", attributes=TO_FLOAT)
TURNED = ob.node("Transpose", inputs="wf", outputs="wt")


@pytest.mark.parametrize(
    ("data", "precision"),
    [
        (gemm(ob.FLOAT), "fp32"),
        (gemm(ob.FLOAT16), "fp16"),
        (gemm(ob.FLOAT16, HALVES, name="wf"), "fp16-weights"),
        (gemm(ob.FLOAT16, HALVES, TURNED, name="wt"), "fp16-weights"),
        (gemm(ob.INT8, DEQUANTIZED, name="wf"), "int8-weights"),
        (gemm(ob.INT8, *BOTH, name="wf"), "int8"),
        (gemm(ob.UINT8, *BOTH, TURNED, name="wt"), "uint8"),
    ],
)
def test_precision_is_that_of_activation_and_weight(
    tmp_path: Path, data: bytes, precision: str
) -> None:
    """Otherwise weights that are small in the file only would be taken for small arithmetic."""
    assert inspect(tmp_path, data).precision == precision


@pytest.mark.parametrize(
    ("operator", "inputs", "precision"),
    [
        ("QLinearMatMul", "x s u w s z s u", "int8"),
        ("MatMulInteger", "x w", "int8-dynamic"),
        ("DynamicQuantizeMatMul", "x w s z", "int8-dynamic"),
        ("DynamicQuantizeLSTM", "x w w", "int8-dynamic"),
        ("MatMul", "w x", "int8"),
    ],
)
def test_weights_are_where_the_operator_has_them(
    tmp_path: Path, operator: str, inputs: str, precision: str
) -> None:
    """Otherwise an operator of onnxruntime itself would count for nothing."""
    nodes = ob.node(operator, inputs=inputs), ob.node("Conv", inputs="x f")
    constants = (
        ob.initializer(ob.INT8, raw=bytes(9)),
        ob.initializer(ob.FLOAT, name="f", raw=bytes(8)),
    )
    body = ob.graph(nodes=nodes, initializers=constants)
    assert inspect(tmp_path, ob.model(body)).precision == precision


def test_weights_may_be_attributes_or_belong_to_an_outer_graph(tmp_path: Path) -> None:
    """Otherwise models with branches, or of older exporters, would count as without weights."""
    value = ob.block(5, ob.block(1, "value") + ob.block(5, ob.initializer(ob.FLOAT16)))
    constant = ob.node("Constant", outputs="w", attributes=value)
    inner = ob.graph(nodes=(ob.node("MatMul", inputs="x w"),))
    branch = ob.node("If", inputs="c", attributes=ob.subgraph_attribute(inner))
    facts = inspect(tmp_path, ob.model(ob.graph(nodes=(constant, branch))))
    assert facts.weight_counts == {"fp16": 1}


WIDE, NARROW = bytes([1, 127]), bytes([64, 192])
"""Weights of int8: 1 and 127, 64 and -64."""


def pair(activation: str, weight: str, bits: int = 8, *, is_qdq: bool = False) -> QuantizedOperands:
    """The operands that a file has."""
    return QuantizedOperands(activation, weight, bits, is_qdq=is_qdq)


def qdq(zero_point: str, operator: str = "Conv") -> tuple[bytes, ...]:
    """An operator on floats between quantised tensors, as exporters write it, in any order."""
    return (
        ob.node(operator, inputs="xf wf", outputs="yf"),
        ob.node("DequantizeLinear", inputs="w s wz", outputs="wf"),
        ob.node("QuantizeLinear", inputs=f"x s {zero_point}", outputs="xq"),
        ob.node("DequantizeLinear", inputs=f"xq s {zero_point}", outputs="xf"),
    )


@pytest.mark.parametrize(
    ("nodes", "weights", "found"),
    [
        (qdq("u"), (ob.INT8, WIDE), pair("uint8", "int8", is_qdq=True)),
        (qdq("u"), (ob.INT8, NARROW), pair("uint8", "int8", 7, is_qdq=True)),
        (qdq("u"), (ob.INT8, b""), pair("uint8", "int8", is_qdq=True)),
        (qdq("u"), (ob.UINT8, NARROW), pair("uint8", "uint8", is_qdq=True)),
        (qdq("i", "MatMul"), (ob.INT8, WIDE), pair("int8", "int8", is_qdq=True)),
        (qdq(""), (ob.INT8, WIDE), pair("uint8", "int8", is_qdq=True)),
        (qdq("u", "Relu"), (ob.INT8, WIDE), None),
        (qdq("elsewhere"), (ob.INT8, WIDE), None),
        (qdq("u"), (ob.FLOAT, WIDE), None),
        ((ob.node("Conv", inputs="x w"),), (ob.FLOAT, WIDE), None),
        ((ob.node("Conv"),), (ob.INT8, WIDE), None),
        ((ob.node("QLinearConv"),), (ob.INT8, WIDE), None),
        ((ob.node("QLinearConv", inputs="x s u w s wz s u"),), (ob.INT8, WIDE),
         pair("uint8", "int8")),
        ((ob.node("QLinearMatMul", inputs="x s i w s wz s i"),), (ob.INT8, WIDE),
         pair("int8", "int8")),
        ((ob.node("QLinearConv", inputs="x s elsewhere w s wz s u", outputs="h"),
          ob.node("QLinearMatMul", inputs="h s elsewhere w s wz s u")), (ob.INT8, WIDE),
         pair("uint8", "int8")),
        ((ob.node("DynamicQuantizeLinear", inputs="x", outputs="xq xs xz"),
          ob.node("MatMulInteger", inputs="xq w xz wz")), (ob.INT8, WIDE), pair("uint8", "int8")),
    ],
)  # fmt: skip
def test_what_quantised_operators_multiply_follows_from_the_constants(
    tmp_path: Path,
    nodes: tuple[bytes, ...],
    weights: tuple[int, bytes],
    found: QuantizedOperands | None,
) -> None:
    """Otherwise wrong outputs from a known fault of some CPUs would have no, or a false, reason."""
    data_type, raw = weights
    constants = (
        ob.initializer(data_type, name="w", raw=raw),
        ob.initializer(ob.UINT8, name="u"),
        ob.initializer(ob.INT8, name="i"),
    )
    body = ob.graph(nodes=nodes, initializers=constants)
    facts = inspect(tmp_path, ob.model(body))
    assert facts.quantized == (None if found is None else (found,))


@pytest.mark.parametrize(
    ("tensor", "where"),
    [({"location": 1}, ""), ({"external": True}, ", other.bin")],
    ids=["flag", "name"],
)
def test_weights_in_another_file_are_refused(
    tmp_path: Path, tensor: dict[str, Any], where: str
) -> None:
    """Otherwise a model would read files of the device, or fail there without its weights."""
    weights = ob.initializer(ob.FLOAT, **tensor)
    message = rf"^weights are in another file \(external data{where}\); only a single file"
    with pytest.raises(ExternalDataRefused, match=message):
        inspect(tmp_path, ob.model(ob.graph(initializers=(weights,))))


def test_weights_that_say_that_they_are_here_are_fine(tmp_path: Path) -> None:
    """Otherwise the default, written out, would be refused."""
    weights = ob.initializer(ob.FLOAT, location=0)
    assert inspect(tmp_path, ob.model(ob.graph(initializers=(weights,)))).weight_types == {1}


@pytest.mark.parametrize(("code", "name"), [(ob.INT4, "int4"), (ob.UINT4, "uint4")])
def test_four_bit_weights_are_refused_by_name(tmp_path: Path, code: int, name: str) -> None:
    """Otherwise a precision would be measured whose outputs nothing here checks."""
    body = ob.graph(nodes=(ob.node("DequantizeLinear"),), initializers=(ob.initializer(code),))
    with pytest.raises(ModelRefused, match=f"^{name} weights"):
        inspect(tmp_path, ob.model(body))


@pytest.mark.parametrize("is_list", [False, True])
def test_nesting_is_allowed_up_to_the_limit_only(tmp_path: Path, is_list: bool) -> None:
    """Otherwise a runtime that recurses over graphs would die of a stack overflow."""
    assert "Relu" in inspect(tmp_path, nested(MAX_GRAPH_DEPTH, is_list=is_list)).operators
    with pytest.raises(ModelRefused, match=f"more than {MAX_GRAPH_DEPTH} graphs deep"):
        inspect(tmp_path, nested(MAX_GRAPH_DEPTH + 1, is_list=is_list))


def test_thousands_of_levels_do_not_overflow_our_own_stack(tmp_path: Path) -> None:
    """Otherwise the guard against deep nesting would itself fail on deep nesting."""
    with pytest.raises(ModelRefused, match="nested"):
        inspect(tmp_path, nested(3000))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"version https://git-lfs.github.com/spec/v1\n",
        b"\x89PNG\r\n\x1a\n",
        ob.varint(7 << 3 | 2) + ob.varint(2**62),
        ob.varint(7 << 3 | 2) + b"\xff" * 20,
        ob.varint(7 << 3 | 3),
        b"\xff" * 100,
        ob.model(b"\xff\xff"),
    ],
)
def test_what_is_no_protobuf_is_left_to_the_runtime(tmp_path: Path, data: bytes) -> None:
    """Otherwise the inspector's guess would hide the library's message, or crash the worker."""
    assert inspect(tmp_path, data).precision is None


@settings(max_examples=150)
@given(st.binary(max_size=400))
def test_any_bytes_are_facts_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    """Otherwise a file would raise something that the worker cannot name."""
    folder = tmp_path_factory.getbasetemp()
    for content in (data, ob.model(data), ob.model(ob.block(1, data)), ob.model(ob.block(5, data))):
        with suppress(ModelRefused):
            assert isinstance(inspect(folder, content), OnnxFacts)


MESSAGES = st.recursive(
    st.binary(max_size=12),
    lambda inner: st.lists(
        st.tuples(st.integers(0, 30), inner).map(lambda pair: ob.block(*pair))
        | st.tuples(st.integers(0, 30), st.integers(0, 2**64)).map(lambda pair: ob.number(*pair)),
        max_size=5,
    ).map(b"".join),
    max_leaves=12,
)


@settings(max_examples=150)
@given(MESSAGES)
def test_any_protobuf_is_facts_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, message: bytes
) -> None:
    """Otherwise well-formed protobuf with odd fields would raise what the worker cannot name."""
    folder = tmp_path_factory.getbasetemp()
    with suppress(ModelRefused):
        assert isinstance(inspect(folder, ob.model(message)), OnnxFacts)


SUITE = {
    "digits_cnn_float32": "fp32",
    "digits_cnn_qdq_int8": "int8",
    "mnist-7": "fp32",
    "mobilenet_v1_0.25_224_float": "fp32",
    "mobilenet_v1_0.25_224_qdq_int8": "int8",
    "dtln_1_float": "fp32",
    "RFB-320": "fp32",
}


def test_real_models_have_the_precision_of_their_operators() -> None:
    """Otherwise a guard against hostile files would reject real ones, or know our own only."""
    models = {path.stem: path for path in need_shared("models/suite").rglob("*.onnx")}
    found = {name: inspect_onnx(str(path)) for name, path in models.items()}
    assert {name: facts.precision for name, facts in found.items()} == SUITE
    assert all(facts.weight_counts for facts in found.values())


def test_real_models_tell_what_they_multiply() -> None:
    """Otherwise the parser would know the form of our own files only."""
    models = {path.name: path for path in need_shared("models/suite").rglob("*.onnx")}
    found = {name: inspect_onnx(str(path)).quantized for name, path in models.items()}
    name = "mobilenet_v1_0.25_224_qdq_int8.onnx"
    assert found[name] == (pair("uint8", "int8", is_qdq=True),)
    assert found["mobilenet_v1_0.25_224_float.onnx"] is None
