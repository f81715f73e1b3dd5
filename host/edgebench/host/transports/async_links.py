"""Connections to agents in an event loop, for a host that follows many at once.

The handshake, the pin and the errors are those of `tls.py` and `link.py`; what differs is that
nothing waits in a thread, and that a connection takes little memory.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect, unix_connect

from edgebench.host.transports.base import Endpoint
from edgebench.host.transports.link import OPEN_TIMEOUT_S, WEBSOCKET_OPTIONS, opening
from edgebench.host.transports.tls import (
    CONNECT_TIMEOUT_S,
    Failures,
    expecting_answer,
    peer_name,
    places,
    require_pin,
)
from edgebench.protocol.codec import MAX_HEADER_BYTES
from edgebench.protocol.errors import WrongAgent
from edgebench.protocol.paths import CONTROL_SOCKET

QUICK_S = 0.3
"""Time in which a device that is there accepts a connection. One that is off answers nothing, and
must not keep a slot from the others for as long as it is waited for."""
SMALL_PAYLOAD_BYTES = 4096
"""Room for the payload of a notice, beside the longest header."""
TLS_BUFFER_BYTES = 16 * 1024
"""Bytes that are read at a time: those of a TLS record. Source: RFC 8446, section 5.1."""
_OPTIONS: dict[str, Any] = WEBSOCKET_OPTIONS | {
    "max_size": 4 + MAX_HEADER_BYTES + SMALL_PAYLOAD_BYTES,
    "max_queue": 4,
    # Each costs a task: whoever follows an agent notices its silence.
    "ping_interval": None,
}


class PinnedAgentConnection(ClientConnection):
    """A connection that is cut off before a byte of ours is sent, unless its peer is pinned."""

    def __init__(self, endpoint: Endpoint, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._endpoint = endpoint
        self.refusal: WrongAgent | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Check the certificate as soon as the TLS handshake is done."""
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        try:
            require_pin(tls.getpeercert(binary_form=True), self._endpoint)
        except WrongAgent as exc:
            self.refusal = exc
            self.transport.abort()
        _shrink(transport)


async def open_pinned(
    endpoint: Endpoint, context: ssl.SSLContext, slots: asyncio.Semaphore
) -> ClientConnection:
    """A connection to the first address that answers as the pinned agent.

    Args:
        endpoint: Where the agent is.
        context: TLS settings of this host; the same for all connections, as each takes 30 KB.
        slots: Bounds the handshakes at the same time. A slow address gives its slot back.

    Raises:
        Unreachable: no agent answers at any of them.
        NotPaired: another agent answers, or the agent does not know this host.
    """
    failures = Failures(endpoint.name)
    for place in places(endpoint):
        with failures.noted(place):
            plain = _new_socket(place)
            try:
                return await _open_one(place, plain, context, slots)
            except BaseException:  # also cancelled, and nobody else closes a socket of ours then
                plain.close()
                raise
    raise failures.error()


async def _open_one(
    place: Endpoint, plain: socket.socket, context: ssl.SSLContext, slots: asyncio.Semaphore
) -> ClientConnection:
    """Connect and secure in one slot: an agent does not wait for a handshake for long."""
    async with slots:
        connecting = asyncio.create_task(_connect_tcp(place, plain))
        try:
            if (await asyncio.wait([connecting], timeout=QUICK_S))[0]:
                connecting.result()
                return await _secure(place, plain, context)
        except BaseException:  # cancelled as well
            connecting.cancel()
            raise
    await connecting
    async with slots:
        return await _secure(place, plain, context)


async def open_local(state: Path) -> ClientConnection:
    """A connection to this machine's agent, if one is running.

    Raises:
        Unreachable: none is.
    """
    path = str(state / CONTROL_SOCKET)
    with opening("the agent on this machine"):
        return await unix_connect(path, uri="ws://agent/", **_OPTIONS)


def _new_socket(place: Endpoint) -> socket.socket:
    plain = socket.socket(socket.AF_INET6 if ":" in place.addresses[0] else socket.AF_INET)
    plain.setblocking(False)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain


async def _connect_tcp(place: Endpoint, plain: socket.socket) -> None:
    with opening(peer_name(place), CONNECT_TIMEOUT_S), _builtin_timeout():
        loop = asyncio.get_running_loop()
        connecting = loop.sock_connect(plain, (place.addresses[0], place.port))
        try:
            await asyncio.wait_for(connecting, CONNECT_TIMEOUT_S)
        except OSError as exc:
            if exc.errno is None or isinstance(exc, socket.gaierror):
                raise
            # asyncio's own text has the address, not the reason.
            raise OSError(exc.errno, os.strerror(exc.errno)) from exc


async def _secure(
    place: Endpoint, plain: socket.socket, context: ssl.SSLContext
) -> ClientConnection:
    connections: list[PinnedAgentConnection] = []

    def create(*arguments: Any, **options: Any) -> PinnedAgentConnection:
        connections.append(PinnedAgentConnection(place, *arguments, **options))
        return connections[-1]

    peer = peer_name(place)
    with opening(peer), expecting_answer(peer), _builtin_timeout():
        # `connect` only calls it, though its type asks for a class.
        connecting = partial(connect, create_connection=create)  # type: ignore[arg-type]
        try:
            return await connecting(
                f"wss://{place.address}/",
                sock=plain,
                ssl=context,
                ssl_handshake_timeout=OPEN_TIMEOUT_S,
                **_OPTIONS,
            )
        except Exception as exc:  # websockets names its own failure, not our refusal
            if connections and connections[-1].refusal is not None:
                raise connections[-1].refusal from exc
            raise


@contextmanager
def _builtin_timeout() -> Iterator[None]:
    """Before Python 3.11, asyncio has a TimeoutError of its own."""
    try:
        yield
    except asyncio.TimeoutError as exc:
        raise TimeoutError from exc


def _shrink(transport: asyncio.BaseTransport) -> None:
    """Let a TLS connection have a small buffer.

    asyncio gives each one of 256 KiB and writes zeros to all of it, where a batch has half a
    kilobyte: four fifths of what a device took. Where the buffer has another name, nothing changes.
    Source: CPython 3.11 to 3.14, `asyncio.sslproto.SSLProtocol.__init__`.
    """
    tls: Any = getattr(transport, "_ssl_protocol", None)
    if isinstance(getattr(tls, "_ssl_buffer", None), bytearray):
        tls.max_size = TLS_BUFFER_BYTES
        tls._ssl_buffer = bytearray(TLS_BUFFER_BYTES)
        tls._ssl_buffer_view = memoryview(tls._ssl_buffer)
