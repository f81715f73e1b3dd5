"""The guarantees of `prepare`, `reader` and `reset`, against each library's public interface."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.digits import FOLDER, ONE_THREAD, PACKAGES, Case, images, imported
from support.onnx_bytes import identity_of_strings, positions
from support.tools import need_runtime, need_shared

from edgebench.agent.worker.inputs import make_inputs
from edgebench.protocol.runtime import LoadedModel

ORDER = [0, 3, 1, 2, 2, 0, 3]
"""Samples are set in an order that is not theirs, and again."""
MEMORY_BYTES = 2**30


def public_answers(case: Case, samples: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Results of the library's documented calls, one at a time."""
    if case.runtime == "onnx":
        onnxruntime = importlib.import_module("onnxruntime")
        session = onnxruntime.InferenceSession(case.path, providers=["CPUExecutionProvider"])
        (name,) = (arg.name for arg in session.get_inputs())
        return [session.run(None, {name: sample})[0] for sample in samples]
    module = {"litert": "ai_edge_litert", "tflite": "tflite_runtime"}[case.runtime]
    library = importlib.import_module(f"{module}.interpreter")
    interpreter = library.Interpreter(model_path=case.path, num_threads=1)
    interpreter.allocate_tensors()
    answers = []
    for sample in samples:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample)
        interpreter.invoke()
        answers.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    return answers


def test_each_prepared_sample_gives_its_own_answer(case: Case, model: LoadedModel) -> None:
    """Otherwise samples could share memory, and a run be timed and judged on other inputs."""
    samples = images(case.entry)[0][:4]
    before = [sample.copy() for sample in samples]
    expected = public_answers(case, samples)
    setters = model.prepare([[sample] for sample in samples])
    invoke, read = model.invoker(), model.reader()
    for k in ORDER:
        setters[k]()
        invoke()
        (answer,) = model.read_outputs()
        assert np.array_equal(answer, expected[k])
        assert np.array_equal(np.asarray(read()).reshape(answer.shape), expected[k])
    assert all(np.array_equal(*pair) for pair in zip(samples, before, strict=True))


def test_sample_set_after_an_inference_does_not_change_its_answer(
    case: Case, model: LoadedModel
) -> None:
    """Otherwise a result would be a view of the model's memory, and change with the next one."""
    samples = images(case.entry)[0][:2]
    setters = model.prepare([[sample] for sample in samples])
    invoke, read = model.invoker(), model.reader()
    setters[0]()
    invoke()
    kept = np.asarray(read())
    before = kept.copy()
    setters[1]()
    invoke()
    assert np.array_equal(kept, before)
    assert not np.array_equal(np.asarray(read()), before)


def test_prepared_samples_and_set_inputs_can_take_turns(case: Case, model: LoadedModel) -> None:
    """Otherwise a check of the outputs in between would leave prepared samples without effect."""
    samples = images(case.entry)[0][:3]
    expected = public_answers(case, samples)
    setters = model.prepare([[sample] for sample in samples[:2]])
    invoke = model.invoker()
    for k in (0, 2, 1, 2, 0):
        if k < len(setters):
            setters[k]()
        else:
            model.set_inputs([samples[k]])
        invoke()
        assert np.array_equal(model.read_outputs()[0], expected[k])


def test_sample_that_is_not_in_one_piece_is_gathered(case: Case, model: LoadedModel) -> None:
    """Otherwise a transposed image would be read in memory order."""
    sample = images(case.entry)[0][0]
    (expected,) = public_answers(case, [sample])
    scattered = np.asfortranarray(np.repeat(sample, 2, axis=-1))[..., ::2]
    if case.entry["input"]["shape"][-1] != 1:
        scattered = np.repeat(sample, 2, axis=-1)[..., ::2]
    assert not scattered.flags.c_contiguous
    (setter,) = model.prepare([[scattered]])
    setter()
    model.invoker()()
    assert np.array_equal(model.read_outputs()[0], expected)


@pytest.mark.parametrize("name", list(PACKAGES))
def test_reading_before_an_inference_does_not_end_the_process(name: str, tmp_path: Path) -> None:
    """Otherwise stopping a run before its first query would crash it and lose its results.

    Tried in a process of its own, with outputs of fixed and of unknown shape.
    """
    need_runtime(PACKAGES[name])
    (suffix,) = imported(name).formats
    unfixed = tmp_path / "positions.onnx"
    unfixed.write_bytes(positions())
    paths = [str(FOLDER / f"digits_int8.{suffix}"), *([str(unfixed)] if name == "onnx" else [])]
    result = subprocess.run(
        [sys.executable, "-c", READ_EARLY, name, *paths],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["lives"] * len(paths)


READ_EARLY = """
import sys
from edgebench.agent.runtimes.registry import find_runtime
from edgebench.agent.worker.inputs import make_inputs
from edgebench.protocol.errors import TargetError
from edgebench.protocol.runtime import LoadOptions

def attempt(call):
    try:
        call()
    except TargetError:
        pass

runtime = find_runtime(sys.argv[1])
runtime.import_library()
for path in sys.argv[2:]:
    model = runtime.load(path, LoadOptions(threads=1))
    values = make_inputs(model.inputs, seed=0, memory_bytes=2**30)
    attempt(model.read_outputs)
    attempt(model.reader())
    model.set_inputs(values)
    attempt(model.read_outputs)
    model.invoker()()
    read = model.reader()
    model.set_inputs(values)
    attempt(read)
    (setter,) = model.prepare([values])
    setter()
    attempt(read)
    attempt(model.read_outputs)
    print("lives", flush=True)
"""


def test_no_samples_are_no_callables(model: LoadedModel) -> None:
    """Otherwise an empty data set would fail inside a library."""
    assert model.prepare([]) == []


MANY_OUTPUTS = [
    ("litert", "coco_ssd_mobilenet_v1_uint8.tflite"),
    ("tflite", "coco_ssd_mobilenet_v1_uint8.tflite"),
    ("onnx", "RFB-320.onnx"),
]


@pytest.mark.parametrize(("name", "file"), MANY_OUTPUTS)
def test_model_of_many_outputs_reads_all_of_them(name: str, file: str) -> None:
    """Otherwise the end-to-end time of a detector would include only its first output."""
    need_runtime(PACKAGES[name])
    (path,) = need_shared("models/suite").rglob(file)
    loaded = imported(name).load(str(path), ONE_THREAD)
    (setter,) = loaded.prepare([make_inputs(loaded.inputs, seed=1, memory_bytes=MEMORY_BYTES)])
    setter()
    loaded.invoker()()
    read = loaded.reader()()
    assert len(read) == len(loaded.outputs) > 1
    for one, other in zip(read, loaded.read_outputs(), strict=True):
        assert np.array_equal(one, other)
    loaded.close()


MANY_INPUTS = [
    ("litert", "dtln_1_float.tflite"),
    ("tflite", "dtln_1_float.tflite"),
    ("onnx", "dtln_1_float.onnx"),
]


@pytest.mark.parametrize(("name", "file"), MANY_INPUTS)
def test_model_of_many_inputs_gets_all_of_them(name: str, file: str) -> None:
    """Otherwise only a sample's first input would be set, and the others be the previous one's."""
    need_runtime(PACKAGES[name])
    (path,) = need_shared("models/suite").rglob(file)
    loaded = imported(name).load(str(path), ONE_THREAD)
    samples = [make_inputs(loaded.inputs, seed=seed, memory_bytes=MEMORY_BYTES) for seed in (1, 2)]
    samples.append([samples[0][0], samples[1][1]])
    invoke = loaded.invoker()
    expected = []
    for sample in samples:
        loaded.set_inputs(sample)
        invoke()
        expected.append(loaded.read_outputs())
    setters = loaded.prepare(samples)
    for k in (0, 2, 1, 0):
        setters[k]()
        invoke()
        for answer, wanted in zip(loaded.read_outputs(), expected[k], strict=True):
            assert np.array_equal(answer, wanted)
    assert not np.array_equal(expected[0][0], expected[2][0])
    loaded.close()


def test_onnx_samples_of_different_shapes_are_bound_one_by_one() -> None:
    """Otherwise a batch of another size would be written beyond the end of the first buffer."""
    need_runtime(PACKAGES["onnx"])
    path = need_shared("models/bad/odd_but_valid/dyn_all.onnx")
    loaded = imported("onnx").load(str(path), ONE_THREAD)
    random = np.random.default_rng(1)
    shapes = [(1, 2, 4, 4), (3, 2, 5, 7), (1, 2, 4, 4)]
    samples = [[random.random(shape, np.float32)] for shape in shapes]
    invoke = loaded.invoker()
    expected = []
    for sample in samples:
        loaded.set_inputs(sample)
        invoke()
        expected.append(loaded.read_outputs()[0])
    setters = loaded.prepare(samples)
    for k in (1, 0, 2, 1):
        setters[k]()
        invoke()
        assert np.array_equal(loaded.read_outputs()[0], expected[k])
    loaded.close()


def test_onnx_outputs_may_change_their_shape(tmp_path: Path) -> None:
    """Otherwise another number of detections in the next image would end the run."""
    need_runtime(PACKAGES["onnx"])
    path = tmp_path / "positions.onnx"
    path.write_bytes(positions())
    loaded = imported("onnx").load(str(path), ONE_THREAD)
    samples = [np.array(values, np.float32) for values in ([0, 1, 0, 1], [1, 1, 1, 0])]
    setters = loaded.prepare([[sample] for sample in samples])
    invoke, read = loaded.invoker(), loaded.reader()
    for k in (0, 1, 1, 0):
        setters[k]()
        invoke()
        assert read()[0].tolist() == [np.flatnonzero(samples[k]).tolist()]
    loaded.close()


def test_onnx_strings_are_prepared_too(tmp_path: Path) -> None:
    """Otherwise a text model would end in an error about tensors that cannot be bound."""
    need_runtime(PACKAGES["onnx"])
    path = tmp_path / "strings.onnx"
    path.write_bytes(identity_of_strings())
    loaded = imported("onnx").load(str(path), ONE_THREAD)
    words = [np.array([word], object) for word in ("one", "two")]
    setters = loaded.prepare([[word] for word in words])
    invoke, read = loaded.invoker(), loaded.reader()
    for k in (1, 0, 1):
        setters[k]()
        invoke()
        assert read()[0].tolist() == loaded.read_outputs()[0].tolist() == words[k].tolist()
    loaded.close()


@pytest.mark.parametrize("precision", ["float", "int8"])
@pytest.mark.parametrize("name", ["litert", "tflite"])
def test_reset_puts_a_model_with_a_memory_back(name: str, precision: str) -> None:
    """Otherwise the accuracy of a recurrent model would depend on earlier samples."""
    need_runtime(PACKAGES[name])
    path = need_shared(f"models/suite/03_mnist_lstm/mnist_lstm_{precision}.tflite")
    loaded = imported(name).load(str(path), ONE_THREAD)
    (spec,) = loaded.inputs
    random = np.random.default_rng(0)
    samples = [(random.random(spec.shape) * 100).astype(spec.dtype) for _ in range(2)]
    first, second = loaded.prepare([[sample] for sample in samples])
    invoke = loaded.invoker()
    answers = []
    for setter in (first, second, first, loaded.reset, first):
        setter()
        if setter != loaded.reset:
            invoke()
            answers.append(loaded.read_outputs()[0])
    loaded.close()
    assert not np.array_equal(answers[0], answers[2])
    assert np.array_equal(answers[0], answers[3])


def test_reset_leaves_a_model_without_a_memory_alone(model: LoadedModel) -> None:
    """Otherwise a reset between samples would lose the inputs or the timed callables."""
    (setter,) = model.prepare([make_inputs(model.inputs, seed=1, memory_bytes=MEMORY_BYTES)])
    invoke = model.invoker()
    setter()
    invoke()
    before = model.read_outputs()[0]
    model.reset()
    invoke()
    assert np.array_equal(model.read_outputs()[0], before)
