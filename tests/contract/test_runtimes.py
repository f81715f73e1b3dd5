"""One suite over all runtime drivers: the guarantees of `Runtime`, on the built-in digit models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support import tflite_bytes
from support.digits import MANIFEST, PACKAGES, Case, a_model_for, images
from support.onnx_bytes import addition, open_addition
from support.tools import need_runtime, need_shared

from edgebench.agent.runtimes.registry import find_runtime, probe_here
from edgebench.agent.worker.inputs import make_inputs
from edgebench.protocol.errors import InputsRefused, ModelRefused, RuntimeUnavailable
from edgebench.protocol.runtime import LoadedModel, LoadOptions, Runtime

LEAST_ACCURACY = 0.97


def test_driver_names_its_formats_and_probes_as_usable(runtime: Runtime) -> None:
    """Otherwise a working runtime would be omitted, or offered for files that it cannot load."""
    report = probe_here(runtime.name)
    assert report.is_usable, report.reason
    assert report.version == runtime.import_library()
    assert report.delegates
    assert set(report.formats) <= {"tflite", "onnx"}


def test_model_tells_its_inputs_and_outputs(case: Case, model: LoadedModel) -> None:
    """Otherwise the generated inputs would not fit the model."""
    (given,), (gives,) = model.inputs, model.outputs
    takes, returns = case.entry["input"], case.entry["output"]
    for found, known in ((given, takes), (gives, returns)):
        assert (found.name, found.shape) == (known["name"], tuple(known["shape"]))
        assert found.dtype == known["dtype"]
        assert found.scale == pytest.approx(known["scale"])
        assert found.zero_point == known["zero_point"]
    assert model.precision == case.entry["precision"]


def test_outputs_are_finite_and_the_same_each_time(model: LoadedModel) -> None:
    """Otherwise the timed loop would measure something that the model does not repeat."""
    model.set_inputs(make_inputs(model.inputs, seed=1, memory_bytes=2**30))
    invoke = model.invoker()
    answers = []
    for _ in range(5):
        invoke()
        answers.append([output.copy() for output in model.read_outputs()])
    assert all(np.isfinite(output).all() for output in answers[0])
    assert all(
        np.array_equal(first, again)
        for answer in answers[1:]
        for first, again in zip(answers[0], answer, strict=True)
    )


def test_new_inputs_give_new_answers(model: LoadedModel) -> None:
    """Otherwise inputs would be set only once, or never reach the model."""
    answers = []
    invoke = model.invoker()
    for seed in (1, 2):
        model.set_inputs(make_inputs(model.inputs, seed=seed, memory_bytes=2**30))
        invoke()
        answers.append(model.read_outputs()[0].copy())
    assert not np.array_equal(answers[0], answers[1])


def test_outputs_are_copies(model: LoadedModel) -> None:
    """Otherwise an output would change after it was read."""
    model.set_inputs(make_inputs(model.inputs, seed=1, memory_bytes=2**30))
    invoke = model.invoker()
    invoke()
    kept = model.read_outputs()[0]
    before = kept.copy()
    model.set_inputs(make_inputs(model.inputs, seed=2, memory_bytes=2**30))
    invoke()
    assert np.array_equal(kept, before)


def test_held_out_digits_are_recognized(case: Case, model: LoadedModel) -> None:
    """Otherwise a model with wrongly scaled or ordered inputs would be fast, but wrong."""
    inputs, labels = images(case.entry)
    invoke = model.invoker()
    correct = 0
    for image, label in zip(inputs, labels, strict=True):
        model.set_inputs([image])
        invoke()
        correct += int(np.argmax(model.read_outputs()[0]) == label)
    assert len(labels) == MANIFEST["test_set"]["sample_count"]
    assert correct / len(labels) >= LEAST_ACCURACY


def test_closed_model_leaves_room_for_the_next(runtime: Runtime) -> None:
    """Otherwise a runtime could hold only one model at a time, or never release a model."""
    for threads in (1, 2, 1):
        loaded = runtime.load(a_model_for(runtime), LoadOptions(threads=threads))
        loaded.set_inputs(make_inputs(loaded.inputs, seed=0, memory_bytes=2**30))
        loaded.invoker()()
        assert np.isfinite(loaded.read_outputs()[0]).all()
        loaded.close()


JUNK = {
    "empty": b"",
    "one byte": b"\0",
    "text": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(100),
    "zeros": bytes(4096),
    "another format": b"PK\x03\x04" + bytes(200),
}


@pytest.mark.parametrize("what", JUNK)
def test_file_that_is_no_model_is_refused_in_one_line(
    runtime: Runtime, tmp_path: Path, what: str
) -> None:
    """A picture in place of a model is refused without a traceback of the library."""
    path = tmp_path / f"junk.{runtime.formats[0]}"
    path.write_bytes(JUNK[what])
    with pytest.raises(ModelRefused) as caught:
        runtime.load(str(path), LoadOptions(threads=1))
    text = str(caught.value)
    assert runtime.name in text
    assert text.isprintable()


@pytest.mark.parametrize("delegate", ["warp", "XNN PACK", "cuda:0", "CPUExecutionProviderX"])
def test_unknown_delegate_is_refused_by_name(runtime: Runtime, delegate: str) -> None:
    """Otherwise a misspelt delegate would run on the CPU under the delegate's name."""
    with pytest.raises(ModelRefused) as caught:
        runtime.load(a_model_for(runtime), LoadOptions(threads=1, delegate=delegate))
    assert repr(delegate) in str(caught.value)
    assert str(caught.value).isprintable()


# Both libraries raise an AttributeError in the destructor of a delegate that was not loaded.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["litert", "tflite"])
def test_delegate_library_that_cannot_be_loaded_is_refused(name: str, tmp_path: Path) -> None:
    """Otherwise a path to something that is no delegate would end the process."""
    need_runtime(PACKAGES[name])
    driver = find_runtime(name)
    driver.import_library()
    path = tmp_path / "libdelegate.so"
    for content in (None, b"no library"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ModelRefused, match=r"libdelegate\.so"):
            driver.load(a_model_for(driver), LoadOptions(threads=1, delegate=str(path)))


@pytest.mark.parametrize("name", ["litert", "tflite"])
def test_delegate_none_really_removes_xnnpack(name: str) -> None:
    """Otherwise a comparison with and without the delegate would measure the same thing twice."""
    need_runtime(PACKAGES[name])
    driver = find_runtime(name)
    driver.import_library()
    used: dict[str | None, tuple[str, ...]] = {}
    answers: dict[str | None, NDArray[np.float32]] = {}
    for delegate in (None, "xnnpack", "none"):
        loaded = driver.load(a_model_for(driver), LoadOptions(threads=1, delegate=delegate))
        loaded.set_inputs(make_inputs(loaded.inputs, seed=3, memory_bytes=2**30))
        loaded.invoker()()
        used[delegate] = loaded.delegates_used
        answers[delegate] = loaded.read_outputs()[0].astype(np.float32)
        loaded.close()
    assert used == {None: ("xnnpack",), "xnnpack": ("xnnpack",), "none": ()}
    np.testing.assert_allclose(answers["none"], answers["xnnpack"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("constant", [2.5, float("nan")])
def test_hand_made_onnx_model_adds(tmp_path: Path, constant: float) -> None:
    """The bytes from which other tests make NaN models are a real model."""
    need_runtime(PACKAGES["onnx"])
    driver = find_runtime("onnx")
    driver.import_library()
    path = tmp_path / "addition.onnx"
    path.write_bytes(addition(constant))
    loaded = driver.load(str(path), LoadOptions(threads=1))
    loaded.set_inputs([np.array([1.5], np.float32)])
    loaded.invoker()()
    np.testing.assert_equal(loaded.read_outputs()[0], np.array([1.5 + constant], np.float32))
    assert loaded.precision == "fp32"


def open_model(runtime: Runtime, folder: Path) -> str:
    """A model that adds, with open dimensions."""
    path = folder / f"open.{runtime.formats[0]}"
    path.write_bytes(
        open_addition() if runtime.name == "onnx" else tflite_bytes.addition(-1, -1, 3)
    )
    return str(path)


@pytest.mark.parametrize("is_reference", [False, True])
@pytest.mark.parametrize(
    ("shapes", "expected"),
    [({}, (1, 1, 3)), ({"x": (2, 5, 3)}, (2, 5, 3)), ({"x": (5, 3)}, (1, 5, 3))],
)
def test_open_dimensions_have_the_sizes_that_were_chosen(
    runtime: Runtime,
    tmp_path: Path,
    shapes: dict[str, tuple[int, ...]],
    expected: tuple[int, ...],
    is_reference: bool,
) -> None:
    """Otherwise a model for a hundred tokens would be measured with one."""
    options = LoadOptions(threads=1, shapes=shapes, is_reference=is_reference)
    loaded = runtime.load(open_model(runtime, tmp_path), options)
    assert {(spec.shape, spec.open_axes) for spec in loaded.inputs} == {(expected, (0, 1))}
    inputs = make_inputs(loaded.inputs, seed=1, memory_bytes=2**20)
    loaded.prepare([inputs])[0]()
    loaded.invoker()()
    values = np.array(inputs, np.float32)
    total = values.sum(axis=0) if len(values) > 1 else values[0] + 1
    np.testing.assert_allclose(np.array(loaded.read_outputs()[0], np.float32), total)


@pytest.mark.parametrize("shapes", [{"x": (2, 5, 4)}, {"x": (5,)}, {"w": (1, 1, 3)}])
def test_shape_that_does_not_fit_is_refused_with_the_models_own(
    runtime: Runtime, tmp_path: Path, shapes: dict[str, tuple[int, ...]]
) -> None:
    """Otherwise the user would read a library error about the shape of an inner tensor."""
    with pytest.raises(InputsRefused, match=r"'x' is \[.*, 3\], not|has no input 'w'; it has: 'x'"):
        runtime.load(open_model(runtime, tmp_path), LoadOptions(threads=1, shapes=shapes))


def test_unknown_runtime_is_named_with_the_ones_there_are() -> None:
    """Otherwise a misspelt runtime would run another one."""
    with pytest.raises(RuntimeUnavailable, match=r"unknown runtime 'tfilte'.*litert, tflite, onnx"):
        find_runtime("tfilte")


@pytest.mark.parametrize("name", list(PACKAGES))
def test_every_model_of_the_benchmark_suites_runs(name: str) -> None:
    """Otherwise a widely measured model would be refused, or crash the process.

    Each runtime has a process of its own here: a crash must be a failed test, not the end.
    """
    need_runtime(PACKAGES[name])
    folders = [need_shared("models/suite"), need_shared("models/mlperf_tiny")]
    (suffix,) = find_runtime(name).formats
    paths = [str(path) for folder in folders for path in sorted(folder.rglob(f"*.{suffix}"))]
    assert len(paths) >= 6
    result = subprocess.run(
        [sys.executable, "-c", RUN_EACH, name, *paths],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout[-500:] + result.stderr[-2000:]
    answers = dict(line.split("\t") for line in result.stdout.splitlines())
    failed = {path: answer for path, answer in answers.items() if answer != "finite"}
    assert set(answers) == set(paths)
    assert failed == {path: REFUSED[key] for path in failed for key in [(name, Path(path).name)]}


REFUSED: dict[tuple[str, str], str] = {}
"""What a runtime is known to refuse; this table may only shrink."""
RUN_EACH = """
import sys
from edgebench.agent.runtimes.registry import find_runtime
from edgebench.agent.worker.inputs import are_finite, make_inputs
from edgebench.protocol.errors import ModelRefused
from edgebench.protocol.runtime import LoadOptions

runtime = find_runtime(sys.argv[1])
runtime.import_library()
for path in sys.argv[2:]:
    try:
        model = runtime.load(path, LoadOptions(threads=1))
        model.set_inputs(make_inputs(model.inputs, seed=0, memory_bytes=2**30))
        model.invoker()()
        outputs = model.read_outputs()
        answer = "finite" if outputs and are_finite(outputs) else "not finite"
        model.close()
    except ModelRefused as exc:
        answer = str(exc)
    print(path, answer, sep="\\t", flush=True)
"""
