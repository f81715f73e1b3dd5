"""Combines the agent's listening sockets into a single object for asyncio; see `Admission`.

asyncio begins a TLS handshake with every connection that `accept` returns. So `accept` returns only
connections that were granted a handshake. The descriptor of a `Listener` is an epoll set. The
descriptor is readable when there is work: a new connection, bytes on a parked connection, or room
for a handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import select
import socket
from typing import Any

from edgebench.agent.admission import Admission
from edgebench.agent.shedding import WINDOW_S, apply_rule

ACCEPTED_AT_ONCE = 64
"""Maximum number of connections that are accepted before control returns to the event loop."""
WAKE_S = 0.1
"""While a connection waits, the listener checks at this interval whether a handshake can start. It
has to check regularly, because asyncio does not report failed handshakes."""
BACKLOG = 128
"""Maximum number of connections that the kernel keeps until they are accepted."""
_PARKED_EVENTS = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET

logger = logging.getLogger(__name__)


class Listener(socket.socket):
    """Several listening sockets, used as a single one; an `Admission` filters their connections."""

    def __init__(self, family: int, admission: Admission) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._admission = admission
        self._others: list[socket.socket] = []
        self._epoll = select.epoll()
        self._room = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._room, select.EPOLLIN)
        self._listening: dict[int, socket.socket] = {}
        self._is_turn_over = False
        self._wake: asyncio.TimerHandle | None = None

    def add(self, other: socket.socket) -> None:
        """Add another bound socket, whose connections are accepted as well."""
        self._others.append(other)

    def fileno(self) -> int:
        """Descriptor of the epoll set; -1 when closed."""
        return -1 if self._epoll.closed else self._epoll.fileno()

    def listen(self, backlog: int = BACKLOG, /) -> None:
        """Open all sockets for connections."""
        super().listen(BACKLOG)
        self._listening[super().fileno()] = self
        for other in self._others:
            other.setblocking(False)
            other.listen(BACKLOG)
            self._listening[other.fileno()] = other
        for descriptor in self._listening:
            self._epoll.register(descriptor, select.EPOLLIN)

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection that gets a handshake.

        Raises:
            BlockingIOError: no connection is granted a handshake now, or the event loop must run.
        """
        if self._is_turn_over:
            self._is_turn_over = False
            raise BlockingIOError
        self._take_in()
        if (granted := self._admission.grant()) is None:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._room)
            if self._admission.is_waited_for:
                self._wake_in(WAKE_S)
            raise BlockingIOError
        self._epoll.unregister(granted[0].fileno())
        self._is_turn_over = True
        os.eventfd_write(self._room, 1)  # there may be room for another
        return granted

    def close(self) -> None:
        """Close all sockets and drop the parked connections."""
        if self._wake is not None:
            self._wake.cancel()
        if not self._epoll.closed:
            self._admission.close()
            self._epoll.close()
            os.close(self._room)
        for other in self._others:
            other.close()
        super().close()

    def _wake_in(self, delay_s: float) -> None:
        """Schedule a call of `accept` after a delay, unless an earlier call is scheduled."""
        loop = asyncio.get_running_loop()
        if self._wake is not None:
            if self._wake.when() <= loop.time() + delay_s:
                return
            self._wake.cancel()
        self._wake = loop.call_later(delay_s, self._on_wake)

    def _on_wake(self) -> None:
        self._wake = None
        os.eventfd_write(self._room, 1)

    def _shed(self) -> None:
        """Update the rule by which the kernel drops connections; if it has changed, apply it."""
        rates, before = self._admission.rates, self._admission.rates.rule
        rates.update()
        if rates.rule != before and not (rates.rule.is_idle and before.is_idle):
            for listening in self._listening.values():
                if not apply_rule(listening, rates.rule):
                    logger.info("this system supports no filter of connections")
        if rates.rule.shed and not before.shed:
            logger.warning(
                "too many connections from %d networks; most of these connections are dropped now",
                len(rates.rule.shed),
            )

    def _take_in(self) -> None:
        """Park new connections, and check the bytes of parked ones."""
        if self._admission.rates.is_due:
            self._shed()
        if not self._admission.rates.rule.is_idle:
            self._wake_in(WINDOW_S)  # the filter must end even without connections
        for descriptor, _ in self._epoll.poll(0):
            if descriptor in self._listening:
                self._park_from(self._listening[descriptor])
            elif descriptor != self._room:
                self._admission.look(descriptor)

    def _park_from(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                descriptor, address = listening._accept()  # type: ignore[attr-defined]
            except (BlockingIOError, ConnectionAbortedError):
                return
            # Passing family, type and protocol saves the three system calls by which Python reads
            # them.
            connection = socket.socket(
                listening.family, socket.SOCK_STREAM, listening.proto, fileno=descriptor
            )
            connection.setblocking(False)
            self._epoll.register(descriptor, _PARKED_EVENTS)
            self._admission.park(connection, address)


def bind_listener(host: str, port: int, admission: Admission) -> Listener:
    """Bind sockets to a port on each address of a host; "" is every address of this machine.

    Raises:
        OSError: the host is unknown, or the port is taken.
    """
    listener: Listener | None = None
    try:
        for family, _, _, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            chosen = port
            try:
                if listener is None:
                    listener = Listener(family, admission)
                    bound: socket.socket = listener
                else:
                    bound = socket.socket(family, socket.SOCK_STREAM)
                    listener.add(bound)
                    # With port 0, the kernel chooses a port, which the other addresses then use.
                    chosen = listener.getsockname()[1]
            except OSError:
                continue  # the C library supports IPv6, the kernel does not
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind((address[0], chosen, *address[2:]))
        if listener is None:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
    except OSError:
        if listener is not None:
            listener.close()
        raise
    return listener
