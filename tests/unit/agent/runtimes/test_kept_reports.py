"""Reports of probes are kept while nothing that they depend on changes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from edgebench.agent.runtimes import kept_reports, registry
from edgebench.agent.runtimes.kept_reports import FILE_NAME, MAX_CIRCUMSTANCES
from edgebench.agent.runtimes.onnx import OnnxRuntime
from edgebench.agent.runtimes.tflite import LiteRt, TfliteRuntime
from edgebench.protocol.device import RuntimeReport
from edgebench.protocol.runtime import Runtime


class Foreign(OnnxRuntime):
    """Driver of a third party."""

    name = "foreign"


class Machine:
    """Site-packages with modules, drivers, and the probes that were made of them."""

    def __init__(self, folder: Path) -> None:
        self.packages = folder / "lib" / "site-packages"
        self.packages.mkdir(parents=True)
        self.drivers: list[Runtime] = [LiteRt(), OnnxRuntime()]
        self.failing: set[str] = set()
        self.place = self.packages
        self.probed: list[str] = []

    def install(self, module: str) -> None:
        """Add a package with this module."""
        (self.packages / module).mkdir(parents=True)
        os.utime(self.packages, (1, len(list(self.packages.iterdir()))))

    def probe(self, driver: Runtime) -> RuntimeReport:
        """Report on a driver by its module, and by whether it fails."""
        self.probed.append(driver.name)
        module = getattr(driver, "module", "").partition(".")[0]
        if driver.name in self.failing or not (self.packages / module).exists():
            return RuntimeReport(driver.name, driver.formats, reason="no")
        library = str(self.place / module)
        return RuntimeReport(driver.name, driver.formats, version="1.0", library=library)

    def probes(self) -> list[str]:
        """Names of the runtimes that a new agent probes."""
        self.probed.clear()
        registry.probe_all()
        return list(self.probed)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with LiteRT's module, and without ONNX Runtime's."""
    machine = Machine(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(machine.packages)])
    monkeypatch.setattr(registry, "probe", machine.probe)
    monkeypatch.setattr(
        registry, "known_runtimes", lambda: {driver.name: driver for driver in machine.drivers}
    )
    monkeypatch.setattr(
        registry, "has_module", lambda name: (machine.packages / name.partition(".")[0]).exists()
    )
    machine.install(LiteRt().module.partition(".")[0])
    return machine


def test_second_agent_probes_nothing(machine: Machine) -> None:
    """Otherwise two seconds of CPU time would be spent right before each measurement."""
    assert machine.probes() == ["litert", "onnx"]
    first = registry.probe_all()
    assert machine.probes() == []
    assert registry.probe_all() == first
    assert [report.is_usable for report in first] == [True, False]


def test_runtime_that_is_installed_is_probed(machine: Machine) -> None:
    """Otherwise a runtime would stay unknown until the cache is removed."""
    machine.probes()
    machine.install("onnxruntime")
    assert machine.probes() == ["litert", "onnx"]
    assert machine.probes() == []


def test_module_outside_of_the_packages_is_noticed(machine: Machine) -> None:
    """Otherwise a build tree on the path, whose directory has not changed, would not be found."""
    machine.probes()
    before = machine.packages.stat()
    (machine.packages / "onnxruntime").mkdir()
    os.utime(machine.packages, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert machine.probes() == ["onnx"]


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "LD_LIBRARY_PATH", "HOME"])
def test_another_variable_is_another_circumstance(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Otherwise a report would be that of another library, or of other settings."""
    machine.probes()
    with monkeypatch.context() as patch:
        patch.setenv(name, "/other")
        assert machine.probes() == ["litert", "onnx"]
        assert machine.probes() == []
    assert machine.probes() == [], "both are kept"


def test_runtime_that_fails_is_probed_each_time(machine: Machine) -> None:
    """Otherwise an accident of one moment, such as a lack of memory, would last."""
    machine.failing.add("litert")
    machine.probes()
    assert machine.probes() == ["litert"]
    machine.failing.clear()
    assert machine.probes() == ["litert"]
    assert machine.probes() == []


def test_drivers_of_others_and_build_trees_are_probed_each_time(machine: Machine) -> None:
    """Otherwise a change to a driver's file would show the report of its last version."""
    machine.drivers = [Foreign(), TfliteRuntime()]
    machine.place = machine.packages.parent / "build"
    machine.install("tflite_runtime")
    registry.probe_all()
    # A subclass of a built-in driver still counts as a third-party driver.
    assert machine.probes() == ["foreign", "tflite"]


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"x": 1}', '{"KEY": {"litert": 3, "onnx": {}}}', '{"KEY": []}']
)
def test_damaged_file_is_made_anew(machine: Machine, tmp_path: Path, content: str) -> None:
    """Otherwise a file in a cache would keep an agent from its runtimes."""
    path = tmp_path / "cache" / "edgebench" / FILE_NAME
    machine.probes()
    path.write_text(content.replace("KEY", kept_reports._circumstances()))
    assert machine.probes() == ["litert", "onnx"]
    assert machine.probes() == []


def test_file_has_a_bound(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would grow with each environment of a machine of CI."""
    for number in range(MAX_CIRCUMSTANCES + 3):
        monkeypatch.setenv("OMP_NUM_THREADS", str(number))
        machine.probes()
    kept = json.loads((tmp_path / "cache" / "edgebench" / FILE_NAME).read_bytes())
    assert len(kept) == MAX_CIRCUMSTANCES
    assert machine.probes() == []


def test_cache_that_cannot_be_written_keeps_nothing(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an agent without a home would not start."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert machine.probes() == ["litert", "onnx"]
    assert machine.probes() == ["litert", "onnx"]
