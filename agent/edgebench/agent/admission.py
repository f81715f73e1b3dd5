"""Decides which connections from unidentified peers get a TLS handshake.

Theory of operation. Any machine on the network may open connections, and a handshake takes 2 ms of
CPU time and 350 KiB of memory. A connection therefore passes three stages, each of which has a
limit:

    SYN filter ──▶ parked ──────────────▶ handshake ──▶ known peer, or refused
    (shedding.py)  until the whole         8 at a time,
    in the kernel  ClientHello is there    networks in turn

*Parked* connections take only a descriptor each. A parked connection may have sent nothing, or the
beginning of a ClientHello. A connection that sends other bytes is closed. At the limit for a
network, a connection of this network is dropped to make room. At the limit for all networks, a
connection of the network with the most parked connections is dropped. The oldest connection without
a whole ClientHello is dropped first. If every ClientHello of the network has arrived, a random
connection of the network is dropped, so that each connection has a chance during a flood. Source:
OpenSSH, sshd_config(5), MaxStartups (random early drop).

*Handshakes* are granted to networks in turn, in this order:

1. a network whose last peer was paired;
2. a network without a handshake so far;
3. the network whose last handshake is the oldest.

A paired host therefore gets the next free handshake, however many connections other peers open.
This does not hold if such peers share the address of the host. A handshake whose peer stays silent
is dropped in favour of a waiting connection. A paired peer is never dropped.
"""

from __future__ import annotations

import contextlib
import gc
import ipaddress
import logging
import random
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edgebench.agent.shedding import ArrivalRates

MAX_PARKED = 128
"""Maximum number of parked connections, at 2 KiB each."""
MAX_PARKED_PER_NETWORK = 24
"""Maximum number of parked connections of a single network. Hosts behind a router share its
address."""
MAX_HANDSHAKES = 8
"""Maximum number of handshakes in progress, at 350 KiB each."""
PATIENCE_S = 1.0
"""Time after which a silent peer's handshake may be dropped for a peer of a different network."""
SAME_PATIENCE_S = 5.0
"""Time after which a silent peer's handshake may be dropped for a peer of the same network. It is
longer than `PATIENCE_S`, because a host may open many connections and may be slow under load."""
COLLECT_EVERY = 16
"""Number of handshakes between two garbage collections. asyncio leaves each failed handshake as a
cycle of references, which an idle agent would never collect."""
REPORT_EVERY_S = 60.0
"""Minimum interval between two warnings in the log."""
MAX_REMEMBERED = 1024
"""Maximum number of networks whose last handshake is remembered."""
_HEADER_BYTES = 5
_HANDSHAKE, _CLIENT_HELLO = 22, 1
"""Type of a TLS record that carries handshake messages, and type of the message ClientHello.
Source: RFC 8446, 4 and 5.1."""
_MAX_RECORD_BYTES = 2**14
"""Source: RFC 8446, 5.1."""
_ESTABLISHED = 1
"""Value of tcpi_state, the first byte of struct tcp_info, for an open connection. Source:
linux/tcp.h, include/net/tcp_states.h."""

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _ParkedConnection:
    connection: socket.socket
    address: Any
    network: str
    is_ready: bool = False
    """Whether the ClientHello of this connection has arrived."""


@dataclass(frozen=True, slots=True)
class _Handshake:
    connection: socket.socket
    network: str
    since_s: float


class Admission:
    """The connections whose peer is not identified yet."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        self._clock = clock
        self._chance = chance or random.Random()
        self.rates = ArrivalRates(clock)
        self._parked: dict[int, _ParkedConnection] = {}
        """Maps each descriptor to its parked connection, in the order of arrival."""
        self._count: Counter[str] = Counter()
        """Maps each network to its number of parked connections."""
        self._ready: dict[str, list[_ParkedConnection]] = {}
        """Maps each network to its parked connections whose ClientHello has arrived."""
        self._handshakes: dict[Any, _Handshake] = {}
        """Maps the address of each peer to its handshake in progress."""
        self._turns: dict[str, int] = {}
        """Maps a network to the number of its last handshake, or to -1 if the peer of that
        handshake was paired."""
        self._granted = 0
        self._dropped = 0
        self._report_after_s = clock()

    def park(self, connection: socket.socket, address: Any) -> None:
        """Park a newly accepted connection; at a limit, drop one that was parked earlier."""
        network = network_of(address)
        self.rates.arrived(network)
        if self._count[network] >= MAX_PARKED_PER_NETWORK:
            self._drop_from(network)
        elif len(self._parked) >= MAX_PARKED:
            self._drop_from(self._count.most_common(1)[0][0])
        self._parked[connection.fileno()] = _ParkedConnection(connection, address, network)
        self._count[network] += 1

    def look(self, descriptor: int) -> None:
        """Check the received bytes of a parked connection; do nothing if it is no longer parked."""
        parked = self._parked.get(descriptor)
        if parked is None or parked.is_ready:
            return
        is_whole = _has_client_hello(parked.connection)
        if is_whole:
            parked.is_ready = True
            self._ready.setdefault(parked.network, []).append(parked)
        elif is_whole is None:
            self._close(parked)

    @property
    def is_waited_for(self) -> bool:
        """Whether a connection waits for its handshake."""
        return bool(self._ready)

    def grant(self) -> tuple[socket.socket, Any] | None:
        """The connection that may start its handshake, and its address; None if all must wait."""
        while self._ready:
            network = min(self._ready, key=lambda network: self._turns.get(network, 0))
            if not self._has_room(network):
                return None
            parked = self._chance.choice(self._ready[network])
            if not _is_established(parked.connection):
                self._close(parked)
                continue
            self._remove(parked)
            self._granted += 1
            if self._granted % COLLECT_EVERY == 0:
                gc.collect()
            self._turns.pop(network, None)
            self._turns[network] = self._granted
            if len(self._turns) > MAX_REMEMBERED:
                del self._turns[next(iter(self._turns))]
            since_s = self._clock()
            self._handshakes[parked.address] = _Handshake(parked.connection, network, since_s)
            return parked.connection, parked.address
        return None

    def leave(self, address: Any, *, is_known: bool) -> None:
        """Record that a handshake is done, and whether its peer is paired."""
        handshake = self._handshakes.pop(address, None)
        if handshake is not None and is_known:
            self._turns.pop(handshake.network, None)
            self._turns[handshake.network] = -1
            self.rates.identified(handshake.network)

    def close(self) -> None:
        """Close the parked connections."""
        for parked in list(self._parked.values()):
            self._close(parked)

    def _has_room(self, network: str) -> bool:
        """Whether a peer in this network may start a handshake.

        To make room, the connection of a silent peer may be closed.
        """
        self._handshakes = {
            at: handshake
            for at, handshake in self._handshakes.items()
            if handshake.connection.fileno() >= 0  # else it failed, and asyncio has closed it
        }
        if len(self._handshakes) < MAX_HANDSHAKES:
            return True
        now_s = self._clock()
        for address, handshake in self._handshakes.items():
            is_same = handshake.network == network
            patience_s = SAME_PATIENCE_S if is_same else PATIENCE_S
            # Received bytes that were not read yet show that this process is slow, not the peer.
            if now_s - handshake.since_s > patience_s and _is_silent(handshake.connection):
                with contextlib.suppress(OSError):  # the peer has disconnected
                    # asyncio's transport notices, and ends as if the peer had disconnected.
                    handshake.connection.shutdown(socket.SHUT_RDWR)
                self._note_drop(address)
                del self._handshakes[address]
                return True
        return False

    def _drop_from(self, network: str) -> None:
        candidates = (parked for parked in self._parked.values() if parked.network == network)
        without_hello = (parked for parked in candidates if not parked.is_ready)
        parked = next(without_hello, None) or self._chance.choice(self._ready[network])
        self._note_drop(parked.address)
        self._close(parked)

    def _close(self, parked: _ParkedConnection) -> None:
        self._remove(parked)
        parked.connection.close()

    def _remove(self, parked: _ParkedConnection) -> None:
        del self._parked[parked.connection.fileno()]
        self._count[parked.network] -= 1
        if not self._count[parked.network]:
            del self._count[parked.network]
        if parked.is_ready:
            self._ready[parked.network].remove(parked)
            if not self._ready[parked.network]:
                del self._ready[parked.network]

    def _note_drop(self, address: Any) -> None:
        self._dropped += 1
        if self._clock() >= self._report_after_s:
            logger.warning(
                "too many unidentified connections; dropped %d, the last from %s",
                self._dropped,
                address[0],
            )
            self._dropped, self._report_after_s = 0, self._clock() + REPORT_EVERY_S


def network_of(address: Any) -> str:
    """The network of a peer: its IPv4 address, or the /64 network of its IPv6 address.

    A peer with IPv6 may use any address in its /64 network.

    >>> network_of(("10.0.0.7", 40000)), network_of(("2001:db8::7%eth0", 40000, 0, 0))
    ('10.0.0.7', '2001:db8::/64')
    """
    text = address[0].partition("%")[0]
    if ":" not in text:
        return str(text)
    return str(ipaddress.IPv6Network((text, 64), strict=False))


def _has_client_hello(connection: socket.socket) -> bool | None:
    """Whether the whole ClientHello has arrived; None if other bytes came or the peer has left."""
    try:
        head = connection.recv(_HEADER_BYTES + 1, socket.MSG_PEEK)
        if not head or head[0] != _HANDSHAKE or head[1:2] not in (b"", b"\x03"):
            return None
        if len(head) <= _HEADER_BYTES:
            return False
        size = int.from_bytes(head[3:5], "big")
        if head[5] != _CLIENT_HELLO or not 0 < size <= _MAX_RECORD_BYTES:
            return None
        needed = _HEADER_BYTES + size
        return len(connection.recv(needed, socket.MSG_PEEK)) == needed
    except BlockingIOError:
        return False
    except OSError:
        return None


def _is_silent(connection: socket.socket) -> bool:
    """Whether the receive buffer of the connection is empty."""
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:  # no bytes, or the peer has disconnected
        return True


def _is_established(connection: socket.socket) -> bool:
    """Whether the connection is open; a ClientHello can be read even after its sender has left."""
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED
    except OSError:
        return False
