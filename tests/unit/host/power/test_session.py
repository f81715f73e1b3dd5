"""Meters that are opened for a session or only looked at, and are released however that ends."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import serial
from support.joulescope import FakeDriver
from support.km003c import Km003cEmulator
from support.lpm01a import Lpm01aEmulator
from support.usb_bus import UsbBus

from edgebench.host.options.command import CommandLine
from edgebench.host.power.session import look_at_meters, open_meter, record
from edgebench.host.show.hints import hint_for
from edgebench.meters.base import Header
from edgebench.meters.bulk import BulkTransport
from edgebench.meters.joulescope import device as joulescope_device
from edgebench.meters.km003c import device as km003c_device
from edgebench.meters.lpm01a import device as lpm01a_device
from edgebench.meters.synthetic.device import Synthetic
from edgebench.protocol.errors import (
    DirectoryTaken,
    NoSuchMeter,
    Permission,
    StoreError,
    TargetError,
)


@pytest.fixture
def tester(monkeypatch: pytest.MonkeyPatch) -> Km003cEmulator:
    """A USB tester with a kernel driver; the only meter here."""
    emulator = Km003cEmulator(kernel_drivers={0})
    bus = UsbBus(emulator)
    connect = km003c_device.connect
    monkeypatch.setattr(km003c_device, "connect", lambda serial: connect(serial, bus))
    return emulator


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("a mistake of ours")])
def test_meter_that_does_not_open_is_given_back(
    error: BaseException, tester: Km003cEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise Ctrl-C would keep a port taken.

    Or the kernel would not get a USB tester back until it is plugged in again.
    """

    def read(transport: BulkTransport, timeout_s: float) -> bytes:
        assert tester.claimed
        raise error

    monkeypatch.setattr(BulkTransport, "read", read)
    expected = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else TargetError
    with pytest.raises(expected):
        open_meter("km003c")
    assert tester.kernel_drivers == {0}
    assert not tester.claimed


def refuse(*_: object, **__: object) -> Any:
    """Raise the system's error for a user without the permission."""
    raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize(
    ("name", "permission", "words"),
    [
        ("ppk2:/dev/ttyACM0,supply=3.3", Permission.SERIAL_PORT, "dialout $USER"),
        ("km003c", Permission.USB_TESTER, "udev rule"),
        ("fnirsi:/dev/hidraw0", Permission.USB_TESTER, "udev rule"),
    ],
)
def test_permission_that_is_missing_is_told_to_the_hint(
    name: str, permission: Permission, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a user outside the port's group would be sent to a list of meters.

    As root, this cannot be tested.
    """
    connect, bus = km003c_device.connect, UsbBus(Km003cEmulator(refusal=errno.EACCES))
    monkeypatch.setattr(km003c_device, "connect", lambda serial: connect(serial, bus))
    monkeypatch.setattr(serial, "Serial", refuse)
    monkeypatch.setattr("edgebench.meters.hid.os.open", refuse)
    with pytest.raises(NoSuchMeter) as refused:
        open_meter(name)
    assert refused.value.permission is permission
    assert words in hint_for(refused.value)


def test_list_of_meters_changes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise `edgebench meters` would power a device, or set up a meter about to be used."""
    driver = FakeDriver(range_number=0)
    monkeypatch.setattr(joulescope_device, "load_driver", lambda: driver)
    with Lpm01aEmulator() as emulator:
        monkeypatch.setattr(lpm01a_device, "find_port", lambda *usb_id: emulator.path)
        found = look_at_meters()
    assert isinstance(found["joulescope"], Header)
    assert isinstance(found["lpm01a"], Header)
    assert driver.published == {}
    assert not [
        command
        for command in emulator.commands
        if command.split()[0] in ("acqmode", "freq", "stop")
    ]
    assert "volt 3300m" not in emulator.commands
    assert not emulator.is_hosted


def test_meter_that_fails_to_close_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one driver that fails on release would hide which meters there are."""

    def close(meter: Synthetic) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Synthetic, "close", close)
    assert isinstance(look_at_meters()["synthetic"], Header)


def test_session_that_is_interrupted_as_it_begins_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a store would fill with directories in which nothing was begun."""
    driver = FakeDriver()

    def subscribe(*words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(joulescope_device, "load_driver", lambda: driver)
    monkeypatch.setattr(FakeDriver, "subscribe", subscribe)
    meter, _ = open_meter("joulescope")
    with pytest.raises(KeyboardInterrupt):
        record(meter, tmp_path / "session", 1.0, lambda passed_s: None)
    meter.close()
    assert not (tmp_path / "session").exists()


@pytest.mark.parametrize("name", ["meter.spool", "run.json", "power.parquet"])
def test_recording_is_not_put_into_what_is_of_another(tmp_path: Path, name: str) -> None:
    """Otherwise an import, or the samples of another run, would be lost silently."""
    (tmp_path / name).write_bytes(b"theirs")
    meter, _ = open_meter("synthetic")
    with pytest.raises(DirectoryTaken, match=rf"there is a .* already: .*/{name}$"):
        record(meter, tmp_path, 0.1, lambda passed_s: None)
    meter.close()
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [(name, b"theirs")]


def test_file_in_the_place_of_a_directory_is_told_from_a_full_disk(tmp_path: Path) -> None:
    """Otherwise a user whose recording goes into a file would be sent to look for space."""
    (tmp_path / "taken").write_bytes(b"theirs")
    (tmp_path / "existing").write_bytes(b"theirs")
    meter, _ = open_meter("synthetic")
    with pytest.raises(DirectoryTaken, match="File exists"):
        record(meter, tmp_path / "taken", 0.1, lambda passed_s: None)
    with pytest.raises(StoreError, match="Not a directory") as refused:
        record(meter, tmp_path / "existing" / "session", 0.1, lambda passed_s: None)
    meter.close()
    assert "df -h" in hint_for(refused.value, CommandLine(command="meters record"))
