"""Manual operations on boards, such as listing ports, writing firmware and sending commands."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from edgebench.firmware_bridge.board_fit import check_model
from edgebench.firmware_bridge.detection import (
    FoundBoard,
    KnownBoard,
    KnownBoards,
    SerialPortInfo,
    find_boards,
    list_serial_ports,
)
from edgebench.firmware_bridge.flashing import (
    FLASH_RECIPES,
    ToolCommand,
    flash_command,
    run_flash,
)
from edgebench.firmware_bridge.port_users import users_of
from edgebench.firmware_bridge.terminal import converse
from edgebench.firmware_bridge.transports.qemu import PACKAGES, QEMU_MACHINES
from edgebench.firmware_bridge.transports.serial_port import open_line
from edgebench.firmware_bridge.usb_ids import METER_IDS, SHARED_IDS
from edgebench.protocol.bridge import EmulatedBoard, ModelCheck, PortReport
from edgebench.protocol.errors import TargetError, UsageError, with_meant


@dataclass(frozen=True, slots=True)
class BoardFlashing:
    """Command that writes firmware onto a board, and thus invalidates stored facts about it."""

    command: ToolCommand
    memory: KnownBoards
    kind: str
    """Board type, which is a name in `FLASH_RECIPES`."""
    serial: str | None
    """Serial number of the board's debug probe; None if the tool selects the probe."""

    @property
    def adapter_pins(self) -> str | None:
        """Pins of the serial line if it needs an adapter; None if it is on the board's USB port."""
        return FLASH_RECIPES[self.kind].adapter_pins

    @property
    def line(self) -> str:
        """Command line, quoted for a shell."""
        return self.command.line

    def run(self) -> str:
        """Run the command, and remove the stored facts about the board.

        Raises:
            TargetError: a program has the board's port open, or the tool failed.
            OSError: the stored facts cannot be removed.
        """
        keys = self._keys()
        for port in self.memory.keyed(list_serial_ports()):
            if port.key in keys and (users := users_of(port.path)):
                raise _used(port.path, users)
        try:
            return run_flash(self.command)
        finally:  # a tool that failed may have written
            self.memory.forget(self._keys())

    def _keys(self) -> set[str | None]:
        """Keys of the board in the file.

        If the board's port is unknown, these are the keys of all boards of this or of unknown type.
        """
        if self.serial is not None:
            # A probe has the serial number of its port; a board in its bootloader has no port.
            ports = [
                serial_port
                for serial_port in self.memory.keyed(list_serial_ports())
                if serial_port.serial_number == self.serial
            ]
            keys = {port.key for port in ports}
            if keys - {None}:
                return keys
        known = self.memory.known().items()
        return {key for key, one in known if one.board in (self.kind, None)}


class BoardTools:
    """Manual operations on boards; implements `BridgeTools`."""

    def ports(self, memory: Path, *, is_probing: bool) -> list[PortReport]:
        """Serial ports of this machine; a port that a program has open is not probed."""
        known = KnownBoards(memory)
        listed = known.keyed(list_serial_ports())
        used = {port.path: tuple(users_of(port.path)) for port in listed}
        boards = {
            board.port.path: board
            for board in find_boards(known, is_confirming=False, ports=listed)
        }
        if is_probing:
            free = [port for port in listed if not used[port.path]]
            boards |= {
                board.port.path: board
                for board in find_boards(known, is_confirming=True, ports=free)
            }
        return [_report(port, boards.get(port.path), used[port.path]) for port in listed]

    def emulated_boards(self) -> list[EmulatedBoard]:
        """Boards that QEMU emulates."""
        return [
            EmulatedBoard(
                name=f"qemu:{machine.name}",
                cpu=machine.cpu,
                is_available=shutil.which(machine.program) is not None,
                package=PACKAGES[machine.program],
            )
            for machine in QEMU_MACHINES.values()
        ]

    def check_model(self, data: bytes, name: str, boards: Sequence[str]) -> ModelCheck:
        """Compute the memory that a model needs, and the boards on which it fits."""
        return check_model(data, name, boards)

    def flash_command(
        self,
        board: str,
        firmware: Path | None,
        memory: Path,
        *,
        tool: str | None,
        serial: str | None,
        is_tool_needed: bool = True,
    ) -> BoardFlashing:
        """Command that writes a file, by default the packaged firmware, onto a board."""
        known, kind = KnownBoards(memory), board
        if board not in FLASH_RECIPES:
            ports = known.keyed(list_serial_ports())
            port, meant = board_named(board, find_boards(known, is_confirming=False, ports=ports))
            kind = meant.board or meant.name
            vendor = FLASH_RECIPES[kind].probe_vendor if kind in FLASH_RECIPES else None
            # Behind an adapter, a tool would look for a probe with the number of the adapter.
            if vendor is not None and vendor == port.vendor:
                serial = serial or port.serial_number
        if firmware is None and kind not in FLASH_RECIPES:
            raise UsageError(
                f"the package has no firmware for {kind[:80]!r}; give a file, or a kind of board: "
                f"{', '.join(sorted(FLASH_RECIPES))}"
            )
        command = flash_command(
            kind, firmware, program=tool, serial=serial, is_tool_needed=is_tool_needed
        )
        return BoardFlashing(command, known, kind, serial)

    def converse(
        self, address: str, baud_rate: int, commands: Iterable[str], *, silence_s: float
    ) -> Iterator[str]:
        """Yield the text that a board prints when it starts, and then after each command."""
        if users := users_of(address):
            raise _used(address, users)
        with closing(open_line(address, baud_rate)) as line:
            yield from converse(line, commands, silence_s=silence_s)


def board_named(name: str, boards: Iterable[FoundBoard]) -> tuple[SerialPortInfo, KnownBoard]:
    """The confirmed board that has the given path, USB serial number or reported name.

    Raises:
        UsageError: no board matches, or several do.
    """
    known = [(board.port, board.board) for board in boards if board.board is not None]
    meant = [
        (port, board)
        for port, board in known
        if name in (port.path, port.serial_number, board.name)
    ]
    if len(meant) == 1:
        return meant[0]
    if meant:
        paths = ", ".join(port.path for port, _ in meant)
        raise UsageError(f"{len(meant)} boards match {name!r}: {paths}")
    confirmed = ", ".join(f"{board.name} at {port.path}" for port, board in known) or "none"
    if "/" in name:
        raise UsageError(
            f"no board is confirmed at {name[:80]!r} (confirmed boards: {confirmed}); state its "
            "kind, such as nucleo-l4r5zi, or confirm it first: edgebench bridge list --confirm"
        )
    error = UsageError(
        f"no board matches {name[:80]!r}; kinds of boards: {', '.join(sorted(FLASH_RECIPES))}; "
        f"confirmed boards: {confirmed}"
    )
    raise with_meant(error, name, (*FLASH_RECIPES, *(board.name for _, board in known)))


def _used(path: str, users: Iterable[str]) -> TargetError:
    return TargetError(f"serial port {path} is in use by {', '.join(users)}")


def _report(
    port: SerialPortInfo, found_board: FoundBoard | None, used: tuple[str, ...]
) -> PortReport:
    board = found_board.board if found_board else None
    usb_id = None if port.vendor is None else f"{port.vendor:04x}:{port.product or 0:04x}"
    is_meter = found_board is not None and found_board.is_meter
    if is_meter or (port.vendor, port.product) in METER_IDS:
        text = "energy meter"
    elif port.hint is not None:
        text = port.hint.text
    else:
        shared = SHARED_IDS.get((port.vendor or 0, port.product or 0))
        text = shared or (port.description if usb_id else "not on USB")
    return PortReport(
        path=port.path,
        usb_id=usb_id,
        serial_number=port.serial_number,
        text=text,
        is_candidate=port.may_have_board and not is_meter,
        board=board.name if board else None,
        model=board.model_name if board else None,
        baud_rate=board.baud_rate if board else None,
        used_by=used,
        trouble=found_board.trouble if found_board else None,
    )
