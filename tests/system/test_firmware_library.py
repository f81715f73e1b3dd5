"""The firmware as a library: each package, its example against a double of the framework."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.firmware_process import Line, run_inference
from support.reference_kernels import BUILT_IN, Reference, inputs
from support.tools import need_runtime, need_tool

from edgebench.firmware_bridge.generate import generate

ROOT = Path(__file__).resolve().parents[2]
PACKAGER = ROOT / "devtools/package_firmware.py"
DOUBLES = ROOT / "tests/support/firmware_library"
OPTIONS = ("-O1", "-pthread", "-Wall", "-Wextra", "-Werror")
EXAMPLES = {
    "arduino": "Edgebench/examples/Edgebench/Edgebench.ino",
    "zephyr": "edgebench/samples/device/src/main.c",
    "esp_idf": "edgebench/examples/device/main/main.c",
}
TICK_SOURCES = {"arduino": "micros", "zephyr": "timing_counter", "esp_idf": "cycle_count"}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with each package in a folder of its kind, and the library's objects in `objects`."""
    need_tool("gcc", "g++", "nm")
    folder = tmp_path_factory.mktemp("library")
    for kind in EXAMPLES:
        subprocess.run([sys.executable, str(PACKAGER), kind, str(folder / kind)], check=True)
    objects = folder / "objects"
    objects.mkdir()
    sources = folder / "arduino/Edgebench/src"
    files = sorted(str(path) for path in sources.rglob("*.c"))
    subprocess.run(["gcc", *OPTIONS, "-c", f"-I{sources}", *files], cwd=objects, check=True)
    return folder


@contextmanager
def running(packages: Path, kind: str) -> Iterator[Line]:
    """A package's example as a process, from its start on."""
    example, double = packages / kind / EXAMPLES[kind], DOUBLES / kind
    objects = [str(path) for path in (packages / "objects").glob("*.o")]
    includes = [f"-I{double}", f"-I{packages}/arduino/Edgebench/src"]
    if kind == "arduino":
        command = ["g++", f'-DSKETCH="{example}"', str(double / "main.cpp")]
    else:
        command = ["gcc", str(example), str(double / "main.c")]
    binary = packages / f"{kind}.bin"
    subprocess.run([*command, *OPTIONS, *includes, *objects, "-o", str(binary)], check=True)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen([str(binary)], stdin=theirs.fileno(), stdout=theirs.fileno())
        try:
            yield Line(ours.fileno())
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("kind", EXAMPLES)
def test_example_runs_an_uploaded_model(packages: Path, kind: str) -> None:
    """Otherwise a package could lack a source, or its example lose bytes of the line."""
    need_runtime("ai-edge-litert")
    model = BUILT_IN.read_bytes()
    reference = Reference(model)
    (values,) = inputs(tuple(reference.input["shape"]), 1)
    with running(packages, kind) as line:
        assert line.lines()[0] == "m-timestamp-mode-performance"
        info = line.info()
        assert (info["port"], info["tick_source"]) == ("untested", TICK_SOURCES[kind])
        line.load_model(generate(model, model_id="digits").data)
        assert run_inference(line, values.tobytes()) == reference.outputs(values)
        assert line.durations()[0] > 0
        assert line.command("x-mode energy") == ["m-timestamp-mode-energy"]


def test_packages_have_the_same_sources(packages: Path) -> None:
    """Otherwise only the sources of one package would be those that are compiled here."""
    first = packages / "arduino/Edgebench/src"
    for kind in ("zephyr", "esp_idf"):
        folder = packages / kind / "edgebench"
        files = {path.relative_to(first) for path in first.rglob("*") if path.is_file()}
        for path in files:
            place = "include" if path.name == "edgebench.h" else "src"
            assert (folder / place / path).read_bytes() == (first / path).read_bytes()


def test_global_names_have_a_prefix(packages: Path) -> None:
    """Otherwise a program with a function `copy` or `add` could not be linked with the library."""
    objects = [str(path) for path in (packages / "objects").glob("*.o")]
    command = ["nm", "--defined-only", "--extern-only", "--format=just-symbols", *objects]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^(\w+)$", names, re.MULTILINE)
    assert len(found) > 50
    assert [name for name in found if not name.startswith("edgebench_")] == []
