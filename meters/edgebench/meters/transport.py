"""Byte streams to instruments: a serial port or a TCP socket; tests put their own in.

read   waits at most its timeout for the first byte, then gives what is there; b"" after that
write  all of it
close  may be called twice
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import Any, Protocol

from edgebench.meters.options import install
from edgebench.protocol.errors import NotPermitted, Permission, TargetError, UsageError
from edgebench.protocol.text import one_line

READ_BYTES = 1 << 16
"""More than a tty buffers."""
DENIED = frozenset({errno.EACCES, errno.EPERM})
"""Errors of the system that a permission would mend."""
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
"""By what the system says; EAGAIN is another program's lock."""


class Transport(Protocol):
    """A connection to an instrument."""

    def read(self, timeout_s: float) -> bytes:
        """What has come.

        Raises:
            TargetError: the instrument is gone.
        """
        ...

    def write(self, data: bytes) -> None:
        """Send in one piece.

        Raises:
            TargetError: the instrument is gone.
        """
        ...

    def close(self) -> None:
        """Let go."""
        ...


Connect = Callable[[], Transport]


class SerialTransport:
    """A serial port, by pyserial."""

    def __init__(self, path: str, baud_rate: int) -> None:
        serial = _pyserial()
        try:
            self._port: Any = serial.Serial(path, baud_rate, timeout=0, exclusive=True)
        except (OSError, ValueError) as exc:
            raise _refusal(path, exc) from exc
        self._path = path

    def read(self, timeout_s: float) -> bytes:
        """What has come."""
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
        """Send in one piece."""
        try:
            self._port.write(data)
            self._port.flush()
        except OSError as exc:
            raise TargetError(f"serial port {self._path} is gone") from exc

    def close(self) -> None:
        """Let go."""
        self._port.close()


class TcpTransport:
    """A socket."""

    def __init__(self, host: str, port: int, timeout_s: float = 5.0) -> None:
        self._name = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as exc:
            raise TargetError(f"no instrument answers at {self._name}: {_reason(exc)}") from exc

    def read(self, timeout_s: float) -> bytes:
        """What has come."""
        self._socket.settimeout(timeout_s)
        try:
            data = self._socket.recv(READ_BYTES)
        except (TimeoutError, BlockingIOError):
            return b""
        except OSError as exc:
            raise TargetError(f"instrument {self._name} is gone: {_reason(exc)}") from exc
        if not data:
            raise TargetError(f"instrument {self._name} closed the connection")
        return data

    def write(self, data: bytes) -> None:
        """Send in one piece."""
        self._socket.settimeout(5.0)
        try:
            self._socket.sendall(data)
        except OSError as exc:
            raise TargetError(f"instrument {self._name} is gone: {_reason(exc)}") from exc

    def close(self) -> None:
        """Let go."""
        self._socket.close()


def find_port(vendor: int, product: int) -> str:
    """The serial port of the only instrument with this USB id; of several, the first interface.

    Raises:
        UsageError: there is none, or there are several.
    """
    _pyserial()
    from serial.tools import list_ports

    ports = [port for port in list_ports.comports() if (port.vid, port.pid) == (vendor, product)]
    units = {port.serial_number for port in ports}
    if not ports:
        raise UsageError(f"no instrument with USB id {vendor:04x}:{product:04x} is connected")
    if len(units) > 1:
        paths = ", ".join(sorted(port.device for port in ports))
        raise UsageError(f"{len(units)} such instruments are connected, name a port: {paths}")
    return str(min(ports, key=lambda port: port.location or "").device)


def _pyserial() -> Any:
    try:
        import serial
    except ImportError:
        raise TargetError(
            f"pyserial is not installed, serial meters need it: {install('serial')}"
        ) from None
    return serial


def _refusal(path: str, exc: Exception) -> TargetError:
    """Why a port is not opened; pyserial hides the number of some errors in the one before."""
    for cause in (exc, exc.__context__):
        found = cause.args[0] if cause is not None and cause.args else None
        if found in _REFUSALS:
            text = _REFUSALS[found].format(path=path)
            is_denied = found in DENIED
            return NotPermitted(text, Permission.SERIAL_PORT) if is_denied else TargetError(text)
    return TargetError(f"serial port {path} cannot be opened: {_reason(exc)}")


def _reason(exc: Exception) -> str:
    return one_line(getattr(exc, "strerror", None) or exc)
