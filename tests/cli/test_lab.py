"""The commands lab export and lab join, as a person uses them."""

from __future__ import annotations

from pathlib import Path

from support.agents import Host
from support.commands import Run

from edgebench.host.devices.files import HostFiles, KnownDevice

PI = KnownDevice("pi", "01", "p" * 43, ("192.0.2.1",), 7747)
ROCK = KnownDevice("rock", "02", "r" * 43, ("192.0.2.2",), 7747)


def test_lab_goes_from_host_to_host(edgebench: Run, host: Host, tmp_path: Path) -> None:
    """The output warns that the file is a key, and lists what joining has removed."""
    path = tmp_path / "lab.json"
    other = HostFiles(tmp_path / "other")
    other.remember(PI)
    from edgebench.host.devices.lab_file import export_lab

    export_lab(other, path)
    HostFiles(host.folder / "config/edgebench/host").remember(ROCK)
    said = edgebench("lab", "join", str(path))
    assert said.code == 2
    assert "error: lab not joined: this host has its own identity, with which rock" in said.err
    assert "hint: see all arguments: edgebench lab join --help" in said.err
    said = edgebench("lab", "join", str(path), "--replace")
    assert (said.code, said.out.splitlines()[:2]) == (
        0,
        ["forgotten: rock, which was paired with the old identity", "joined: 1 device: pi"],
    )
    said = edgebench("lab", "export", str(tmp_path / "again.json"))
    assert said.code == 0
    assert said.out.startswith("exported: this host's identity and 1 device, to ")
    assert "warning: this file gives access to all these devices" in said.out
    assert edgebench("lab", "export", str(path)).code == 2
