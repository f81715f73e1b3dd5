"""Build the digit classifiers that are part of edgebench, so that a first run needs no download.

A small network is trained once, and its weights are converted to four files (int8 and fp32, TFLite
and ONNX). So the results of the files differ only by format, precision and runtime.

    python devtools/build_builtin_models.py host/edgebench/host/builtin_models

The tools below are not dependencies of edgebench, and take about 2.5 GB. Install them in a separate
virtual environment (Python 3.11), and install torch first, because otherwise pip chooses a build
with CUDA:

    pip install torch==2.13.0
    pip install litert-torch==0.10.0 ai-edge-quantizer==0.10.0 ai-edge-litert==2.3.0 \
        scikit-learn==1.9.1 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.31.1 numpy==2.4.6

A second interpreter measures the accuracy, because tflite-runtime 2.14.0 cannot be imported
together with numpy 2, which the tools require. ``--runtime-python`` names an interpreter that has
RUNTIME_PACKAGES; without this option, a temporary environment is made. The second interpreter runs
this file with ``--measure``. Therefore every tool is imported inside the function that uses it, in
this file and in digits_data.py, digits_training.py, digits_conversion.py and digits_accuracy.py.

On the same machine, the files have the same bytes each time. Another type of processor may add
floating-point numbers in a different order during the training. The files then differ, and the
checks decide whether they are accepted.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from digits_accuracy import (
    BuildRefused,
    FileAccuracy,
    check_accuracy,
    make_runtime_environment,
    measure,
)
from digits_conversion import TensorInfo, onnx_tensors, tflite_tensors, write_onnx, write_tflite
from digits_data import (
    MODELS,
    PIXEL_MAX,
    TEST_COUNT,
    TEST_SET_FILE,
    ModelSpec,
    load_data,
    scaled,
)
from digits_training import train

CALIBRATION_COUNT = 512
"""Number of training samples that determine the ranges of the int8 activations."""
TOTAL_SIZE_MAX_BYTES = 300_000
BUILD_PACKAGES = (
    "torch",
    "litert-torch",
    "ai-edge-quantizer",
    "ai-edge-litert",
    "scikit-learn",
    "onnx",
    "onnxscript",
    "onnxruntime",
    "numpy",
)
TEST_SET_SOURCE = (
    "Part of: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine"
    " Learning Repository (1998), as distributed by scikit-learn (load_digits)"
)


@dataclass(frozen=True, slots=True)
class ModelEntry(ModelSpec):
    """Entry of the manifest for a model."""

    sha256: str
    size_bytes: int
    input_divisor: int
    """A pixel is divided by this number before it is quantised or passed to the model."""
    input: TensorInfo
    output: TensorInfo
    """Logits; the index of the largest is the class."""
    test_set_sha256: str
    accuracy: tuple[FileAccuracy, ...]


@dataclass(frozen=True, slots=True)
class TestSetEntry:
    """Entry of the manifest for the held-out samples."""

    file: str
    sha256: str
    size_bytes: int
    sample_count: int
    image_layout: str = "NHWC"
    source: str = TEST_SET_SOURCE
    licence: str = "CC-BY-4.0"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of manifest.json."""

    schema_version: int
    task: str
    network: str
    parameter_count: int
    test_set: TestSetEntry
    models: tuple[ModelEntry, ...]
    built_with: dict[str, str]


def say(text: str) -> None:
    """Print progress on stderr, because the result of `--measure` is on stdout."""
    print(text, file=sys.stderr, flush=True)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def describe(spec: ModelSpec, directory: Path, *, measured: Sequence[FileAccuracy]) -> ModelEntry:
    """Create the manifest's entry for a model."""
    path = directory / spec.file
    read_tensors = tflite_tensors if spec.format == "tflite" else onnx_tensors
    input_info, output_info = read_tensors(path)
    return ModelEntry(
        **asdict(spec),
        sha256=sha256_of(path),
        size_bytes=path.stat().st_size,
        input_divisor=PIXEL_MAX,
        input=input_info,
        output=output_info,
        test_set_sha256=sha256_of(directory / TEST_SET_FILE),
        accuracy=tuple(one for one in measured if one.file == spec.file),
    )


def build_manifest(network: Any, directory: Path, *, measured: Sequence[FileAccuracy]) -> Manifest:
    """Create the manifest of the files in a directory."""
    test_path = directory / TEST_SET_FILE
    return Manifest(
        schema_version=1,
        task="image classification, handwritten digits 0..9",
        network="3 x (conv 3x3 same + relu) with 24, 32, 32 channels, max pool 8x8, dense 10",
        parameter_count=sum(weights.numel() for weights in network.parameters()),
        test_set=TestSetEntry(
            file=test_path.name,
            sha256=sha256_of(test_path),
            size_bytes=test_path.stat().st_size,
            sample_count=TEST_COUNT,
        ),
        models=tuple(describe(spec, directory, measured=measured) for spec in MODELS),
        built_with={name: importlib.metadata.version(name) for name in BUILD_PACKAGES},
    )


def check_tensors(models: Sequence[ModelEntry]) -> None:
    """Refuse models whose inputs or outputs have unexpected shapes or types.

    The batch must be 1, and there must be 10 outputs. Input and output must be int8 in the int8
    TFLite file, and float32 in the other files.

    Raises:
        BuildRefused: a shape or a type is not as expected.
    """
    for model in models:
        if model.input.shape[0] != 1 or model.output.shape != (1, 10):
            raise BuildRefused(f"{model.file}: shapes {model.input.shape}, {model.output.shape}")
        is_int8 = (model.format, model.precision) == ("tflite", "int8")
        expected = "int8" if is_int8 else "float32"
        if {model.input.dtype, model.output.dtype} != {expected}:
            raise BuildRefused(f"{model.file}: input or output is not {expected}")


def measure_with(python: Path, directory: Path) -> list[FileAccuracy]:
    """Measure the accuracy in another interpreter."""
    command = [str(python), str(Path(__file__).resolve()), str(directory), "--measure"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [FileAccuracy(**fields) for fields in json.loads(done.stdout)]


def build(staging: Path, *, runtime_python: Path | None) -> None:
    """Make every file in the directory `staging`.

    Raises:
        BuildRefused: a file does not pass the checks.
    """
    say("train")
    data = load_data()
    network = train(data)
    calibration = scaled(data.train_images[:CALIBRATION_COUNT])
    say("convert")
    np.savez_compressed(
        staging / TEST_SET_FILE,
        images=data.test_images,
        labels=data.test_labels,
        sklearn_index=data.test_index,
    )
    write_tflite(network, calibration, staging)
    write_onnx(network, calibration, staging)
    say("measure")
    with tempfile.TemporaryDirectory() as environment:
        python = runtime_python or make_runtime_environment(Path(environment))
        measured = measure_with(python, staging)
    check_accuracy(measured)
    manifest = build_manifest(network, staging, measured=measured)
    check_tensors(manifest.models)
    (staging / "manifest.json").write_text(json.dumps(asdict(manifest), indent=1) + "\n")
    size_bytes = sum(path.stat().st_size for path in staging.iterdir())
    if size_bytes > TOTAL_SIZE_MAX_BYTES:
        raise BuildRefused(f"files too large: {size_bytes} bytes, limit {TOTAL_SIZE_MAX_BYTES}")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Build the models that edgebench carries.")
    parser.add_argument("output_dir", type=Path, help="where the files go if all checks pass")
    parser.add_argument("--runtime-python", type=Path, help="it has RUNTIME_PACKAGES")
    parser.add_argument("--measure", action="store_true", help="only measure what is there")
    return parser.parse_args()


def main() -> int:
    """Build or measure; files are written to OUTPUT_DIR only after all checks have passed."""
    arguments = parse_arguments()
    output_dir: Path = arguments.output_dir
    if arguments.measure:
        print(json.dumps([asdict(one) for one in measure(output_dir)], indent=1))
        return 0
    with tempfile.TemporaryDirectory() as staging:
        try:
            build(Path(staging), runtime_python=arguments.runtime_python)
        except (BuildRefused, subprocess.CalledProcessError) as failure:
            say(f"nothing written: {failure}")
            return 1
        output_dir.mkdir(parents=True, exist_ok=True)
        for path in sorted(Path(staging).iterdir()):
            (output_dir / path.name).write_bytes(path.read_bytes())
            say(f"{output_dir / path.name}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
