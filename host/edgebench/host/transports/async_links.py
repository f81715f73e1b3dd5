"""Connections to agents in an event loop, for a host that watches many agents at once.

The handshake, the check of the pinned certificate and the errors are the same as in `pinned.py` and
`link.py`. Unlike in `pinned.py`, no thread waits for a connection, and a connection takes little
memory. Only the streams of transports other than TCP are opened in threads, because there are few
such streams.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect, unix_connect

from edgebench.host.transports.base import Endpoint
from edgebench.host.transports.link import AGENT_URI, OPEN_TIMEOUT_S, WEBSOCKET_OPTIONS, opening
from edgebench.host.transports.pinned import (
    CONNECT_TIMEOUT_S,
    END_ERRORS,
    Dial,
    Failures,
    PlainStream,
    busy_error,
    expecting_answer,
    peer_name,
    places,
    require_pin,
)
from edgebench.protocol.codec import MAX_HEADER_BYTES
from edgebench.protocol.errors import WrongAgent
from edgebench.system.control_address import ControlAddress

_T = TypeVar("_T")

QUICK_S = 0.3
"""A running device accepts a connection within this time. The number of simultaneous attempts is
limited by slots. After this time, an attempt releases its slot. Otherwise a device that is off
would occupy the slot until the attempt times out."""
SMALL_PAYLOAD_BYTES = 4096
"""Maximum size of a notice's payload, in addition to the longest header."""
TLS_BUFFER_BYTES = 16 * 1024
"""Number of bytes that are read at a time; it is the maximum size of a TLS record. Source: RFC
8446, section 5.1."""
_OPTIONS: dict[str, Any] = WEBSOCKET_OPTIONS | {
    "max_size": 4 + MAX_HEADER_BYTES + SMALL_PAYLOAD_BYTES,
    "max_queue": 4,
    # A ping needs a task per connection; watchers themselves detect that an agent sends nothing.
    "ping_interval": None,
}


class PinnedAgentConnection(ClientConnection):
    """A connection that sends data only after the agent has shown the pinned certificate.

    With any other certificate, the connection is aborted.
    """

    def __init__(self, endpoint: Endpoint, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._endpoint = endpoint
        self.has_certificate = False
        """Whether the agent has shown its certificate."""
        self.refusal: WrongAgent | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Check the certificate as soon as the TLS handshake is complete."""
        super().connection_made(transport)
        self.has_certificate = True
        tls = transport.get_extra_info("ssl_object")
        try:
            require_pin(tls.getpeercert(binary_form=True), self._endpoint)
        except WrongAgent as exc:
            self.refusal = exc
            self.transport.abort()
        _shrink(transport)


async def open_pinned(
    endpoint: Endpoint, context: ssl.SSLContext, slots: asyncio.Semaphore, dial: Dial | None = None
) -> ClientConnection:
    """Connect to the first address at which the pinned agent responds.

    Args:
        endpoint: The agent's addresses and pin.
        context: TLS settings of this host. All connections share the context, because a copy takes
            30 KB.
        slots: Limits the number of simultaneous handshakes. A connection attempt to an address that
            responds slowly does not occupy a slot.
        dial: Opens the plain stream in a thread. If None, TCP is opened in this event loop.

    Raises:
        Unreachable: no agent responds at any address, or the other side ends connections before it
            shows a certificate.
        NotPaired: another agent responds, or the agent is not paired with this host.
    """
    failures = Failures(endpoint.name)
    for place in places(endpoint):
        with failures.noted(place):
            open_stream = (
                partial(_open_tcp, place) if dial is None else partial(_open_in_thread, place, dial)
            )
            return await _open_one(place, open_stream, context, slots)
    raise failures.error()


async def _open_one(
    place: Endpoint,
    open_stream: Callable[[], Coroutine[Any, Any, PlainStream]],
    context: ssl.SSLContext,
    slots: asyncio.Semaphore,
) -> ClientConnection:
    """Connect and do the TLS handshake in the same slot, because agents drop late handshakes."""
    connecting: asyncio.Task[PlainStream] | None = None
    try:
        async with slots:
            connecting = asyncio.create_task(open_stream())
            if (await asyncio.wait([connecting], timeout=QUICK_S))[0]:
                return await _secure(place, connecting.result(), context)
        await connecting
        async with slots:
            return await _secure(place, connecting.result(), context)
    except BaseException:  # cancellation as well: no other code closes the socket then
        if connecting is not None and not connecting.cancel():
            with suppress(BaseException):
                connecting.result().socket.close()
        raise


async def open_local(state: Path) -> ClientConnection:
    """Connect to this machine's agent, if it is running.

    Raises:
        Unreachable: no agent is running.
    """
    with opening("the agent on this machine"):
        connection = ControlAddress(state).connect(0.0)
        return await unix_connect(sock=connection, uri=AGENT_URI, **_OPTIONS)


async def _open_tcp(place: Endpoint) -> PlainStream:
    plain = socket.socket(socket.AF_INET6 if ":" in place.addresses[0] else socket.AF_INET)
    try:
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with opening(peer_name(place), CONNECT_TIMEOUT_S), _builtin_timeout():
            loop = asyncio.get_running_loop()
            connecting = loop.sock_connect(plain, (place.addresses[0], place.port))
            try:
                await asyncio.wait_for(connecting, CONNECT_TIMEOUT_S)
            except OSError as exc:
                if exc.errno is None or isinstance(exc, socket.gaierror):
                    raise
                # asyncio's own text contains the address, not the reason.
                raise OSError(exc.errno, os.strerror(exc.errno)) from exc
        return PlainStream(plain)
    except BaseException:
        plain.close()
        raise


async def _open_in_thread(place: Endpoint, dial: Dial) -> PlainStream:
    """Open the stream in a thread; close it if the caller has stopped waiting."""

    def close(stream: PlainStream) -> None:
        stream.socket.close()

    with opening(peer_name(place), CONNECT_TIMEOUT_S):
        stream = await _in_thread(partial(dial, place), discard=close)
    stream.socket.setblocking(False)
    return stream


async def _in_thread(call: Callable[[], _T], discard: Callable[[_T], None]) -> _T:
    """Run a blocking call in a thread that does not keep the event loop from ending.

    Args:
        call: Function to call.
        discard: Receives the result if the caller has stopped waiting.
    """
    future: Future[_T] = Future()

    def run() -> None:
        try:
            result = call()
        except Exception as exc:
            with suppress(InvalidStateError):
                future.set_exception(exc)
            return
        try:
            future.set_result(result)
        except InvalidStateError:
            discard(result)

    threading.Thread(target=run, daemon=True, name="dial").start()
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        # The result arrived at the same moment; a later result finds the future cancelled.
        if future.done() and not future.cancelled() and future.exception() is None:
            discard(future.result())
        raise


async def _secure(
    place: Endpoint, stream: PlainStream, context: ssl.SSLContext
) -> ClientConnection:
    connections: list[PinnedAgentConnection] = []

    def create(*arguments: Any, **options: Any) -> PinnedAgentConnection:
        connections.append(PinnedAgentConnection(place, *arguments, **options))
        return connections[-1]

    peer = peer_name(place)
    with opening(peer), _builtin_timeout():
        # `connect` only calls `create`, although its type requires a class.
        connecting = partial(connect, create_connection=create)  # type: ignore[arg-type]
        try:
            return await connecting(
                AGENT_URI.replace("ws:", "wss:"),
                sock=stream.socket,
                ssl=context,
                server_hostname="",  # no name is sent: the certificate is compared instead
                ssl_handshake_timeout=OPEN_TIMEOUT_S,
                **_OPTIONS,
            )
        except Exception as exc:
            if not connections or not connections[-1].has_certificate:
                if isinstance(exc, END_ERRORS):
                    reason = await _in_thread(stream.end_reason, discard=lambda _: None)
                    raise (reason or busy_error(peer, attempts=1, passed_s=0.0)) from exc
                raise
            # websockets reports its own failure, not the refusal.
            if (refusal := connections[-1].refusal) is not None:
                raise refusal from exc
            with expecting_answer(peer):
                raise


@contextmanager
def _builtin_timeout() -> Iterator[None]:
    """Translate asyncio's own TimeoutError, which is a separate class before Python 3.11."""
    try:
        yield
    except asyncio.TimeoutError as exc:
        raise TimeoutError from exc


def _shrink(transport: asyncio.BaseTransport) -> None:
    """Give a TLS connection a small buffer.

    asyncio allocates a buffer of 256 KiB per connection and fills the buffer with zeros. A batch of
    samples has only half a kilobyte. The buffer takes four fifths of the memory that is needed to
    watch a device. If the attributes of asyncio have other names, the buffer is not changed.
    Source: CPython 3.11 to 3.14, `asyncio.sslproto.SSLProtocol.__init__`.
    """
    tls: Any = getattr(transport, "_ssl_protocol", None)
    if isinstance(getattr(tls, "_ssl_buffer", None), bytearray):
        tls.max_size = TLS_BUFFER_BYTES
        tls._ssl_buffer = bytearray(TLS_BUFFER_BYTES)
        tls._ssl_buffer_view = memoryview(tls._ssl_buffer)
