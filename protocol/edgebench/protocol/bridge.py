"""Interface of the firmware bridge for manual commands: ports, firmware, console.

The command `edgebench bridge` loads the implementation through the entry points of
`ENTRY_POINT_GROUP`, because host, agent and bridge do not import each other. Measurements use
another interface: `protocol/target.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

ENTRY_POINT_GROUP = "edgebench.bridge"
BAUD_RATE = 115_200
"""Baud rate of a board's serial line in MLPerf Tiny's performance mode. Source: mlcommons/tiny,
benchmark/api."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortReport:
    """A serial port of this machine, and the device that is connected to it."""

    path: str
    usb_id: str | None
    """USB vendor and product id, such as 0483:374b; None if the port is not on USB."""
    serial_number: str | None
    text: str
    """Description of the device, derived from its USB id."""
    is_candidate: bool
    """Whether the device may be a microcontroller board."""
    board: str | None = None
    """Name that the board reported; None if the port was not probed, or no board replied."""
    model: str | None = None
    """Model on the board at the time of the probe; None if the board has none or reports none."""
    baud_rate: int | None = None
    used_by: tuple[str, ...] = ()
    """Programs that have the port open, each as NAME (PID), as far as this user may see them."""
    trouble: str | None = None
    """Reason why the device could not be identified; None if there was no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardFit:
    """Whether a model fits on a board, and the memory of the board."""

    board: str
    fits: bool
    is_linked: bool
    """Whether the model fits only if it is linked into the firmware; a linked model is stored in
    flash."""
    flash_max_bytes: int
    """Space that the board has for the model, in flash or in RAM."""
    ram_max_bytes: int
    """RAM that the board has for the tensor arena and the input of the model."""
    firmware_flash_bytes: int
    """Flash that the firmware uses, without a model."""
    firmware_ram_bytes: int
    """RAM that the firmware uses, without the stack and the model."""
    stack_bytes: int
    """RAM that is reserved for the stack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCheck:
    """Requirements of a model on a microcontroller, and the boards that it fits on."""

    model: str
    problem: str | None = None
    """Reason why the firmware cannot run the model; None if it can run the model."""
    missing_operators: Mapping[str, int] = field(default_factory=dict[str, int])
    """Maps the name of each operator kind that the firmware does not support to the number of such
    operators in the model."""
    flash_bytes: int | None = None
    """Size of the model in the binary form in which it is sent to a board."""
    ram_bytes: int | None = None
    """Size of the tensor arena and the input of the model together."""
    arena_bytes: int | None = None
    input_bytes: int | None = None
    output_bytes: int | None = None
    boards: tuple[BoardFit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedBoard:
    """A board in an emulator, with edgebench's firmware."""

    name: str
    """Name of the board for the option `--on`."""
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
        """Board pins of the firmware's serial line; None if the line is at the board's USB port."""
        ...

    def run(self) -> str:
        """Run the command and return the output of the tool.

        Raises:
            TargetError: another program uses the board, the tool failed, or the tool did not end in
                time.
        """
        ...


class BridgeTools(Protocol):
    """Manual operations on boards."""

    def ports(self, memory: Path, *, is_probing: bool) -> Sequence[PortReport]:
        """Serial ports of this machine.

        Args:
            memory: File in which identified boards are stored.
            is_probing: Whether to open each candidate port that no program has open, and request
                the board's name.

        Raises:
            TargetError: the ports cannot be listed.
        """
        ...

    def emulated_boards(self) -> Sequence[EmulatedBoard]:
        """Boards that an emulator runs, whether or not the emulator is installed."""
        ...

    def check_model(self, data: bytes, name: str, boards: Sequence[str]) -> ModelCheck:
        """Determine the requirements of a model, and the boards that it fits on.

        Args:
            data: Content of the model file.
            name: Name of the model file.
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
        """Prepare the command by which a tool on PATH writes firmware onto a board.

        Args:
            board: Kind of board, or the port, USB serial number or name of a known board.
            firmware: File to write; None: the firmware in the package for this kind of board.
            memory: File of identified boards, as for `ports`. Running the command removes the entry
                of the board. If the board cannot be determined, the entries of all boards of this
                or of unknown kind are removed.
            tool: Name of the tool to use; None: the first tool that is installed.
            serial: Serial number of the debug probe; None: the probe of the known board, or the
                only connected probe.
            is_tool_needed: Whether a tool must be on PATH. If this is False and no tool is on PATH,
                the returned command names the best tool.

        Raises:
            UsageError: board, tool or file is invalid, or the file is for another board.
            TargetError: no tool for this board is on PATH.
        """
        ...

    def converse(
        self, address: str, baud_rate: int, commands: Iterable[str], *, silence_s: float
    ) -> Iterator[str]:
        """Yield the text that a board prints when it starts, then its output for each command.

        Args:
            address: Path of a port, or `socket://HOST:PORT`.
            baud_rate: Speed of the line.
            commands: Commands in the form in which a user would type them.
            silence_s: Maximum time without output while the board executes a command.

        Raises:
            NotPermitted: the user may not use the port.
            TargetError: the port is in use, or the board was disconnected.
        """
        ...
