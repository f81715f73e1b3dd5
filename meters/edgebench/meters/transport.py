"""Byte streams to instruments: a serial port, a socket, or a test's replacement.

read   waits up to the timeout for the first byte; returns the bytes that have arrived, or b""
write  sends all bytes
close  may be called twice
"""

from __future__ import annotations

import errno
import re
import select
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol

from edgebench.protocol.distributions import install_command
from edgebench.protocol.errors import NotPermitted, Permission, TargetError, UsageError
from edgebench.protocol.text import one_line

READ_BYTES = 1 << 16
"""Maximum number of bytes per read; it exceeds the size of a tty's buffer."""
_QUIET_S = 0.1
"""If an instrument is silent for this time, no more bytes are expected."""
_RECEIVED_MAX_BYTES = 1 << 20
_CONNECT_S = 3.0
DENIED = frozenset({errno.EACCES, errno.EPERM})
"""System errors that indicate a missing permission."""
_REFUSALS = {
    errno.ENOENT: "no such serial port: {path}",
    errno.ENODEV: "no such serial port: {path}",
    errno.ENXIO: "no such serial port: {path}",
    errno.EACCES: "no permission to use serial port {path}",
    errno.EPERM: "no permission to use serial port {path}",
    errno.EBUSY: "serial port {path} is in use by another program",
    errno.EAGAIN: "serial port {path} is in use by another program",
    errno.EISDIR: "not a serial port: {path}",
    errno.ENOTTY: "not a serial port: {path}",
}
"""Maps system errors to messages. EAGAIN means that another program has locked the port."""


class ByteStream(Protocol):
    """Connection to an instrument."""

    def read(self, timeout_s: float) -> bytes:
        """Return the bytes that have arrived; wait up to the timeout for the first byte.

        Raises:
            TargetError: the instrument was disconnected.
        """
        ...

    def write(self, data: bytes) -> None:
        """Send all bytes.

        Raises:
            TargetError: the instrument was disconnected.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


Connect = Callable[[], ByteStream]


class SerialTransport:
    """Serial port, through pyserial."""

    def __init__(self, path: str, baud_rate: int) -> None:
        serial = pyserial()
        try:
            self._port: Any = serial.Serial(path, baud_rate, timeout=0, exclusive=True)
        except (OSError, ValueError) as exc:
            raise serial_refusal(path, exc) from exc
        self._path = path

    def read(self, timeout_s: float) -> bytes:
        """Return bytes that have arrived; b"" on timeout."""
        try:
            self._port.timeout = timeout_s
            first = self._port.read(1)
            if not first:
                return b""
            waiting = self._port.in_waiting
            self._port.timeout = 0
            return bytes(first + self._port.read(min(waiting, READ_BYTES)))
        except (OSError, TypeError) as exc:  # TypeError: closed by another thread
            raise TargetError(f"serial port {self._path} is gone") from exc

    def write(self, data: bytes) -> None:
        """Send all bytes and wait until they are written."""
        try:
            self._port.write(data)
            self._port.flush()
        except OSError as exc:
            raise TargetError(f"serial port {self._path} is gone") from exc

    def close(self) -> None:
        """Close the connection."""
        self._port.close()


class TcpTransport:
    """Socket of an instrument, or of a program that controls it."""

    def __init__(self, host: str, port: int, what: str) -> None:
        """Connect within 3 s.

        Args:
            host: Name or address of the other machine.
            port: TCP port.
            what: Name of the expected peer, used in messages.

        Raises:
            TargetError: the connection failed.
        """
        self._name = f"{what} at {host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), _CONNECT_S)
        except (OSError, UnicodeError) as exc:  # UnicodeError: not a valid host name
            reason = one_line(getattr(exc, "strerror", None) or exc)
            raise TargetError(f"no {self._name}: {reason}") from exc
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self, timeout_s: float) -> bytes:
        """Return bytes that have arrived; b"" on timeout."""
        try:
            readable, _, _ = select.select([self._socket], [], [], max(0.0, timeout_s))
            data = self._socket.recv(READ_BYTES) if readable else None
        except (OSError, ValueError) as exc:  # ValueError: closed by another thread
            raise TargetError(f"the {self._name} is gone") from exc
        if data == b"":
            raise TargetError(f"the {self._name} has closed the connection")
        return data or b""

    def write(self, data: bytes) -> None:
        """Send all bytes."""
        try:
            self._socket.sendall(data)
        except OSError as exc:
            raise TargetError(f"the {self._name} is gone") from exc

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class Dialog:
    """Base class of instrument protocols; it forwards its methods to a `ByteStream`."""

    def __init__(self, transport: ByteStream) -> None:
        self._transport = transport

    def read(self, timeout_s: float) -> bytes:
        """Return bytes that have arrived; b"" on timeout."""
        return self._transport.read(timeout_s)

    def write(self, data: bytes) -> None:
        """Send all bytes."""
        self._transport.write(data)

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


def read_until(
    transport: ByteStream, end: re.Pattern[bytes], limit_s: float, received: bytes = b""
) -> bytes:
    """Read until `end` matches or the time is up; return `received` plus the new bytes."""
    deadline_s = time.monotonic() + limit_s
    while not end.search(received) and (left_s := deadline_s - time.monotonic()) > 0:
        received = (received + transport.read(left_s))[-_RECEIVED_MAX_BYTES:]
    return received


def read_rest(transport: ByteStream, limit_s: float) -> bool:
    """Discard bytes until the line is silent; False if bytes still arrive after `limit_s`."""
    deadline_s = time.monotonic() + limit_s
    while transport.read(_QUIET_S):
        if time.monotonic() > deadline_s:
            return False
    return True


def run_dry(transport: ByteStream, complaint: str, limit_s: float) -> None:
    """Discard incoming bytes until the line is silent; some instruments never stop sending.

    Raises:
        TargetError: bytes still arrive after `limit_s`; the text of the error is `complaint`.
    """
    if not read_rest(transport, limit_s):
        raise TargetError(complaint)


def split_address(address: str, default_port: int) -> tuple[str, int]:
    """Split a network address into host and port.

    >>> split_address("lab-pc", 8888), split_address("[::1]:4000", 8888)
    (('lab-pc', 8888), ('::1', 4000))

    Raises:
        UsageError: the port is not a number from 1 to 65535.
    """
    host, _, port = address.partition("]:" if address.startswith("[") else ":")
    host = host.strip("[]")
    if not port:
        return host, default_port
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise UsageError(f"address must be HOST or HOST:PORT, got {address!r}")
    return host, int(port)


def find_port(vendor: int, product: int) -> str:
    """Serial port of the only instrument with this USB id; if it has several ports, the first.

    Raises:
        UsageError: no such instrument is connected, or several are.
    """
    pyserial()
    from serial.tools import list_ports

    ports = [port for port in list_ports.comports() if (port.vid, port.pid) == (vendor, product)]
    units = {port.serial_number for port in ports}
    if not ports:
        raise UsageError(f"no instrument with USB id {vendor:04x}:{product:04x} is connected")
    if len(units) > 1:
        paths = ", ".join(sorted(port.device for port in ports))
        raise UsageError(f"{len(units)} such instruments are connected, name a port: {paths}")
    return str(min(ports, key=lambda port: port.location or "").device)


def pyserial(needed_by: str = "serial meters") -> Any:
    """Import pyserial.

    Raises:
        TargetError: pyserial is not installed; the message contains the install command.
    """
    try:
        import serial
    except ImportError:
        raise TargetError(
            f"pyserial is not installed, {needed_by} need it: {install_command('serial')}"
        ) from None
    return serial


def serial_refusal(path: str, exc: Exception) -> TargetError:
    """Explain why a port cannot be opened, based on an error number.

    The number is in `exc`, or in its context, because pyserial raises some exceptions without a
    number.
    """
    for cause in (exc, exc.__context__):
        code = cause.args[0] if cause is not None and cause.args else None
        if code in _REFUSALS:
            text = _REFUSALS[code].format(path=path)
            is_denied = code in DENIED
            return NotPermitted(text, Permission.SERIAL_PORT) if is_denied else TargetError(text)
    reason = one_line(getattr(exc, "strerror", None) or exc)
    return TargetError(f"serial port {path} cannot be opened: {reason}")
