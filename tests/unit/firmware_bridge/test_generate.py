"""The generator of model blobs: the arena, what it refuses, and the needs that it reports."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import int8_models
from support import tflite_bytes as tb
from support.reference_kernels import BUILT_IN
from support.tflite_bytes import Graph, Operator, Tensor, model

from edgebench.firmware_bridge.arena import Lifetime, aligned, plan
from edgebench.firmware_bridge.board_model import sent_model
from edgebench.firmware_bridge.generate import (
    BoardMemory,
    InputEncoding,
    generate,
    id_of_file,
    model_id_of,
)
from edgebench.firmware_bridge.quantization import (
    FixedPoint,
    fixed_point,
    fixed_point_once,
    rounded,
)
from edgebench.firmware_bridge.tflite import TfliteCode
from edgebench.protocol.errors import ModelRefused

LIFETIMES = st.builds(
    lambda size, first, length: Lifetime(size, first, first + length),
    st.integers(0, 500),
    st.integers(0, 10),
    st.integers(0, 10),
)


@given(st.lists(LIFETIMES, max_size=12))
def test_pieces_that_live_at_once_do_not_overlap(pieces: list[Lifetime]) -> None:
    """Otherwise a tensor would be overwritten before it is read."""
    places, total = plan(pieces)
    for i, piece in enumerate(pieces):
        assert places[i] % 16 == 0
        assert places[i] + piece.size <= total
        for j, other in enumerate(pieces[:i]):
            if piece.first <= other.last and other.first <= piece.last:
                apart = places[i] + piece.size <= places[j], places[j] + other.size <= places[i]
                assert any(apart) or not (piece.size and other.size)


@given(st.lists(LIFETIMES, max_size=12))
def test_arena_is_no_larger_than_all_pieces_side_by_side(pieces: list[Lifetime]) -> None:
    """Otherwise a model would be refused for memory that it does not need."""
    _, total = plan(pieces)
    at_once = [
        sum(piece.size for piece in pieces if piece.first <= moment <= piece.last)
        for moment in range(21)
    ]
    assert max(at_once) <= total <= sum(aligned(piece.size) for piece in pieces)


def test_factors_are_those_of_tflite() -> None:
    """Otherwise every output would be off by one now and then."""
    assert fixed_point(0.0) == FixedPoint(0, 0)
    assert fixed_point(1.0) == FixedPoint(2**30, 1)
    assert fixed_point(0.5) == FixedPoint(2**30, 0)
    assert fixed_point(0.3) == FixedPoint(1288490189, -1)
    assert fixed_point(1 - 2**-40) == FixedPoint(2**30, 1), "2^31 is no int32"
    assert fixed_point(2.0**-40) == FixedPoint(0, 0)
    assert [rounded(value) for value in (0.5, -0.5, 1.49, -2.5, 0.49999999999999994)] == [
        *(1, -1, 1, -3, 0),
    ]


def test_blob_says_what_it_needs() -> None:
    """Otherwise a board would get a model that it has no memory for."""
    blob = generate(BUILT_IN.read_bytes(), model_id="digits")
    assert blob.flash_bytes == len(blob.data)
    assert blob.ram_bytes >= blob.arena_bytes + 64
    assert (blob.input_bytes, blob.output_bytes) == (64, 10)
    assert struct.unpack_from("<4sII", blob.data) == (b"EBMB", 1, len(blob.data))
    blob.check_fit(BoardMemory(blob.flash_bytes, blob.ram_bytes))
    with pytest.raises(ModelRefused, match=r"digits needs \d+ bytes of flash, the board has 100"):
        blob.check_fit(BoardMemory(100, blob.ram_bytes))
    with pytest.raises(ModelRefused, match=r"needs \d+ bytes of RAM, the board has 100"):
        blob.check_fit(BoardMemory(blob.flash_bytes, 100))


def test_blob_is_the_same_every_time() -> None:
    """Otherwise a CRC would not show whether the model on a board is that of a run."""
    data = BUILT_IN.read_bytes()
    assert generate(data, model_id="a").data == generate(data, model_id="a").data


def test_input_of_a_known_model_is_encoded_as_its_hosts_send_it() -> None:
    """Otherwise MLPerf Tiny's runner would send bytes that the device misinterprets."""
    data = int8_models.fully_connected(np.random.default_rng(0))
    assert generate(data, model_id="kws01").input_encoding == "int8"
    assert generate(data, model_id="vww01").input_encoding == "uint8"
    encoded = generate(data, model_id="x", input_encoding="float32")
    assert encoded.input_bytes == 4 * generate(data, model_id="x").input_bytes


def test_file_of_mlperf_tiny_has_the_id_of_its_benchmark() -> None:
    """Otherwise a runner would find no test for the model, and its images be taken for int8."""
    names = ["kws_ref_model", "vww_96_int8", "pretrainedResnet_quant", "ad01_int8", "strm_ww_int8"]
    ids = [id_of_file(f"{name}.tflite") for name in names]
    assert ids == ["kws01", "vww01", "ic01", "ad01", "sww01"]
    assert id_of_file("vww_96_int8_mine.tflite") == "vww_96_int8_mine"


def test_other_model_under_a_known_name_takes_int8() -> None:
    """Otherwise every board would refuse a user's own classifier.

    It is named as MLPerf Tiny's model for anomalies.
    """
    blob = generate(BUILT_IN.read_bytes(), model_id="ad01")
    assert blob.input_encoding == "int8"
    assert struct.unpack_from("<2I", blob.data, 76) == (0, 0), "docs/model-blob.md"


@pytest.mark.parametrize("data", [b"", b"TFL3" * 3, bytes(64), b"\xff" * 64, b"\x10\0\0\0TFL3"])
def test_what_is_no_model_is_refused(data: bytes) -> None:
    """Otherwise a user would see a traceback of struct."""
    with pytest.raises(ModelRefused):
        generate(data, model_id="x")


DAMAGED = [
    int8_models.fully_connected(np.random.default_rng(1)),
    *(make(np.random.default_rng(1)) for make in int8_models.KINDS.values()),
    int8_models.stream(np.random.default_rng(1)),
    int8_models.two_inputs(np.random.default_rng(1)),
]


@settings(max_examples=600, deadline=None)
@given(
    st.sampled_from(DAMAGED),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
)
@example(DAMAGED[0], [(27041, 20)])  # the options of the operator are outside of the file
@example(DAMAGED[0], [(27041, 1)])
@example(DAMAGED[0], [(4937, 1)])  # an operator has a tensor that does not exist
def test_damaged_model_is_a_blob_or_refused(whole: bytes, edits: list[tuple[int, int]]) -> None:
    """Otherwise the process that makes the blob would die of a file, or never end."""
    data = bytearray(whole)
    for place, value in edits:
        data[place % len(data)] = value
    try:
        generate(bytes(data), model_id="x")
    except ModelRefused:
        return


def refused(graph: Graph) -> str:
    """Return why this model is refused."""
    with pytest.raises(ModelRefused) as error:
        generate(model(graph), model_id="x")
    return str(error.value)


def test_operators_that_are_missing_are_all_named_before_anything_else_fails() -> None:
    """Otherwise a user would find out one after the other which parts of a model have to go."""
    tensors = (Tensor("x", tb.FLOAT32), Tensor("y", tb.INT8), Tensor("z", tb.INT8))
    operators = (
        Operator(tb.BATCH_MATMUL, "x x", "y"),
        Operator(tb.ADD, "x x", "y"),
        Operator(tb.PACK, "x y", "y"),
        Operator(tb.BATCH_MATMUL, "x x", "y"),
    )
    text = refused(Graph(tensors, operators, inputs="x z"))
    assert text == ("the firmware does not support 3 of 4 operators: BATCH_MATMUL (2), PACK (1)")


def test_page_lists_the_operators_that_are_not_missing() -> None:
    """Otherwise a user would change a model for an operator that the firmware has, or lacks."""
    page = (Path(__file__).parents[3] / "docs/model-blob.md").read_text()
    (paragraph,) = re.findall(r"Operators of a model that can be converted: (.*?)\.", page, re.S)
    listed = {TfliteCode[name] for name in re.findall(r"[A-Z][A-Z0-9_]+", paragraph)}
    assert listed == set(TfliteCode)
    operators = tuple(Operator(code, "x", "y") for code in sorted(listed))
    text = refused(Graph((Tensor("x", tb.FLOAT32), Tensor("y", tb.INT8)), operators))
    # SHAPE is computed before the others are counted; PACK of an activation is not supported.
    assert text == f"the firmware does not support 1 of {len(listed) - 1} operators: PACK (1)"


def test_variable_without_a_handle_is_refused_for_that() -> None:
    """Otherwise the text would be that int8 is not int8."""
    handle = Tensor("h", tb.RESOURCE, ())
    tensors = (handle, *(Tensor(name, tb.INT8, scales=(0.1,)) for name in "xy"))
    text = refused(Graph(tensors, (Operator(tb.READ_VARIABLE, "h", "y"),)))
    assert text == "variable of tensor 'y' is not the output of a VAR_HANDLE"


@pytest.mark.parametrize(
    ("source", "bias", "name"), [(tb.INT16, tb.INT32, "int32"), (tb.INT8, tb.INT64, "int64")]
)
def test_bias_of_another_type_than_the_input_has_is_refused(
    source: int, bias: int, name: str
) -> None:
    """Otherwise outputs would differ from LiteRT's, which computes it in another way."""
    tensors = (
        Tensor("x", source, (1, 1, 1, 1), scales=(0.1,)),
        Tensor("w", tb.INT8, (1, 1, 1, 1), b"\x01", (0.1,)),
        Tensor("b", bias, (1,), bytes(4 if bias == tb.INT32 else 8), (0.01,)),
        Tensor("y", source, (1, 1, 1, 1), scales=(0.1,)),
    )
    text = refused(Graph(tensors, (Operator(tb.CONV_2D, "x w b", "y", {1: 1, 2: 1}),)))
    assert text.startswith(f"bias 'b' has type {name}; an input of int")


@pytest.mark.parametrize("code", [tb.CONV_2D, tb.TRANSPOSE_CONV])
def test_factor_that_the_board_refuses_is_refused_by_the_generator(code: int) -> None:
    """Otherwise `edgebench check` would accept a model that no board then runs."""
    tensors = (
        Tensor("x", tb.INT16, (1, 1, 1, 1), scales=(0.5,)),
        Tensor("w", tb.INT8, (1, 1, 1, 1), b"\x01", (0.5,)),
        Tensor("s", tb.INT32, (4,), struct.pack("<4i", 1, 1, 1, 1)),
    )
    names = "x w" if code == tb.CONV_2D else "s w x"
    operators = (Operator(code, names, "y", {1: 1, 2: 1}),)
    out = Tensor("y", tb.INT16, (1, 1, 1, 1), scales=(0.25 / 127,))
    assert generate(model(Graph((*tensors, out), operators, inputs="x")), model_id="x")
    text = refused(Graph((*tensors, replace(out, scales=(0.25 / 129,))), operators, inputs="x"))
    assert text == (
        "scales of 'w' and 'y' multiply sums of int16 by 129; this factor must be below 2^7"
    )


def test_addition_of_int16_whose_scales_are_about_powers_of_two_is_refused() -> None:
    """Otherwise outputs would differ from LiteRT's, which only shifts in this case."""
    x, y = (Tensor(name, tb.INT16, (1, 4), scales=(2**-10 * 1.0006,)) for name in "xy")
    operators = (Operator(tb.ADD, "x x", "y"),)
    text = refused(Graph((x, y), operators))
    assert text == "int16 ADD with output 'y' has power-of-two scales"
    farther = replace(x, scales=(2**-10 * 1.0008,))
    assert generate(model(Graph((farther, y), operators)), model_id="x")


def test_model_of_floats_is_refused() -> None:
    """Otherwise weights of floats would be taken for int8."""
    with pytest.raises(
        ModelRefused, match=r"^tensor 'x' has type float32, not int8 \(1 of 1 operators .* quantise"
    ):
        generate(tb.addition(1, 4), model_id="x")


def test_model_id_is_what_a_line_can_carry() -> None:
    """Otherwise a file's name would end a line of the protocol, or be cut silently."""
    assert model_id_of("my model] (v2).tflite") == "my-model---v2-.tflite"
    assert model_id_of("") == "model"
    assert len(model_id_of("x" * 100)) == 31
    with pytest.raises(ModelRefused, match="model ID"):
        generate(BUILT_IN.read_bytes(), model_id="a]b")


def test_squared_error_is_of_an_input_of_floats_alone() -> None:
    """Otherwise every board would refuse a file named as MLPerf Tiny's model for anomalies."""
    cases: tuple[tuple[InputEncoding, tuple[int, int]], ...]
    cases = (("int8", (0, 0)), ("float32", (2, 1)))
    for encoding, expected in cases:
        blob = generate(BUILT_IN.read_bytes(), model_id="ad01", input_encoding=encoding)
        assert struct.unpack_from("<2I", blob.data, 76) == expected, "docs/model-blob.md"


@pytest.mark.parametrize(
    ("make", "precision"),
    [
        (int8_models.convolution, "int8"),
        (int8_models.unsigned_halves, "uint8"),
        (int8_models.wide_convolution, "int16x8"),
        (int8_models.lstm, "int8"),
        (int8_models.wide_binary, "int16"),
    ],
)
def test_precision_of_a_sent_model_is_that_of_its_file(
    make: Callable[[np.random.Generator], bytes], precision: str
) -> None:
    """Otherwise a model of int16 would be compared with others as one of int8."""
    data = make(np.random.default_rng(0))
    assert sent_model(data, generate(data, model_id="m")).precision == precision


def test_source_of_a_linked_model_is_its_blob() -> None:
    """Otherwise a model that is linked in would differ from the same model when loaded."""
    blob = generate(BUILT_IN.read_bytes(), model_id="digits")
    words = re.findall(r"0x([0-9a-f]{8})u", blob.c_source())
    assert b"".join(struct.pack("<I", int(word, 16)) for word in words) == blob.data
    assert f"linked_model_words[{len(blob.data) // 4}]" in blob.c_source()


def test_command_prints_the_sizes_and_refuses_in_one_line(tmp_path: Path) -> None:
    """Otherwise a user's mistake would be a traceback."""
    output = tmp_path / "blob"
    words = [sys.executable, "-m", "edgebench.firmware_bridge.generate"]
    made = subprocess.run(
        [*words, str(BUILT_IN), "--board", "mps2-an386", "--output", str(output)],
        capture_output=True,
        text=True,
        check=True,
    )
    size = output.stat().st_size
    assert made.stdout.startswith(f"digits_int8: flash {size} bytes, RAM ")
    named = tmp_path / "vww_96_int8.tflite"
    named.write_bytes(BUILT_IN.read_bytes())
    for options, model_id in ([], "vww01"), (["--id", "vww_96_int8"], "vww_96_int8"):
        again = subprocess.run(
            [*words, str(named), *options], capture_output=True, text=True, check=True
        )
        assert again.stdout.startswith(f"{model_id}: flash ")
    missing = subprocess.run(
        [*words, str(tmp_path / "no.tflite")], capture_output=True, text=True, check=False
    )
    assert missing.returncode == 2
    assert missing.stderr.count("\n") == 1


def test_factor_of_fully_connected_has_the_products_of_double_precision() -> None:
    """LiteRT rounds halves away from zero, after a product in double precision."""
    generator = np.random.default_rng(1)
    exact = [(2.0**-shift, output) for shift in (1, 5, 23) for output in (-128, -1, 0, 126)]
    factors, outputs = 2.0 ** -generator.uniform(1, 23, 2000), generator.integers(-128, 127, 2000)
    drawn = zip(factors.tolist(), outputs.tolist(), strict=True)
    mistaken_count = 0
    for factor, output in [*exact, *drawn]:
        total = round((output + 0.5) / factor)
        expected = rounded(total * factor)
        mistaken_count += fixed_point(factor).once(total) != expected
        chosen = fixed_point_once(factor, range(total, total + 1), range(-128, 127))
        assert chosen.once(total) == expected
        assert abs(chosen.multiplier - fixed_point(factor).multiplier) <= 1
    assert mistaken_count > 10, "otherwise the nearest factor would do"
