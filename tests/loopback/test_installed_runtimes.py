"""A runtime is usable exactly where it runs a model of one addition, whatever is installed."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from support.renamed import renamed_runtime
from support.tools import need_runtime

from edgebench.agent.runtimes import registry
from edgebench.protocol.device import RuntimeReport

VENDOR_VERSION = "1.99.0"


def probed(name: str, *places: Path) -> RuntimeReport:
    """Report of a probe in a separate process, with these directories before all others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ":".join(map(str, places)))
        return registry.probe(registry.find_runtime(name))


@pytest.mark.parametrize(
    "name",
    [
        *("onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-qnn", "onnxruntime-directml"),
        *("onnxruntime-rocm", None),
    ],
)
def test_build_of_another_name_is_usable(tmp_path: Path, name: str | None) -> None:
    """Otherwise it would be "not installed", and the hint would install another build over it."""
    need_runtime("onnxruntime")
    folder = renamed_runtime(tmp_path, name, VENDOR_VERSION)
    report = probed("onnx", folder)
    assert report.is_usable, report.reason
    assert (report.version, report.distribution) == (VENDOR_VERSION, name)
    assert report.library == str(folder / "onnxruntime")


def test_build_that_does_not_run_is_not_replaced(tmp_path: Path) -> None:
    """Otherwise the hint would replace a vendor build that lacks its driver by the usual one."""
    folder = renamed_runtime(tmp_path, "onnxruntime-gpu", VENDOR_VERSION)
    (folder / "onnxruntime" / "__init__.py").write_text(
        "raise ImportError('libcudart.so.99: cannot open shared object file: No such file')"
    )
    report = probed("onnx", folder)
    assert report.reason == (
        "onnxruntime-gpu needs the system library libcudart.so.99, which is missing"
    )
    assert report.install is None


def test_runtime_that_is_imported_and_runs_no_model_is_not_usable(tmp_path: Path) -> None:
    """Otherwise the first run would fail with the library's own message."""
    need_runtime("tflite-runtime")
    interpreter = tmp_path / "tflite_runtime" / "interpreter.py"
    interpreter.parent.mkdir()
    (interpreter.parent / "__init__.py").write_text("__version__ = '2.99'")
    interpreter.write_text(
        "class Interpreter:\n"
        "    def __init__(self, **options):\n"
        "        raise ValueError('no kernel for ADD')\n"
    )
    report = probed("tflite", tmp_path)
    assert not report.is_usable
    assert report.reason is not None
    assert "cannot run a model of one addition: tflite refused the model" in report.reason
    assert report.install is None


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="tflite-runtime ends at Python 3.11")
def test_runtime_of_numpy_1_names_it_beside_numpy_2(tmp_path: Path) -> None:
    """Otherwise it would be usable, and each run would end in a SystemError without a reason."""
    need_runtime("tflite-runtime")
    assert probed("tflite").is_usable, "beside numpy 1"
    old, new = version("numpy"), "2.2.6"
    (tmp_path / "numpy").mkdir()
    real = Path(__import__("numpy").__file__ or "").parent
    for path in real.iterdir():
        if path.name not in ("__init__.py", "__pycache__"):
            (tmp_path / "numpy" / path.name).symlink_to(path)
    text = (real / "__init__.py").read_text()
    (tmp_path / "numpy" / "__init__.py").write_text(f"{text}\n__version__ = {new!r}\n")
    # Numpy 2 does this to a library built for numpy 1, whose C code then fails at its first array.
    module = tmp_path / "tflite_runtime"
    module.mkdir()
    (module / "__init__.py").write_text(f"__version__ = {version('tflite-runtime')!r}")
    (module / "interpreter.py").write_text(
        "class Interpreter:\n"
        "    def __init__(self, **options):\n"
        "        raise SystemError('<built-in method> returned NULL without an exception')\n"
    )
    report = probed("tflite", tmp_path)
    assert report.reason == f"tflite-runtime 2.14.0 needs numpy<2, found {new}", old
    assert report.install is None


def test_runtime_whose_library_may_not_be_read_says_so(tmp_path: Path) -> None:
    """Otherwise a runtime that works would seem to be broken, without a hint how to use it."""
    need_runtime("onnxruntime")
    folder = renamed_runtime(tmp_path / "packages", "onnxruntime-gpu", VENDOR_VERSION)
    secret = tmp_path / "elsewhere" / "vendor.py"
    secret.parent.mkdir()
    secret.write_text("")
    with (folder / "onnxruntime" / "__init__.py").open("a") as module:
        module.write(f"open({str(secret)!r}).close()\n")
    report = probed("onnx", folder)
    assert not report.is_usable
    assert "without confinement, the runtime works" in str(report.reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEBENCH_READABLE", str(secret.parent))
        assert probed("onnx", folder).is_usable


def test_probe_leaves_the_home_of_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a library's telemetry would write an id of the device where no run may write."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "packages" / "onnxruntime").mkdir(parents=True)
    (tmp_path / "packages" / "onnxruntime" / "__init__.py").write_text(
        "import os, pathlib\n"
        "home = pathlib.Path.home()\n"
        "(home / '.telemetry-id').write_text('1')\n"
        f"assert str(home) != {str(home)!r}\n"
        "assert 'SECRET_TOKEN' not in os.environ\n"
        f"pathlib.Path({str(tmp_path / 'outside')!r}).write_text('1')\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SECRET_TOKEN", "1")
    report = probed("onnx", tmp_path / "packages")
    assert not report.is_usable
    # Confined as a worker is: by access rights, or in a view of its own.
    assert re.search("Permission denied|Read-only file system", str(report.reason))
    assert list(home.iterdir()) == []
