"""The firmware's kernels and the reference kernels: operator by operator and as a whole.

LiteRT's and, for the other variant of rounding, TensorFlow Lite Micro's. The long form:
tests/system/firmware_exactness.py, firmware_on_qemu.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from support import int8_models
from support.firmware_process import Line, built, emulated, run_inference, running
from support.reference_kernels import (
    BUILT_IN,
    MODELS,
    REFERENCES,
    Reference,
    board_files,
    inputs,
    model_files,
    samples,
)
from support.tools import need_micro, need_runtime, need_shared, need_tool

from edgebench.firmware_bridge.board_fit import check_model
from edgebench.firmware_bridge.generate import Rounding, generate
from edgebench.firmware_bridge.lowering import Lowering
from edgebench.firmware_bridge.operators import lower
from edgebench.firmware_bridge.tflite import read_model

CASES = 12
MORE_CASES = {"words": 4 * CASES}
"""Kinds that draw among several operators."""
MODELS_OF_OTHERS = (
    *("coral_mobilenet_v1_0.25_128_quant", "coral_split_concat", "esphome_alexa"),
    *("esphome_v2_okay_nabu", "esphome_v2_vad", "tflm_simple_add_model", "tflm_strided_slice0"),
    *("tinyengine_detection", "tinyengine_ptq_mnist_lenet-300-100", "tinyengine_vww"),
    *("tflm_conv10", "tflm_leaky_relu0", "tflm_sub0", "tflm_transpose_conv0"),
    *("coral_keras_lstm_mnist_ptq", "tflm_trained_lstm_int8", "tflm_micro_speech_lstm"),
)
"""Models that people run on microcontrollers, of those in ../shared/models/boards."""
HELIUM_KINDS = ("convolution", "fully_connected", "halves", "pool", "elementwise")
"""Operators that have kernels of their own with Helium."""
HELIUM_CASES = 9
"""The first seeds with 9 and 14 channels of a depthwise convolution, which take vectors of 8."""
SUCCESSIVE = 100
"""Inferences on one input, without a reset between them."""


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    """A line to the firmware on this machine."""
    need_runtime("ai-edge-litert")
    with running(built("posix", "gcc")) as opened:
        yield opened


@pytest.fixture(params=REFERENCES)
def rounding(request: pytest.FixtureRequest) -> Rounding:
    """The implementation whose outputs the firmware must have."""
    name: Rounding = request.param
    if name == "tflm":
        need_micro()
    return name


@pytest.mark.parametrize("kind", int8_models.KINDS)
def test_operator_has_the_outputs_of_the_reference_kernels(
    kind: str, rounding: Rounding, line: Line
) -> None:
    """Otherwise a shape, stride or scale that no test model has could give other outputs."""
    for seed in range(MORE_CASES.get(kind, CASES)):
        data = int8_models.KINDS[kind](np.random.default_rng([seed, *kind.encode()]))
        reference = REFERENCES[rounding](data)
        blob = generate(data, model_id=f"{kind}-{seed}", rounding=rounding)
        line.load_model(blob.data)
        for values in inputs((blob.input_bytes,), 2, seed):
            got, expected = run_inference(line, values.tobytes()), reference.outputs(values)
            assert got == expected, f"seed {seed}"


def test_operators_with_helium_have_the_outputs_of_the_reference_kernels() -> None:
    """Otherwise channels could be lost that do not fill a vector.

    No other test runs these kernels on such channels. FULLY_CONNECTED rounds once, others twice.
    """
    need_tool("qemu-system-arm")
    need_runtime("ai-edge-litert")
    board = "mps3-an547"
    with emulated(board, built(board, "arm-none-eabi-gcc")) as line:
        line.lines()
        for kind in HELIUM_KINDS:
            for seed in range(HELIUM_CASES):
                data = int8_models.KINDS[kind](np.random.default_rng([seed, *kind.encode()]))
                blob = generate(data, model_id=kind)
                line.load_model(blob.data)
                (values,) = inputs((blob.input_bytes,), 1, seed)
                got, expected = (
                    run_inference(line, values.tobytes()),
                    Reference(data).outputs(values),
                )
                assert got == expected, f"{kind}, seed {seed}"


@pytest.mark.parametrize("name", ["digits", "kws01", "ad01"])
def test_model_has_the_outputs_of_the_reference_kernels(name: str, line: Line) -> None:
    """Otherwise each operator could be right, but tensors overwrite each other in the arena."""
    path = BUILT_IN if name == "digits" else need_shared("models") / MODELS[name]
    data = path.read_bytes()
    blob = generate(data, model_id=name)
    reference = Reference(data)
    line.load_model(blob.data)
    for sent, values in samples(name, data, blob, 3):
        assert run_inference(line, sent) == reference.outputs(values)


@pytest.mark.parametrize("name", MODELS_OF_OTHERS)
def test_model_of_others_has_the_outputs_of_the_reference_kernels(name: str, line: Line) -> None:
    """Otherwise operators could be right alone, but not as those who publish models use them."""
    data = (need_shared("models/boards") / f"{name}.tflite").read_bytes()
    blob = generate(data, model_id="other")
    line.load_model(blob.data)
    for sent, values in samples(name, data, blob, 2):
        reference = Reference(data)
        line.load_input(sent)
        for _ in range(SUCCESSIVE if blob.is_stateful else 1):
            line.command("infer 1 0")
            assert line.outputs() == reference.outputs(values)


def test_inference_can_be_repeated_on_one_input(line: Line) -> None:
    """Otherwise a window's second inference would use what the first one left of its input."""
    reference = Reference(BUILT_IN.read_bytes())
    line.load_model(generate(BUILT_IN.read_bytes(), model_id="digits").data)
    (values,) = inputs(tuple(reference.input["shape"]), 1)
    once = run_inference(line, values.tobytes())
    line.command("infer 5 3")
    assert line.outputs() == once == reference.outputs(values)


def test_state_is_that_of_the_reference_and_begins_anew_with_each_input(
    rounding: Rounding, line: Line
) -> None:
    """Otherwise a wake word would be recognised by what an earlier window left behind."""
    for seed in range(CASES):
        data = int8_models.stream(np.random.default_rng(seed))
        line.load_model(generate(data, model_id="stream", rounding=rounding).data)
        for values in inputs(read_model(data).tensors[0].shape, 2, seed):
            reference = REFERENCES[rounding](data)
            line.load_input(values.tobytes())
            for number in range(SUCCESSIVE):
                line.command("infer 1 0")
                assert line.outputs() == reference.outputs(values), f"seed {seed}, {number}"
            again = REFERENCES[rounding](data)
            line.command(f"db load {values.size}")
            line.command(f"db {values.tobytes().hex()}")
            line.command("infer 3 2")
            outputs = [again.outputs(values) for _ in range(5)]
            assert line.outputs() == outputs[-1], "windows count from the input"


@pytest.mark.parametrize("name", ["esphome_alexa", "tflm_keyword_scrambled"])
def test_stream_of_inputs_has_the_outputs_of_the_reference_until_the_state_is_reset(
    name: str, rounding: Rounding, line: Line
) -> None:
    """Otherwise a wake word could be right for each input alone, but not while it listens."""
    data = (need_shared("models/boards") / f"{name}.tflite").read_bytes()
    blob = generate(data, model_id="stream", rounding=rounding)
    line.load_model(blob.data)
    assert line.command("x-state") == ["m-state-[reset]"]
    assert line.command("x-state keep") == ["m-state-[keep]"]
    reference = REFERENCES[rounding](data)
    drawn = samples(name, data, blob, SUCCESSIVE)
    outputs = [reference.outputs(values) for _, values in drawn]
    assert [run_inference(line, sent) for sent, _ in drawn] == outputs
    assert line.command("x-state reset") == ["m-state-[reset]"]
    assert run_inference(line, drawn[0][0]) == outputs[0]


def test_inputs_are_sent_one_after_the_other(rounding: Rounding, line: Line) -> None:
    """Otherwise the second input of a model would be what the first one left in memory."""
    for seed in range(CASES):
        data = int8_models.two_inputs(np.random.default_rng(seed))
        reference = REFERENCES[rounding](data)
        blob = generate(data, model_id="two", rounding=rounding)
        line.load_model(blob.data)
        for values in inputs((blob.input_bytes,), 2, seed):
            assert run_inference(line, values.tobytes()) == reference.outputs(values)


@pytest.mark.parametrize("kind", ["unsigned", "unsigned_halves", "uint8_split", "uint8_resize"])
def test_model_of_uint8_has_the_outputs_of_the_reference_kernels(kind: str, line: Line) -> None:
    """Otherwise a shift by 128 could be left out somewhere; TensorFlow Lite Micro has no uint8."""
    for seed in range(6 * CASES):
        data = getattr(int8_models, kind)(np.random.default_rng(seed))
        reference, blob = Reference(data), generate(data, model_id="uint8")
        line.load_model(blob.data)
        for values in inputs((blob.input_bytes,), 2, seed):
            got, expected = run_inference(line, values.tobytes()), reference.outputs(values)
            assert got == expected, f"seed {seed}"


@pytest.mark.parametrize(
    ("kind", "implementation"),
    [
        *(("svdf", "litert"), ("svdf", "tflm"), ("narrow_svdf", "tflm")),
        *(("lstm", "litert"), ("lstm", "tflm")),
    ],
)
def test_state_of_an_operator_is_kept_from_one_inference_to_the_next(
    kind: str, implementation: Rounding, line: Line
) -> None:
    """Otherwise the window of a keyword would be a row short, or begin with what was before."""
    if implementation == "tflm":
        need_micro()
    for seed in range(CASES):
        data = getattr(int8_models, kind)(np.random.default_rng(seed))
        blob = generate(data, model_id="svdf", rounding=implementation)
        assert blob.is_stateful
        line.load_model(blob.data)
        for values in inputs((blob.input_bytes,), 2, seed):
            reference = REFERENCES[implementation](data)
            line.load_input(values.tobytes())
            for number in range(12):
                line.command("infer 1 0")
                assert line.outputs() == reference.outputs(values), f"seed {seed}, {number}"


def test_check_states_the_memory_that_the_firmware_then_uses(line: Line) -> None:
    """Otherwise a model could be found to fit, and be refused by the board."""
    makes = [*int8_models.KINDS.values(), int8_models.stream, int8_models.two_inputs]
    models = [make(np.random.default_rng(1)) for make in [*makes, int8_models.lstm]]
    assert_memory_is_stated(models, line)


def test_check_states_the_memory_of_the_models_that_people_run(line: Line) -> None:
    """Otherwise the needs of one operator could be right, and those of a whole model wrong."""
    need_shared("models")
    files = {**model_files(), **board_files()}
    assert (len(model_files()), len(board_files())) == (len(MODELS) + 1, 20)
    assert_memory_is_stated([path.read_bytes() for path in files.values()], line)


def assert_memory_is_stated(models: Sequence[bytes], line: Line) -> None:
    """Compare what `edgebench check` prints with what the firmware reports."""
    for number, data in enumerate(models):
        check = check_model(data, f"m{number}.tflite", ["mps2-an386"])
        line.load_model(generate(data, model_id=f"m{number}").data)
        info = line.info()
        assert check.flash_bytes == int(info["model_bytes"])
        assert check.arena_bytes == int(info["arena_bytes"])
        assert check.input_bytes == int(info["input_bytes"])
        assert check.output_bytes == int(info["output_bytes"])
        assert check.ram_bytes is not None
        assert check.input_bytes is not None
        left = int(info["ram_max"]) - int(info["input_max"])
        # The rest is for a model that listens; `check` counts the RAM of the model itself.
        assert check.ram_bytes - check.input_bytes <= left


def test_rounding_of_tflm_rounds_twice_in_fully_connected(line: Line) -> None:
    """Otherwise the other variant could be the same one, or round somewhere else."""
    data = int8_models.fully_connected(np.random.default_rng(5))
    model = read_model(data)
    source, weights, bias, out = model.tensors
    blob = generate(data, model_id="fc", rounding="tflm")
    lowering = Lowering(model, is_tflm=True)
    lower(lowering)
    (operator,) = lowering.operators
    multiplier, shift = (
        int(np.frombuffer(lowering.tensors[operator.parameters[place]].content, "<i4")[0])
        for place in (10, 11)
    )
    line.load_model(blob.data)
    assert line.info()["rounding"] == "tflm"
    differs = False
    for values in inputs(source.shape, 40):
        sums = (values.astype(int) - source.zero_point) @ np.frombuffer(
            weights.content, np.int8
        ).reshape(weights.shape).T.astype(int) + np.frombuffer(bias.content, "<i4")
        high = (sums * multiplier + 2**30) >> 31
        twice = np.sign(high) * ((np.abs(high) + (1 << -shift >> 1)) >> -shift)
        once = (sums * multiplier + (1 << (30 - shift))) >> (31 - shift)
        low = operator.parameters[4], operator.parameters[5]
        expected = np.clip(twice + out.zero_point, *low).astype(np.int8).tobytes()
        assert run_inference(line, values.tobytes()) == expected
        differs |= bool(np.any(once != twice))
    assert differs, "the two variants cannot be told apart by these inputs"
