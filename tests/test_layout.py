"""The layout of the repository: one namespace of many folders, and nothing forgotten in it."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.tools import skip_or_fail

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PORTIONS = {
    path.parent.parent.name: path
    for path in sorted(ROOT.glob("*/edgebench/*"))
    if path.is_dir() and path.name != "__pycache__" and path.parts[-3] != "build"
}
"""The package of each portion, by the name of its folder."""


def project() -> dict[str, Any]:
    """The project's configuration."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def source_files(portion: str) -> set[str]:
    """What a portion is made of, by path inside the namespace."""
    folder = ROOT / portion
    return {
        str(path.relative_to(folder))
        for path in (folder / "edgebench").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_portions_are_the_ones_of_the_design() -> None:
    """The tests below look at no portion at all, or a new one is in no list."""
    assert set(PORTIONS) >= {
        *("protocol", "device_profiles", "meters", "agent", "simulation", "firmware_bridge"),
        "host",
    }
    assert {folder: path.name for folder, path in PORTIONS.items()} == {
        folder: folder for folder in PORTIONS
    }


@pytest.mark.parametrize("portion", PORTIONS)
def test_portion_leaves_the_namespace_open(portion: str) -> None:
    """One `edgebench/__init__.py` hides every other portion."""
    assert not (ROOT / portion / "edgebench" / "__init__.py").exists()
    assert (PORTIONS[portion] / "__init__.py").exists()


@pytest.mark.parametrize("portion", PORTIONS)
def test_portion_tells_type_checkers_that_it_is_typed(portion: str) -> None:
    """Users' type checkers take everything for Any."""
    assert (PORTIONS[portion] / "py.typed").exists()


@pytest.mark.parametrize("portion", PORTIONS)
def test_portion_is_in_every_list(portion: str) -> None:
    """An editable install, a wheel or a type check silently leaves a portion out."""
    tool = project()["tool"]
    assert portion in tool["hatch"]["build"]["dev-mode-dirs"]
    assert f"{portion}/edgebench" in tool["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert portion in tool["mypy"]["mypy_path"]
    assert portion in tool["ruff"]["src"]
    assert f"edgebench.{portion}" in tool["importlinter"]["root_packages"]


@pytest.mark.parametrize("portion", PORTIONS)
def test_portion_can_be_imported_here(portion: str) -> None:
    """The tests run against an installed copy, or against half of the namespace."""
    found = find_spec(f"edgebench.{portion}")
    assert found is not None
    assert found.origin == str(PORTIONS[portion] / "__init__.py")


@pytest.mark.parametrize("script", sorted(project()["project"]["scripts"]))
def test_console_script_can_be_imported(script: str) -> None:
    """A command is installed that does not start."""
    module, _, function = project()["project"]["scripts"][script].partition(":")
    assert callable(getattr(import_module(module), function))


def test_entry_points_can_be_imported() -> None:
    """A driver that registers by entry point breaks every agent."""
    for group in project()["project"].get("entry-points", {}).values():
        for target in group.values():
            module, _, name = target.partition(":")
            assert callable(getattr(import_module(module), name))


def test_constraints_pin_versions_and_hold_no_address() -> None:
    """A build reaches for one particular index, or installs whatever is new today."""
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-", text, re.MULTILINE), "an option of pip"
    pins = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(pins) > 10
    loose = [pin for pin in pins if not re.match(r"[\w.\[\]-]+==[\w.+!]+( *;.*)?( +#.*)?$", pin)]
    assert loose == []


def test_device_dependencies_are_the_light_ones() -> None:
    """An agent pulls the host's libraries onto every device."""
    names = {re.split(r"[^\w-]", line)[0] for line in project()["project"]["dependencies"]}
    assert names <= {
        *("cattrs", "cryptography", "ifaddr", "msgpack", "numpy", "tomli", "websockets"),
        "zeroconf",
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree."""
    if find_spec("hatchling") is None:
        skip_or_fail("build backend missing: pip install hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    result = subprocess.run(
        [*command, *options, str(ROOT)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    (made,) = folder.glob("edgebench-*.whl")
    return made


@pytest.mark.parametrize("portion", PORTIONS)
def test_wheel_holds_every_file_of_a_portion(wheel: Path, portion: str) -> None:
    """What works from the checkout is missing after an install: a module, a model, a profile."""
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    assert source_files(portion) <= packed


def test_wheel_holds_models_profiles_and_licence_but_no_tests(wheel: Path) -> None:
    """`edgebench bench` finds no model after an install, or the tests are installed too."""
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    models = {name for name in packed if "/builtin_models/" in name}
    assert {name.rpartition(".")[2] for name in models} == {"tflite", "onnx", "npz", "json"}
    assert len(models) == 6
    assert sum(name.startswith("edgebench/device_profiles/profiles/") for name in packed) >= 3
    assert any(name.endswith("/LICENSE") for name in packed)
    outside = {name.split("/")[0] for name in packed} - {"edgebench"}
    assert len(outside) == 1, "only the metadata lies beside the package"
    assert all(name.endswith(".dist-info") for name in outside)
    assert "edgebench/__init__.py" not in packed
