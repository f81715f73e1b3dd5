"""Whether a model file is whole: built-in models, cut at every hundredth byte."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.system.model_file import fault_of_model

FOLDER = Path(str(files("edgebench.host") / "builtin_models"))
MODELS = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".onnx", ".tflite"))


@pytest.mark.parametrize("name", MODELS)
def test_whole_model_has_no_fault(name: str) -> None:
    """Otherwise a model that a runtime refuses for its operators would be copied again in vain."""
    assert fault_of_model(FOLDER / name) is None


@pytest.mark.parametrize("name", MODELS)
def test_cut_model_is_cut(name: str, tmp_path: Path) -> None:
    """Otherwise the hint for half a download would be to try other runtimes."""
    whole, path = (FOLDER / name).read_bytes(), tmp_path / name
    for size_bytes in range(100, len(whole), 100):
        path.write_bytes(whole[:size_bytes])
        assert fault_of_model(path) == f"it is cut after {size_bytes:,} bytes, or damaged"


def test_other_files_are_described(tmp_path: Path) -> None:
    """Empty files, pictures, files that are not there, and formats that are not checked."""
    for name, content, fault in (
        ("a.tflite", b"", "it is empty"),
        ("a.onnx", b"", "it is empty"),
        ("a.tflite", b"\x89PNG\r\n\x1a\n" * 9, "it does not begin like a .tflite file"),
        ("a.onnx", b"\xff" * 99, "it is not an .onnx file, or it is damaged"),
        ("a.bin", b"anything", None),
    ):
        (tmp_path / name).write_bytes(content)
        assert fault_of_model(tmp_path / name) == fault
    assert fault_of_model(tmp_path / "missing.onnx") is None


@given(st.binary(max_size=200), st.sampled_from([".onnx", ".tflite"]))
def test_any_bytes_are_described(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str
) -> None:
    """Otherwise the hint for a damaged file would end in a traceback."""
    path = tmp_path_factory.mktemp("any") / f"a{suffix}"
    path.write_bytes((b"1234TFL3" if suffix == ".tflite" else b"") + content)
    fault = fault_of_model(path)
    assert fault is None or fault.startswith("it ")
