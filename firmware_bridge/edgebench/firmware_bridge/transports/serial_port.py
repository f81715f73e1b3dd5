"""Connects to boards by serial ports, other addresses of pyserial, and `socket://HOST:PORT`.

Opening a port raises DTR and RTS, as in terminal programs, because boards with native USB send no
data while DTR is low. Other boards restart at the rising edge. No setting reliably prevents this
(pyserial issue 124), so all callers expect that a board may restart when its port is opened.

A port without these two lines, such as a pseudo-terminal, cannot raise them; pyserial ignores the
resulting error when it opens a port.
"""

from __future__ import annotations

import termios
import time
from contextlib import suppress
from typing import Any

from edgebench.firmware_bridge.transports.base import READ_BYTES, WRITE_S, ReceivedBytes
from edgebench.meters.transport import TcpTransport, pyserial, serial_refusal, split_address
from edgebench.protocol.errors import BoardLost, ErrorCode, TargetError, UsageError

BOOTLOADER_BAUD_RATE = 1200
"""Speed at which a board with native USB starts its bootloader when its port opens (Arduino)."""
BITS_PER_BYTE = 10
"""Bits on the line per byte: a start bit, eight data bits and a stop bit."""
DRAIN_FIRST_S, DRAIN_LAST_S = 0.0002, 0.05
"""First and longest pause, in seconds, between checks of the driver's output queue."""
_SOCKET = "socket://"


class SerialLine:
    """A serial port by its path, or by an address of pyserial (`loop://`, `rfc2217://…`)."""

    is_emulated = False

    def __init__(self, address: str, baud_rate: int) -> None:
        """Open the port.

        Raises:
            UsageError: the speed is not allowed.
            NotPermitted: the user may not use the port, because membership in a group is needed.
            TargetError: the port does not exist, or is in use.
        """
        _check_speed(baud_rate)
        serial = pyserial("boards")
        try:
            self._port: Any = serial.serial_for_url(address, do_not_open=True)
            self._port.baudrate = baud_rate
            self._port.timeout = 0
            self._port.write_timeout = WRITE_S
            if "://" not in address:
                self._port.exclusive = True
            self._port.open()
        except (OSError, ValueError) as exc:
            raise serial_refusal(address, exc) from exc
        self.name = address
        self._write_timeout: type[OSError] = serial.SerialTimeoutException

    @property
    def baud_rate(self) -> int | None:
        """Speed of the line."""
        return int(self._port.baudrate)

    def set_baud_rate(self, baud_rate: int) -> None:
        """Change the speed of the line."""
        _check_speed(baud_rate)
        try:
            self._port.baudrate = baud_rate
        except ValueError as exc:
            raise UsageError(f"port {self.name} does not support {baud_rate} baud") from exc
        except OSError as exc:
            raise self._lost() from exc

    def now_ns(self) -> int:
        """Time by the bridge clock."""
        return time.monotonic_ns()

    def read(self, timeout_s: float) -> ReceivedBytes:
        """Read bytes that have arrived, after a wait of at most `timeout_s` for the first byte."""
        try:
            self._port.timeout = max(0.0, timeout_s)
            data = self._port.read(1)
            if data:
                waiting = min(self._port.in_waiting, READ_BYTES)
                self._port.timeout = 0
                data += self._port.read(waiting)
        except (OSError, TypeError) as exc:  # TypeError: closed by another thread
            raise self._lost() from exc
        return ReceivedBytes(bytes(data), time.monotonic_ns())

    def write(self, data: bytes) -> None:
        """Send all bytes."""
        try:
            self._port.write(data)
            self._drain()
        except self._write_timeout as exc:
            with suppress(OSError, termios.error):
                self._port.reset_output_buffer()  # as in `_drain`
            raise BoardLost(f"the board at {self.name} accepts no bytes for {WRITE_S:g} s") from exc
        # pyserial's own errors have the first class; the second is raised if a port disappears
        # while it drains.
        except (OSError, termios.error) as exc:
            raise self._lost() from exc

    def _drain(self) -> None:
        """Wait until the driver has sent all bytes.

        pyserial's `flush` (tcdrain) is not used, because it waits forever if a board stops reading.
        Here, the remaining bytes are discarded after `WRITE_S`. Otherwise, closing the port would
        wait for them for 30 s (`closing_wait` of Linux).

        Raises:
            BoardLost: the board accepts no bytes any more.
        """
        if "://" in self.name:  # no driver of this machine buffers the bytes
            return
        deadline_s, pause_s = time.monotonic() + WRITE_S, DRAIN_FIRST_S
        left_bytes, before_bytes = self._port.out_waiting, 0
        while left_bytes:
            now_s = time.monotonic()
            if left_bytes != before_bytes:
                deadline_s = now_s + WRITE_S
            elif now_s > deadline_s:
                self._port.reset_output_buffer()
                raise BoardLost(f"the board at {self.name} accepts no bytes for {WRITE_S:g} s")
            # The time that a serial line needs; USB ignores the speed, and is much faster.
            time.sleep(min(left_bytes * BITS_PER_BYTE / self._port.baudrate, pause_s))
            pause_s = min(2 * pause_s, DRAIN_LAST_S)
            left_bytes, before_bytes = self._port.out_waiting, left_bytes

    def close(self) -> None:
        """Close the port."""
        self._port.close()

    def _lost(self) -> BoardLost:
        lost = BoardLost(f"the board at {self.name} was disconnected")
        lost.code = ErrorCode.DEVICE_GONE  # its seat will be gone: the run may be repeated
        return lost


class SocketLine:
    """A board behind a TCP port, for example of a terminal server or an emulator."""

    is_emulated = False
    baud_rate = None

    def __init__(self, host: str, port: int) -> None:
        """Connect to the TCP port.

        Raises:
            TargetError: the connection cannot be opened.
        """
        self._stream = TcpTransport(host, port, "board")
        self.name = f"{_SOCKET}{host}:{port}"

    def set_baud_rate(self, baud_rate: int) -> None:
        """Do nothing, because the program behind the TCP port defines the speed of the line."""

    def now_ns(self) -> int:
        """Time by the bridge clock."""
        return time.monotonic_ns()

    def read(self, timeout_s: float) -> ReceivedBytes:
        """Read bytes that have arrived, after a wait of at most `timeout_s` for the first byte."""
        try:
            data = self._stream.read(timeout_s)
        except TargetError as exc:
            raise BoardLost(str(exc)) from exc
        return ReceivedBytes(data, time.monotonic_ns())

    def write(self, data: bytes) -> None:
        """Send all bytes."""
        try:
            self._stream.write(data)
        except TargetError as exc:
            raise BoardLost(str(exc)) from exc

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


def open_line(address: str, baud_rate: int) -> SerialLine | SocketLine:
    """Connect to a board at `socket://HOST:PORT`, a path, or an address of pyserial.

    Raises:
        UsageError: the address lacks a port, or the speed is not allowed.
        TargetError: in the same cases as for `SerialLine` and `SocketLine`.
    """
    socket = check_address(address)
    return SerialLine(address, baud_rate) if socket is None else SocketLine(*socket)


def split_sound(address: str) -> tuple[str, str]:
    """Split a text into an address and an interface board's sound file, which may be empty.

    >>> split_sound("/dev/ttyACM0,play=long.wav"), split_sound("/dev/ttyACM0")
    (('/dev/ttyACM0', 'long.wav'), ('/dev/ttyACM0', ''))
    """
    place, _, sound = address.partition(",play=")
    return place, sound


def check_address(address: str) -> tuple[str, int] | None:
    """Host and port of a `socket://` address; None if the address has a different form.

    Raises:
        UsageError: the host or the port is missing.
    """
    if not address.startswith(_SOCKET):
        return None
    host, port = split_address(address.removeprefix(_SOCKET), 0)
    if not host or not port:
        raise UsageError(f"a socket address must be socket://HOST:PORT, got {address!r}")
    return host, port


def _check_speed(baud_rate: int) -> None:
    if baud_rate < 1:
        raise UsageError(f"speed of a line must be at least 1 baud, got {baud_rate}")
    if baud_rate == BOOTLOADER_BAUD_RATE:
        raise UsageError(
            f"boards are never opened at {BOOTLOADER_BAUD_RATE} baud, because this speed starts "
            "bootloaders"
        )
