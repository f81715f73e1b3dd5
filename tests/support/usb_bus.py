"""A USB bus that is made up: a backend of the real pyusb, in the place of libusb.

Everything above it, pyusb's own descriptors, claims and transfers, is real.
"""

from __future__ import annotations

import array
import errno
import time
from abc import abstractmethod
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import usb.backend
import usb.core

LANGUAGE = 0x0409
_STRING, _GET_DESCRIPTOR = 3, 6
_VENDOR_OUT, _VENDOR_IN = 0x40, 0xC0


@dataclass(slots=True, kw_only=True)
class UsbDevice:
    """One device; a kind says what it answers."""

    vendor: int
    product: int
    product_name: str
    serial: str
    endpoints: tuple[tuple[int, int], ...]
    """Interface and address of each."""
    bulk_or_interrupt: int = 2
    interface_class: int = 0xFF
    kernel_drivers: set[int] = field(default_factory=set[int])
    """Interfaces that the kernel has."""
    claimed: set[int] = field(default_factory=set[int])
    is_claimed_elsewhere: bool = False
    refusal: int | None = None
    """Number of the error with which it cannot be opened."""
    is_gone: bool = False
    answers: deque[bytes] = field(default_factory=deque[bytes])
    """What it has to say, a transfer each."""

    @abstractmethod
    def hear(self, data: bytes) -> None:
        """The host sent this."""

    def poll(self) -> None:
        """Time has passed: put what is due into the answers."""

    def ask(self, request: int, index: int) -> bytes | None:
        """Answer to a request of the vendor's own; None: it knows none."""
        return None

    def tell(self, request: int, value: int, index: int, data: bytes) -> bool:
        """The host sends a request of the vendor's own; False: it knows none."""
        return False


class UsbBus(usb.backend.IBackend):  # type: ignore[misc]  # pyusb has no types
    """What pyusb asks of libusb."""

    def __init__(self, *devices: UsbDevice) -> None:
        self._devices = devices

    def enumerate_devices(self) -> Any:
        return iter(device for device in self._devices if not device.is_gone)

    def get_device_descriptor(self, dev: UsbDevice) -> Any:
        return SimpleNamespace(
            bLength=18,
            bDescriptorType=1,
            bcdUSB=0x0210,
            bDeviceClass=0xEF,
            bDeviceSubClass=2,
            bDeviceProtocol=1,
            bMaxPacketSize0=32,
            idVendor=dev.vendor,
            idProduct=dev.product,
            bcdDevice=0x0100,
            iManufacturer=0,
            iProduct=1,
            iSerialNumber=2,
            bNumConfigurations=1,
            address=5,
            bus=1,
            port_number=1,
            port_numbers=(1,),
            speed=2,
        )

    def get_configuration_descriptor(self, dev: UsbDevice, config: int) -> Any:
        if config:
            raise IndexError("it has one configuration")
        return SimpleNamespace(
            bLength=9,
            bDescriptorType=2,
            wTotalLength=130,
            bNumInterfaces=len({interface for interface, _ in dev.endpoints}),
            bConfigurationValue=1,
            iConfiguration=0,
            bmAttributes=0x80,
            bMaxPower=50,
            extra_descriptors=[],
        )

    def get_interface_descriptor(self, dev: UsbDevice, intf: int, alt: int, config: int) -> Any:
        numbers = sorted({interface for interface, _ in dev.endpoints})
        if alt or config or intf >= len(numbers):
            raise IndexError("it has no such interface")
        mine = [address for interface, address in dev.endpoints if interface == numbers[intf]]
        return SimpleNamespace(
            bLength=9,
            bDescriptorType=4,
            bInterfaceNumber=numbers[intf],
            bAlternateSetting=0,
            bNumEndpoints=len(mine),
            bInterfaceClass=dev.interface_class,
            bInterfaceSubClass=0,
            bInterfaceProtocol=0,
            iInterface=0,
            extra_descriptors=[],
        )

    def get_endpoint_descriptor(
        self, dev: UsbDevice, ep: int, intf: int, alt: int, config: int
    ) -> Any:
        numbers = sorted({interface for interface, _ in dev.endpoints})
        mine = [address for interface, address in dev.endpoints if interface == numbers[intf]]
        return SimpleNamespace(
            bLength=7,
            bDescriptorType=5,
            bEndpointAddress=mine[ep],
            bmAttributes=dev.bulk_or_interrupt,
            wMaxPacketSize=64,
            bInterval=1,
            bRefresh=0,
            bSynchAddress=0,
            extra_descriptors=[],
        )

    def open_device(self, dev: UsbDevice) -> UsbDevice:
        if dev.refusal is not None:
            raise usb.core.USBError("refused", None, dev.refusal)
        return dev

    def close_device(self, dev_handle: UsbDevice) -> None:
        pass

    def set_configuration(self, dev_handle: UsbDevice, config_value: int) -> None:
        pass

    def get_configuration(self, dev_handle: UsbDevice) -> int:
        return 1

    def reset_device(self, dev_handle: UsbDevice) -> None:
        dev_handle.answers.clear()

    def claim_interface(self, dev_handle: UsbDevice, intf: int) -> None:
        if intf in dev_handle.kernel_drivers or dev_handle.is_claimed_elsewhere:
            raise usb.core.USBError("Resource busy", None, errno.EBUSY)
        dev_handle.claimed.add(intf)

    def release_interface(self, dev_handle: UsbDevice, intf: int) -> None:
        dev_handle.claimed.discard(intf)

    def is_kernel_driver_active(self, dev_handle: UsbDevice, intf: int) -> bool:
        return intf in dev_handle.kernel_drivers

    def detach_kernel_driver(self, dev_handle: UsbDevice, intf: int) -> None:
        dev_handle.kernel_drivers.remove(intf)

    def attach_kernel_driver(self, dev_handle: UsbDevice, intf: int) -> None:
        dev_handle.kernel_drivers.add(intf)

    def bulk_write(
        self, dev_handle: UsbDevice, ep: int, intf: int, data: array.array[int], timeout: int
    ) -> int:
        _check(dev_handle, intf)
        dev_handle.hear(data.tobytes())
        return len(data)

    def bulk_read(
        self, dev_handle: UsbDevice, ep: int, intf: int, buff: array.array[int], timeout: int
    ) -> int:
        deadline_s = time.monotonic() + timeout / 1000
        while True:
            _check(dev_handle, intf)
            dev_handle.poll()
            if dev_handle.answers:
                answer = dev_handle.answers.popleft()
                buff[: len(answer)] = array.array("B", answer)
                return len(answer)
            if time.monotonic() > deadline_s:
                raise usb.core.USBTimeoutError("Operation timed out", None, errno.ETIMEDOUT)
            time.sleep(0.0005)

    intr_write, intr_read = bulk_write, bulk_read

    def ctrl_transfer(
        self,
        dev_handle: UsbDevice,
        bmRequestType: int,  # noqa: N803  # pyusb's names
        bRequest: int,  # noqa: N803  # pyusb's names
        wValue: int,  # noqa: N803  # pyusb's names
        wIndex: int,  # noqa: N803  # pyusb's names
        data: array.array[int],
        timeout: int,
    ) -> int:
        if dev_handle.is_gone:
            raise usb.core.USBError("No such device", None, errno.ENODEV)
        answer: bytes | None = None
        if bmRequestType == _VENDOR_OUT:
            if dev_handle.tell(bRequest, wValue, wIndex, data.tobytes()):
                return len(data)
        elif bmRequestType == _VENDOR_IN:
            answer = dev_handle.ask(bRequest, wIndex)
        elif bRequest == _GET_DESCRIPTOR and wValue >> 8 == _STRING:
            answer = _string(dev_handle, wValue & 0xFF)
        if answer is None:
            raise usb.core.USBError("Pipe error", None, errno.EPIPE)
        data[: len(answer)] = array.array("B", answer)
        return len(answer)


def _string(device: UsbDevice, number: int) -> bytes:
    texts = {1: device.product_name, 2: device.serial}
    content = texts[number].encode("utf-16-le") if number else LANGUAGE.to_bytes(2, "little")
    return bytes([len(content) + 2, _STRING]) + content


def _check(device: UsbDevice, interface: int) -> None:
    if device.is_gone:
        raise usb.core.USBError("No such device", None, errno.ENODEV)
    if interface not in device.claimed:
        raise usb.core.USBError("Invalid argument", None, errno.EINVAL)
