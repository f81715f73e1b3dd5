"""What the inspector reads out of TensorFlow Lite files: hand-made ones, real ones, any bytes."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import int8_models
from support import tflite_bytes as tb
from support.tflite_bytes import Graph, Operator, Tensor
from support.tools import need_shared

from edgebench.agent.runtimes.tflite_file import TfliteFacts, has_variables, inspect_tflite
from edgebench.protocol import flatbuffer
from edgebench.protocol.record import QuantizedOperands

BUILT_IN = Path(str(files("edgebench.host") / "builtin_models"))
WIDE, NARROW = bytes([1, 127]), bytes([64, 192])
"""Weights of int8: 1 and 127, 64 and -64."""


def inspect(folder: Path, data: bytes) -> TfliteFacts:
    """Inspect these bytes as a file."""
    path = folder / "model.tflite"
    path.write_bytes(data)
    return inspect_tflite(str(path))


def test_variables_of_a_file_are_found(tmp_path: Path) -> None:
    """Otherwise a model with a state would be compared with inferences of another history."""
    path = tmp_path / "model.tflite"
    for data, expected in (
        (int8_models.stream(np.random.default_rng(7)), True),
        (int8_models.softmax(np.random.default_rng(7)), False),
        (int8_models.stream(np.random.default_rng(7))[:60], False),
        (b"\x08\x07", False),
        (b"", False),
    ):
        path.write_bytes(data)
        assert has_variables(str(path)) is expected
    assert not has_variables(str(tmp_path / "absent.tflite"))


def layer(
    activation: int, weight: int, *, count: int = 2, raw: bytes = WIDE, unpacked: int | None = None
) -> Graph:
    """A fully connected layer; its weights may be made another type before they are used."""
    tensors = [
        Tensor("x", activation),
        Tensor("w", weight, (1, count), raw),
        Tensor("b", tb.INT32, (1,), bytes(4)),
        Tensor("y", activation),
    ]
    name, operators = "w", list[Operator]()
    if unpacked is not None:
        name = "u"
        tensors.append(Tensor("u", unpacked, (1, count)))
        operators.append(Operator(tb.DEQUANTIZE, "w", "u"))
    operators.append(Operator(tb.FULLY_CONNECTED, f"x {name} b", "y"))
    return Graph(tuple(tensors), tuple(operators))


@pytest.mark.parametrize(
    ("graph", "precision", "operands"),
    [
        (layer(tb.FLOAT32, tb.FLOAT32), "fp32", None),
        (layer(tb.FLOAT16, tb.FLOAT16), "fp16", None),
        (layer(tb.INT8, tb.INT8), "int8", ("int8", "int8", 8)),
        (layer(tb.INT8, tb.INT8, raw=NARROW), "int8", ("int8", "int8", 7)),
        (layer(tb.UINT8, tb.UINT8, raw=NARROW), "uint8", ("uint8", "uint8", 8)),
        (layer(tb.INT16, tb.INT8), "int16x8", ("int16", "int8", 8)),
        (layer(tb.FLOAT32, tb.INT8), "int8-dynamic", ("float32", "int8", 8)),
        (layer(tb.FLOAT32, tb.FLOAT16, unpacked=tb.FLOAT32), "fp16-weights", None),
        (layer(tb.FLOAT32, tb.INT8, unpacked=tb.FLOAT32), "int8-weights", None),
    ],
)
def test_precision_is_that_of_activation_and_weight(
    tmp_path: Path, graph: Graph, precision: str, operands: tuple[str, str, int] | None
) -> None:
    """Otherwise a model would be named by its input's type, and compared with other arithmetic."""
    facts = inspect(tmp_path, tb.model(graph))
    found = None if operands is None else (QuantizedOperands(*operands, is_qdq=False),)
    assert (facts.precision, facts.quantized) == (precision, found)


def test_type_of_the_graphs_input_does_not_count(tmp_path: Path) -> None:
    """Otherwise a float input would make an int8 network dynamic, and a picture make it uint8."""
    for outer in (tb.FLOAT32, tb.UINT8):
        inner = layer(tb.INT8, tb.INT8)
        tensors = (Tensor("in", outer), *inner.tensors)
        quantize = Operator(114, "in", "x")
        graph = Graph(tensors, (quantize, *inner.operators), inputs="in")
        assert inspect(tmp_path, tb.model(graph)).precision == "int8"


@pytest.mark.parametrize(("larger", "precision"), [(tb.INT8, "int8-dynamic"), (tb.FLOAT32, "fp32")])
def test_most_weights_decide(tmp_path: Path, larger: int, precision: str) -> None:
    """Otherwise a small float layer, as converters leave it, would name a whole quantised model."""
    graphs = [
        layer(tb.FLOAT32, kind, count=1000 if kind == larger else 999)
        for kind in (tb.INT8, tb.FLOAT32)
    ]
    assert inspect(tmp_path, tb.model(*graphs)).precision == precision


def test_activation_is_where_the_operator_has_it(tmp_path: Path) -> None:
    """Otherwise the sizes that a transposed convolution takes first would be its activation."""
    tensors = (
        Tensor("size", tb.INT32, (4,), bytes(16)),
        Tensor("w", tb.INT8, (1, 1, 1, 2), WIDE),
        Tensor("x", tb.FLOAT32),
        Tensor("y", tb.FLOAT32),
    )
    graph = Graph(tensors, (Operator(tb.TRANSPOSE_CONV, "size w x -", "y"),))
    assert inspect(tmp_path, tb.model(graph)).precision == "int8-dynamic"


def test_model_without_weights_has_the_precision_of_its_tensors(tmp_path: Path) -> None:
    """Otherwise a model of additions alone would have no precision."""
    assert inspect(tmp_path, tb.addition(1, 4)).precision == "fp32"
    tensors = tuple(Tensor(name, tb.INT8) for name in "xzy")
    product = Graph(tensors, (Operator(tb.BATCH_MATMUL, "x z", "y"),), inputs="x z")
    assert inspect(tmp_path, tb.model(product)).precision == "int8"


def test_lists_without_end_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a small file with overlapping lists would keep the device busy for hours."""
    data = tb.model(layer(tb.INT8, tb.INT8))
    for limit, precision in ((1000, "int8"), (10, None)):
        monkeypatch.setattr(flatbuffer, "MAX_ITEMS", limit)
        assert inspect(tmp_path, data).precision == precision


@pytest.mark.parametrize("data", [b"", b"\0", b"TFL3" * 3, bytes(64), b"\xff" * 64])
def test_what_is_no_model_tells_nothing(tmp_path: Path, data: bytes) -> None:
    """Otherwise the worker would die of a file after it has measured it."""
    assert inspect(tmp_path, data) == TfliteFacts()


@settings(max_examples=200)
@given(st.data())
def test_any_damage_is_facts_or_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Otherwise a damaged file that the runtime accepts would cost the measurement."""
    content = bytearray(tb.model(layer(tb.FLOAT32, tb.FLOAT16, unpacked=tb.FLOAT32)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    facts = inspect(tmp_path_factory.getbasetemp(), bytes(content))
    assert isinstance(facts.precision, str | None)


@pytest.mark.parametrize("name", ["digits_fp32", "digits_int8"])
def test_built_in_models_tell_their_precision(name: str) -> None:
    """Otherwise the table would show int8 where floats are multiplied, or vice versa."""
    facts = inspect_tflite(str(BUILT_IN / f"{name}.tflite"))
    assert facts.precision == name.removeprefix("digits_")


SUITE = {
    "01_hello_world/hello_world_float": "fp32",
    "01_hello_world/hello_world_int8": "int8",
    "02_digits/digits_cnn_dynrange": "int8-dynamic",
    "02_digits/digits_cnn_float32": "fp32",
    "02_digits/digits_cnn_int8": "int8",
    "03_mnist_lstm/mnist_lstm_float": "fp32",
    "03_mnist_lstm/mnist_lstm_int8": "int8",
    "04_micro_speech/micro_speech_int8": "int8",
    "05_mobilenet_v1_0.25_224/mobilenet_v1_0.25_224_float": "fp32",
    "05_mobilenet_v1_0.25_224/mobilenet_v1_0.25_224_ptq_int8": "int8",
    "05_mobilenet_v1_0.25_224/mobilenet_v1_0.25_224_qat_uint8": "uint8",
    "06_dtln_speech/dtln_1_dynrange": "int8-dynamic",
    "06_dtln_speech/dtln_1_float": "fp32",
    "08_mobilenet_v2/mobilenet_v2_1.0_224_uint8": "uint8",
    "09_mobilenet_edgetpu/mobilenet_edgetpu_224_1.0_uint8": "uint8",
    "10_coco_ssd/coco_ssd_mobilenet_v1_uint8": "uint8",
}
MLPERF_TINY = {
    "ad01_fp32": "fp32",
    "ad01_int8": "int8",
    "kws_ref_model": "int8",
    "kws_ref_model_float32": "int8-dynamic",
    "pretrainedResnet": "fp32",
    "pretrainedResnet_large_int8": "int8",
    "pretrainedResnet_quant": "int8",
    "str_ww_ref_model": "int8",
    "vww_96_float": "fp32",
    "vww_96_int8": "int8",
}
"""By the operators of each file; the file that is called float32 has int8 weights in all but its
first convolution."""


@pytest.mark.parametrize(
    ("folder", "expected"), [("suite", SUITE), ("mlperf_tiny/models", MLPERF_TINY)]
)
def test_real_models_have_the_precision_of_their_operators(
    folder: str, expected: dict[str, str]
) -> None:
    """Otherwise the parser would know the form of our own files only."""
    root = need_shared(f"models/{folder}")
    paths = {str(path.relative_to(root).with_suffix("")): path for path in root.rglob("*.tflite")}
    assert {name: inspect_tflite(str(path)).precision for name, path in paths.items()} == expected
