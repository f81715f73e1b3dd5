"""The interface of a transport, which sends bytes to a board and receives bytes from it.

read   waits at most its timeout for the first byte, then returns all available bytes
write  sends all bytes at once
close  may be called twice

Times are in nanoseconds, by the bridge's monotonic clock. The time of bytes is the time when the
read returned. The bytes arrived before this time. If the read had to wait, the bytes arrived after
the beginning of the wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

READ_BYTES = 1 << 16
"""Maximum number of bytes per read, which is more than the buffer of a tty holds."""
WRITE_S = 10.0
"""Timeout of a write in seconds; a board that accepts no bytes for this time is stuck."""


@dataclass(frozen=True, slots=True)
class ReceivedBytes:
    """Bytes that a read returned, and the time when it returned."""

    data: bytes
    """The bytes; empty if none arrived within the timeout."""
    time_ns: int
    """Time when the read returned, bridge clock."""


class BoardTransport(Protocol):
    """An open connection to a board."""

    @property
    def name(self) -> str:
        """Location of the board for display, such as a path, an address or a program."""
        ...

    @property
    def baud_rate(self) -> int | None:
        """Speed of the line in baud; None if the transport has no speed."""
        ...

    @property
    def is_emulated(self) -> bool:
        """Whether a program emulates the board, so that its time differs from the bridge's."""
        ...

    def set_baud_rate(self, baud_rate: int) -> None:
        """Change the speed of the line; do nothing if the transport has no speed.

        Raises:
            UsageError: the port does not support the speed.
            BoardLost: the board was disconnected.
        """
        ...

    def now_ns(self) -> int:
        """Time by the bridge clock, which is also the clock of `ReceivedBytes.time_ns`."""
        ...

    def read(self, timeout_s: float) -> ReceivedBytes:
        """Read the bytes that have arrived, after a wait of at most `timeout_s` for the first byte.

        Raises:
            BoardLost: the board was disconnected.
        """
        ...

    def write(self, data: bytes) -> None:
        """Send all bytes.

        Raises:
            BoardLost: the board was disconnected, or accepts no bytes any more.
        """
        ...

    def close(self) -> None:
        """Release the board."""
        ...
