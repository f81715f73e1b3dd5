"""The interface of the firmware bridge for use by hand: ports, firmware, console.

The host's `edgebench bridge` finds it under the entry-point group below, as no two of host, agent
and bridge import each other. Measuring goes another way: `protocol/target.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ENTRY_POINT_GROUP = "edgebench.bridge"
BAUD_RATE = 115_200
"""Speed of a board's line in performance mode. Source: mlcommons/tiny, benchmark/api."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortReport:
    """Serial port of this machine."""

    path: str
    usb_id: str | None
    """Vendor and product, as 0483:374b; None: it is not on USB."""
    serial_number: str | None
    text: str
    """What is there, by its USB id."""
    is_candidate: bool
    """Whether a board may be there."""
    board: str | None = None
    """Name that the board said; None: it was not asked, or did not answer."""
    model: str | None = None
    """Model on the board when it was asked; None: it has none, or does not say."""
    baud_rate: int | None = None
    used_by: tuple[str, ...] = ()
    """Programs that have it open, each as NAME (PID), as far as this user may know."""
    trouble: str | None = None
    """Why it was not found out what is there."""


class FlashCommand(Protocol):
    """Command that writes firmware onto a board."""

    @property
    def line(self) -> str:
        """Command as a shell takes it."""
        ...

    def run(self) -> str:
        """Run it; what the tool said.

        Raises:
            TargetError: a program uses the board, or the tool failed or did not end.
        """
        ...


class BridgeTools(Protocol):
    """What a person does with boards by hand."""

    def ports(self, memory: Path, *, asks: bool) -> Sequence[PortReport]:
        """Serial ports of this machine.

        Args:
            memory: File in which boards are remembered that said their names.
            asks: Whether to open candidates that no program has open, and ask for the name.

        Raises:
            TargetError: they cannot be listed.
        """
        ...

    def flash_command(
        self, board: str, firmware: Path, memory: Path, *, tool: str | None, serial: str | None
    ) -> FlashCommand:
        """Command that writes firmware onto a board, by a tool that is on PATH.

        Args:
            board: Kind of board, or a port, USB serial number or name of a known one.
            firmware: File to write.
            memory: As for `ports`; what it knows of the board is forgotten when the command has
                run. Where nobody knows which board that is, all that it may be are forgotten.
            tool: Tool to use; None: the first one that is there.
            serial: Serial number of the debug probe; None: that of the known board, or the only
                one.

        Raises:
            UsageError: board, tool or file make no sense.
            TargetError: no tool for this board is on PATH.
        """
        ...

    def converse(
        self, address: str, baud_rate: int, commands: Iterable[str], *, silence_s: float
    ) -> Iterator[str]:
        """Text of a board: at its start, and after each command.

        Args:
            address: Path of a port, or `socket://HOST:PORT`.
            baud_rate: Speed of the line.
            commands: Commands as they are typed.
            silence_s: How long the board may say nothing while it works on one.

        Raises:
            NotPermitted: the user may not use the port.
            TargetError: the port is in use, or the board is gone.
        """
        ...
