"""Boards at the ports of this machine, as they come and go.

Theory of operation. Every look lists the ports, and says at which of them there is a board. Most of
that is known: a board with a USB serial number is remembered in a file, and is not asked again
until `edgebench bridge flash` has written onto it, which forgets it. A port that is new is asked by
a thread of its own, as a port with something else behind it takes seconds to be given up. Which
ports are opened at all:

    named by the user           always, and again and again until a board answers
    a USB id with a hint        once for each time that it is plugged in, if asking is allowed;
                                again if it could not be opened, or its board was forgotten
    any other                   never

A port that another program has open is not touched: opening it a second time would talk into what
that program does. That is also how a board in a run is left alone.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from edgebench.firmware_bridge.detection import (
    KnownBoard,
    KnownBoards,
    SerialPortInfo,
    ask_board,
    list_serial_ports,
)
from edgebench.firmware_bridge.dialects.lines import COMMAND_MAX_CHARS, check_command
from edgebench.firmware_bridge.port_users import users_of
from edgebench.firmware_bridge.transports.serial_port import check_address, split_sound
from edgebench.protocol.errors import (
    BoardRefusal,
    BoardRestarted,
    BoardSilent,
    EdgebenchError,
    LineDamaged,
    LocalProtocolError,
    TargetError,
    UsageError,
)
from edgebench.protocol.target import TargetDescription, TargetSighting

logger = logging.getLogger(__name__)

AWAY_S = 3.0
"""A board that restarts may be off the bus for so long, and has not left."""
ASK_AGAIN_S = 10.0
"""Time after which a port is asked again that could not be opened, or was named by the user."""
FIRST_LOOK_S = 8.0
"""Longest wait of the first look for the named boards; a bootloader takes the first two seconds."""
_OPENED = (BoardSilent, LineDamaged, BoardRefusal, BoardRestarted)
"""Errors of ports that have something behind them, which is no board that can be used."""
_NAMED = re.compile(r"(?:([A-Za-z0-9][A-Za-z0-9._-]{0,47})=)?(.+)", re.DOTALL)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortToProbe:
    """Port that may have a board."""

    port: SerialPortInfo
    identity: str
    name: str = ""
    """Name that the user gives to the board; empty: it has its own."""
    sound: str = ""
    """File that an interface board there plays; empty: none."""
    is_named: bool = False
    """Whether the user says that there is one."""

    @property
    def key(self) -> tuple[str, str]:
        """Stays the same while the same device is plugged into the same port."""
        return _place(self.port.path), self.identity


class PortProbe:
    """A port that is asked what is there, by a thread."""

    def __init__(
        self,
        ask: Callable[[SerialPortInfo], KnownBoard],
        port: SerialPortInfo,
        clock: Callable[[], float],
    ) -> None:
        self._ask = ask
        self._port = port
        self._clock = clock
        self.board: KnownBoard | None = None
        self.error: EdgebenchError | None = None
        self.ended_s: float | None = None
        """When the answer came, or none; None: it is not there yet."""
        # A daemon: nobody waits for a silent port to end the agent.
        self.thread = threading.Thread(target=self._run, name="board", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            if users := users_of(self._port.path):
                raise TargetError(f"{self._port.path} is in use by {', '.join(users)}")
            self.board = self._ask(self._port)
        except EdgebenchError as exc:
            self.error = exc
        finally:
            self.ended_s = self._clock()


class BoardPorts:
    """The ports of this machine; implements `TargetPorts`."""

    def __init__(
        self,
        named: Sequence[str],
        memory: Path,
        *,
        asks: bool,
        list_ports: Callable[[], Iterable[SerialPortInfo]] = list_serial_ports,
        ask: Callable[[SerialPortInfo], KnownBoard] = ask_board,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Look at nothing yet.

        Args:
            named: As for `TargetDriver.ports`.
            memory: File of the boards that are known.
            asks: Whether to open ports that are not named, if a hint says that they have a board.
            list_ports: Ports of this machine.
            ask: Asks the board at a port what it is.
            clock: Seconds.

        Raises:
            UsageError: an address is none, or an address or a name is there twice.
        """
        self._named = [_split(text) for text in named]
        places = [_place(one.address) for one in self._named]
        if twice := [one for one in places if places.count(one) > 1]:
            raise UsageError(f"board named twice: {twice[0]}")
        names = [one.name for one in self._named if one.name]
        if twice := [one for one in names if names.count(one) > 1]:
            raise UsageError(f"two boards are called {twice[0]!r}")
        self._memory = KnownBoards(memory)
        self._asks = asks
        self._list_ports = list_ports
        self._ask = ask
        self._clock = clock
        self._probes: dict[tuple[str, str], PortProbe] = {}
        self._seen: dict[str, tuple[float, TargetDescription]] = {}
        """Place of each board that is there, or was a moment ago, by identity."""
        self._is_first = True

    def look(self) -> list[TargetSighting]:
        """The boards that are there now."""
        candidates, known = self._candidates(), self._memory.known()
        keys = {one.key for one in candidates}
        self._probes = {key: one for key, one in self._probes.items() if key in keys}
        if self._is_first:
            self._is_first = False
            for one in self._named:
                if "://" not in one.address and not os.path.exists(one.address):
                    logger.warning("no such serial port yet: %s", one.address)
            self._wait_for_named(candidates, known)
        sightings = [self._sighting(one, known) for one in candidates]
        return self._with_those_away([one for one in sightings if one is not None])

    def _candidates(self) -> list[PortToProbe]:
        listed = {os.path.realpath(port.path): port for port in self._list_ports()}
        candidates: list[PortToProbe] = []
        places = set[str]()
        for named in self._named:
            name, address = named.name, named.address
            if _place(address) in places:
                continue  # a link that came after the agent leads to a port that is named, too
            places.add(_place(address))
            port = SerialPortInfo(path=address)
            if "://" not in address:
                if not os.path.exists(address):
                    continue
                port = listed.pop(os.path.realpath(address), port)
            identity = port.key or f"board:{name or address}"
            candidates.append(
                PortToProbe(
                    port=port, identity=identity, name=name, sound=named.sound, is_named=True
                )
            )
        for port in listed.values():
            if port.hint is not None:
                identity = port.key or f"board:{port.path}"
                candidates.append(PortToProbe(port=port, identity=identity))
        return candidates

    def _wait_for_named(self, candidates: list[PortToProbe], known: dict[str, KnownBoard]) -> None:
        deadline_s = self._clock() + FIRST_LOOK_S
        for one in candidates:
            self._sighting(one, known)  # all are asked at the same time
        for one in candidates:
            if one.is_named and (probe := self._probes.get(one.key)):
                probe.thread.join(max(0.0, deadline_s - self._clock()))

    def _sighting(
        self, candidate: PortToProbe, known: dict[str, KnownBoard]
    ) -> TargetSighting | None:
        """The board at a port; None: it is not known yet, or nobody asks."""
        port = candidate.port
        if port.key in known:
            self._probes.pop(candidate.key, None)  # once the board is forgotten, it is asked again
            return TargetSighting(_target(candidate, known[port.key]))
        if not candidate.is_named:
            if not self._asks:
                return None
            if port.key is None:
                return _trouble(
                    candidate,
                    TargetError(
                        f"{port.path} has no USB serial number, so nobody could tell the board "
                        f"from another; if there is one: --board {port.path}"
                    ),
                )
        probe = self._probes.get(candidate.key)
        if probe is None or self._is_due(probe, candidate):
            probe = self._probes[candidate.key] = PortProbe(self._ask, port, self._clock)
        if probe.ended_s is None:
            return None
        if probe.error is not None:
            return _trouble(candidate, probe.error)
        if probe.board is None:  # a bug ended the thread, with a traceback of its own
            return None
        if port.key is not None:
            with suppress(OSError):  # the next look tries again
                self._memory.remember(port, probe.board)
                known[port.key] = probe.board  # the first look comes here twice
                del self._probes[candidate.key]
        return TargetSighting(_target(candidate, probe.board))

    def _is_due(self, probe: PortProbe, candidate: PortToProbe) -> bool:
        """Whether a port that has not become a board is asked again."""
        if probe.ended_s is None or probe.error is None:
            return False
        # It was opened, which restarts boards: next when something is plugged in there anew.
        if isinstance(probe.error, _OPENED) and not candidate.is_named:
            return False
        return self._clock() - probe.ended_s >= ASK_AGAIN_S

    def _with_those_away(self, sightings: list[TargetSighting]) -> list[TargetSighting]:
        """With boards that were there a moment ago; without those at another address than then."""
        now_s = self._clock()
        usable = {one.target.identity: one.target for one in sightings if one.error is None}
        addresses = {target.address for target in usable.values()}
        before, self._seen = self._seen, {}
        moved: set[str] = set()
        for identity, target in usable.items():
            if identity in before and before[identity][1] != target:
                moved.add(identity)
            else:
                self._seen[identity] = now_s, target
        identities = {one.target.identity for one in sightings}
        kept = [one for one in sightings if one.target.identity not in moved]
        for identity, (seen_s, target) in before.items():
            if (
                identity not in identities
                and now_s - seen_s < AWAY_S
                and target.address not in addresses
            ):
                self._seen[identity] = seen_s, target
                kept.append(TargetSighting(target))
        return kept


class NamedBoard(NamedTuple):
    """Board as the user names it."""

    name: str
    """Empty: it has its own."""
    address: str
    sound: str
    """File that an interface board there plays; empty: none."""


def _split(text: str) -> NamedBoard:
    """The board that `ADDRESS`, `NAME=ADDRESS` or either with `,play=FILE` stands for.

    >>> tuple(_split("pico=/dev/ttyACM0")), tuple(_split("socket://10.0.0.7:5000,play=long.wav"))
    (('pico', '/dev/ttyACM0', ''), ('', 'socket://10.0.0.7:5000', 'long.wav'))

    Raises:
        UsageError: it stands for none.
    """
    match = _NAMED.fullmatch(text)
    if match is None:
        raise UsageError(f"--board takes ADDRESS or NAME=ADDRESS, got {text!r}")
    if not match[1] and "=" in (wrong := match[2].partition("/")[0]) and "," not in wrong:
        raise UsageError(
            "a name of a board is up to 48 letters, digits, dots, hyphens and underscores, got "
            f"{wrong.partition('=')[0]!r}"
        )
    address, sound = split_sound(match[2])
    if address != match[2]:
        try:
            check_command(sound, COMMAND_MAX_CHARS - len("play "))
        except LocalProtocolError as exc:
            raise UsageError(
                "--board ADDRESS,play=FILE takes the name of a file of up to "
                f"{COMMAND_MAX_CHARS - len('play ')} plain characters, got {sound[:100]!r}"
            ) from exc
    check_address(address)
    address = address if "://" in address else os.path.abspath(address)
    return NamedBoard(match[1] or "", address, sound)


def _place(address: str) -> str:
    """Where an address leads, whatever links are on the way."""
    return address if "://" in address else os.path.realpath(address)


def _target(candidate: PortToProbe, board: KnownBoard) -> TargetDescription:
    kind = board.board or board.name
    own = _NOT_IN_NAMES.sub("-", kind).strip("-._")[:48]
    return TargetDescription(
        address=candidate.port.path + (f",play={candidate.sound}" if candidate.sound else ""),
        name=candidate.name or own or "board",
        identity=candidate.identity,
        arch=board.cpu or "unknown",
        soc="unknown",
        profile=kind.lower(),
        own_model=None if board.takes_models else board.model_name or "model",
        takes_own_file=board.takes_own_file,
    )


def _trouble(candidate: PortToProbe, error: EdgebenchError) -> TargetSighting:
    path = candidate.port.path
    name = candidate.name or path
    return TargetSighting(
        TargetDescription(path, name, candidate.identity, arch="unknown", soc="unknown"), error
    )
