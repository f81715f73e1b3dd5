"""The interface of the firmware bridge for manual use: ports, firmware, console.

The host's `edgebench bridge` finds it under the entry-point group below, because host, agent and
bridge do not import each other. Measurements use another interface: `protocol/target.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    """Vendor and product, such as 0483:374b; None: it is not on USB."""
    serial_number: str | None
    text: str
    """Description of the device, derived from its USB id."""
    is_candidate: bool
    """Whether the device may be a board."""
    board: str | None = None
    """Name that the board reported; None: it was not probed, or did not reply."""
    model: str | None = None
    """Model on the board when it was probed; None: it has no model, or reports none."""
    baud_rate: int | None = None
    used_by: tuple[str, ...] = ()
    """Programs that have it open, each as NAME (PID), as far as visible to this user."""
    trouble: str | None = None
    """Reason why the device was not identified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardFit:
    """Whether a model fits on a board, and the memory of the board."""

    board: str
    fits: bool
    is_linked: bool
    """Whether it fits only if it is linked into the firmware, and so stays in flash."""
    flash_max_bytes: int
    """Flash or memory for the model."""
    ram_max_bytes: int
    """RAM for arena and input."""
    firmware_flash_bytes: int
    """Flash of the firmware without a model."""
    firmware_ram_bytes: int
    """RAM of the firmware, without the stack and the model."""
    stack_bytes: int
    """RAM that the stack has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCheck:
    """What a model needs on a microcontroller."""

    model: str
    problem: str | None = None
    """Why the firmware cannot run it; None: it can."""
    missing_operators: Mapping[str, int] = field(default_factory=dict[str, int])
    """Operators that the firmware does not support: how many of each, by name."""
    flash_bytes: int | None = None
    """Size of the model's blob."""
    ram_bytes: int | None = None
    """Size of arena and input together."""
    arena_bytes: int | None = None
    input_bytes: int | None = None
    output_bytes: int | None = None
    boards: tuple[BoardFit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedBoard:
    """Board that an emulator runs, with edgebench's firmware."""

    name: str
    """Name for `--on`."""
    cpu: str
    is_available: bool
    """Whether the emulator is installed on this machine."""
    package: str
    """Debian package of the emulator."""


class FlashCommand(Protocol):
    """Command that writes firmware onto a board."""

    @property
    def line(self) -> str:
        """Command line, quoted for a shell."""
        ...

    @property
    def adapter_pins(self) -> str | None:
        """Pins of the serial line of edgebench's firmware; None: the line is at the board's USB."""
        ...

    def run(self) -> str:
        """Run the command and return the output of the tool.

        Raises:
            TargetError: a program uses the board, or the tool failed or did not end.
        """
        ...


class BridgeTools(Protocol):
    """Manual operations on boards."""

    def ports(self, memory: Path, *, is_probing: bool) -> Sequence[PortReport]:
        """Serial ports of this machine.

        Args:
            memory: File in which identified boards are stored.
            is_probing: Whether to open candidates that no program has open, and request their name.

        Raises:
            TargetError: the ports cannot be listed.
        """
        ...

    def emulated_boards(self) -> Sequence[EmulatedBoard]:
        """Boards that an emulator runs, whether or not the emulator is installed."""
        ...

    def check_model(self, data: bytes, name: str, boards: Sequence[str]) -> ModelCheck:
        """What a model needs, and which boards it fits on.

        Args:
            data: Content of its file.
            name: Name of its file.
            boards: Names of boards; empty: all boards with firmware in the package.

        Raises:
            UsageError: a board is unknown.
            ModelRefused: the file is damaged.
        """
        ...

    def flash_command(
        self,
        board: str,
        firmware: Path | None,
        memory: Path,
        *,
        tool: str | None,
        serial: str | None,
        is_tool_needed: bool = True,
    ) -> FlashCommand:
        """Command that writes firmware onto a board, by a tool that is on PATH.

        Args:
            board: Kind of board, or a port, USB serial number or name of a known board.
            firmware: File to write; None: the firmware in the package for this kind of board.
            memory: As for `ports`; the entry of the board is removed after the command has run. If
                the board cannot be determined, the entries of all boards that it may be are
                removed.
            tool: Tool to use; None: the first that is installed.
            serial: Serial number of the debug probe; None: that of the known board, or of the only
                probe.
            is_tool_needed: Whether a tool must be on PATH. If not, and none is, the command names
                the best tool.

        Raises:
            UsageError: board, tool or file is invalid, or the file is for another board.
            TargetError: no tool for this board is on PATH.
        """
        ...

    def converse(
        self, address: str, baud_rate: int, commands: Iterable[str], *, silence_s: float
    ) -> Iterator[str]:
        """Yield the text that a board prints: at its start, then after each command.

        Args:
            address: Path of a port, or `socket://HOST:PORT`.
            baud_rate: Speed of the line.
            commands: Commands as they are typed.
            silence_s: Maximum time without output while the board executes a command.

        Raises:
            NotPermitted: the user may not use the port.
            TargetError: the port is in use, or the board was disconnected.
        """
        ...
