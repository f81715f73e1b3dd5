"""The wheel for devices: valid by the rules, with what runs there and nothing else."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from edgebench.host.devices.wheel import PORTIONS, RUNTIMES, build_wheel
from edgebench.host.wheel_file import newest_wheel, package_of
from edgebench.meters.registry import DRIVERS, extras_of
from edgebench.protocol.runtime import RUNTIME_PACKAGES


def required_package(requirement: str) -> str:
    """Normalised name of the package that a requirement names."""
    return canonicalize_name(Requirement(requirement).name)


STEM = f"edgebench_agent-{version('edgebench-agent')}"
INFO = f"{STEM}.dist-info"


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Members of the wheel."""
    path = build_wheel(tmp_path_factory.mktemp("wheel"))
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def test_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    """Otherwise every deploy would send and install the same agent again."""
    for name in "ab":
        (tmp_path / name).mkdir()
    first, second = build_wheel(tmp_path / "a"), build_wheel(tmp_path / "b")
    assert first.name == second.name == f"{STEM}-py3-none-any.whl"
    assert first.read_bytes() == second.read_bytes()


def test_it_holds_what_runs_on_a_device_and_nothing_else(members: dict[str, bytes]) -> None:
    """Otherwise devices would get the host's code, or lack a part of the agent."""
    portions = {name.split("/")[1] for name in members if name.startswith("edgebench/")}
    assert portions == set(PORTIONS)
    assert not portions & {"host", "simulation"}
    assert "edgebench/__init__.py" not in members
    assert "edgebench/agent/worker/main.py" in members
    assert any(name.startswith("edgebench/device_profiles/profiles/") for name in members)
    assert not [name for name in members if "__pycache__" in name or "/." in name]


def test_record_names_every_file_with_its_hash(members: dict[str, bytes]) -> None:
    """Otherwise pip would refuse the wheel, or leave files behind when it uninstalls."""
    rows = list(csv.reader(io.StringIO(members[f"{INFO}/RECORD"].decode())))
    assert {row[0] for row in rows} == set(members)
    for name, digest, size in rows:
        if not name.endswith("/RECORD"):
            data = members[name]
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            assert (digest, size) == (f"sha256={expected.decode()}", str(len(data)))


def test_metadata_asks_for_what_a_device_needs_and_not_for_the_hosts(
    members: dict[str, bytes],
) -> None:
    """Otherwise a device would get pandas, or lack what its agent imports."""
    metadata = Parser().parsestr(members[f"{INFO}/METADATA"].decode())
    required = metadata.get_all("Requires-Dist") or []
    base = {required_package(line) for line in required if "extra ==" not in line}
    assert {"msgpack", "cattrs", "websockets", "zeroconf", "cryptography"} <= base
    assert "numpy" not in base, "78 MB, of which only runtimes make use"
    names = {required_package(line) for line in required}
    assert not names & {"pandas", "paramiko", "pyarrow", "rich", "scipy", "pytest"}
    assert metadata["Requires-Python"] == ">=3.10"
    meters = {"joulescope", "nvml", "scpi", "serial", "usb"}
    assert set(metadata.get_all("Provides-Extra") or []) == {*RUNTIMES, "runtimes", *meters}


def test_agents_command_is_the_only_one(members: dict[str, bytes]) -> None:
    """Otherwise `edgebench-agent` would be missing on the device, or `edgebench` fail there."""
    text = members[f"{INFO}/entry_points.txt"].decode()
    assert "edgebench-agent = edgebench.agent.entry:run" in text
    assert "edgebench.host" not in text
    assert "edgebench.simulation" not in text


def test_extras_bring_what_runtimes_and_meters_need(members: dict[str, bytes]) -> None:
    """Otherwise a runtime would lack its library or numpy, or a meter its library."""
    metadata = Parser().parsestr(members[f"{INFO}/METADATA"].decode())
    required = metadata.get_all("Requires-Dist") or []
    extras = {*RUNTIMES, *extras_of(list(DRIVERS))}
    found = {
        extra: {required_package(line) for line in required if line.endswith(f"extra == '{extra}'")}
        for extra in extras
    }
    assert found == {
        **{name: {"numpy", package} for name, package in RUNTIME_PACKAGES.items()},
        "joulescope": {"pyjoulescope-driver"},
        "nvml": {"nvidia-ml-py"},
        "scpi": {"pyvisa", "pyvisa-py"},
        "serial": {"pyserial"},
        "usb": {"pyusb"},
    }


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("numpy-1.26.4-cp311-cp311-linux_aarch64.whl", "numpy"),
        ("ai_edge_litert-2.3.0-cp311-cp311-linux_aarch64.whl", "ai-edge-litert"),
        ("ruamel.yaml-0.18.6-py3-none-any.whl", "ruamel-yaml"),
        ("PyYAML-6.0-cp311-cp311-linux_x86_64.whl", "pyyaml"),
        ("edgebench_agent-0.1.0-1bridge-py3-none-any.whl", "edgebench-agent"),
    ],
)
def test_names_are_compared_as_packaging_does(file: str, name: str) -> None:
    """Otherwise a wheel with another spelling of its name would count as missing."""
    assert package_of(file) == name


def test_newest_wheel_is_the_one_of_the_highest_version(tmp_path: Path) -> None:
    """Otherwise a kit of 0.10 would never be deployed while a kit of 0.9 is kept."""
    assert newest_wheel(tmp_path) is None
    for name in ("kit.whl", "edgebench_kit-0.10.0-py3-none-any.whl", "pip-26-py3-none-any.whl"):
        (tmp_path / name).touch()
    (tmp_path / "edgebench_kit-0.9.0-py3-none-any.whl").touch()
    newest = newest_wheel(tmp_path, "edgebench_kit-*.whl")
    assert newest is not None
    assert newest.name == "edgebench_kit-0.10.0-py3-none-any.whl"
    assert newest_wheel(tmp_path, "kit*") == tmp_path / "kit.whl", "a name without a version"
