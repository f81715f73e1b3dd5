"""Which model an accuracy is compared with, and what that model has achieved."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.changes import changed
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.run import analyse_run
from edgebench.host.bench.builtin import builtin_models, find_model
from edgebench.host.bench.model import Model, open_model
from edgebench.host.bench.references import (
    achieved_accuracy,
    find_references,
    with_references_first,
)
from edgebench.host.result.outputs import Accuracy
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import State
from edgebench.protocol.errors import UsageError

RUN = analyse_run(
    run_record(worker_record(latencies())),
    traces_of(latencies()),
    created_utc=CREATED_UTC,
    clock=None,
)


@pytest.fixture
def own(tmp_path: Path) -> Model:
    """Return a model that is not built in."""
    path = tmp_path / "digits_int8.tflite"
    path.write_bytes(b"something else")
    return open_model(path)


def run(
    model: Model,
    runtime: str,
    value: float | None,
    run_id: str = "run",
    state: State = State.VALID,
) -> Run:
    """Return a run of a model with this accuracy."""
    return changed(
        RUN,
        {
            "run_id": run_id,
            "model.sha256": model.sha256,
            "runtime.name": runtime,
            "metrics.accuracy": None if value is None else Accuracy("top1", value, None, 360),
            "verdict.state": state,
        },
    )


def test_built_in_models_have_their_own_siblings(own: Model) -> None:
    """Otherwise an int8 model would be compared with another format, or by file name alone."""
    found = find_references([*builtin_models(), own], None)
    pairs = {model.name: reference.name for model, reference in found.items()}
    assert pairs == {
        "digits_int8.tflite": "digits_fp32.tflite",
        "digits_int8.onnx": "digits_fp32.onnx",
    }
    assert own not in found, "it has the name of a built-in model, and not its content"


def test_copy_of_a_built_in_model_has_its_sibling_too(tmp_path: Path) -> None:
    """Otherwise a built-in model under another path would lose its reference."""
    path = tmp_path / "mine.tflite"
    path.write_bytes(find_model("digits_int8.tflite").path.read_bytes())
    copy = open_model(path)
    assert find_references([copy], None)[copy].name == "digits_fp32.tflite"


def test_named_reference_is_for_all_models_but_itself(own: Model) -> None:
    """Otherwise a model would be compared with itself, and be perfect."""
    reference = find_model("digits_fp32.tflite")
    models = [own, find_model("digits_int8.tflite"), reference]
    assert find_references(models, "digits_fp32.tflite") == {
        own: reference,
        models[1]: reference,
    }
    assert find_references([reference], str(reference.path)) == {}


def test_named_reference_that_is_not_there_is_a_mistake() -> None:
    """Otherwise the accuracy would have no reference, since its name was mistyped."""
    with pytest.raises(UsageError, match=r"no such model: fp23\.tflite"):
        find_references(builtin_models(), "fp23.tflite")


def test_references_are_measured_first_and_once(own: Model) -> None:
    """Otherwise a model would be compared with a run that comes after it, or is made twice."""
    int8, fp32 = find_model("digits_int8.tflite"), find_model("digits_fp32.tflite")
    models = [own, int8, fp32]
    order = with_references_first(models, find_references(models, None))
    assert order == [fp32, own, int8]
    assert with_references_first(models, find_references(models, fp32.path)) == [fp32, own, int8]
    assert with_references_first([own], {}) == [own]


def test_accuracy_of_the_reference_is_the_latest_on_the_same_runtime(own: Model) -> None:
    """Otherwise an int8 model on one runtime would be compared with fp32 on another."""
    other = find_model("digits_fp32.tflite")
    runs = [
        run(own, "litert", 0.5, "old"),
        run(own, "litert", 0.75, "new"),
        run(own, "tflite", 0.1, "other runtime"),
        run(other, "litert", 0.2, "other model"),
        run(own, "litert", None, "not answered"),
    ]
    found = achieved_accuracy(own, runs)["litert"]
    assert (found.run_id, found.model, found.value) == ("new", own.name, 0.75)


def test_reference_on_another_runtime_is_better_than_none(own: Model) -> None:
    """Otherwise an fp32 model that only another runtime loads would be measured in vain."""
    runs = [run(own, "onnx", 0.5, "there"), run(own, "onnx", 0.75, "later")]
    runs += [run(own, "tflite", 0.5, "newest"), run(own, "litert", None)]
    found = achieved_accuracy(own, runs)
    assert [accuracy.run_id for accuracy in found.values()] == ["later", "newest"]


def test_reference_that_was_not_measured_has_no_accuracy(own: Model) -> None:
    """Otherwise a failed reference would be an accuracy of zero, and every model be better."""
    assert achieved_accuracy(own, []) == {}
    assert achieved_accuracy(own, [run(own, "litert", None)]) == {}
    assert achieved_accuracy(own, [run(own, "litert", 0.5, state=State.INVALID)]) == {}
    assert achieved_accuracy(None, [run(own, "litert", 0.5)]) == {}
