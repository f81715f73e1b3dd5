"""The layout of the repository: one namespace of many folders, and nothing left out of it."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
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


AGENT_PORTIONS = ("protocol", "system", "device_profiles", "meters", "agent")
"""Portions of the distribution for devices; the others are the host's."""
DISTRIBUTIONS = {"edgebench": ROOT, "edgebench-agent": ROOT / "agent"}
"""Folder of each distribution's pyproject.toml."""


def project(distribution: str = "edgebench") -> dict[str, Any]:
    """The configuration of a distribution; the configuration of all tools is in edgebench's."""
    return tomllib.loads((DISTRIBUTIONS[distribution] / "pyproject.toml").read_text())


def distribution_of(portion: str) -> str:
    """The distribution that a portion belongs to."""
    return "edgebench-agent" if portion in AGENT_PORTIONS else "edgebench"


SCRIPTS = {
    name: script
    for distribution in DISTRIBUTIONS
    for name, script in project(distribution)["project"]["scripts"].items()
}
"""Commands of both distributions."""


def source_files(portion: str) -> set[str]:
    """The files of a portion, by path inside the namespace."""
    folder = ROOT / portion
    return {
        str(path.relative_to(folder))
        for path in (folder / "edgebench").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_portions_are_the_ones_of_the_design() -> None:
    """Otherwise the tests below would check no portion at all, or miss a new portion."""
    assert set(PORTIONS) >= {
        *("protocol", "system", "device_profiles", "meters", "agent"),
        *("simulation", "firmware_bridge", "host"),
    }
    assert {folder: path.name for folder, path in PORTIONS.items()} == {
        folder: folder for folder in PORTIONS
    }


@pytest.mark.parametrize("portion", PORTIONS)
def test_portion_leaves_the_namespace_open(portion: str) -> None:
    """Otherwise one `edgebench/__init__.py` would hide every other portion."""
    assert not (ROOT / portion / "edgebench" / "__init__.py").exists()
    assert (PORTIONS[portion] / "__init__.py").exists()


@pytest.mark.parametrize("portion", PORTIONS)
def test_portion_tells_type_checkers_that_it_is_typed(portion: str) -> None:
    """Otherwise users' type checkers would treat everything as Any."""
    assert (PORTIONS[portion] / "py.typed").exists()


@pytest.mark.parametrize("portion", PORTIONS)
def test_portion_is_in_every_list(portion: str) -> None:
    """Otherwise an editable install, a wheel or a type check would silently omit a portion."""
    tool = project()["tool"]
    build = project(distribution_of(portion))["tool"]["hatch"]["build"]
    folder = DISTRIBUTIONS[distribution_of(portion)]
    editable = {(folder / path).resolve() for path in build["dev-mode-dirs"]}
    assert ROOT / portion in editable
    if portion not in AGENT_PORTIONS:
        assert f"{portion}/edgebench" in build["targets"]["wheel"]["packages"]
        assert f"{portion}/edgebench" in build["targets"]["sdist"]["only-include"]
    elif portion != "agent":
        assert portion in build["hooks"]["custom"]["portions"]
    assert portion in tool["mypy"]["mypy_path"]
    assert portion in tool["ruff"]["src"]
    assert f"edgebench.{portion}" in tool["importlinter"]["root_packages"]


@pytest.mark.parametrize("portion", PORTIONS)
def test_portion_can_be_imported_here(portion: str) -> None:
    """Otherwise the tests would run against an installed copy, or half of the namespace."""
    found = find_spec(f"edgebench.{portion}")
    assert found is not None
    assert found.origin == str(PORTIONS[portion] / "__init__.py")


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_console_script_can_be_imported(script: str) -> None:
    """Otherwise an installed command would not start."""
    module, _, function = SCRIPTS[script].partition(":")
    assert callable(getattr(import_module(module), function))


def test_entry_points_can_be_imported() -> None:
    """Otherwise a broken driver that registers by entry point would break every agent."""
    for group in project()["project"].get("entry-points", {}).values():
        for target in group.values():
            module, _, name = target.partition(":")
            found = import_module(module)
            assert not name or callable(getattr(found, name)), "pytest loads a module"


def test_constraints_pin_versions_and_hold_no_address() -> None:
    """Otherwise a build would depend on one index, or install the newest releases."""
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-", text, re.MULTILINE), "an option of pip"
    pins = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(pins) > 10
    loose = [pin for pin in pins if not re.match(r"[\w.\[\]-]+==[\w.+!]+( *;.*)?( +#.*)?$", pin)]
    assert loose == []


def test_device_dependencies_are_the_light_ones() -> None:
    """Otherwise an agent would pull numpy or the host's libraries onto every device."""
    required = project("edgebench-agent")["project"]["dependencies"]
    names = {re.split(r"[^\w-]", line)[0] for line in required}
    assert names <= {
        *("cattrs", "cryptography", "ifaddr", "msgpack", "tomli", "websockets", "zeroconf"),
    }


def test_licence_is_the_same_for_both_distributions() -> None:
    """Both distributions have the same licence: license-files cannot point outside a folder."""
    assert (ROOT / "agent/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def built(folder: Path, name: str) -> zipfile.ZipFile:
    """The wheel of a distribution in this folder."""
    (path,) = folder.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
    return zipfile.ZipFile(path)


def packed_files(archive: zipfile.ZipFile) -> set[str]:
    """Files of a wheel that are installed next to those of other distributions."""
    return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the wheels of this tree, their sdists, and the agent's wheel from its sdist."""
    if find_spec("hatchling") is None:
        skip_or_fail("build backend missing: pip install hatchling")
    folder = tmp_path_factory.mktemp("builds")
    for source in DISTRIBUTIONS.values():
        hatchling_builds(source, folder)
    for sdist in folder.glob("*.tar.gz"):
        subprocess.run(["tar", "-xzf", sdist.name], cwd=folder, check=True)
    for name in ("edgebench_agent", "edgebench"):
        unpacked = next(path for path in folder.glob(f"{name}-*") if path.is_dir())
        hatchling_builds(unpacked, folder / "again", "-t", "wheel")
    return folder


def hatchling_builds(source: Path, folder: Path, *options: str) -> None:
    """Build a distribution the way pip and `python -m build` do."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *options]
    result = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("portion", PORTIONS)
def test_wheel_holds_every_file_of_a_portion(builds: Path, portion: str) -> None:
    """Otherwise an install would lack a module, model or profile that the checkout has."""
    assert source_files(portion) <= packed_files(built(builds, distribution_of(portion)))


def test_no_file_belongs_to_two_distributions(builds: Path) -> None:
    """Otherwise uninstalling one would remove files of the other, or an upgrade mix versions."""
    host, agent = (packed_files(built(builds, name)) for name in DISTRIBUTIONS)
    assert host & agent == set()
    assert {name.split("/")[1] for name in agent} == set(AGENT_PORTIONS)
    assert {name.split("/")[1] for name in host} == set(PORTIONS) - set(AGENT_PORTIONS)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_wheel_holds_its_licence_and_nothing_beside_the_package(builds: Path, name: str) -> None:
    """Otherwise the tests would be installed too, or a stray file hide the other portions."""
    packed = set(built(builds, name).namelist())
    assert any(file.endswith(".dist-info/licenses/LICENSE") for file in packed)
    outside = {file.split("/")[0] for file in packed} - {"edgebench"}
    assert len(outside) == 1, "only the metadata lies beside the package"
    assert all(file.endswith(".dist-info") for file in outside)
    assert "edgebench/__init__.py" not in packed


def test_wheels_hold_models_and_profiles(builds: Path) -> None:
    """Otherwise `edgebench bench` would find no model after an install."""
    models = {name for name in built(builds, "edgebench").namelist() if "/builtin_models/" in name}
    assert {name.rpartition(".")[2] for name in models} == {"tflite", "onnx", "npz", "json"}
    assert len(models) == 6
    agent = built(builds, "edgebench-agent").namelist()
    assert sum(name.startswith("edgebench/device_profiles/profiles/") for name in agent) >= 3


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_sdist_gives_the_same_wheel(builds: Path, name: str) -> None:
    """Otherwise a build from the published source would lack files from outside its folder."""
    wheel, again = built(builds, name), built(builds / "again", name)
    assert {file: wheel.read(file) for file in wheel.namelist()} == {
        file: again.read(file) for file in again.namelist()
    }


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_sdist_holds_the_package_and_what_builds_it(builds: Path, name: str) -> None:
    """Otherwise every build would download tests, benchmarks and documents."""
    (sdist,) = builds.glob(f"{name.replace('-', '_')}-[0-9]*.tar.gz")
    with tarfile.open(sdist) as archive:
        files = {member.name.partition("/")[2] for member in archive if member.isfile()}
    beside = {file for file in files if "/edgebench/" not in f"/{file}"}
    hook = {"edgebench": {"agent/pyproject.toml", "hatch_metadata.py"}}.get(name)
    assert beside == {
        *("pyproject.toml", "README.md", "LICENSE", "PKG-INFO", ".gitignore"),
        *(hook or {"hatch_portions.py"}),
    }


def test_host_asks_for_the_agent_of_its_own_version(builds: Path) -> None:
    """Otherwise a host could use a local agent of another version, or half of another protocol."""
    host, agent = (metadata(built(builds, name)) for name in DISTRIBUTIONS)
    assert host["Version"] == agent["Version"] == project("edgebench-agent")["project"]["version"]
    assert f"edgebench-agent=={agent['Version']}" in (host.get_all("Requires-Dist") or [])


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_long_description_has_no_link_that_breaks(builds: Path, name: str) -> None:
    """Otherwise an index would resolve `docs/meters.md` against its own address."""
    found = metadata(built(builds, name))
    assert found["Description-Content-Type"] == "text/markdown"
    text = found.get_payload()
    assert isinstance(text, str)
    assert text.lstrip().startswith(f"# {name}")
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert [link for link in links if not re.match(r"https?://", link)] == []


def metadata(wheel: zipfile.ZipFile) -> Message:
    """The metadata of a distribution."""
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())
