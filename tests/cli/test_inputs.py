"""`edgebench bench` with user-defined shapes and inputs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from support import onnx_bytes, tflite_bytes
from support.commands import QUICK, Measured
from support.tools import need_runtime

pytestmark = pytest.mark.timeout(120)


def bench(measured: Measured, folder: Path, *words: str) -> CompletedProcess[str]:
    """Run `edgebench bench` with these words; its store is the folder."""
    return measured.host.run("bench", *words, *QUICK, "--json", "--store", str(folder / "store"))


def document_of(result: CompletedProcess[str]) -> dict[str, Any]:
    """The only run."""
    (document,) = json.loads(result.stdout)["runs"]
    found: dict[str, Any] = document
    return found


@pytest.fixture
def models(tmp_path: Path) -> dict[str, str]:
    """Models with open dimensions by the package of their runtime."""
    made = {
        "ai-edge-litert": ("open.tflite", tflite_bytes.addition(1, -1)),
        "onnxruntime": ("bert.onnx", onnx_bytes.embedding()),
    }
    for name, content in made.values():
        (tmp_path / name).write_bytes(content)
    return {package: str(tmp_path / name) for package, (name, _) in made.items()}


@pytest.mark.parametrize(
    ("package", "name"), [("ai-edge-litert", "x"), ("onnxruntime", "input_ids")]
)
def test_model_runs_in_the_shape_that_was_chosen(
    measured: Measured, tmp_path: Path, models: dict[str, str], package: str, name: str
) -> None:
    """Otherwise a token model would fail in its first inference, or be measured with one token."""
    need_runtime(package)
    result = bench(measured, tmp_path, models[package], "--shape", f"{name}=1x128")
    assert result.returncode in (0, 3), result.stderr
    document = document_of(result)
    assert document["spec"]["input_shapes"] == {name: [1, 128]}
    assert {tuple(one["shape"]) for one in document["conditions"]["inputs"]} == {(1, 128)}
    assert document["conditions"]["inputs_file"] is None
    assert document["metrics"]["agreement"]["sample_count"] == 8


@pytest.mark.parametrize("package", ["ai-edge-litert", "onnxruntime"])
def test_model_runs_on_the_inputs_that_were_given(
    measured: Measured, tmp_path: Path, models: dict[str, str], package: str
) -> None:
    """Otherwise only the shapes would be read from the file, and noise would be measured."""
    need_runtime(package)
    path, name = tmp_path / "own.npz", "x" if package == "ai-edge-litert" else "input_ids"
    digests = set[str]()
    for value in (0, 1):
        np.savez(path, **dict[str, Any]({name: np.full((3, 1, 40), value)}))
        result = bench(measured, tmp_path, models[package], "--inputs", str(path))
        assert result.returncode in (0, 3), result.stderr
        conditions = document_of(result)["conditions"]
        assert (conditions["inputs_file"], conditions["sample_count"]) == ("own.npz", 3)
        assert {tuple(one["shape"]) for one in conditions["inputs"]} == {(1, 40)}
        digests.add(conditions["output_sha256"])
    assert len(digests) == 2


@pytest.mark.parametrize(
    "content",
    [
        onnx_bytes.classifier(),
        onnx_bytes.classifier(has_text_labels=True),
        onnx_bytes.pair_of_tensors(),
    ],
    ids=["numbers", "texts", "list"],
)
def test_model_whose_outputs_are_lists_and_dictionaries_is_measured_and_checked(
    measured: Measured, tmp_path: Path, content: bytes
) -> None:
    """Otherwise every scikit-learn export would fail after a minute of measuring."""
    need_runtime("onnxruntime")
    path = tmp_path / "listed.onnx"
    path.write_bytes(content)
    result = bench(measured, tmp_path, str(path))
    assert result.returncode in (0, 3), result.stderr
    document = document_of(result)
    assert document["metrics"]["agreement"]["fraction_equal"] == 1.0
    assert document["metrics"]["agreement"]["sample_count"] == 8
    (listed,) = [one for one in document["conditions"]["outputs"] if "seq(" in one["dtype"]]
    assert listed["shape"] == [-1]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--shape", "ids=1x128"), 2, "the model has no input 'ids'; it has: 'input_ids' [batch, "),
        (
            ("--shape", "input_ids=1x2x3"),
            2,
            "input 'input_ids' is [batch, length], not [1, 2, 3]: rank 2, not 3",
        ),
        (("--inputs", "{tokens}"), 1, "onnx failed in the first inference: "),
    ],
)
def test_what_does_not_fit_the_model_is_one_line_with_a_next_step(
    measured: Measured,
    tmp_path: Path,
    models: dict[str, str],
    words: tuple[str, str],
    code: int,
    said: str,
) -> None:
    """Otherwise a user would read a traceback, or an error without the model's shape."""
    need_runtime("onnxruntime")
    tokens = tmp_path / "tokens.npz"
    np.savez(tokens, input_ids=np.full((1, 1, 4), 30_000))
    option, value = words
    path = models["onnxruntime"]
    result = bench(measured, tmp_path, path, option, value.format(tokens=tokens))
    assert result.returncode == code
    (error,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: bert.onnx on onnx: {said}")
    (hint,) = [line for line in result.stderr.splitlines() if line.startswith("hint: ")]
    again = rf"edgebench bench {path} .*"
    if option == "--shape":
        assert re.search(rf"omit --shape, .*open: {again}", hint)
        assert value not in hint
        store = tmp_path / "store"
        assert not [*store.glob("runs/*"), *store.glob("incoming/*")]
    else:
        assert re.search(rf"{again}--shape NAME=1x128, or --inputs FILE\.npz", hint)


def test_shape_that_pairs_do_not_have_is_refused_once_and_stores_nothing(
    measured: Measured, tmp_path: Path, models: dict[str, str]
) -> None:
    """Otherwise a mistyped name would fill the list of runs with a failed run for each pair."""
    need_runtime("onnxruntime")
    path, store = models["onnxruntime"], tmp_path / "store"
    words = (path, "--against", path, "--pairs", "2", "--quick", "--shape", "ids=1x128")
    result = measured.host.run("bench", *words, "--store", str(store))
    assert result.returncode == 2
    (error,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert "the model has no input 'ids'; it has: 'input_ids' [batch, " in error
    assert not [*store.glob("runs/*"), *store.glob("incoming/*")]
