"""`edgebench devices` and its actions, without any device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.agents import Host
from support.commands import Run

from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.transports.tls import TlsTransport

PI = KnownDevice("pi5", "05bb", "p" * 43, ("127.0.0.1",), 9, deployed_to="me@pi5")
FARM = '# mine\nschema = 1\n\n[device.pi5]  # by the window\nlabels = ["old"]\n'


@pytest.fixture
def known(host: Host) -> Host:
    """A host that knows one device, which is off, and has a farm file."""
    HostFiles(host.config).remember(PI)
    (host.config / "farm.toml").write_text(FARM)
    return host


def test_device_is_labelled_renamed_and_forgotten(edgebench: Run, known: Host) -> None:
    """The arguments of each command reach the right action."""
    farm = known.config / "farm.toml"
    assert edgebench("devices", "label", "pi5", "fast", "--remove", "old").out == "pi5: fast\n"
    said = edgebench("devices", "label", "pi5", "pi", "--json")
    assert json.loads(said.out) == {"name": "pi5", "labels": ["fast", "pi"]}
    said = edgebench("devices", "rename", "05bb", "window")
    assert (said.code, said.out) == (0, "renamed: 05bb is now window\n")
    assert json.loads(edgebench("devices", "--json", "rename", "window", "pi").out) == {
        "name": "pi"
    }
    changed = FARM.replace('"old"', '"fast", "pi"').replace("device.pi5", "device.pi")
    assert farm.read_text() == changed
    said = edgebench("devices", "forget", "pi")
    assert said.out == "forgotten: pi; its runs stay in the store\n"
    assert "edgebench deploy me@pi5 --uninstall" in said.err
    assert known.devices == ()
    assert farm.read_text() == changed


def test_emulated_boards_are_listed(
    edgebench: Run, host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise a user without a microcontroller would find them only by a wrong name."""
    monkeypatch.setattr(TlsTransport, "discover", lambda *_: [])
    tool = tmp_path / "qemu-system-arm"
    tool.write_text("")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    document = json.loads(edgebench("devices", "--json").out)
    boards = {board["name"]: board for board in document["emulated_boards"]}
    assert boards["qemu:mps2-an386"] == {
        "name": "qemu:mps2-an386",
        "cpu": "Cortex-M4",
        "is_available": True,
        "package": "qemu-system-arm",
    }
    lines = edgebench("devices").out.splitlines()
    assert "qemu:mps2-an386 (Cortex-M4)" in lines[-2]
    needs = "emulated boards for --on (after apt install qemu-system-misc): "
    assert lines[-1] == f"{needs}qemu:riscv32-virt (rv32imac)"


def test_check_of_a_device_that_is_off(
    edgebench: Run, known: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a script would miss a board that is off, or the farm wait for it every night."""
    monkeypatch.setattr(TlsTransport, "discover", lambda *_: [])
    said = edgebench("devices", "check", "pi5", "--json")
    assert said.code == 1
    [found] = json.loads(said.out)["devices"]
    assert (found["name"], found["state"], found["code"]) == ("pi5", "not_well", "unreachable")
    assert "pi5: not well: cannot reach pi5" in said.err
    said = edgebench("bench", "digits_int8.tflite", "--on", "all")
    assert said.code == 2
    assert "'all' matches only devices in quarantine: pi5" in said.err
    assert "edgebench devices check pi5" in said.err
