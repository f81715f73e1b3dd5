"""Which connections may wait for their TLS handshake, before their peers are known.

Anybody on the network may open a connection and send nothing. The peer is unknown until the TLS
handshake is done, so the number of connections without one is limited. An established connection is
never dropped for another. At the limit, a new connection takes the place of one from the same
network, or else from the network with the most of them: of the oldest that has not sent a
byte, or else of the oldest. A host sends its first bytes at once, so silent connections cannot
displace it. A flood that sends bytes can; the host then tries again.

The kernel hands a connection over before asyncio begins its handshake, so this is done in `accept`
of the listening socket.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import ipaddress
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

MAX_STRANGERS = 32
"""Most connections whose peer is not known yet, at 350 KiB each."""
MAX_STRANGERS_PER_NETWORK = 24
"""Most of them from one network. Hosts behind one router have the address of the router."""
COLLECT_EVERY = 16
"""Connections after which the garbage of failed handshakes is collected. asyncio leaves each as a
cycle, which an idle agent would never collect."""
ACCEPTED_AT_ONCE = 8
"""Connections after which the event loop gets its turn, and ends those that were dropped. asyncio
would accept a hundred first, and take the memory for all of them."""
REPORT_EVERY_S = 60.0
"""Least interval of two warnings in the log."""
_BYTES_RECEIVED = 128
"""Offset of tcpi_bytes_received in struct tcp_info. Source: linux/tcp.h, since Linux 4.1."""

logger = logging.getLogger(__name__)


class Admission:
    """The connections whose peer is not known yet, in the order of their arrival."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[Any, socket.socket] = {}
        """Connections by the address of their peer."""
        self._accepted = 0
        self._dropped = 0
        self._report_after_s = clock()

    def enter(self, connection: socket.socket, address: Any) -> None:
        """Take in a connection that was just accepted; another one may have to go."""
        self._accepted += 1
        if self._accepted % COLLECT_EVERY == 0:
            gc.collect()
        self._waiting = {at: one for at, one in self._waiting.items() if one.fileno() >= 0}
        counts = Counter(map(_network, self._waiting))
        network = _network(address)
        if counts[network] >= MAX_STRANGERS_PER_NETWORK:
            self._drop_from(network)
        elif len(self._waiting) >= MAX_STRANGERS:
            self._drop_from(counts.most_common(1)[0][0])
        self._waiting[address] = connection

    def leave(self, address: Any) -> None:
        """Note that a peer is known now, whoever it is."""
        self._waiting.pop(address, None)

    def _drop_from(self, network: str) -> None:
        here = [at for at in self._waiting if _network(at) == network]
        silent = (at for at in here if _is_silent(self._waiting[at]))
        address = next(silent, here[0])
        with contextlib.suppress(OSError):  # the peer has gone
            # The transport that asyncio made of it notices, and ends as if the peer had gone.
            self._waiting.pop(address).shutdown(socket.SHUT_RDWR)
        self._dropped += 1
        if self._clock() >= self._report_after_s:
            logger.warning(
                "too many unidentified connections; dropped %d, the last one from %s",
                self._dropped,
                address[0],
            )
            self._dropped, self._report_after_s = 0, self._clock() + REPORT_EVERY_S


class Listener(socket.socket):
    """A listening socket whose connections are taken in by an `Admission`."""

    admission: Admission
    _accepted = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Raises:
            BlockingIOError: none is waiting, or it is the event loop's turn.
        """
        if self._accepted == ACCEPTED_AT_ONCE:
            self._accepted = 0
            raise BlockingIOError
        self._accepted += 1
        connection, address = super().accept()
        self.admission.enter(connection, address)
        return connection, address


def bind_listeners(host: str, port: int, admission: Admission) -> list[Listener]:
    """Sockets bound to a port of each address of a host, or of this machine for "".

    Raises:
        OSError: the host is unknown, or the port is taken.
    """
    listeners: list[Listener] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            try:
                one = Listener(family, kind, protocol)
            except OSError:
                continue  # getaddrinfo knows of IPv6, the kernel does not
            listeners.append(one)
            one.admission = admission
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # With port 0, the kernel chooses one for the first address, and the others get it too.
            chosen = listeners[0].getsockname()[1] if len(listeners) > 1 else port
            one.bind((address[0], chosen, *address[2:]))
        if not listeners:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
    except OSError:
        for one in listeners:
            one.close()
        raise
    return listeners


def _network(address: Any) -> str:
    """The address of a peer; of IPv6 its /64, of which anybody has all addresses."""
    text = address[0].partition("%")[0]
    if ":" not in text:
        return str(text)
    return str(ipaddress.IPv6Network((text, 64), strict=False))


def _is_silent(connection: socket.socket) -> bool:
    """Whether the peer has not sent a byte yet; False where the kernel does not tell."""
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED + 8)
    except OSError:
        return True  # closed
    return len(info) == _BYTES_RECEIVED + 8 and not any(info[_BYTES_RECEIVED:])
