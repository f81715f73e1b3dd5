"""Which wheels fit a device, and what happens when there are none."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.host.devices import packages
from edgebench.host.devices.on_device import Interpreter, describe_interpreter
from edgebench.host.devices.packages import fetch, platform_tags, why_no_runtime
from edgebench.protocol.errors import PackagesMissing

WHEELS = {
    "onnx": "onnxruntime-1.23.2-cp311-cp311-manylinux_2_27_aarch64.whl",
    "litert": "ai_edge_litert-2.3.0-cp311-cp311-manylinux_2_27_aarch64.whl",
    "tflite": "tflite_runtime-2.14.0-cp311-cp311-manylinux_2_34_aarch64.whl",
    "serial": "pyserial-3.5-py2.py3-none-any.whl",
}


def interpreter(
    machine: str, *, bits: int = 64, libc: str = "glibc", minor: int = 36
) -> Interpreter:
    """A Python on some board."""
    here = describe_interpreter()
    return replace(
        here,
        markers=replace(here.markers, platform_machine=machine, python_version="3.11"),
        abi="cp311",
        bits=bits,
        libc=libc,
        libc_version=(2 if libc == "glibc" else 1, minor),
    )


BOARD = interpreter("aarch64")


class Index:
    """Stands in for pip: has wheels for some extras, and records the requests."""

    def __init__(self, patch: pytest.MonkeyPatch, cache: Path, *extras: str) -> None:
        self.extras = set(extras)
        self.asked: list[tuple[str, ...]] = []
        self.error: PackagesMissing | None = None
        patch.setattr(packages, "_download", self._download)
        patch.setenv("XDG_CACHE_HOME", str(cache))

    def _download(
        self,
        own: Path,
        interpreter: Interpreter,
        extras: Sequence[str],
        destination: Path,
        source: Path | None,
    ) -> None:
        self.asked.append(tuple(extras))
        if self.error:
            raise self.error
        if missing := set(extras) - self.extras:
            raise PackagesMissing(f"no wheel: {min(missing)}")
        destination.mkdir(exist_ok=True)
        for name in (own.name, *(WHEELS[extra] for extra in extras)):
            (destination / name).touch()


@pytest.mark.parametrize(
    ("found", "first", "last", "count"),
    [
        (interpreter("aarch64", minor=19), "manylinux_2_19_aarch64", "linux_aarch64", 5),
        (interpreter("x86_64", minor=17), "manylinux_2_17_x86_64", "linux_x86_64", 17),
        (interpreter("x86_64", bits=32), "manylinux_2_36_i686", "linux_i686", 36),
        (interpreter("aarch64", bits=32), "manylinux_2_36_armv7l", "linux_armv7l", 22),
        (interpreter("armv6l", bits=32), "linux_armv6l", "linux_armv6l", 1),
        (interpreter("aarch64", libc="musl", minor=2), "musllinux_1_2_aarch64", "linux_aarch64", 4),
    ],
)
def test_tags_are_those_whose_wheels_run_there(
    found: Interpreter, first: str, last: str, count: int
) -> None:
    """Otherwise wheels that crash on the device would be sent, or fitting wheels not be found."""
    tags = platform_tags(found)
    assert (tags[0], tags[-1], len(tags)) == (first, last, count)
    assert ("manylinux2014_aarch64" in tags) == (found.libc == "glibc" and "aarch64" in first)


def test_runtime_without_a_wheel_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one missing wheel would make the whole deploy impossible."""
    index = Index(monkeypatch, tmp_path / "cache", "onnx")
    found = fetch(BOARD, ["litert", "onnx"], tmp_path)
    assert (found.runtimes, found.left_out) == (("onnx",), ("litert",))
    assert found.requirement == "edgebench-agent[onnx]"
    assert [path.name for path in found.files] == [found.own.name, WHEELS["onnx"]]
    assert found.own.parent == tmp_path, "our own wheel is never an old one from the cache"
    assert index.asked == [("litert", "onnx"), ("litert",), ("onnx",), ("onnx",)]


def test_no_runtime_at_all_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a device would get an agent that can run nothing."""
    Index(monkeypatch, tmp_path / "cache")
    with pytest.raises(PackagesMissing, match="no wheel: onnx"):
        fetch(BOARD, ["litert", "onnx"], tmp_path)
    assert not any((tmp_path / "cache").glob("*/*/*"))


def test_runtime_that_its_markers_exclude_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise pip would accept an extra that requires nothing there, without its runtime."""
    index = Index(monkeypatch, tmp_path / "cache", "onnx", "tflite")
    monkeypatch.setitem(WHEELS, "tflite", "numpy-2.5.5-cp312-cp312-linux_aarch64.whl")
    found = fetch(BOARD, ["tflite", "onnx"], tmp_path)
    assert (found.runtimes, found.left_out) == (("onnx",), ("tflite",))
    assert len(index.asked) == 1


def test_what_a_meter_needs_comes_along_with_every_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a meter's library would go missing with a runtime's wheel, or from an old set."""
    index = Index(monkeypatch, tmp_path / "cache", "onnx", "serial")
    fetch(BOARD, ["litert", "onnx"], tmp_path)
    found = fetch(BOARD, ["litert", "onnx"], tmp_path, extras=["serial"])
    assert (found.runtimes, found.left_out) == (("onnx",), ("litert",))
    assert found.requirement == "edgebench-agent[onnx,serial]"
    assert {path.name for path in found.files} >= {WHEELS["onnx"], WHEELS["serial"]}
    assert index.asked[-1] == ("onnx", "serial")


def test_missing_library_of_a_meter_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a device would serve a meter that it cannot open, or a runtime be blamed."""
    Index(monkeypatch, tmp_path / "cache", "onnx", "litert")
    with pytest.raises(PackagesMissing, match="no wheel: serial"):
        fetch(BOARD, ["litert", "onnx"], tmp_path, extras=["serial"])
    assert not any((tmp_path / "cache").glob("*/*/*"))


def test_set_serves_a_farm_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each of fifty boards would query the index, or a set never be renewed."""
    index = Index(monkeypatch, tmp_path / "cache", "onnx")
    first = fetch(BOARD, ["onnx"], tmp_path)
    other_kernel = replace(BOARD, markers=replace(BOARD.markers, platform_release="7.0"))
    assert fetch(other_kernel, ["onnx"], tmp_path).files == first.files
    assert len(index.asked) == 1
    fetch(interpreter("aarch64", minor=31), ["onnx"], tmp_path)
    assert len(index.asked) == 2
    yesterday_s = time.time() - packages.FRESH_S - 1
    os.utime(first.files[-1].parent, (yesterday_s, yesterday_s))
    assert fetch(BOARD, ["onnx"], tmp_path).files == first.files
    assert len(index.asked) == 3


def test_old_set_serves_when_the_index_is_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a host without internet could not even deploy what it deployed yesterday."""
    index = Index(monkeypatch, tmp_path / "cache", "onnx")
    first = fetch(BOARD, ["onnx"], tmp_path)
    os.utime(first.files[-1].parent, (0, 0))
    index.error = packages._IndexUnreachable("no network")
    assert fetch(BOARD, ["onnx"], tmp_path).files == first.files
    with pytest.raises(PackagesMissing, match="no network"):
        fetch(interpreter("x86_64"), ["onnx"], tmp_path)


def test_wheels_from_a_directory_come_from_nowhere_else(tmp_path: Path) -> None:
    """Otherwise `--wheels DIR` would use an index that the user's configuration names."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(PackagesMissing, match="No matching distribution found"):
        fetch(BOARD, ["onnx"], tmp_path, tmp_path / "empty")
    closed = packages._closed_environment({"PIP_INDEX_URL": "x", "PATH": "/bin"})
    assert closed == {"PATH": "/bin", "PIP_CONFIG_FILE": os.devnull}


@pytest.mark.parametrize(
    ("python", "reason"),
    [
        (interpreter("aarch64"), ""),
        (interpreter("x86_64"), ""),
        (interpreter("armv7l", bits=32), ""),
        (interpreter("aarch64", bits=32), ""),
        (interpreter("aarch64", libc="musl", minor=2), "not for musl (as in Alpine"),
        (interpreter("riscv64"), "not built for 64-bit RISC-V"),
        (interpreter("i686", bits=32), "not built for 32-bit x86"),
        (interpreter("x86_64", bits=32), "not built for 32-bit x86"),
    ],
)
def test_system_without_runtimes_has_its_reason(python: Interpreter, reason: str) -> None:
    """Otherwise pip would search for minutes and a device compile for hours.

    Or a good device would be refused.
    """
    assert reason in why_no_runtime(python)
    assert bool(why_no_runtime(python)) == bool(reason)
