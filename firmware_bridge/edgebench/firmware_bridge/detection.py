"""Which serial ports may have a board, which do, and which one it was the last time.

Theory of operation. pyserial lists the ports with their USB ids. An id with a hint makes a port a
candidate; `name` makes a candidate a board. Asking opens a port, which restarts many boards, so a
board that said its name is remembered by its USB serial number, and is not asked again, until a
person wants that or writes firmware onto it. A port without a USB serial number (and a
pseudo-terminal, which is in no list) has to be named.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.firmware_bridge.board import Board
from edgebench.firmware_bridge.dialects.streaming import STREAMING
from edgebench.firmware_bridge.exchange import BoardTiming
from edgebench.firmware_bridge.facts import BoardFacts
from edgebench.firmware_bridge.transports.base import BoardTransport
from edgebench.firmware_bridge.transports.serial_port import open_line
from edgebench.firmware_bridge.usb_ids import DEFAULT_BAUD_RATES, BoardHint, hint_of
from edgebench.meters.transport import pyserial
from edgebench.protocol.errors import BoardSilent, EdgebenchError
from edgebench.protocol.text import printable
from edgebench.system.whole_files import write_whole

PROBE_TIMING = BoardTiming(resync_s=(0.5, 1.0, 2.0))
"""A port that may have no board at all is given up sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialPortInfo:
    """Serial port, as the system lists it."""

    path: str
    vendor: int | None = None
    product: int | None = None
    serial_number: str | None = None
    description: str = ""
    location: str = ""
    """Place on the bus, with the interface; ports of one device differ in the latter."""

    @property
    def hint(self) -> BoardHint | None:
        """What may be there."""
        return hint_of(self.vendor, self.product)

    @property
    def key(self) -> str | None:
        """Identity of the USB device and its interface; None: it has no serial number."""
        if not self.serial_number or self.vendor is None:
            return None
        interface = self.location.rpartition(":")[2]
        return f"{self.vendor:04x}:{self.product or 0:04x}:{self.serial_number}:{interface}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBoard:
    """Board that said its name at a port before."""

    name: str
    baud_rate: int | None = None
    dialect: str | None = None
    model_name: str | None = None
    board: str | None = None
    """Kind of board, by our own firmware; None: other firmware, which does not say."""
    cpu: str | None = None
    """Processor, likewise."""
    takes_models: bool = False
    """Whether a model can be put onto it; if not, it has one in its firmware."""
    takes_own_file: bool = False
    """Whether it can tell that a file is the model in its firmware."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBoard:
    """Port with what is known of it."""

    port: SerialPortInfo
    board: KnownBoard | None = None
    """None: it is unknown what is there."""
    trouble: str | None = None
    """Why it did not say what it is when it was asked; one line."""


def list_serial_ports() -> list[SerialPortInfo]:
    """Serial ports of this machine, by path.

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
    """Boards that said their names, by USB serial number, in a file of the user's.

    An agent and commands may change it at the same time, each of them under a lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def known(self) -> dict[str, KnownBoard]:
        """Boards by key of their port; a file that is damaged is as good as none."""
        with suppress(OSError, ValueError, TypeError, AttributeError):
            entries: Mapping[str, Mapping[str, Any]] = json.loads(self._path.read_text("utf-8"))
            return {key: KnownBoard(**entry) for key, entry in entries.items()}
        return {}

    def remember(self, port: SerialPortInfo, board: KnownBoard) -> None:
        """Keep a board; one at a port without a serial number is not kept.

        Raises:
            OSError: the file cannot be written.
        """
        if port.key is not None:
            with self._changed() as known:
                known[port.key] = board

    def forget(self, keys: Collection[str | None]) -> None:
        """Forget the boards with these keys: they may be others by now.

        Raises:
            OSError: the file cannot be written.
        """
        if not self.known().keys().isdisjoint(keys):
            with self._changed() as known:
                for key in known.keys() & set(keys):
                    del known[key]

    @contextmanager
    def _changed(self) -> Iterator[dict[str, KnownBoard]]:
        """Boards to be changed in the block; they are written at its end."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
            known = self.known()
            yield known
            entries = {key: _plain(one) for key, one in known.items()}
            write_whole(self._path, json.dumps(entries, indent=1, sort_keys=True) + "\n")


def _plain(board: KnownBoard) -> dict[str, str | int | None]:
    return {name: getattr(board, name) for name in KnownBoard.__slots__}


OpenLine = Callable[[str, int], BoardTransport]


def find_boards(
    memory: KnownBoards,
    *,
    ask: bool,
    ports: Iterable[SerialPortInfo] | None = None,
    opener: OpenLine = open_line,
    timing: BoardTiming = PROBE_TIMING,
) -> list[FoundBoard]:
    """Ports that may have a board, with the boards that are known to be there.

    Args:
        memory: Boards that were there before.
        ask: Whether to open the candidates, and ask for their name; a known one may have other
            firmware by now. It is forgotten if nothing answers, and no sooner: an agent serves it.
        ports: Ports of this machine; None: as the system lists them.
        opener: Opens a port at a speed.
        timing: How long to wait for an answer.
    """
    known = memory.known()
    boards: list[FoundBoard] = []
    for port in list_serial_ports() if ports is None else ports:
        if port.hint is None:
            continue
        board, trouble = known.get(port.key) if port.key else None, None
        if ask:
            try:
                board = ask_board(port, opener=opener, timing=timing)
            except BoardSilent as exc:
                board, trouble = None, str(exc)
            except EdgebenchError as exc:
                trouble = str(exc)
            with suppress(OSError):  # it is asked again the next time
                if board is None:
                    memory.forget([port.key])
                elif trouble is None:
                    memory.remember(port, board)
        boards.append(FoundBoard(port=port, board=board, trouble=trouble))
    return boards


def ask_board(
    port: SerialPortInfo, *, opener: OpenLine = open_line, timing: BoardTiming = PROBE_TIMING
) -> KnownBoard:
    """What the board at a port says that it is; many boards restart when they are asked.

    Raises:
        NotPermitted: the user may not use the port.
        BoardSilent: nothing there answers to `name`.
        TargetError: the port cannot be opened, or what comes makes no sense.
    """
    speeds = port.hint.baud_rates if port.hint else DEFAULT_BAUD_RATES
    board = Board(opener(port.path, speeds[0]), timing=timing)
    try:
        return known_board(board.connect(speeds))
    finally:
        board.close()


def known_board(facts: BoardFacts) -> KnownBoard:
    """What is worth remembering of a board."""
    info = facts.firmware
    is_on_demand = not facts.dialect.endswith(STREAMING)  # else it listens, with its own model
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
