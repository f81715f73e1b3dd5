"""Testers among the kernel's human interface devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.meters.hid import HidTransport, choose_device, hid_devices
from edgebench.protocol.errors import TargetError, UsageError

KNOWN = ((0x2E3C, 0x5558), (0x0483, 0x003B))


def plug_in(root: Path, number: int, vendor: int, product: int, serial: str = "") -> None:
    """Create the kernel's files of a device."""
    folder = root / f"sys/class/hidraw/hidraw{number}/device"
    folder.mkdir(parents=True)
    (folder / "uevent").write_text(
        f"DRIVER=hid-generic\nHID_ID=0003:{vendor:08X}:{product:08X}\nHID_NAME=FNIRSI FNB58\n"
        f"HID_PHYS=usb-0000:01:00.0-1.3/input0\nHID_UNIQ={serial}\n"
    )


def test_only_tester_is_found_by_its_usb_id(tmp_path: Path) -> None:
    """Otherwise a keyboard would be opened, or the serial number be lost."""
    plug_in(tmp_path, 0, 0x046D, 0xC31C)
    plug_in(tmp_path, 3, 0x2E3C, 0x5558, "0001A0000000")
    found = choose_device(KNOWN, root=tmp_path)
    assert found.path == str(tmp_path / "dev/hidraw3")
    assert (found.vendor, found.product) == (0x2E3C, 0x5558)
    assert (found.name, found.serial) == ("FNIRSI FNB58", "0001A0000000")


def test_several_need_a_name(tmp_path: Path) -> None:
    """Otherwise chance would decide between two testers."""
    with pytest.raises(UsageError, match="no USB tester is connected; looked for 0483:003b, 2e3c"):
        choose_device(KNOWN, root=tmp_path)
    plug_in(tmp_path, 0, 0x2E3C, 0x5558, "A")
    plug_in(tmp_path, 1, 0x0483, 0x003B, "B")
    with pytest.raises(UsageError, match=r"2 such testers .*hidraw0, .*hidraw1"):
        choose_device(KNOWN, root=tmp_path)
    assert choose_device(KNOWN, "B", tmp_path).path.endswith("hidraw1")
    with pytest.raises(UsageError, match="with serial number C"):
        choose_device(KNOWN, "C", tmp_path)
    path = str(tmp_path / "dev/hidraw0")
    assert choose_device(KNOWN, path, tmp_path).serial == "A"
    assert choose_device(KNOWN, "/dev/pts/9", tmp_path).vendor == 0, "whatever it is"


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """Otherwise a device that is just being pulled out would end the search."""
    (tmp_path / "sys/class/hidraw/hidraw0").mkdir(parents=True)
    folder = tmp_path / "sys/class/hidraw/hidraw1/device"
    folder.mkdir(parents=True)
    (folder / "uevent").write_text("HID_ID=what\n")
    assert hid_devices(tmp_path) == []


def test_device_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    """Otherwise a wrong path would be a traceback."""
    with pytest.raises(TargetError, match=r"no such device: .*/hidraw9"):
        HidTransport(str(tmp_path / "hidraw9"))
    with pytest.raises(TargetError, match="not a device"):
        HidTransport(str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(TargetError, match="not a device"):
        HidTransport(str(tmp_path / "file"))
