"""Which device a name means."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.host.devices.discovery import open_device
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.transports.tls import TlsTransport
from edgebench.protocol.errors import Unreachable, UsageError

CLOSED_PORT = 9


@pytest.fixture
def files(tmp_path: Path) -> HostFiles:
    """A host that knows three devices, of which none answers."""
    made = HostFiles(tmp_path)
    for i, name in enumerate(("pi", "pi-kitchen", "jetson")):
        pin = str(i) * 43
        made.remember(KnownDevice(name, f"{i}{i}aabbccdd", pin, ("127.0.0.1",), CLOSED_PORT))
    return made


@pytest.mark.parametrize("name", ["nowhere", "PI", "bb", "../pi"])
def test_unknown_name_is_told_with_the_known_ones(files: HostFiles, name: str) -> None:
    """A misspelt name measures on another device, or leaves the user without a list."""
    with pytest.raises(UsageError, match="there are local, pi, pi-kitchen, jetson"):
        open_device(files, name, timeout_s=0.0)


def test_part_that_fits_several_devices_is_refused(files: HostFiles) -> None:
    """The first of several devices is measured by chance."""
    with pytest.raises(UsageError, match="2 devices match 'p'"):
        open_device(files, "p", timeout_s=0.0)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("pi", "pi"),
        ("kitchen", "pi-kitchen"),
        ("jet", "jetson"),
        ("22aa", "jetson"),
        ("0" * 43, "pi"),
    ],
)
def test_whole_name_unique_part_id_or_pin_finds_a_device(
    files: HostFiles, name: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device cannot be named, or its whole name is ambiguous because another one is longer."""
    monkeypatch.setattr(TlsTransport, "discover", lambda *_: [])
    with pytest.raises(Unreachable, match=rf"{found} \(127\.0\.0\.1:{CLOSED_PORT}\)"):
        open_device(files, name)
