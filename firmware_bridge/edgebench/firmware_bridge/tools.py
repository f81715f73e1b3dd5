"""What a person does with boards by hand: list ports, write firmware, talk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from edgebench.firmware_bridge.detection import (
    FoundBoard,
    KnownBoards,
    SerialPortInfo,
    find_boards,
    list_serial_ports,
    port_named,
)
from edgebench.firmware_bridge.flashing import (
    FLASH_RECIPES,
    ToolCommand,
    flash_command,
    run_flash,
)
from edgebench.firmware_bridge.port_users import users_of
from edgebench.firmware_bridge.terminal import converse
from edgebench.firmware_bridge.transports.serial_port import open_line
from edgebench.firmware_bridge.usb_ids import METER_IDS
from edgebench.protocol.bridge import PortReport
from edgebench.protocol.errors import TargetError, UsageError


@dataclass(frozen=True, slots=True)
class BoardFlashing:
    """Command that writes firmware onto a board, which is another one then."""

    command: ToolCommand
    memory: KnownBoards
    port: SerialPortInfo | None
    """Port of the board; None: nobody knows it."""

    @property
    def line(self) -> str:
        """Command as a shell takes it."""
        return self.command.line

    def run(self) -> str:
        """Run it, and forget what the board was before."""
        said = run_flash(self.command)
        if self.port is not None:
            self.memory.forget(self.port)
        return said


class BoardTools:
    """Boards in a person's hands; implements `BridgeTools`."""

    def ports(self, memory: Path, *, asks: bool) -> list[PortReport]:
        """Serial ports of this machine; one that a program has open is not asked."""
        listed = list_serial_ports()
        used = {port.path: tuple(users_of(port.path)) for port in listed}
        known = KnownBoards(memory)
        free = [port for port in listed if not used[port.path]]
        if asks:
            for port in free:
                known.forget(port)  # it may have other firmware by now
        boards = {one.port.path: one for one in find_boards(known, ask=False, ports=listed)}
        if asks:
            asked = find_boards(known, ask=True, ports=free)
            boards |= {one.port.path: one for one in asked}
        return [_report(port, boards.get(port.path), used[port.path]) for port in listed]

    def flash_command(
        self, board: str, firmware: Path, memory: Path, *, tool: str | None, serial: str | None
    ) -> BoardFlashing:
        """Command that writes firmware onto a board."""
        known, kind, port = KnownBoards(memory), board, None
        if board not in FLASH_RECIPES:
            boards = [one for one in find_boards(known, ask=False) if one.board is not None]
            if not boards:
                kinds = ", ".join(sorted(FLASH_RECIPES))
                raise UsageError(f"no board is called {board[:80]!r}; kinds of boards: {kinds}")
            found = port_named(board, boards)
            assert found.board is not None
            kind, port = found.board.board or found.board.name, found.port
            serial = serial or port.serial_number
        command = flash_command(kind, firmware, program=tool, serial=serial)
        return BoardFlashing(command, known, port)

    def converse(
        self, address: str, baud_rate: int, commands: Iterable[str], *, silence_s: float
    ) -> Iterator[str]:
        """Text of a board: at its start, and after each command."""
        if users := users_of(address):
            raise TargetError(f"serial port {address} is in use by {', '.join(users)}")
        with closing(open_line(address, baud_rate)) as line:
            yield from converse(line, commands, silence_s=silence_s)


def _report(port: SerialPortInfo, found: FoundBoard | None, used: tuple[str, ...]) -> PortReport:
    board = found.board if found else None
    usb_id = None if port.vendor is None else f"{port.vendor:04x}:{port.product or 0:04x}"
    if port.hint is not None:
        text = port.hint.text
    elif (port.vendor, port.product) in METER_IDS:
        text = "energy meter"
    else:
        text = port.description if usb_id else "not on USB"
    return PortReport(
        path=port.path,
        usb_id=usb_id,
        serial_number=port.serial_number,
        text=text,
        is_candidate=port.hint is not None,
        board=board.name if board else None,
        model=board.model_name if board else None,
        baud_rate=board.baud_rate if board else None,
        used_by=used,
        trouble=found.trouble if found else None,
    )
