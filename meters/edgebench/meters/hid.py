"""Instruments with a USB HID interface, which exchange reports of 64 bytes through /dev/hidraw.

Access through /dev/hidraw needs no library, and the kernel's driver need not be detached.

Source: https://docs.kernel.org/hid/hidraw.html: a read returns one report; a write starts with the
report number, 0 if the device does not number its reports.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from edgebench.meters.cable import only_tester
from edgebench.meters.transport import DENIED
from edgebench.protocol.errors import NotPermitted, Permission, TargetError

REPORT_BYTES = 64
_NO_NUMBER = b"\0"
_REFUSALS = {
    errno.EACCES: "no permission to use the USB tester at {path}",
    errno.EPERM: "no permission to use the USB tester at {path}",
    errno.ENOENT: "no such device: {path}",
    errno.ENODEV: "no such device: {path}",
    errno.ENXIO: "no such device: {path}",
    errno.EISDIR: "not a device: {path}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HidDevice:
    """A device with a hidraw node."""

    path: str
    vendor: int
    product: int
    name: str = ""
    serial: str = ""


class HidTransport:
    """A `ByteStream` that reads and writes whole reports."""

    def __init__(self, path: str) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as exc:
            refusal = _REFUSALS.get(exc.errno or 0, f"{{path}} cannot be opened: {exc.strerror}")
            text = refusal.format(path=path)
            if exc.errno in DENIED:
                raise NotPermitted(text, Permission.USB_TESTER) from exc
            raise TargetError(text) from exc
        self._gone = f"the USB tester at {path} is gone"
        if not stat.S_ISCHR(os.fstat(self._file).st_mode):
            self.close()
            raise TargetError(f"not a device: {path}")

    def read(self, timeout_s: float) -> bytes:
        """Read a report; b"" on timeout."""
        try:
            if not select.select([self._file], [], [], timeout_s)[0]:
                return b""
            report = os.read(self._file, REPORT_BYTES)
        except BlockingIOError:
            return b""
        except (OSError, ValueError) as exc:  # ValueError: closed by another thread
            raise TargetError(self._gone) from exc
        if not report:
            raise TargetError(self._gone)
        return report

    def write(self, data: bytes) -> None:
        """Send a report; raises TargetError if the device is gone."""
        try:
            os.write(self._file, _NO_NUMBER + data)
        except OSError as exc:
            raise TargetError(self._gone) from exc

    def close(self) -> None:
        """Close the device; may be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def hid_devices(root: Path = Path("/")) -> list[HidDevice]:
    """All hidraw devices, sorted by path.

    Args:
        root: Root of the file system; tests override it.
    """
    devices = []
    for folder in sorted((root / "sys/class/hidraw").glob("hidraw*")):
        try:
            uevent = (folder / "device/uevent").read_text(errors="replace")
        except OSError:  # the device was just unplugged
            continue
        facts = dict(line.split("=", 1) for line in uevent.splitlines() if "=" in line)
        try:  # HID_ID=0003:00002E3C:00005558, with the bus first
            _, vendor, product = (int(word, 16) for word in facts.get("HID_ID", "").split(":"))
        except ValueError:
            continue
        devices.append(
            HidDevice(
                path=str(root / "dev" / folder.name),
                vendor=vendor,
                product=product,
                name=facts.get("HID_NAME", ""),
                serial=facts.get("HID_UNIQ", ""),
            )
        )
    return devices


def choose_device(
    known: Collection[tuple[int, int]], address: str = "", root: Path = Path("/")
) -> HidDevice:
    """Select the device at this address, or the only device with any of these USB ids.

    Args:
        known: Vendor and product ids that the driver supports.
        address: Path or serial number of the device; empty: any device.
        root: Root of the file system; tests override it.

    Raises:
        UsageError: no such device is connected, or several are.
    """
    devices = hid_devices(root)
    if address.startswith("/"):
        matching = [device for device in devices if device.path == address]
        return matching[0] if matching else HidDevice(path=address, vendor=0, product=0)
    fitting = [device for device in devices if (device.vendor, device.product) in known]
    if address:
        fitting = [device for device in fitting if device.serial == address]
    paths = ", ".join(device.path for device in fitting)
    return only_tester(fitting, known, address, f": {paths}")
