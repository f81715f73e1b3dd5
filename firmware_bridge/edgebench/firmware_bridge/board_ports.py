"""Boards at the ports of this machine, tracked as they are connected and disconnected.

Theory of operation. Every poll lists the ports, and reports the boards on them. Most boards are
known: after the first probe, a board with a USB serial number is stored in a file. A stored board
is probed again only after `edgebench bridge flash` has written firmware onto it, because this
command removes the board from the file. A new port is probed by a separate thread, because a port
without a board takes seconds to time out. A port without a stored board is opened as follows:

    named by the user           always, and repeatedly until a board replies
    USB id listed in `usb_ids`  only if probes are allowed: once each time the port is plugged in;
                                again if it could not be opened, or its board was removed from the
                                file
    any other                   never; `edgebench bridge list --confirm` probes such ports, and
                                stores the boards that it finds in the file

A port that another program has open is not opened, because this would interfere with the program.
So the board of a run in progress is not probed either.
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
    list_serial_ports,
    probe_board,
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
"""Time in seconds after which a board that is off the USB bus counts as disconnected. Before this
time, the board may be restarting."""
PROBE_AGAIN_S = 10.0
"""Interval, in seconds, between the probes of a port that the user has named, or that could not be
opened."""
FIRST_LOOK_S = 8.0
"""Maximum time, in seconds, that the first poll waits for boards at named ports. A board may spend
2 s in a bootloader."""
_OPENED = (BoardSilent, LineDamaged, BoardRefusal, BoardRestarted)
"""Errors of a probe that could open the port, but found no usable board on it."""
_NAMED = re.compile(r"(?:([A-Za-z0-9][A-Za-z0-9._-]{0,47})=)?(.+)", re.DOTALL)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortToProbe:
    """A port that may have a board, with the settings that the user gave for it."""

    port: SerialPortInfo
    identity: str
    name: str = ""
    """Name that the user gives to the board; if empty, the name that the board reports is used."""
    sound: str = ""
    """Sound file that the interface board in front of the board plays; empty for none."""
    is_named: bool = False
    """Whether the user has named this port, so that it is always probed."""

    @property
    def key(self) -> tuple[str, str]:
        """Key of the port; it stays constant while the same device is plugged into the port."""
        return _place(self.port.path), self.identity


class PortProbe:
    """A probe for a board at a port, in a separate thread."""

    def __init__(
        self,
        probe: Callable[[SerialPortInfo], KnownBoard],
        port: SerialPortInfo,
        clock: Callable[[], float],
    ) -> None:
        self._probe = probe
        self._port = port
        self._clock = clock
        self.board: KnownBoard | None = None
        self.error: EdgebenchError | None = None
        self.ended_s: float | None = None
        """Time when the probe ended, with or without a reply; None if it has not ended."""
        # A daemon thread, so that an agent that ends does not wait for a silent port.
        self.thread = threading.Thread(target=self._run, name="board", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            if users := users_of(self._port.path):
                raise TargetError(f"{self._port.path} is in use by {', '.join(users)}")
            self.board = self._probe(self._port)
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
        is_probing: bool,
        list_ports: Callable[[], Iterable[SerialPortInfo]] = list_serial_ports,
        probe: Callable[[SerialPortInfo], KnownBoard] = probe_board,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the settings; no port is opened before the first poll.

        Args:
            named: Addresses, in the form that `TargetDriver.ports` accepts.
            memory: File of the known boards.
            is_probing: Whether to probe ports that are not named but have a USB id in `usb_ids`.
            list_ports: Function that lists the ports of this machine.
            probe: Function that probes the board at a port.
            clock: Monotonic clock, seconds.

        Raises:
            UsageError: an address is invalid, or an address or a name is given twice.
        """
        self._named = [_split(text) for text in named]
        places = [_place(one.address) for one in self._named]
        if twice := [place for place in places if places.count(place) > 1]:
            raise UsageError(f"board named twice: {twice[0]}")
        names = [one.name for one in self._named if one.name]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UsageError(f"two boards are named {twice[0]!r}")
        self._memory = KnownBoards(memory)
        self._is_probing = is_probing
        self._list_ports = list_ports
        self._probe = probe
        self._clock = clock
        self._probes: dict[tuple[str, str], PortProbe] = {}
        self._seen: dict[str, tuple[float, TargetDescription]] = {}
        """Maps each board's identity to the time when it was last present, and to its description
        at that time."""
        self._is_first = True

    def look(self) -> list[TargetSighting]:
        """List the ports, start probes that are due, and return the boards that are present now."""
        known = self._memory.known()
        candidates = self._candidates(known)
        keys = {candidate.key for candidate in candidates}
        self._probes = {key: probe for key, probe in self._probes.items() if key in keys}
        if self._is_first:
            self._is_first = False
            for one in self._named:
                if "://" not in one.address and not os.path.exists(one.address):
                    logger.warning("serial port does not exist yet: %s", one.address)
            self._wait_for_named(candidates, known)
        sightings = [self._sighting(candidate, known) for candidate in candidates]
        return self._with_those_away([sighting for sighting in sightings if sighting is not None])

    def _candidates(self, known: dict[str, KnownBoard]) -> list[PortToProbe]:
        ports = self._memory.keyed(self._list_ports())
        listed = {os.path.realpath(port.path): port for port in ports}
        candidates: list[PortToProbe] = []
        places = set[str]()
        for named in self._named:
            name, address = named.name, named.address
            if _place(address) in places:
                continue  # a link that was created after the agent's start leads to a named port
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
            if port.hint is not None or port.key in known:
                identity = port.key or f"board:{port.path}"
                candidates.append(PortToProbe(port=port, identity=identity))
        return candidates

    def _wait_for_named(self, candidates: list[PortToProbe], known: dict[str, KnownBoard]) -> None:
        deadline_s = self._clock() + FIRST_LOOK_S
        for candidate in candidates:
            self._sighting(candidate, known)  # starts all probes at the same time
        for candidate in candidates:
            if candidate.is_named and (probe := self._probes.get(candidate.key)):
                probe.thread.join(max(0.0, deadline_s - self._clock()))

    def _sighting(
        self, candidate: PortToProbe, known: dict[str, KnownBoard]
    ) -> TargetSighting | None:
        """The board at a port; None if no board is known there yet, or probes are not allowed."""
        port = candidate.port
        if port.key in known:
            self._probes.pop(candidate.key, None)  # probes again if the board leaves the file
            if known[port.key].place != port.place:
                with suppress(OSError):  # or a device with the same serial number gets the key
                    self._memory.remember(port, known[port.key])
            return TargetSighting(_target(candidate, known[port.key]))
        if not candidate.is_named:
            if not self._is_probing:
                return None
            if port.key is None:
                return _trouble(
                    candidate,
                    TargetError(
                        f"{port.path} has no USB serial number, which is needed to identify a "
                        f"board; if a board is connected to it: --board {port.path}"
                    ),
                )
        probe = self._probes.get(candidate.key)
        if probe is None or self._is_due(probe, candidate):
            probe = self._probes[candidate.key] = PortProbe(self._probe, port, self._clock)
        if probe.ended_s is None:
            return None
        if probe.error is not None:
            return _trouble(candidate, probe.error)
        board = probe.board
        if board is None:  # stored under another key, below; or a bug ended the thread
            return None
        if port.key is not None:
            with suppress(OSError):  # the next poll tries again
                key = self._memory.remember(port, board)
                if key != port.key:  # the board has an entry of an earlier version, without a place
                    probe.board = None  # the next poll finds the board under the key of that entry
                    return None
                del self._probes[candidate.key]
                known[port.key] = board  # the first poll calls this method twice
        return TargetSighting(_target(candidate, board))

    def _is_due(self, probe: PortProbe, candidate: PortToProbe) -> bool:
        """Whether the next probe is due at a port where the last probe found no board."""
        if probe.ended_s is None or probe.error is None:
            return False
        # The port was opened, which restarts many boards: probe only when it is plugged in again.
        if isinstance(probe.error, _OPENED) and not candidate.is_named:
            return False
        return self._clock() - probe.ended_s >= PROBE_AGAIN_S

    def _with_those_away(self, sightings: list[TargetSighting]) -> list[TargetSighting]:
        """Add boards that were present less than `AWAY_S` ago; omit a board that has changed.

        If the address, the name or another fact of a board changes, the board is missing from the
        result of a single poll.
        """
        now_s = self._clock()
        usable = {
            sighting.target.identity: sighting.target
            for sighting in sightings
            if sighting.error is None
        }
        addresses = {target.address for target in usable.values()}
        before, self._seen = self._seen, {}
        moved: set[str] = set()
        for identity, target in usable.items():
            if identity in before and before[identity][1] != target:
                moved.add(identity)
            else:
                self._seen[identity] = now_s, target
        identities = {sighting.target.identity for sighting in sightings}
        kept = [sighting for sighting in sightings if sighting.target.identity not in moved]
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
    """A board that the user specifies with the option `--board`."""

    name: str
    """Name that the user gives to the board; if empty, the name that it reports is used."""
    address: str
    sound: str
    """Sound file that the interface board in front of the board plays; empty for none."""


def _split(text: str) -> NamedBoard:
    """Parse `ADDRESS` or `NAME=ADDRESS`, each with an optional `,play=FILE`.

    >>> tuple(_split("pico=/dev/ttyACM0")), tuple(_split("socket://10.0.0.7:5000,play=long.wav"))
    (('pico', '/dev/ttyACM0', ''), ('', 'socket://10.0.0.7:5000', 'long.wav'))

    Raises:
        UsageError: the text has another form, or the name, file or address is invalid.
    """
    match = _NAMED.fullmatch(text)
    if match is None:
        raise UsageError(f"--board takes ADDRESS or NAME=ADDRESS, got {text!r}")
    if not match[1] and "=" in (wrong := match[2].partition("/")[0]) and "," not in wrong:
        raise UsageError(
            "a board name must be up to 48 letters, digits, dots, hyphens and underscores, got "
            f"{wrong.partition('=')[0]!r}"
        )
    address, sound = split_sound(match[2])
    if address != match[2]:
        try:
            check_command(sound, COMMAND_MAX_CHARS - len("play "))
        except LocalProtocolError as exc:
            raise UsageError(
                "--board ADDRESS,play=FILE takes a file name of up to "
                f"{COMMAND_MAX_CHARS - len('play ')} plain characters, got {sound[:100]!r}"
            ) from exc
    check_address(address)
    address = address if "://" in address else os.path.abspath(address)
    return NamedBoard(match[1] or "", address, sound)


def _place(address: str) -> str:
    """Resolve the symbolic links of a device path; a URL is returned unchanged."""
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
        reported_name=board.name,
    )


def _trouble(candidate: PortToProbe, error: EdgebenchError) -> TargetSighting:
    path = candidate.port.path
    name = candidate.name or path
    return TargetSighting(
        TargetDescription(path, name, candidate.identity, arch="unknown", soc="unknown"), error
    )
