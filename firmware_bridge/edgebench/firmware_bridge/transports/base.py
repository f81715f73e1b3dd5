"""The interface of a transport: bytes to a board and from it.

read   waits at most its timeout for the first byte, then returns all available bytes
write  sends all bytes at once
close  may be called twice

Time is the bridge's monotonic clock in nanoseconds. The time of bytes is that at which their read
returned: they arrived before it, and not before the read began to wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

READ_BYTES = 1 << 16
"""Larger than the buffer of a tty."""
WRITE_S = 10.0
"""Timeout of a write; a board that accepts no bytes for so long is stuck."""


@dataclass(frozen=True, slots=True)
class ReceivedBytes:
    """Bytes of a read."""

    data: bytes
    """Empty if no bytes arrived in time."""
    time_ns: int
    """Time when the read returned, bridge clock."""


class BoardTransport(Protocol):
    """An open connection to a board."""

    @property
    def name(self) -> str:
        """Location of the board, for display: a path, an address, a program."""
        ...

    @property
    def baud_rate(self) -> int | None:
        """Speed of the line; None if it has no speed."""
        ...

    @property
    def is_emulated(self) -> bool:
        """Whether a program emulates the board, so that its time differs from the bridge's."""
        ...

    def set_baud_rate(self, baud_rate: int) -> None:
        """Change the speed of the line; does nothing if it has no speed.

        Raises:
            UsageError: the port does not support the speed.
            BoardLost: the board was disconnected.
        """
        ...

    def now_ns(self) -> int:
        """Bridge clock, which is the clock of `ReceivedBytes.time_ns`."""
        ...

    def read(self, timeout_s: float) -> ReceivedBytes:
        """Bytes that have arrived; waits at most `timeout_s` for the first byte.

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
