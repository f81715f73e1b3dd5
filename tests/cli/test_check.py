"""`edgebench check`: which microcontrollers a model fits on, without one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from support import int8_models
from support import tflite_bytes as tb
from support.tflite_bytes import Graph, Operator, Tensor, model

from edgebench.host.cli.main import main


def test_model_fits_on_boards_with_enough_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a user would find out only with the board that the model is too large."""
    assert main(["check", "digits_int8.tflite", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {fit["board"] for fit in document["boards"]} > {"nucleo-l4r5zi", "pico2"}
    assert all(fit["fits"] and not fit["is_linked"] for fit in document["boards"])
    assert document["ram_bytes"] >= document["arena_bytes"] + document["input_bytes"]
    assert (document["input_bytes"], document["output_bytes"]) == (64, 10)
    assert main(["check", "digits_int8.tflite", "--on", "qemu:mps2-an386", "--on", "pico2"]) == 0
    text = capsys.readouterr().out
    assert "mps2-an386" in text
    assert "nucleo" not in text
    wide = tmp_path / "wide.tflite"
    x, y = (Tensor(name, tb.INT8, (1, 300, 1000), scales=(0.1,)) for name in "xy")
    wide.write_bytes(model(Graph((x, y), (Operator(tb.RELU, "x", "y"),))))
    assert main(["check", str(wide), "--on", "pico2", "--json"]) == 1
    (fit,) = json.loads(capsys.readouterr().out)["boards"]
    assert (fit["fits"], fit["is_linked"]) == (False, False)
    small = tmp_path / "small.tflite"
    x, y = (Tensor(name, tb.INT8, (1, 100, 1000), scales=(0.1,)) for name in "xy")
    small.write_bytes(model(Graph((x, y), (Operator(tb.RELU, "x", "y"),))))
    assert main(["check", str(small), "--on", "pico2", "--json"]) == 0
    (fit,) = json.loads(capsys.readouterr().out)["boards"]
    assert (fit["fits"], fit["is_linked"]) == (True, True), "RAM for the blob goes to the arena"
    assert main(["check", str(small)]) == 0
    shown = capsys.readouterr()
    assert re.search(r"flash limit +RAM limit +flash +RAM +stack", shown.out)
    assert "RAM 293 KiB (arena 195 KiB, input 97.7 KiB), output 97.7 KiB" in shown.out
    assert re.search(r"pico2 +if linked +3.94 MiB +464 KiB ", shown.out)


def test_missing_operators_are_named_with_their_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a user would have to measure to find out what a model has to do without."""
    path = tmp_path / "other.tflite"
    tensors = (Tensor("x", tb.INT8, scales=(0.1,)), Tensor("y", tb.INT8, scales=(0.1,)))
    operators = (Operator(tb.BATCH_MATMUL, "x x", "y"), Operator(tb.BATCH_MATMUL, "x y", "y"))
    path.write_bytes(model(Graph(tensors, operators)))
    assert main(["check", str(path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["missing_operators"] == {"BATCH_MATMUL": 2}
    assert document["boards"] == []
    assert main(["check", str(path)]) == 1
    shown = capsys.readouterr()
    assert "does not support 2 of 2 operators: BATCH_MATMUL (2)" in shown.out
    assert "next: replace these operators, or measure the model on another" in shown.err


@pytest.mark.parametrize(
    ("operator", "type_number", "problem"),
    [
        (Operator(tb.RELU, "x", "y"), tb.FLOAT32, "1 of 1 operators compute with floats"),
        (Operator(tb.FULLY_CONNECTED, "x", "y"), tb.INT8, "tensors do not fit its operators"),
    ],
)
def test_model_with_wrong_tensors_is_checked_without_advice_on_operators(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    operator: Operator,
    type_number: int,
    problem: str,
) -> None:
    """Otherwise the hint would be the command that failed, or operators that are supported."""
    path = tmp_path / "other.tflite"
    tensors = tuple(Tensor(name, type_number, scales=(0.1,)) for name in "xy")
    path.write_bytes(model(Graph(tensors, (operator,))))
    assert main(["check", str(path)]) == 1
    shown = capsys.readouterr()
    assert problem in shown.out
    assert shown.err == "next: measure the model on another device: edgebench devices\n"
    assert main(["check", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["missing_operators"] == {}


def test_what_cannot_be_checked_is_one_line_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a mistake would be a traceback, or a board of another name a silent pass."""
    path = tmp_path / "torn.tflite"
    path.write_bytes(int8_models.softmax(np.random.default_rng(0))[:200])
    assert main(["check", str(path)]) == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert "not a TensorFlow Lite model, or is damaged" in error
    assert hint == (
        "hint: copy the file again, because it is cut after 200 bytes, or damaged; or check a "
        "built-in model: edgebench check digits_int8.tflite"
    )
    other = tmp_path / "other.onnx"
    other.write_bytes(b"")
    assert main(["check", str(other)]) == 1
    assert "or check a built-in model: edgebench check digits" in capsys.readouterr().err
    pointer = tmp_path / "pointer.tflite"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    assert main(["check", str(pointer)]) == 2
    assert f"git lfs pull; then edgebench check {pointer}" in capsys.readouterr().err
    assert main(["check", "absent.tflite"]) == 2
    assert "give the path of a .tflite file, or check a built-in" in capsys.readouterr().err
    assert main(["check", "digits_int8.tflite", "--on", "pico3"]) == 2
    assert "pico2" in capsys.readouterr().err
