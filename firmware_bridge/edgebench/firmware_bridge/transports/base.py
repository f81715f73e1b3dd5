"""The interface of a transport: bytes to a board and from it.

read   waits at most its timeout for the first byte, then gives what is there
write  all of it, in one piece
close  may be called twice

Time is the bridge's monotonic clock in nanoseconds. Bytes have the time at which the read that got
them returned: they were there then, and cannot have been earlier than the read began to wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

READ_BYTES = 1 << 16
"""More than a tty buffers."""
WRITE_S = 10.0
"""A board that takes nothing for so long is stuck."""


@dataclass(frozen=True, slots=True)
class ReceivedBytes:
    """Bytes of one read."""

    data: bytes
    """Empty where nothing came in time."""
    time_ns: int
    """When the read returned, bridge clock."""


class BoardTransport(Protocol):
    """An open way to a board."""

    @property
    def name(self) -> str:
        """Where the board is, for people: a path, an address, a program."""
        ...

    @property
    def baud_rate(self) -> int | None:
        """Speed of the line; None where it has none."""
        ...

    @property
    def is_emulated(self) -> bool:
        """Whether the board's time is not the bridge's: it is a program that emulates one."""
        ...

    def set_baud_rate(self, baud_rate: int) -> None:
        """Change the speed of the line; does nothing where it has none.

        Raises:
            UsageError: the port cannot do that speed.
            BoardLost: the board is gone.
        """
        ...

    def now_ns(self) -> int:
        """Bridge clock, by which `ReceivedBytes` are timed."""
        ...

    def read(self, timeout_s: float) -> ReceivedBytes:
        """Bytes that have arrived; waits at most its timeout for the first one.

        Raises:
            BoardLost: the board is gone.
        """
        ...

    def write(self, data: bytes) -> None:
        """Send in one piece.

        Raises:
            BoardLost: the board is gone, or takes nothing any more.
        """
        ...

    def close(self) -> None:
        """Let go of the board."""
        ...
