"""`edgebench bench`: what goes to which stream, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import QUICK, Measured
from support.onnx_bytes import addition
from support.tools import need_runtime

from edgebench.host.result.document import from_document, to_document


def test_json_is_one_document_on_stdout_and_nothing_else(measured: Measured) -> None:
    """Otherwise a progress line would break a script that reads stdout."""
    assert measured.code in (0, 3), measured.err
    document = json.loads(measured.out)
    assert list(document) == ["runs", "sets", "headlines", "errors"]
    assert document["errors"] == []
    assert measured.document["model"]["name"] == "digits_int8.tflite"
    assert measured.document["spec"]["min_query_count"] == 50
    # A slow machine reports its progress in more lines like the first.
    begin, *others = measured.err.splitlines()
    assert begin.startswith("run: digits_int8.tflite on litert")
    end = next(line for line in others if not line.startswith("run: "))
    assert end.startswith("done: digits_int8.tflite on litert")
    assert "{" not in measured.err


def test_printed_document_is_the_stored_one(measured: Measured) -> None:
    """Otherwise a script would receive something other than what the store keeps."""
    store = measured.host.folder / "data" / "edgebench"
    (path,) = store.glob("runs/*/run.json")
    assert json.loads(path.read_text()) == measured.document


def test_document_that_is_read_and_written_again_is_the_same_text(measured: Measured) -> None:
    """Otherwise tagging a run would turn a count into 64.0, and `verify` would report a change."""
    again = to_document(from_document(measured.document))
    assert json.dumps(again) == json.dumps(measured.document)


def test_invalid_run_is_exit_code_3_and_its_table_goes_to_stdout(
    measured: Measured, tmp_path: Path
) -> None:
    """Otherwise a CI job would use an invalid number, or a file of results hold the progress."""
    need_runtime("onnxruntime")
    path, store = tmp_path / "nan.onnx", tmp_path / "store"
    path.write_bytes(addition(float("nan")))
    result = measured.host.run("bench", str(path), *QUICK, "--store", str(store))
    assert result.returncode == 3, result.stderr
    for column in ("device", "model", "precision", "runtime", "p50", "p99", "verdict"):
        assert column in result.stdout
    assert "nan.onnx" in result.stdout
    assert "invalid" in result.stdout
    assert "\x1b" not in result.stdout + result.stderr, "no colours into a file"
    assert (
        "invalid: nan.onnx on onnx: the outputs are wrong: outputs contain NaN or infinity"
        in result.stderr
    )
    assert f"results: {store / 'runs'}" in result.stderr
    assert "next: edgebench show " in result.stderr


def test_one_bad_model_of_two_is_exit_code_1_and_does_not_cost_the_other(
    measured: Measured, tmp_path: Path
) -> None:
    """Otherwise a CI job would treat a failure as success, or one failure would end the list."""
    path = tmp_path / "junk.tflite"
    path.write_bytes(b"this is no model")
    result = measured.host.run(
        *("bench", str(path), "digits_int8.tflite", "--runtime", "litert", *QUICK, "--json"),
        *("--store", str(tmp_path)),
    )
    assert result.returncode == 1
    (document,) = json.loads(result.stdout)["runs"]
    assert document["model"]["name"] == "digits_int8.tflite"
    (error,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert error.startswith("error: junk.tflite on litert: litert refused the model: ")
    (hint,) = [line for line in result.stderr.splitlines() if line.startswith("hint: ")]
    assert "edgebench" in hint


@pytest.mark.parametrize(
    ("name", "runtime", "said"),
    [
        ("model.txt", None, "unknown model format, expected .tflite or .onnx"),
        ("model.onnx", "litert", "runtime litert does not load .onnx files"),
        ("model.tflite", "tfilte", "unknown runtime 'tfilte'; available:"),
    ],
)
def test_runtime_that_does_not_fit_is_exit_code_2(
    measured: Measured, tmp_path: Path, name: str, runtime: str | None, said: str
) -> None:
    """Otherwise a model with a wrong suffix or runtime would be sent, and fail on the device."""
    path = tmp_path / name
    path.write_bytes(b"this is no model")
    words = ("--runtime", runtime) if runtime else ()
    result = measured.host.run("bench", str(path), *words, *QUICK)
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    error, hint = result.stderr.splitlines()
    assert said in error
    assert hint.startswith("hint: ")


def test_empty_model_is_refused_before_it_is_sent(measured: Measured, tmp_path: Path) -> None:
    """Otherwise a failed download would reach the device and end in a flatbuffer error."""
    path = tmp_path / "empty.onnx"
    path.touch()
    result = measured.host.run("bench", str(path), *QUICK)
    assert result.returncode == 1
    assert f"error: empty.onnx on onnx: model file is empty: {path}" in result.stderr


def test_store_that_cannot_be_written_is_noticed_before_the_measurement(
    measured: Measured, tmp_path: Path
) -> None:
    """Otherwise the result of an hour's measurement could not be stored."""
    (tmp_path / "file").write_text("")
    result = measured.host.run(
        "bench", "digits_int8.tflite", "--duration", "1h", "--store", str(tmp_path / "file" / "s")
    )
    assert (result.returncode, result.stdout) == (1, "")
    error, hint = result.stderr.splitlines()[-2:]
    assert error.startswith("error: store not writable: Not a directory: ")
    assert "--store" in hint
