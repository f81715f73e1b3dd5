"""A lab that several hosts share, passed from one host to another in a file."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.lab_file import export_lab, join_lab
from edgebench.protocol.errors import StoreError, UsageError
from edgebench.protocol.identity import new_identity

PI = KnownDevice("pi", "01", "p" * 43, ("192.0.2.1",), 7747)
JETSON = KnownDevice("jetson", "02", "j" * 43, ("192.0.2.2", "2001:db8::2"), 7747, "me@jetson")
OTHER = KnownDevice("pi", "03", "o" * 43, ("192.0.2.3",), 7747)


def host(root: Path, *devices: KnownDevice) -> HostFiles:
    """A host that is paired with these devices."""
    files = HostFiles(root)
    for device in devices:
        files.remember(device)
    return files


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """The file of a lab with two devices."""
    path = tmp_path / "lab.json"
    export_lab(host(tmp_path / "first", PI, JETSON), path)
    return path


def test_file_is_for_its_owner_and_never_written_over(exported: Path, tmp_path: Path) -> None:
    """Otherwise all users of a machine could read the key, or a file of the user would be lost."""
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    before = exported.read_bytes()
    files = host(tmp_path / "first")
    with pytest.raises(UsageError, match="file exists"):
        export_lab(files, exported)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="file exists"):
        export_lab(files, link)
    with pytest.raises(StoreError, match="No such file or directory"):
        export_lab(files, tmp_path / "none" / "lab.json")
    assert exported.read_bytes() == before


def test_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    """Otherwise every user could read the key with a umask of 0."""
    before = os.umask(0)
    try:
        export_lab(host(tmp_path / "first", PI), tmp_path / "lab.json")
        join_lab(host(tmp_path / "second"), tmp_path / "lab.json")
    finally:
        os.umask(before)
    for path in (tmp_path / "lab.json", tmp_path / "second" / "identity.pem"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_host_without_devices_joins(exported: Path, tmp_path: Path) -> None:
    """Otherwise the devices of its lab would refuse a new host."""
    files = host(tmp_path / "second")
    files.identity_path()
    report = join_lab(files, exported)
    assert (report.devices, report.forgotten) == ((PI, JETSON), ())
    assert files.devices() == (PI, JETSON)
    ours, theirs = files.identity_path(), host(tmp_path / "first").identity_path()
    assert ours.read_text() == theirs.read_text()


def test_host_with_devices_of_its_own_gives_them_up_only_when_told(
    exported: Path, tmp_path: Path
) -> None:
    """Otherwise a host would lose its devices, which know it by a key that is gone."""
    files = host(tmp_path / "second", OTHER)
    before = files.identity_path().read_text()
    with pytest.raises(UsageError, match="its own identity, with which pi are paired; --repl"):
        join_lab(files, exported)
    assert files.identity_path().read_text() == before
    assert files.devices() == (OTHER,)
    assert join_lab(files, exported, replaces=True).forgotten == (OTHER,)
    assert files.devices() == (PI, JETSON)
    assert files.identity_path().read_text() != before


def test_member_gets_the_devices_that_came_later(exported: Path, tmp_path: Path) -> None:
    """Otherwise a device that one host paired would be unknown to the others.

    Or it would take the name of another device.
    """
    second = host(tmp_path / "second")
    join_lab(second, exported)
    second.remember(replace(OTHER, name="rock"))
    first = host(tmp_path / "first", replace(OTHER, name="rock", pin="n" * 43, id="04"))
    export_lab(first, tmp_path / "again.json")
    report = join_lab(second, tmp_path / "again.json")
    assert [device.name for device in report.devices] == ["pi", "jetson", "rock-2"]
    assert {device.name for device in second.devices()} == {"pi", "jetson", "rock", "rock-2"}


def changed(path: Path, **changes: Any) -> None:
    """The file, with other values."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 2}, "lab file has version 2, supported is 1"),
        ({"identity_pem": "x"}, "not a lab file: no certificate found"),
        ({"devices": [{"name": "x"}]}, "not a lab file: not a valid LabFile"),
        ({"filler": "x" * 2**20}, "not a lab file: more than 1048576 bytes"),
    ],
)
def test_other_files_are_refused(
    exported: Path, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    """Otherwise a host would be left with half an identity."""
    changed(exported, **changes)
    files = host(tmp_path / "second")
    before = files.identity_path().read_text()
    with pytest.raises(UsageError, match=said):
        join_lab(files, exported)
    assert files.identity_path().read_text() == before


def test_key_of_another_certificate_is_refused(exported: Path, tmp_path: Path) -> None:
    """Otherwise every connection of the host would fail from then on."""
    mixed = new_identity("a").key_pem + new_identity("b").certificate_pem
    changed(exported, identity_pem=mixed)
    files = host(tmp_path / "second")
    before = files.identity_path().read_text()
    with pytest.raises(UsageError, match="does not belong to its certificate"):
        join_lab(files, exported)
    assert files.identity_path().read_text() == before
    names = {path.name for path in files.identity_path().parent.iterdir()}
    assert names <= {"identity.pem", ".lock"}
