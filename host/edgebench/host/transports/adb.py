"""TLS connections through adb to the agent on a phone, which listens on loopback.

The adb server opens a stream to the agent's port on the phone. `adb forward`, which opens a port on
this machine for all of its users, is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from edgebench.host.adb.phones import Phone, target_of
from edgebench.host.adb.server import AdbServer, ServiceRefused, adb_program
from edgebench.host.transports.base import Announcement, Endpoint
from edgebench.host.transports.pinned import PinnedTransport, PlainStream
from edgebench.protocol.errors import AgentNotStarted, EdgebenchError
from edgebench.protocol.text import printable

USB_DEVICES = Path("/sys/bus/usb/devices")
ADB_INTERFACE = ("ff", "42", "01")
"""Class, subclass and protocol of the USB interface of a phone with debugging enabled. Source:
AOSP, packages/modules/adb, adb.h: ADB_CLASS, ADB_SUBCLASS, ADB_PROTOCOL."""


class AdbTransport(PinnedTransport):
    """TLS through streams of adb; an endpoint's addresses are serial numbers of phones."""

    name = "adb"

    def __init__(
        self,
        identity_path: Callable[[], Path],
        environment: Mapping[str, str] | None = None,
        usb_devices: Path = USB_DEVICES,
    ) -> None:
        """Create the transport, without connecting.

        Args:
            identity_path: Returns the path of the file with this host's key and certificate.
            environment: Variables that name the adb server. None selects the variables of this
                process.
            usb_devices: Directory in which the kernel lists USB devices and their interfaces.
        """
        super().__init__(identity_path)
        self._environment = dict(os.environ if environment is None else environment)
        self._usb_devices = usb_devices

    def dial(self, place: Endpoint) -> PlainStream:
        """Open a stream to the agent's port on a phone.

        Raises:
            AgentNotStarted: no process listens at the port.
            PhoneUnavailable: the phone is not ready.
            Unreachable: the adb server cannot be reached.
        """
        serial = place.addresses[0]
        server = AdbServer(self._environment)
        absent = AgentNotStarted(
            f"no agent runs on {place.name} ({target_of(serial)}); a restart of the phone ends "
            "the agent",
            target_of(serial),
        )
        try:
            stream = server.open_service(serial, f"tcp:{place.port}")
        except ServiceRefused as exc:
            raise absent from exc

        def end_reason() -> EdgebenchError:
            try:
                server.require_ready(serial)
            except EdgebenchError as exc:
                return exc
            return absent

        return PlainStream(stream, end_reason)

    def discover(self, timeout_s: float) -> list[Announcement]:
        """List the adb server's phones; the server is started only if a phone is plugged in."""
        try:
            server = AdbServer(self._environment)
            if server.is_running() or (
                adb_program(self._environment) and _plugged(self._usb_devices)
            ):
                return [_announcement(phone) for phone in server.phones()]
        except EdgebenchError:
            return []
        return [_without_adb(name) for name in _plugged(self._usb_devices)]


def _announcement(phone: Phone) -> Announcement:
    name = printable(phone.model.replace("_", " ")) or "phone"
    endpoint = Endpoint(name, pin="", addresses=(phone.serial,), port=0)
    return Announcement("", endpoint, next_step=f"{phone.meaning}; {phone.next_step}")


def _without_adb(name: str) -> Announcement:
    endpoint = Endpoint(name, pin="", addresses=("USB",), port=0)
    return Announcement("", endpoint, next_step="adb is not installed: apt install adb")


def _plugged(usb_devices: Path) -> list[str]:
    """Names of the phones that are at USB ports of this machine and have debugging enabled."""
    names = []
    for interface in sorted(usb_devices.glob("*:*")):
        files = ("bInterfaceClass", "bInterfaceSubClass", "bInterfaceProtocol")
        if tuple(_word(interface / file) for file in files) == ADB_INTERFACE:
            device = usb_devices / interface.name.partition(":")[0]
            names.append(printable(_word(device / "product")) or "phone")
    return names


def _word(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
