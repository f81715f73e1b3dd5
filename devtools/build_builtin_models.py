"""Build the digit classifiers that edgebench carries, so that a first run needs no download.

One small network is trained once; its weights become four files (int8 and fp32, TFLite and
ONNX), which makes a comparison of formats, precisions and runtimes a comparison of those alone.

    python devtools/build_builtin_models.py host/edgebench/host/builtin_models

The tools below are no dependencies of edgebench and need about 2.5 GB; give them a virtual
environment of their own (Python 3.11, torch first, or pip takes a build with CUDA):

    pip install torch==2.13.0
    pip install litert-torch==0.10.0 ai-edge-quantizer==0.10.0 ai-edge-litert==2.3.0 \
        scikit-learn==1.9.1 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.31.1 numpy==2.4.6

Accuracy is measured by a second interpreter, because tflite-runtime 2.14.0 cannot be imported
beside the numpy 2 that the tools require. Unless ``--runtime-python`` names one that has
RUNTIME_PACKAGES, a temporary environment is made for it. That interpreter runs this same file
with ``--measure``; hence every tool is imported inside the function that uses it.

The same machine gives the same bytes each time. Another kind of processor may sum the training's
floats in another order: the files then differ, and the checks decide whether they are good.
"""

import argparse
import hashlib
import importlib
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

SEED = 0
"""Of the split, the initial weights and the order of the samples."""
TEST_COUNT = 360
"""Held-out samples, a fifth of the 1797."""
CALIBRATION_COUNT = 512
"""Training samples that set the ranges of the int8 activations."""
EPOCH_COUNT = 40
BATCH_SIZE = 32

PIXEL_MAX = 16
"""A pixel counts the inked dots of a 4x4 block, so 0..16; the network takes pixel / 16."""
INPUT_RANGE_MAX = 17 / 16
"""Upper end of the int8 input range, above the largest real input on purpose.

255 steps over 17/16 make a step of 1/240: pixel / 16 is then exactly 15 * pixel steps, and no
two programs can disagree about how to round an input (with a step of 1/255, 8 / 16 is a tie).
"""

ACCURACY_MIN_RATIO = 0.97
ACCURACY_SPREAD_MAX_RATIO = 0.01
"""Largest difference between any two of the measured accuracies."""
TOTAL_SIZE_MAX_BYTES = 300_000
ONNX_OPSET = 18
ONNX_IR_VERSION = 8
"""The pair of ONNX 1.13 (onnx.helper.VERSION_TABLE), which onnxruntime 1.17 loads."""

TEST_SET_FILE = "digits_test.npz"
BUILD_PACKAGES = (
    "torch", "litert-torch", "ai-edge-quantizer", "ai-edge-litert", "scikit-learn", "onnx",
    "onnxscript", "onnxruntime", "numpy",
)  # fmt: skip
RUNTIME_PACKAGES = (
    "tflite-runtime==2.14.0", "ai-edge-litert==2.3.0", "onnxruntime==1.31.1", "numpy==1.26.4",
)  # fmt: skip

TEST_SET_SOURCE = (
    "Part of: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine"
    " Learning Repository (1998), as distributed by scikit-learn (load_digits)"
)

Images = NDArray[np.uint8]
"""Shape (n, 8, 8, 1), values 0..16."""
Classifier = Callable[[NDArray[np.float32]], int]
"""From one image, pixel / 16 in shape (1, 8, 8, 1), to its class."""


class BuildRefused(Exception):
    """What was built is not good enough to be carried."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One of the files to build."""

    file: str
    format: Literal["tflite", "onnx"]
    precision: Literal["int8", "fp32"]
    input_layout: Literal["NHWC", "NCHW"]


MODELS = (
    ModelSpec("digits_int8.tflite", "tflite", "int8", "NHWC"),
    ModelSpec("digits_fp32.tflite", "tflite", "fp32", "NHWC"),
    ModelSpec("digits_int8.onnx", "onnx", "int8", "NCHW"),
    ModelSpec("digits_fp32.onnx", "onnx", "fp32", "NCHW"),
)


@dataclass(frozen=True, slots=True)
class Digits:
    """The data, split; `test_index` says which of scikit-learn's samples are held out."""

    train_images: Images
    train_labels: NDArray[np.uint8]
    test_images: Images
    test_labels: NDArray[np.uint8]
    test_index: NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output as its file declares it; real = scale * (stored - zero_point)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: float | None = None
    zero_point: int | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """Held-out accuracy of one file on one runtime."""

    file: str
    runtime: str
    runtime_version: str
    correct_count: int
    sample_count: int
    accuracy_ratio: float


@dataclass(frozen=True, slots=True)
class ModelEntry(ModelSpec):
    """What the manifest says of one model."""

    sha256: str
    size_bytes: int
    input_divisor: int
    """A pixel is divided by this before it is quantised or fed."""
    input: TensorInfo
    output: TensorInfo
    """Logits: the largest is the class."""
    test_set_sha256: str
    accuracy: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True)
class TestSetEntry:
    """What the manifest says of the held-out samples."""

    file: str
    sha256: str
    size_bytes: int
    sample_count: int
    image_layout: str = "NHWC"
    source: str = TEST_SET_SOURCE
    licence: str = "CC-BY-4.0"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole of manifest.json."""

    schema_version: int
    task: str
    network: str
    parameter_count: int
    test_set: TestSetEntry
    models: tuple[ModelEntry, ...]
    built_with: dict[str, str]


def say(text: str) -> None:
    """Report progress where it does not mix with `--measure`'s result."""
    print(text, file=sys.stderr, flush=True)


def scaled(images: Images) -> NDArray[np.float32]:
    """Images as the network takes them, 0..1, same shape."""
    return images.astype(np.float32) / np.float32(PIXEL_MAX)


def sha256_of(path: Path) -> str:
    """Hex digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_data() -> Digits:
    """Split scikit-learn's digits; every class is held out in its own proportion."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    images = bunch.images.astype(np.uint8)[..., np.newaxis]
    labels = bunch.target.astype(np.uint8)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=TEST_COUNT, random_state=SEED, stratify=labels
    )
    train, test = np.sort(train), np.sort(test)
    return Digits(
        train_images=images[train],
        train_labels=labels[train],
        test_images=images[test],
        test_labels=labels[test],
        test_index=test.astype(np.uint16),
    )


def make_network() -> Any:
    """The untrained torch network, image (n, 1, 8, 8) to logits (n, 10).

    Nothing shrinks the image before the last pooling, so that few weights make much work. The
    pooling spans the whole image: a dense layer behind a 1x1 image needs no transposition
    between NHWC and NCHW. It takes the maximum, which int8 does without rounding.
    """
    from torch import nn

    layers: list[Any] = []
    for input_count, output_count in ((1, 24), (24, 32), (32, 32)):
        layers += [nn.Conv2d(input_count, output_count, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(8), nn.Flatten(), nn.Linear(32, 10))


def train(data: Digits) -> Any:
    """Train the network on the training part alone; the same data gives the same weights."""
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(SEED)
    network = make_network()
    images = torch.from_numpy(scaled(data.train_images).transpose(0, 3, 1, 2).copy())
    labels = torch.from_numpy(data.train_labels.astype(np.int64))
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    step_count = EPOCH_COUNT * -(-len(labels) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.005, total_steps=step_count)
    for _ in range(EPOCH_COUNT):
        for batch in torch.randperm(len(labels)).split(BATCH_SIZE):
            logits = network(images[batch])
            loss = torch.nn.functional.cross_entropy(logits, labels[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def write_tflite(network: Any, calibration: NDArray[np.float32], directory: Path) -> None:
    """Convert to fp32 TFLite, then quantise weights, activations, input and output to int8."""
    import litert_torch
    import torch
    from ai_edge_quantizer import qtyping, quantizer, recipe

    fp32_path = directory / "digits_fp32.tflite"
    nhwc_network = litert_torch.to_channel_last_io(network, args=[0]).eval()
    litert_torch.convert(nhwc_network, (torch.zeros(1, 8, 8, 1),)).export(str(fp32_path))

    tool = quantizer.Quantizer(str(fp32_path), recipe.static_wi8_ai8())
    # One scale for the whole dense layer: the recipe takes one per row, but the file then states
    # no newer operator version, so a kernel that reads one scale only would not refuse it.
    tool.add_static_config(
        ".*",
        qtyping.TFLOperationName.FULLY_CONNECTED,
        activation_num_bits=8,
        weight_num_bits=8,
        weight_granularity=qtyping.QuantGranularity.TENSORWISE,
    )
    ranges = tflite_ranges(fp32_path, calibration)
    int8_model = tool.quantize(ranges, enable_progress_report=False).quantized_model
    (directory / "digits_int8.tflite").write_bytes(int8_model)


def tflite_ranges(path: Path, calibration: NDArray[np.float32]) -> Any:
    """Minimum and maximum of every tensor, as the quantiser takes them.

    The quantiser's own calibration averages the extremes over the samples, which cuts off the
    largest logits; the ONNX file gets the plain extremes, and the two shall be comparable.
    """
    from ai_edge_quantizer import calibrator
    from ai_edge_quantizer.utils import qsv_utils

    watched = calibrator.CalibrationInterpreter(
        str(path),
        mode=calibrator.CalibrationMode.CALIBRATION_PRESERVE_ALL_TENSORS,
        qsv_update_func=qsv_utils.min_max_update,
    )
    run = watched.get_signature_runner("serving_default")
    for image in calibration:
        run(args_0=image[np.newaxis])
    ranges = watched.get_calibration_results()
    image_range = ranges[tflite_tensors(path)[0].name]
    image_range["min"] = np.zeros_like(image_range["min"])
    image_range["max"] = np.full_like(image_range["max"], INPUT_RANGE_MAX)
    return ranges


def write_onnx(network: Any, calibration: NDArray[np.float32], directory: Path) -> None:
    """Export to fp32 ONNX, then quantise it statically, per channel, as QDQ."""
    import onnx
    import torch
    from onnxruntime import quantization

    fp32_path, int8_path = directory / "digits_fp32.onnx", directory / "digits_int8.onnx"
    program = torch.onnx.export(
        network,
        (torch.zeros(1, 1, 8, 8),),
        input_names=["image"],
        output_names=["logits"],
        opset_version=ONNX_OPSET,
        dynamo=True,
    )
    save_portable_onnx(program.model_proto, fp32_path)
    feeds = ({"image": image.transpose(2, 0, 1)[np.newaxis]} for image in calibration)
    image_range = {"rmin": np.float32(0), "rmax": np.float32(INPUT_RANGE_MAX)}
    # Weights of 7 bits (reduce_range): x86 processors without VNNI add pairs of 8-bit products
    # in saturating 16 bits, and would give other answers than the rest of the world.
    quantization.quantize_static(
        fp32_path,
        int8_path,
        SimpleNamespace(get_next=lambda: next(feeds, None)),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        reduce_range=True,
        extra_options={"TensorQuantOverrides": {"image": [image_range]}},
    )
    save_portable_onnx(onnx.load(int8_path), int8_path)


def save_portable_onnx(model: Any, path: Path) -> None:
    """Store a model that old runtimes load, without the exporter's notes.

    The notes are stack traces: they name directories of this machine, so they would differ on
    every other one, and they take more room than the graph.
    """
    import onnx

    graph = model.graph
    graph.name = "digits"
    values = (*graph.input, *graph.output, *graph.value_info, *graph.initializer)
    for item in (model, graph, *graph.node, *values):
        del item.metadata_props[:]
    model.ir_version = ONNX_IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def tflite_tensors(path: Path) -> tuple[TensorInfo, TensorInfo]:
    """Input and output of a TFLite file."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=1)

    def info(details: dict[str, Any]) -> TensorInfo:
        scale, zero_point = details["quantization"]
        is_quantised = scale != 0
        return TensorInfo(
            name=details["name"],
            dtype=np.dtype(details["dtype"]).name,
            shape=tuple(int(size) for size in details["shape_signature"]),
            scale=float(scale) if is_quantised else None,
            zero_point=int(zero_point) if is_quantised else None,
        )

    return info(interpreter.get_input_details()[0]), info(interpreter.get_output_details()[0])


def onnx_tensors(path: Path) -> tuple[TensorInfo, TensorInfo]:
    """Input and output of an ONNX file; an unnamed or symbolic dimension becomes 0."""
    import onnx

    graph = onnx.load(path).graph

    def info(value: Any) -> TensorInfo:
        kind = value.type.tensor_type
        return TensorInfo(
            name=value.name,
            dtype=onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name,
            shape=tuple(size.dim_value for size in kind.shape.dim),
        )

    return info(graph.input[0]), info(graph.output[0])


def describe(spec: ModelSpec, directory: Path, *, measured: Sequence[Measurement]) -> ModelEntry:
    """Collect what the manifest says of one model."""
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


def build_manifest(network: Any, directory: Path, *, measured: Sequence[Measurement]) -> Manifest:
    """Collect the whole manifest of the files in `directory`."""
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


def tflite_classifier(module_name: str, path: Path) -> Classifier:
    """A classifier on either TFLite runtime, one thread."""
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
    """A classifier on onnxruntime, one thread."""
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
"""Per format and runtime, the latter named as its package."""


def measure_one(path: Path, *, runtime: str, classify: Classifier) -> Measurement:
    """Count the held-out samples, beside the model, that one runtime gets right."""
    with np.load(path.parent / TEST_SET_FILE) as test_set:
        images, labels = scaled(test_set["images"]), test_set["labels"]
    answers = [classify(image[np.newaxis]) for image in images]
    correct_count = int(np.count_nonzero(answers == labels))
    return Measurement(
        file=path.name,
        runtime=runtime,
        runtime_version=importlib.metadata.version(runtime),
        correct_count=correct_count,
        sample_count=len(labels),
        accuracy_ratio=round(correct_count / len(labels), 4),
    )


def measure(directory: Path) -> list[Measurement]:
    """Measure each file on each runtime that can run it."""
    return [
        measure_one(directory / spec.file, runtime=runtime, classify=load(directory / spec.file))
        for spec in MODELS
        for runtime, load in CLASSIFIERS[spec.format].items()
    ]


def measure_with(python: Path, directory: Path) -> list[Measurement]:
    """Measure in another interpreter."""
    command = [str(python), str(Path(__file__).resolve()), str(directory), "--measure"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [Measurement(**fields) for fields in json.loads(done.stdout)]


def make_runtime_environment(directory: Path) -> Path:
    """Install the runtimes beside each other; the answer is the path of their interpreter."""
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", *RUNTIME_PACKAGES], check=True)
    return python


def check_accuracy(measured: Sequence[Measurement]) -> None:
    """Refuse a model that is wrong too often, or whose forms disagree too much."""
    ranked = sorted(measured, key=lambda one: one.correct_count)
    worst, best = ranked[0], ranked[-1]
    spread_ratio = (best.correct_count - worst.correct_count) / worst.sample_count
    what = f"{worst.file} on {worst.runtime} {worst.accuracy_ratio}"
    if worst.correct_count < ACCURACY_MIN_RATIO * worst.sample_count:
        raise BuildRefused(f"accuracy too low: {what}, limit {ACCURACY_MIN_RATIO}")
    if spread_ratio > ACCURACY_SPREAD_MAX_RATIO:
        what = f"{what}, {best.file} on {best.runtime} {best.accuracy_ratio}"
        raise BuildRefused(f"forms disagree: {what}, limit {ACCURACY_SPREAD_MAX_RATIO}")


def check_tensors(models: Sequence[ModelEntry]) -> None:
    """Refuse a file whose batch is not 1, or a TFLite file that is not int8 to its edges."""
    for model in models:
        if model.input.shape[0] != 1 or model.output.shape != (1, 10):
            raise BuildRefused(f"{model.file}: shapes {model.input.shape}, {model.output.shape}")
        is_int8 = (model.format, model.precision) == ("tflite", "int8")
        expected = "int8" if is_int8 else "float32"
        if {model.input.dtype, model.output.dtype} != {expected}:
            raise BuildRefused(f"{model.file}: input or output is not {expected}")


def build(staging: Path, *, runtime_python: Path | None) -> None:
    """Make every file in `staging`; raise BuildRefused if one is not fit to be carried."""
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
    """Build or measure; nothing reaches OUTPUT_DIR before every check has passed."""
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
