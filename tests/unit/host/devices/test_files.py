"""What a host remembers: its identity, and its devices."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.protocol.errors import StoreError

PI = KnownDevice("pi", "01", "p" * 43, ("192.0.2.1",), 7747)
JETSON = KnownDevice("jetson", "02", "j" * 43, ("192.0.2.2", "2001:db8::2"), 7747, "me@jetson")


@pytest.fixture
def files(tmp_path: Path) -> HostFiles:
    """A host that knows nothing."""
    return HostFiles(tmp_path / "host")


def test_devices_are_remembered_across_processes(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise every command would have to pair again."""
    assert files.devices() == ()
    files.remember(PI)
    files.remember(JETSON)
    assert HostFiles(tmp_path / "host").devices() == (PI, JETSON)


def test_list_of_an_older_version_is_read(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise every device would have to be paired again after an upgrade."""
    files.remember(PI)
    path = tmp_path / "host" / "devices.json"
    (plain,) = json.loads(path.read_text())
    assert plain.pop("via") == "tls"
    path.write_text(json.dumps([plain]))
    assert files.devices() == (PI,)


def test_device_replaces_the_one_of_the_same_name_or_identity(files: HostFiles) -> None:
    """Otherwise a board set up anew would be listed twice, and `--on pi` be ambiguous."""
    files.remember(PI)
    moved = KnownDevice("pi-2", "01", PI.pin, ("192.0.2.9",), 7747)
    files.remember(moved)
    assert files.devices() == (moved,)
    anew = KnownDevice("pi-2", "03", "n" * 43, ("192.0.2.9",), 7747)
    files.remember(anew)
    assert files.devices() == (anew,)


def test_forgotten_device_is_gone_and_the_others_stay(files: HostFiles) -> None:
    """Otherwise removing one device would remove another."""
    files.remember(PI)
    files.remember(JETSON)
    files.forget(PI)
    files.forget(PI)
    assert files.devices() == (JETSON,)


def test_identity_is_made_once_and_is_private(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise each command would make the host a stranger, or its key could be read."""
    path = files.identity_path()
    text = path.read_text()
    assert HostFiles(tmp_path / "host").identity_path().read_text() == text
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert text.index("PRIVATE KEY") < text.index("BEGIN CERTIFICATE")


PROCESSES, DEVICES_EACH = 8, 50


REMEMBER_MANY = """
import sys
from pathlib import Path
from edgebench.host.devices.files import HostFiles, KnownDevice

files = HostFiles(Path(sys.argv[1]))
print(files.identity_path().read_text())
for i in range(int(sys.argv[3])):
    name = f"board-{sys.argv[2]}-{i}"
    files.remember(KnownDevice(name, name, name, ("192.0.2.1",), 7747))
"""


def test_processes_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """Otherwise eight parallel deploys would keep 28 of 80 devices.

    A first use would make two identities.
    """
    command = [sys.executable, "-c", REMEMBER_MANY, str(tmp_path / "host")]
    running = [
        subprocess.Popen(
            [*command, str(number), str(DEVICES_EACH)], stdout=subprocess.PIPE, text=True
        )
        for number in range(PROCESSES)
    ]
    identities = {process.communicate(timeout=60)[0] for process in running}
    assert len(identities) == 1
    assert len(HostFiles(tmp_path / "host").devices()) == PROCESSES * DEVICES_EACH


@pytest.mark.parametrize("content", ["", "{", "5", '[{"name": 1}]', '[{"name": "pi"}]', '["pi"]'])
def test_damaged_list_is_named_and_not_overwritten(
    files: HostFiles, tmp_path: Path, content: str
) -> None:
    """Otherwise a torn file would end in a traceback, or silently lose all devices."""
    path = tmp_path / "host" / "devices.json"
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(StoreError, match=r"list of devices not readable.*devices\.json"):
        files.devices()
    with pytest.raises(StoreError):
        files.remember(PI)
    assert path.read_text() == content


def test_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Otherwise a read-only home directory would end in a traceback."""
    (tmp_path / "file").write_text("")
    files = HostFiles(tmp_path / "file" / "host")
    with pytest.raises(StoreError, match=r"not written: Not a directory: .*host"):
        files.identity_path()
