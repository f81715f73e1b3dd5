"""Finds boards on serial ports by probes, and stores the results of the probes.

Theory of operation. pyserial lists the ports with their USB ids. Without a user's request, an agent
probes only ports with an id in `usb_ids`. The command `edgebench bridge list --confirm` probes all
ports on USB. If a port replies to the command `name`, it has a board; if it replies like an energy
meter, it has a meter. A probe opens the port, which restarts many boards. So a board that has
reported its name is stored under its USB serial number. The board is probed again only at the
user's request, or after the user has written firmware onto it. A port without a USB serial number
is used only if the user names it. The same holds for a pseudo-terminal, because pyserial does not
list it.

Some makers give all of their serial adapters the same serial number. After two ports with the same
key have been present at the same time, both keys permanently include the port's place on the USB
bus. Only the board that was stored first keeps its key without a place, until it is plugged in
elsewhere.
"""

from __future__ import annotations

import fcntl
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgebench.firmware_bridge.board import Board
from edgebench.firmware_bridge.dialects.streaming import STREAMING
from edgebench.firmware_bridge.exchange import BoardTiming
from edgebench.firmware_bridge.facts import BoardFacts
from edgebench.firmware_bridge.transports.base import BoardTransport
from edgebench.firmware_bridge.transports.serial_port import open_line
from edgebench.firmware_bridge.usb_ids import (
    DEFAULT_BAUD_RATES,
    METER_IDS,
    SHARED_IDS,
    BoardHint,
    hint_of,
)
from edgebench.meters.transport import pyserial
from edgebench.protocol.errors import BoardSilent, EdgebenchError, TargetError
from edgebench.protocol.text import printable
from edgebench.system.whole_files import write_whole

_PLACE = "@"
"""Separator before the place on the USB bus, which is the last part of a key."""
PROBE_TIMING = BoardTiming(resync_s=(0.5, 1.0, 2.0))
"""Timeouts of a probe, shorter than the default because the port may not have a board."""
_METER_REPLY_BYTES = 4096
"""Number of the most recently received bytes that are searched for a meter's prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialPortInfo:
    """Serial port, as listed by the system."""

    path: str
    vendor: int | None = None
    product: int | None = None
    serial_number: str | None = None
    description: str = ""
    location: str = ""
    """Path on the USB bus; it includes the USB interface, which differs between ports of a
    device."""
    is_serial_shared: bool = False
    """Whether a second device has the same serial number; if so, the key includes the place."""

    @property
    def hint(self) -> BoardHint | None:
        """Board that the port may have according to its USB id; None for an id not in `usb_ids`."""
        return hint_of(self.vendor, self.product)

    @property
    def key(self) -> str | None:
        """Identity of the USB device and its interface; None if the device has no serial number."""
        if not self.serial_number or self.vendor is None:
            return None
        interface = self.location.rpartition(":")[2]
        key = f"{self.vendor:04x}:{self.product or 0:04x}:{self.serial_number}:{interface}"
        return f"{key}{_PLACE}{self.place}" if self.is_serial_shared else key

    @property
    def place(self) -> str:
        """Path on the USB bus, or the port's own path if the system reports no path on the bus."""
        return self.location or self.path

    @property
    def may_have_board(self) -> bool:
        """Whether a probe on request may open the port; it must be on USB and not a known meter."""
        return self.vendor is not None and (self.vendor, self.product) not in METER_IDS


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBoard:
    """Board that has reported its name in an earlier probe of its port."""

    name: str
    baud_rate: int | None = None
    dialect: str | None = None
    model_name: str | None = None
    board: str | None = None
    """Board type that edgebench's firmware reports; None for any other firmware."""
    cpu: str | None = None
    """Processor that edgebench's firmware reports; None for any other firmware."""
    takes_models: bool = False
    """Whether models can be sent to the board; if not, its firmware contains the only model."""
    takes_own_file: bool = False
    """Whether the bridge can verify that a model file is the model in the board's firmware."""
    place: str = field(default="", compare=False)
    """Place of the port on the USB bus when the board was stored; empty in entries of old
    versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBoard:
    """A port, and the facts known about the device on it."""

    port: SerialPortInfo
    board: KnownBoard | None = None
    """The board on the port; None if the device on the port is unknown."""
    trouble: str | None = None
    """Reason why the probe failed, as a single line; None if no probe failed."""
    is_meter: bool = False
    """Whether the device has replied as an energy meter."""


def list_serial_ports() -> list[SerialPortInfo]:
    """List the serial ports of this machine, sorted by path.

    Raises:
        TargetError: pyserial is not installed.
    """
    pyserial("boards")
    from serial.tools import list_ports

    ports: Iterable[Any] = list_ports.comports()
    return sorted(
        (
            SerialPortInfo(
                path=str(port.device),
                vendor=port.vid,
                product=port.pid,
                serial_number=printable(port.serial_number) if port.serial_number else None,
                description=printable(port.description or ""),
                location=str(port.location or ""),
            )
            for port in ports
        ),
        key=lambda port: port.path,
    )


class KnownBoards:
    """A file with the boards that have reported their names, by USB serial number.

    An agent and commands may change the file at the same time; a lock serialises the changes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def known(self) -> dict[str, KnownBoard]:
        """Read the boards by the keys of their ports; a missing or damaged file counts as empty."""
        with suppress(OSError, ValueError, TypeError, AttributeError):
            entries: Mapping[str, Mapping[str, Any]] = json.loads(self._path.read_text("utf-8"))
            return {key: KnownBoard(**entry) for key, entry in entries.items()}
        return {}

    def keyed(self, ports: Iterable[SerialPortInfo]) -> list[SerialPortInfo]:
        """Mark the ports that share a serial number, so that their keys include the place.

        Args:
            ports: All ports of this machine.
        """
        listed, known = list(ports), self.known()
        count = Counter(port.key for port in listed)
        placed = {key.rpartition(_PLACE)[0] for key in known}
        return [
            replace(port, is_serial_shared=True)
            if (count[port.key] > 1 or port.key in placed)
            and (port.key not in known or known[port.key].place != port.place)
            else port
            for port in listed
        ]

    def remember(self, port: SerialPortInfo, board: KnownBoard) -> str | None:
        """Store a board and return its key; without a serial number, store nothing and return None.

        An earlier version stored entries without a place. Such an entry is assigned to the first
        board that reports the same name.

        Raises:
            OSError: the file cannot be written.
        """
        if port.key is None:
            return None
        with self._changed() as known:
            key = replace(port, is_serial_shared=False).key
            entry = known.get(key) if key is not None else None
            if key is None or entry is None or entry.place or entry.name != board.name:
                key = port.key
            known[key] = replace(board, place=port.place)
        return key

    def forget(self, keys: Collection[str | None]) -> None:
        """Remove the boards with these keys, because their facts may have changed.

        Raises:
            OSError: the file cannot be written.
        """
        if not self.known().keys().isdisjoint(keys):
            with self._changed() as known:
                for key in known.keys() & set(keys):
                    del known[key]

    @contextmanager
    def _changed(self) -> Iterator[dict[str, KnownBoard]]:
        """Yield the stored boards, and write the changes to the file at the end of the block."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
            known = self.known()
            yield known
            entries = {key: _plain(board) for key, board in known.items()}
            write_whole(self._path, json.dumps(entries, indent=1, sort_keys=True) + "\n")


def _plain(board: KnownBoard) -> dict[str, str | int | None]:
    return {name: getattr(board, name) for name in KnownBoard.__slots__}


OpenLine = Callable[[str, int], BoardTransport]


def find_boards(
    memory: KnownBoards,
    *,
    is_confirming: bool,
    ports: Iterable[SerialPortInfo] | None = None,
    opener: OpenLine = open_line,
    timing: BoardTiming = PROBE_TIMING,
) -> list[FoundBoard]:
    """List the ports that may have a board, each with the board that is known or found there.

    Args:
        memory: Boards of earlier probes.
        is_confirming: Whether to open all ports on USB and send `name`. Known boards are included,
            because their firmware may have changed. A known board is removed from `memory` only if
            there is no reply, or if a meter replies. After any other error, the board is kept,
            because an agent may have the port open.
        ports: Ports of this machine, as `KnownBoards.keyed` returns them; None for all ports that
            the system lists.
        opener: Function that opens a port at a speed.
        timing: Timeouts of the replies.
    """
    known = memory.known()
    boards: list[FoundBoard] = []
    for port in memory.keyed(list_serial_ports()) if ports is None else ports:
        if not (port.may_have_board if is_confirming else port.hint or port.key in known):
            continue
        board, trouble, is_meter = known.get(port.key) if port.key else None, None, False
        if is_confirming:
            try:
                # A port with the serial number of a known board has no meter.
                may_be_meter = board is None or port.serial_number is None
                board = probe_board(port, opener=opener, timing=timing, may_be_meter=may_be_meter)
            except MeterPort:
                board, is_meter = None, True
            except BoardSilent as exc:
                board, trouble = None, str(exc)
            except EdgebenchError as exc:
                trouble = str(exc)
            with suppress(OSError):  # the next call probes the port again
                if board is None:
                    memory.forget([port.key])
                elif trouble is None:
                    memory.remember(port, board)
        boards.append(FoundBoard(port=port, board=board, trouble=trouble, is_meter=is_meter))
    return boards


def probe_board(
    port: SerialPortInfo,
    *,
    opener: OpenLine = open_line,
    timing: BoardTiming = PROBE_TIMING,
    may_be_meter: bool = True,
) -> KnownBoard:
    """Probe the board at a port; many boards restart when their port is opened.

    Args:
        port: Port to open.
        opener: Function that opens a port at a speed.
        timing: Timeouts of the replies.
        may_be_meter: Whether the device may be a meter. If so, a port whose USB id is shared by
            boards and meters first gets the query of a meter. If the device is a board, this query
            takes `timing.answer_s`.

    Raises:
        NotPermitted: the user may not use the port.
        MeterPort: the device replies as an energy meter.
        BoardSilent: there is no reply to `name`.
        TargetError: the port cannot be opened, or the replies are invalid.
    """
    speeds = port.hint.baud_rates if port.hint else DEFAULT_BAUD_RATES
    line = opener(port.path, speeds[0])
    board = Board(line, timing=timing)
    try:
        is_shared = (port.vendor, port.product) in SHARED_IDS
        if may_be_meter and is_shared and _is_meter(line, timing):
            raise MeterPort(f"{port.path} has an energy meter, X-NUCLEO-LPM01A")
        return known_board(board.connect(speeds))
    finally:
        board.close()


class MeterPort(TargetError):
    """The device at a port that was probed for a board is an energy meter."""


def _is_meter(line: BoardTransport, timing: BoardTiming) -> bool:
    """Whether the device replies as an LPM01A meter; for a board, the query is incomplete.

    Source: ST UM2243 (`powershield`): every reply of the meter begins with its prompt.
    """
    line.write(b"powershield\n")
    received, end_ns = b"", line.now_ns() + round(timing.answer_s * 1e9)
    while line.now_ns() < end_ns:
        received = (received + line.read(timing.resync_s[0]).data)[-_METER_REPLY_BYTES:]
        if b"PowerShield >" in received:
            return True
    return False


def known_board(facts: BoardFacts) -> KnownBoard:
    """Make the entry for the file of known boards from the facts about a board."""
    info = facts.firmware
    is_on_demand = not facts.dialect.endswith(STREAMING)  # streaming firmware runs its own model
    is_linked = is_on_demand and info is not None and info.model_place == "firmware"
    has_room = is_on_demand and info is not None and info.model_max is not None
    return KnownBoard(
        name=facts.name,
        baud_rate=facts.baud_rate,
        dialect=facts.dialect,
        model_name=facts.model_name,
        board=info.board if info else None,
        cpu=info.cpu if info else None,
        takes_models=has_room and not is_linked,
        takes_own_file=is_linked,
    )
