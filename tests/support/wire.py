"""Peers below the library: plain sockets, TLS with any identity, frames that nobody checked."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as websocket_connect

from edgebench.protocol import messages as m
from edgebench.protocol.codec import MAX_FRAME_BYTES, decode, encode

TIMEOUT_S = 20.0
PAUSE_S = 0.5
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: agent\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
"""What every WebSocket client says first."""


def tls_context(
    identity: Path | None, *, highest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> ssl.SSLContext:
    """A client's TLS settings, with this key and certificate, or with none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = highest
    if identity is not None:
        context.load_cert_chain(identity)
    return context


def answer_to(
    port: int, data: bytes, context: ssl.SSLContext | None, *, source: str = "127.0.0.1"
) -> bytes:
    """Every byte that a server on loopback answers until it closes; over TLS if there is a context.

    A server that answers at all and then waits is not waited for.
    """
    received = b""
    with socket.create_connection(
        ("127.0.0.1", port), timeout=TIMEOUT_S, source_address=(source, 0)
    ) as plain:
        try:
            link = context.wrap_socket(plain) if context else plain
            with link:
                link.sendall(data)
                while not received and (piece := link.recv(65536)):
                    received += piece
        except (ssl.SSLError, ConnectionError):
            return received
    return received


class Conversation:
    """A WebSocket connection with an agent, on which anything can be said."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._exit = ExitStack()
        self._link = self._exit.enter_context(
            websocket_connect(
                f"wss://127.0.0.1:{port}/",
                ssl=context,
                compression=None,
                max_size=MAX_FRAME_BYTES,
                open_timeout=TIMEOUT_S,
                close_timeout=1,
                ping_interval=None,
            )
        )
        self._number = 0
        self.payload = b""
        """Payload of the last message that was received."""

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def send(self, frame: bytes | str) -> None:
        """Send a frame; a connection that is closed already shows when it is read."""
        try:
            self._link.send(frame)
        except ConnectionClosed:
            return

    def receive(self) -> m.Message | None:
        """The next message; None when the agent has closed the connection."""
        try:
            data = self._link.recv(timeout=TIMEOUT_S, decode=False)
        except ConnectionClosed:
            return None
        frame = decode(data)
        self.payload = bytes(frame.payload)
        return frame.message

    def say(self, message: m.Message, payload: bytes = b"") -> None:
        """Send a message as it should be."""
        self._number += 1
        self.send(encode(self._number, message, payload))

    def ask(self, message: m.Message, payload: bytes = b"") -> m.Message | None:
        """Send a message as it should be; what comes next."""
        self.say(message, payload)
        return self.receive()

    def hello(self, name: str = "somebody", session: str = "1") -> m.Message | None:
        """Begin the conversation."""
        return self.ask(m.Hello(m.PROTOCOL_VERSION, "test", name, session))


@contextmanager
def silent_connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    """TCP connections that never say anything."""
    address = ("127.0.0.1", port)
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(address, timeout=TIMEOUT_S))
            for _ in range(count)
        ]


@contextmanager
def reconnecting_silence(port: int, count: int) -> Iterator[Callable[[], int]]:
    """TCP connections that never say anything, and come again a moment after they were closed.

    Yields how many there have been so far.
    """
    over, made = threading.Event(), 0

    def knock() -> None:
        nonlocal made
        links: list[socket.socket] = []
        while not over.wait(PAUSE_S):
            closed = [link for link in links if is_closed_by_peer(link)]
            links = [link for link in links if link not in closed]
            for link in closed:
                link.close()
            while len(links) < count:
                links.append(socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S))
                made += 1
        for link in links:
            link.close()

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        yield lambda: made
    finally:
        over.set()
        thread.join()


def is_closed_by_peer(link: socket.socket) -> bool:
    """Whether the other side has ended this connection."""
    link.setblocking(False)
    try:
        return link.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
