"""Checks of the outputs: each part may fail on its own, and states why."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support import int8_models
from support.digits import CASES, FOLDER, ONE_THREAD, PACKAGES, Case, images, imported
from support.faulty_drivers import FaultyRuntime
from support.tools import need_runtime

from edgebench.agent.worker import checks
from edgebench.agent.worker.checks import (
    CHECKED_SAMPLES,
    Subject,
    infer,
    output_facts,
    run_checks,
)
from edgebench.agent.worker.inputs import make_samples
from edgebench.agent.worker.stop import StopRequested
from edgebench.host.bench.dataset import open_dataset
from edgebench.protocol.errors import ModelRefused
from edgebench.protocol.record import CheckFacts, OperatorTime, QuantizedOperands, TensorSpec
from edgebench.protocol.runtime import LoadOptions
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.traces import ANSWERS_FILE

Tensor = NDArray[Any]
Answer = Callable[[Tensor, int], list[Tensor]]
"""From a sample and the number of the inference."""


def double(sample: Tensor, _: int) -> list[Tensor]:
    """Return the outputs of a model that works."""
    return [sample * 2]


@dataclass
class FakeModel:
    """A model that behaves as a test wants; real models do not fail on demand."""

    answer: Answer = double
    inputs: tuple[TensorSpec, ...] = (TensorSpec("in", (1, 3), "float32"),)
    outputs: tuple[TensorSpec, ...] = (TensorSpec("out", (1, 3), "float32"),)
    delegates_used: tuple[str, ...] = ()
    precision: str | None = "fp32"
    quantized: tuple[QuantizedOperands, ...] | None = None
    is_closed: bool = False
    reset_count: int = 0
    answer_count: int = 0
    _inputs: list[Tensor] = field(default_factory=list)
    _outputs: list[Tensor] = field(default_factory=list)

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        self._inputs = list(values)

    def prepare(self, samples: Sequence[Sequence[Tensor]]) -> list[Callable[[], Any]]:
        return [lambda: None for _ in samples]

    def invoker(self) -> Callable[[], Any]:
        return self._invoke

    def _invoke(self) -> None:
        assert not self.is_closed
        self._outputs = self.answer(self._inputs[0], self.answer_count)
        self.answer_count += 1

    def reader(self) -> Callable[[], Any]:
        return self.read_outputs

    def read_outputs(self) -> list[Tensor]:
        return self._outputs

    def reset(self) -> None:
        self.reset_count += 1

    def placement(self) -> tuple[Any, ...]:
        return ()

    def profile(self, run_count: int) -> tuple[OperatorTime, ...]:
        return (OperatorTime(0, "Mul", "", "builtin", run_count, 10 * run_count),)

    def arena_bytes(self) -> int | None:
        return None

    def close(self) -> None:
        assert not self.is_closed, "closed twice"
        self.is_closed = True


@dataclass
class FakeRuntime:
    """Loads what a test wants, and keeps the options of each load."""

    load_model: Callable[[LoadOptions], FakeModel]
    name: str = "fake"
    formats: tuple[str, ...] = ("tflite",)
    no_profiler: str | None = None
    loaded: list[LoadOptions] = field(default_factory=list)

    def probe(self) -> Any:
        raise NotImplementedError

    def import_library(self) -> str:
        return "1.0"

    def load(self, path: str, options: LoadOptions) -> FakeModel:
        self.loaded.append(options)
        return self.load_model(options)


SAMPLES = [[np.full((1, 3), number, np.float32)] for number in range(12)]


def subject(
    model: FakeModel,
    *,
    reference: FakeModel | Exception | None = None,
    dataset: Path | None = None,
    **spec: Any,
) -> Subject:
    """What is checked: this model, against that reference."""

    def load(_: LoadOptions) -> FakeModel:
        assert model.is_closed, "two models at once"
        if isinstance(reference, Exception):
            raise reference
        return reference or FakeModel()

    path = str(dataset) if dataset else None
    first: list[Tensor] = [np.zeros((1, 3), np.float32)]
    return Subject(
        RunSpec("fake", **spec),
        FakeRuntime(load),
        "model",
        path,
        model,
        LoadOptions(threads=2, delegate="x", shapes={"in": (1, 3)}),
        SAMPLES,
        first,
        1_000,
    )


def arrays(directory: Path) -> dict[str, Tensor]:
    """The outputs that were kept."""
    assert not list(directory.glob("*.part"))
    if not (directory / ANSWERS_FILE).exists():
        return {}
    with np.load(directory / ANSWERS_FILE) as file:
        return dict(file)


def dataset(tmp_path: Path, **more: Any) -> Path:
    """A data set of five samples."""
    path = tmp_path / "set.npz"
    np.savez(path, **({"x": np.arange(15.0).reshape(5, 3), "y": np.arange(5)} | more))
    return path


def test_answers_of_model_and_reference_are_kept_side_by_side(tmp_path: Path) -> None:
    """Otherwise outputs would be compared in another order, or the model with itself."""
    model, reference = FakeModel(), FakeModel(lambda sample, _: [sample * 2 + 1])
    _, found = run_checks(subject(model, reference=reference), tmp_path)
    kept = arrays(tmp_path)
    assert (found.sample_count, found.reference) == (CHECKED_SAMPLES, "fake reference kernels")
    assert found.reference_error is None
    assert kept["used.0"].shape == (CHECKED_SAMPLES, 1, 3)
    assert np.array_equal(kept["used.0"][:, 0, 0], 2 * np.arange(CHECKED_SAMPLES))
    assert np.array_equal(kept["reference.0"], kept["used.0"] + 1)
    assert model.is_closed
    assert model.reset_count == len(SAMPLES)
    assert reference.reset_count == CHECKED_SAMPLES


def test_reference_is_loaded_with_plain_kernels(tmp_path: Path) -> None:
    """Otherwise the model would be compared with itself on the same delegate."""
    checked = subject(FakeModel(), threads=4, delegate="xnnpack")
    run_checks(checked, tmp_path)
    assert isinstance(checked.runtime, FakeRuntime)
    (options,) = checked.runtime.loaded
    assert options.is_reference
    assert options.delegate is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModelRefused("fake refused the model: no such operator"), "fake refused the model"),
        (RuntimeError("tensor\n  is wrong"), "RuntimeError: tensor is wrong"),
        (MemoryError(), "MemoryError"),
        (ValueError(""), "ValueError"),
    ],
)
def test_reference_that_fails_costs_only_the_comparison(
    tmp_path: Path, error: Exception, said: str
) -> None:
    """Otherwise a model that has no reference kernels could not be measured at all."""
    _, found = run_checks(subject(FakeModel(), reference=error), tmp_path)
    assert found.reference is None
    assert found.reference_error is not None
    assert found.reference_error.startswith(said)
    assert "\n" not in found.reference_error
    assert arrays(tmp_path) == {}


def test_different_samples_are_counted(tmp_path: Path) -> None:
    """Otherwise an output that cannot change would be called constant, or a dead model pass."""
    checked = subject(FakeModel())
    assert run_checks(checked, tmp_path)[1].distinct_count == CHECKED_SAMPLES
    alike = replace(subject(FakeModel()), samples=[SAMPLES[1]] * 3)
    assert run_checks(alike, tmp_path)[1].distinct_count == 1


def refuse_third(sample: Tensor, number: int) -> list[Tensor]:
    """Fail at the third inference."""
    if number == 2:
        raise RuntimeError("index out of range")
    return [sample]


@pytest.mark.parametrize("is_reference", [False, True])
def test_inference_that_fails_is_told_in_one_line(tmp_path: Path, is_reference: bool) -> None:
    """Otherwise a model that fails at the third sample would end the worker with a traceback."""
    bad = FakeModel(refuse_third)
    checked = subject(FakeModel(), reference=bad) if is_reference else subject(bad)
    _, found = run_checks(checked, tmp_path)
    assert found.reference_error == "RuntimeError: index out of range"
    assert arrays(tmp_path) == {}


ODD_ANSWERS: dict[str, Answer] = {
    "change their shape": lambda sample, number: [np.zeros((1, number + 1))],
    "are not numbers": lambda sample, number: [np.array(["text"], object)],
}


@pytest.mark.parametrize("what", ODD_ANSWERS)
@pytest.mark.parametrize("is_second", [False, True])
def test_answers_that_cannot_be_compared_say_so(tmp_path: Path, what: str, is_second: bool) -> None:
    """Otherwise half of the outputs would be kept, and compared with nothing."""
    odd = ODD_ANSWERS[what]

    def answer(sample: Tensor, number: int) -> list[Tensor]:
        return [sample, *odd(sample, number)] if is_second else odd(sample, number)

    checked = subject(FakeModel(answer), reference=FakeModel(answer), dataset=dataset(tmp_path))
    _, found = run_checks(checked, tmp_path)
    assert found.reference_error is not None
    assert what in found.reference_error
    assert found.dataset_error is not None
    assert what in found.dataset_error
    assert arrays(tmp_path) == {}


def test_answers_that_are_too_large_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a segmentation model would fill the disk of the device with its outputs."""
    monkeypatch.setattr(checks, "MAX_OUTPUT_BYTES", 90)
    _, found = run_checks(subject(FakeModel(), dataset=dataset(tmp_path)), tmp_path)
    assert found.reference_error == f"outputs take {CHECKED_SAMPLES * 12} B, limit 90 B"
    assert found.dataset_sample_count == 5
    assert set(arrays(tmp_path)) == {"dataset.0"}


def test_slow_reference_answers_fewer_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise reference kernels a hundred times slower would keep the device for an hour."""
    monkeypatch.setattr(checks, "REFERENCE_BUDGET_S", -1.0)
    _, found = run_checks(subject(FakeModel()), tmp_path)
    assert found.sample_count == 1
    assert len(arrays(tmp_path)["used.0"]) == len(arrays(tmp_path)["reference.0"]) == 1


def test_run_that_asked_for_nothing_keeps_nothing(tmp_path: Path) -> None:
    """Otherwise `--no-check` would compare all the same, and take its time."""
    model = FakeModel()
    assert run_checks(subject(model, is_checked=False), tmp_path)[1] == CheckFacts()
    assert arrays(tmp_path) == {}
    assert model.is_closed
    assert model.answer_count == len(SAMPLES), "to see whether every answer is finite"


def test_data_set_is_answered_by_the_measured_model(tmp_path: Path) -> None:
    """Otherwise the accuracy would be that of the reference kernels, or of another order."""
    model = FakeModel()
    _, found = run_checks(subject(model, dataset=dataset(tmp_path)), tmp_path)
    assert (found.dataset_sample_count, found.dataset_error) == (5, None)
    expected = np.arange(15.0).reshape(5, 1, 3) * 2
    assert np.array_equal(arrays(tmp_path)["dataset.0"], expected)
    assert model.reset_count == 5 + len(SAMPLES)


def test_part_of_a_data_set_is_drawn_by_the_seed(tmp_path: Path) -> None:
    """Otherwise a part would be the first samples, all of one label, or vary between devices."""
    drawn: list[Tensor] = []
    for seed in (0, 0, 1):
        asked = subject(FakeModel(), dataset=dataset(tmp_path), dataset_sample_count=3, seed=seed)
        _, found = run_checks(asked, tmp_path)
        assert (found.dataset_sample_count, found.dataset_wanted_count) == (3, 3)
        kept = arrays(tmp_path)
        expected = (np.arange(15.0).reshape(5, 1, 3) * 2)[kept["dataset_index"]]
        assert np.array_equal(kept["dataset.0"], expected)
        drawn.append(kept["dataset_index"])
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def two_inputs() -> FakeModel:
    """A model that no data set fits."""
    spec = TensorSpec("in", (1, 3), "float32")
    return FakeModel(inputs=(spec, spec))


@pytest.mark.parametrize(
    ("model", "arrays_", "said"),
    [
        (FakeModel(), {"x": np.zeros((5, 4))}, r"shape \[4\], the model takes \[3\] after"),
        (two_inputs(), {}, "a data set requires a model with 1 input, got 2"),
        (FakeModel(lambda x, n: [x * np.nan]), {}, "NaN or infinity"),
    ],
)
def test_data_set_that_cannot_be_answered_says_why(
    tmp_path: Path, model: FakeModel, arrays_: dict[str, Any], said: str
) -> None:
    """Otherwise a data set for another model would end the run, or give it an accuracy."""
    model = replace(model)
    _, found = run_checks(subject(model, dataset=dataset(tmp_path, **arrays_)), tmp_path)
    assert found.dataset_error is not None
    assert re.search(said, found.dataset_error), found.dataset_error
    assert found.dataset_sample_count == 0
    assert "dataset.0" not in arrays(tmp_path)
    assert found.reference == "fake reference kernels", "the other check goes on"


@pytest.mark.parametrize("content", [b"", b"junk", None])
def test_damaged_data_set_on_the_device_says_why(tmp_path: Path, content: bytes | None) -> None:
    """Otherwise an artifact that is no data set would end the run."""
    path = tmp_path / "set.npz"
    if content is not None:
        path.write_bytes(content)
    _, found = run_checks(subject(FakeModel(), dataset=path), tmp_path)
    assert found.dataset_error
    assert "\n" not in found.dataset_error


def test_profile_is_a_load_of_its_own(tmp_path: Path) -> None:
    """Otherwise the profiler would slow down the checks, or the reference would be profiled."""
    checked = subject(FakeModel(), is_profiled=True)
    _, found = run_checks(checked, tmp_path)
    assert isinstance(checked.runtime, FakeRuntime)
    assert [(o.is_reference, o.is_profiled) for o in checked.runtime.loaded] == [
        (True, False),
        (False, True),
    ]
    assert found.profile_run_count == checks.PROFILE_RUNS[1]
    assert found.operators[0].count == found.profile_run_count


def test_profile_that_fails_costs_only_the_profile(tmp_path: Path) -> None:
    """Otherwise a runtime without a profiler could not check its outputs."""
    _, found = run_checks(
        subject(FakeModel(), reference=ModelRefused("no profiler"), is_profiled=True), tmp_path
    )
    assert (found.profile_error, found.operators) == ("no profiler", ())
    assert found.profile_run_count == 0


def test_stop_is_not_an_error_of_the_check(tmp_path: Path) -> None:
    """Otherwise a stop would be recorded as a broken reference, and the checks would go on."""

    def stop(sample: Tensor, number: int) -> list[Tensor]:
        raise StopRequested

    with pytest.raises(StopRequested):
        run_checks(subject(FakeModel(stop)), tmp_path)
    with pytest.raises(StopRequested):
        run_checks(subject(FakeModel(), reference=FakeModel(stop)), tmp_path)
    assert arrays(tmp_path) == {}


def test_death_in_the_middle_of_writing_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise half a file of outputs would make the whole run unreadable for every host."""

    def die(file: Any, **_: Any) -> None:
        file.write(b"PK\x03\x04 half")
        raise StopRequested

    monkeypatch.setattr(np, "savez", die)
    with pytest.raises(StopRequested):
        run_checks(subject(FakeModel()), tmp_path)
    assert not (tmp_path / ANSWERS_FILE).exists()


def test_digest_is_that_of_the_first_answer() -> None:
    """Otherwise the digest would depend on which sample came last."""
    one: list[Tensor] = [np.ones(1)]
    other: list[Tensor] = [np.zeros(1)]
    assert output_facts(one) == output_facts(one, [other])
    assert output_facts(one).sha256 != output_facts(other).sha256
    assert output_facts(one, [other]).is_finite
    assert not output_facts([np.array([np.nan])]).is_finite
    assert not output_facts(one, [[np.array([np.inf])]]).is_finite


@pytest.mark.parametrize("is_checked", [True, False])
@pytest.mark.parametrize("number", [0, 1, CHECKED_SAMPLES, len(SAMPLES) - 1])
def test_answer_to_any_sample_that_is_no_number_is_noticed(
    tmp_path: Path, number: int, is_checked: bool
) -> None:
    """Otherwise a run would be valid in which each sixteenth query gives NaN.

    The cause is one of sixteen inputs.
    """
    model = FakeModel(lambda x, _: [x * (np.nan if x.flat[0] == number else 1.0)])
    output, _ = run_checks(subject(model, is_checked=is_checked), tmp_path)
    assert not output.is_finite


def test_time_for_looking_at_answers_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a thousand samples of a slow model would keep the device for minutes."""
    monkeypatch.setattr(checks, "FINITE_BUDGET_S", -1.0)
    output, _ = run_checks(subject(FakeModel()), tmp_path)
    assert (output.is_finite, output.sample_count) == (True, CHECKED_SAMPLES)


def test_answer_that_became_nan_meanwhile_is_noticed(tmp_path: Path) -> None:
    """Otherwise a model that overflows after a million inferences would be valid."""
    model = FakeModel(lambda x, n: [np.full_like(x, np.inf)])
    output, _ = run_checks(subject(model, is_checked=False), tmp_path)
    assert not output.is_finite


@pytest.mark.parametrize("case", CASES, ids=str)
def test_built_in_model_answers_as_the_manifest_says(tmp_path: Path, case: Case) -> None:
    """Otherwise everything would fit together in the tests, but a real model give nonsense."""
    need_runtime(PACKAGES[case.runtime])
    model, path = case.load(), str(open_dataset("digits").path)
    samples = make_samples(model.inputs, count=16, seed=0, memory_bytes=2**30)
    checked = Subject(
        RunSpec(case.runtime),
        imported(case.runtime),
        case.path,
        path,
        model,
        LoadOptions(threads=1),
        samples,
        [np.zeros(1)],
        100_000,
    )
    _, found = run_checks(checked, tmp_path)
    assert (found.dataset_error, found.reference_error) == (None, None)
    assert (found.dataset_sample_count, found.sample_count) == (360, CHECKED_SAMPLES)
    answers = arrays(tmp_path)["dataset.0"]
    correct = int((answers.reshape(360, -1).argmax(axis=1) == images(case.entry)[1]).sum())
    assert correct in {known["correct_count"] for known in case.entry["accuracy"]}


def test_model_with_variables_is_compared_from_the_same_state(tmp_path: Path) -> None:
    """Otherwise its outputs after many inferences would be compared with the reference's first."""
    need_runtime(PACKAGES["litert"])
    driver, path = imported("litert"), tmp_path / "stream.tflite"
    path.write_bytes(int8_models.stream(np.random.default_rng(7)))
    model = driver.load(str(path), ONE_THREAD)
    samples = make_samples(model.inputs, count=8, seed=1, memory_bytes=2**30)
    for sample in samples:
        infer(model, sample)
    checked = Subject(
        RunSpec(driver.name),
        driver,
        str(path),
        None,
        model,
        ONE_THREAD,
        samples,
        [np.zeros(1)],
        1,
        is_repeatable=False,
    )
    _, found = run_checks(checked, tmp_path)
    assert (found.reference_error, found.sample_count) == (None, CHECKED_SAMPLES)
    kept = arrays(tmp_path)
    assert np.array_equal(kept["used.0"], kept["reference.0"])
    assert len({output.tobytes() for output in kept["used.0"]}) > 1


def test_third_party_driver_is_compared_with_the_built_in_one(tmp_path: Path) -> None:
    """Otherwise a driver that is wrong in all its calls would agree with its own reference."""
    need_runtime("onnxruntime")
    driver, path = FaultyRuntime("onnx", "other-weights"), str(FOLDER / "digits_fp32.onnx")
    driver.import_library()
    model = driver.load(path, ONE_THREAD)
    samples = make_samples(model.inputs, count=4, seed=1, memory_bytes=2**30)
    checked = Subject(RunSpec(driver.name), driver, path, None, model, ONE_THREAD, samples, [], 1)
    _, found = run_checks(checked, tmp_path)
    assert found.reference == "onnx reference kernels"
    assert found.reference_runtime is not None
    assert found.reference_runtime.name == "onnx"
    kept = arrays(tmp_path)
    right = np.roll(kept["used.0"], -1, axis=-1)
    assert np.allclose(kept["reference.0"], right, atol=1e-4)
    assert not np.allclose(kept["reference.0"], kept["used.0"], atol=1e-1)
