"""Accuracy of each built-in model on the held-out digits, on each runtime.

    python devtools/build_builtin_models.py host/edgebench/host/builtin_models --measure

Every runtime is imported inside the function that uses it, because the runtimes and the tools that
build the models cannot all be installed in the same environment.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from digits_data import MODELS, TEST_SET_FILE, scaled
from numpy.typing import NDArray

ACCURACY_MIN_RATIO = 0.97
ACCURACY_SPREAD_MAX_RATIO = 0.01
"""Limit on the difference between any two of the measured accuracies."""
RUNTIME_PACKAGES = (
    "tflite-runtime==2.14.0",
    "ai-edge-litert==2.3.0",
    "onnxruntime==1.31.1",
    "numpy==1.26.4",
)

Classifier = Callable[[NDArray[np.float32]], int]
"""Function that returns the class of an image of shape (1, 8, 8, 1) with values pixel / 16."""


class BuildRefused(Exception):
    """A model that was built does not pass the checks."""


@dataclass(frozen=True, slots=True)
class FileAccuracy:
    """Accuracy of a model file on a runtime, for the held-out samples."""

    file: str
    runtime: str
    runtime_version: str
    correct_count: int
    sample_count: int
    accuracy_ratio: float


def tflite_classifier(module_name: str, path: Path) -> Classifier:
    """Create a classifier on a TFLite runtime, with a single thread."""
    interpreter = importlib.import_module(module_name).Interpreter(str(path), num_threads=1)
    interpreter.allocate_tensors()
    image_details = interpreter.get_input_details()[0]
    logits_index = interpreter.get_output_details()[0]["index"]
    scale, zero_point = image_details["quantization"]

    def classify(image: NDArray[np.float32]) -> int:
        stored = image if scale == 0 else np.rint(image / scale) + zero_point
        interpreter.set_tensor(image_details["index"], stored.astype(image_details["dtype"]))
        interpreter.invoke()
        return int(interpreter.get_tensor(logits_index).argmax())

    return classify


def onnx_classifier(path: Path) -> Classifier:
    """Create a classifier on onnxruntime, with a single thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def classify(image: NDArray[np.float32]) -> int:
        (logits,) = session.run(None, {"image": image.transpose(0, 3, 1, 2)})
        return int(logits.argmax())

    return classify


CLASSIFIERS: dict[str, dict[str, Callable[[Path], Classifier]]] = {
    "tflite": {
        "tflite-runtime": partial(tflite_classifier, "tflite_runtime.interpreter"),
        "ai-edge-litert": partial(tflite_classifier, "ai_edge_litert.interpreter"),
    },
    "onnx": {"onnxruntime": onnx_classifier},
}
"""Maps a format and the package name of a runtime to the function that creates a classifier."""


def measure_one(path: Path, *, runtime: str, classify: Classifier) -> FileAccuracy:
    """Measure a model on a runtime; the held-out samples are in the folder of the model."""
    with np.load(path.parent / TEST_SET_FILE) as test_set:
        images, labels = scaled(test_set["images"]), test_set["labels"]
    answers = [classify(image[np.newaxis]) for image in images]
    correct_count = int(np.count_nonzero(answers == labels))
    return FileAccuracy(
        file=path.name,
        runtime=runtime,
        runtime_version=importlib.metadata.version(runtime),
        correct_count=correct_count,
        sample_count=len(labels),
        accuracy_ratio=round(correct_count / len(labels), 4),
    )


def measure(directory: Path) -> list[FileAccuracy]:
    """Measure each file on each runtime that can run it."""
    return [
        measure_one(directory / spec.file, runtime=runtime, classify=load(directory / spec.file))
        for spec in MODELS
        for runtime, load in CLASSIFIERS[spec.format].items()
    ]


def make_runtime_environment(directory: Path) -> Path:
    """Install all runtimes in a new environment; returns the path of its interpreter."""
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", *RUNTIME_PACKAGES], check=True)
    return python


def check_accuracy(measured: Sequence[FileAccuracy]) -> None:
    """Refuse models whose accuracy is too low, or differs too much between files and runtimes.

    Raises:
        BuildRefused: an accuracy or a difference exceeds its limit.
    """
    ranked = sorted(measured, key=lambda one: one.correct_count)
    worst, best = ranked[0], ranked[-1]
    spread_ratio = (best.correct_count - worst.correct_count) / worst.sample_count
    what = f"{worst.file} on {worst.runtime} {worst.accuracy_ratio}"
    if worst.correct_count < ACCURACY_MIN_RATIO * worst.sample_count:
        raise BuildRefused(f"accuracy too low: {what}, limit {ACCURACY_MIN_RATIO}")
    if spread_ratio > ACCURACY_SPREAD_MAX_RATIO:
        what = f"{what}, {best.file} on {best.runtime} {best.accuracy_ratio}"
        raise BuildRefused(f"forms disagree: {what}, limit {ACCURACY_SPREAD_MAX_RATIO}")
