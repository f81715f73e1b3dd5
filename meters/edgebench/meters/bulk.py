"""Instruments with a pair of USB bulk endpoints, through pyusb. A message is one USB transfer."""

from __future__ import annotations

import errno
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from edgebench.meters.cable import only_tester
from edgebench.meters.transport import DENIED
from edgebench.protocol.distributions import install_command
from edgebench.protocol.errors import NotPermitted, Permission, TargetError

MESSAGE_MAX_BYTES = 4096
WHAT = "USB tester"
INSTALL = install_command("usb")
_WRITE_MS = 1000
_REQUEST_MS = 5000
_TO_DEVICE, _TO_HOST = 0x40, 0xC0
"""Request types of vendor requests, to the device and to the host (USB 2.0, table 9-2)."""
_REFUSALS = {
    errno.EACCES: "no permission to use the {what} at {name}",
    errno.EPERM: "no permission to use the {what} at {name}",
    errno.EBUSY: "the {what} {name} is in use by another program",
    errno.ENODEV: "the {what} {name} is gone",
}


class BulkTransport:
    """A `ByteStream` that reads and writes whole messages through an interface of a USB device.

    If a kernel driver is bound to the interface, it is detached, and `close` attaches it again.
    """

    def __init__(
        self,
        device: Any,
        *,
        interface: int,
        out_endpoint: int,
        in_endpoint: int,
        what: str = WHAT,
        message_max_bytes: int = MESSAGE_MAX_BYTES,
    ) -> None:
        """Claim an interface.

        Args:
            device: Device of pyusb.
            interface: Interface number.
            out_endpoint: Address of the endpoint for messages to the device.
            in_endpoint: Address of the endpoint for messages from the device.
            what: Name of the kind of device, used in messages.
            message_max_bytes: Length of the longest message from the device. If a message fills its
                last bus packet completely, only this length shows where the message ends.

        Raises:
            TargetError: another program uses the interface, or the device was disconnected.
        """
        self._device = device
        self._what = what
        self._message_max_bytes = message_max_bytes
        self._interface = interface
        self._out, self._in = out_endpoint, in_endpoint
        self._name = f"{device.idVendor:04x}:{device.idProduct:04x}"
        self._is_detached = False
        import usb.core
        import usb.util

        self._usb = usb
        try:
            with suppress(NotImplementedError):  # systems without kernel drivers to detach
                if device.is_kernel_driver_active(interface):
                    device.detach_kernel_driver(interface)
                    self._is_detached = True
            usb.util.claim_interface(device, interface)
        except usb.core.USBError as exc:
            self.close()
            raise self._refusal(exc) from exc

    def read(self, timeout_s: float) -> bytes:
        """Read a message; b"" on timeout."""
        timeout_ms = max(1, round(timeout_s * 1000))  # 0 would wait for ever
        try:
            return bytes(self._device.read(self._in, self._message_max_bytes, timeout_ms))
        except self._usb.core.USBTimeoutError:
            return b""
        except self._usb.core.USBError as exc:
            raise self._refusal(exc) from exc

    def write(self, data: bytes) -> None:
        """Send a message.

        Raises:
            TargetError: the device does not accept the message within a second.
        """
        try:
            self._device.write(self._out, data, _WRITE_MS)
        except self._usb.core.USBError as exc:
            raise self._refusal(exc) from exc

    def control_in(self, request: int, index: int, size: int) -> bytes:
        """Send a vendor request and return its response, up to `size` bytes."""
        return bytes(self._control(_TO_HOST, request, 0, index, size))

    def control_out(self, request: int, value: int = 0, index: int = 0, data: bytes = b"") -> None:
        """Send a vendor request that has no response."""
        self._control(_TO_DEVICE, request, value, index, data)

    def _control(
        self, direction: int, request: int, value: int, index: int, data: bytes | int
    ) -> Any:
        try:
            return self._device.ctrl_transfer(direction, request, value, index, data, _REQUEST_MS)
        except self._usb.core.USBError as exc:
            raise self._refusal(exc) from exc

    def close(self) -> None:
        """Release the interface and reattach the kernel's driver; may be called twice."""
        with suppress(self._usb.core.USBError, NotImplementedError):  # it may be disconnected
            self._usb.util.release_interface(self._device, self._interface)
            if self._is_detached:
                self._is_detached = False
                self._device.attach_kernel_driver(self._interface)
        self._usb.util.dispose_resources(self._device)

    def texts(self) -> tuple[str, str]:
        """Product and serial number as reported by the device; empty strings if not reported."""
        try:
            return self._device.product or "", self._device.serial_number or ""
        except (ValueError, self._usb.core.USBError):
            return "", ""

    def _refusal(self, exc: Any) -> TargetError:
        refusal = _REFUSALS.get(exc.errno or 0)
        if refusal is None:
            return TargetError(f"{self._what} {self._name}: {exc}")
        text = refusal.format(what=self._what, name=self._name)
        is_denied = exc.errno in DENIED
        return NotPermitted(text, Permission.USB_TESTER) if is_denied else TargetError(text)


def find_device(
    known: Collection[tuple[int, int]], serial: str = "", backend: Any = None, what: str = WHAT
) -> Any:
    """Find the only device with any of these USB ids, or the device with this serial number.

    Args:
        known: Vendor and product ids.
        serial: Serial number of the device; empty: any device.
        backend: Backend of pyusb, for tests; None: libusb.
        what: Name of the kind of device, used in messages.

    Raises:
        TargetError: pyusb or libusb is missing.
        UsageError: no such device is connected, or several are.
    """
    try:
        import usb.core
    except ImportError:
        raise TargetError(f"pyusb is not installed, a {what} needs it: {INSTALL}") from None

    def fits(device: Any) -> bool:
        return (device.idVendor, device.idProduct) in known

    try:
        devices = list(usb.core.find(find_all=True, custom_match=fits, backend=backend) or ())
    except usb.core.NoBackendError:
        raise TargetError(
            f"libusb is not installed, a {what} needs it: sudo apt install libusb-1.0-0"
        ) from None
    if serial:
        devices = [device for device in devices if _serial_of(device) in (serial, None)]
    return only_tester(devices, known, serial, " by its serial number", what)


def _serial_of(device: Any) -> str | None:
    """Serial number; None if it cannot be read (claiming the device later reports the reason)."""
    import usb.core

    try:
        return device.serial_number or ""
    except (ValueError, usb.core.USBError):
        return None
