"""Strangers open connections without end; an agent's host is admitted, or gets the reason.

The long form, with an agent that has hardly any CPU, is tests/system/flood.py.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host
from support.flood import client_hello, flood
from support.wire import Conversation, tls_context

from edgebench.agent.admission import MAX_HANDSHAKES
from edgebench.agent.server import MAX_CONNECTIONS
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.options.command import CommandLine
from edgebench.host.show.hints import hint_for
from edgebench.host.transports import pinned
from edgebench.host.transports.async_links import open_pinned
from edgebench.host.transports.pinned import client_context
from edgebench.host.transports.tls import TlsTransport
from edgebench.protocol import messages as m
from edgebench.protocol.errors import AgentBusy, EdgebenchError, NotPaired, Unreachable
from edgebench.protocol.identity import new_identity

TRIES = 8
ADDRESSES, PER_S = 32, 200.0


def assert_lets_in(host: Host, tries: int) -> None:
    """The host's connections are all served."""
    for _ in range(tries):
        with host.lab.connect("board") as client:
            assert len(client.probe_clock(1)) == 1


def test_floods_from_many_addresses_keep_no_host_out(
    agent: AgentProcess, paired: Host, tmp_path: Path
) -> None:
    """Otherwise one machine of the network could take the device away from its owner."""
    with ExitStack() as stack:
        for content in (b"\x16", client_hello()):
            made = flood(agent.port, tmp_path, addresses=ADDRESSES, per_s=PER_S, content=content)
            stack.enter_context(made)
        assert_lets_in(paired, TRIES)
    assert_lets_in(paired, 1)


def test_flood_from_the_address_of_a_host_leaves_it_a_share(
    agent: AgentProcess, paired: Host
) -> None:
    """Otherwise a single hostile neighbour behind a router could lock out every host there."""
    over = threading.Event()

    def knock() -> None:
        hello, links = client_hello(), list[socket.socket]()
        while not over.wait(0.02):
            link = socket.create_connection(("127.0.0.1", agent.port), timeout=20.0)
            link.sendall(hello)
            links.append(link)
            if len(links) > 4 * MAX_HANDSHAKES:
                links.pop(0).close()
        for link in links:
            link.close()

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        assert_lets_in(paired, 3)
    finally:
        over.set()
        thread.join()


def test_host_beyond_the_limit_reads_that_there_is_no_room(
    agent: AgentProcess, paired: Host
) -> None:
    """Otherwise the host would be reported as unpaired, and be paired again in vain."""
    with ExitStack() as stack:
        context = tls_context(paired.config / "identity.pem")
        for number in range(MAX_CONNECTIONS):
            link = stack.enter_context(Conversation(agent.port, context))
            assert isinstance(link.hello("ada", str(number)), m.Welcome)
        with pytest.raises(AgentBusy, match=r"board \(127.* has no room for another connection"):
            paired.lab.connect("board")
    assert_lets_in(paired, 1)


# How the host interprets the end of a connection.


@contextmanager
def serving(handle: Callable[[socket.socket], None]) -> Iterator[tuple[int, list[int]]]:
    """A loopback server that handles each connection with this and closes it; those so far."""
    seen: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                seen.append(1)
                with link:
                    handle(link)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1], seen
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def end_at_once(link: socket.socket) -> None:
    """Close, with received bytes unread or bytes not yet sent."""


def end_after_reading(link: socket.socket) -> None:
    """Close once the peer's hello has been read."""
    link.recv(65536)


def alert_before_certificate(link: socket.socket) -> None:
    """Refuse every hello, as a server of another protocol would."""
    link.recv(65536)
    link.sendall(b"\x15\x03\x03\0\x02\x02\x28")  # handshake_failure
    link.recv(65536)


@pytest.fixture
def files(tmp_path: Path) -> HostFiles:
    """A host."""
    return HostFiles(tmp_path / "host")


def error_of(files: HostFiles, port: int, pin: str = "p" * 43) -> EdgebenchError:
    """The error with which a connection to an agent at this address ends."""
    device = KnownDevice("board", "05", pin, ("127.0.0.1",), port)
    with pytest.raises(EdgebenchError) as caught:
        TlsTransport(files.identity_path).connect(device.endpoint)
    return caught.value


def async_error_of(files: HostFiles, port: int, pin: str = "p" * 43) -> EdgebenchError:
    """The same for a host that follows many devices."""
    device = KnownDevice("board", "05", pin, ("127.0.0.1",), port)

    async def connect() -> None:
        context = client_context(files.identity_path())
        await open_pinned(device.endpoint, context, asyncio.Semaphore(1))

    with pytest.raises(EdgebenchError) as caught:
        asyncio.run(connect())
    return caught.value


@pytest.mark.parametrize("handle", [end_at_once, end_after_reading])
def test_end_before_the_certificate_is_no_refusal(
    files: HostFiles, monkeypatch: pytest.MonkeyPatch, handle: Callable[[socket.socket], None]
) -> None:
    """Otherwise the owner of a flooded agent would be advised to pair again, in vain."""
    monkeypatch.setattr(pinned, "BUSY_S", 0.5)
    with serving(handle) as (port, seen):
        error = error_of(files, port)
        assert len(seen) > 2, "it is tried again"
        followed = async_error_of(files, port)
    assert type(error) is type(followed) is AgentBusy
    assert "before it sent a certificate: it is overloaded, or is not an agent" in str(error)
    assert "ended a connection before it sent a certificate" in str(followed)
    hint = hint_for(error, CommandLine(command="bench"))
    assert "pair" not in hint
    assert "edgebench devices" in hint


def test_server_of_something_else_is_no_agent_that_refuses(files: HostFiles) -> None:
    """Otherwise a web server at the address would be reported as a lost pairing."""
    with serving(alert_before_certificate) as (port, seen):
        error, followed = error_of(files, port), async_error_of(files, port)
        assert len(seen) == 2
    assert type(error) is type(followed) is Unreachable
    assert "does not speak edgebench" in str(error)
    assert "does not speak edgebench" in str(followed)


def test_agent_that_lets_a_connection_pass_is_reached(agent: AgentProcess, paired: Host) -> None:
    """Otherwise random drops during a flood would be errors of commands."""
    ended = list[str]()

    def relay(link: socket.socket) -> None:
        if len(ended) < 3:
            ended.append("dropped")
            return
        with socket.create_connection(("127.0.0.1", agent.port)) as there:
            _carry(link, there)

    with serving(relay) as (port, _):
        known = paired.devices[0]
        HostFiles(paired.config).revise(known.pin, lambda device: replace(device, port=port))
        assert_lets_in(paired, 1)
    assert ended == 3 * ["dropped"]


def test_refusal_takes_two_ends_after_the_certificate(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise a single slow handshake during a flood would be reported as a lost pairing."""
    identity = new_identity("agent")
    path = tmp_path / "agent.pem"
    path.write_text(identity.key_pem + identity.certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)

    def refuse(link: socket.socket) -> None:
        context.wrap_socket(link, server_side=True).close()

    with serving(refuse) as (port, seen):
        error = error_of(files, port, identity.fingerprint)
        assert len(seen) == 2
        followed = async_error_of(files, port, identity.fingerprint)
    assert type(error) is type(followed) is NotPaired
    assert "does not accept this host's identity" in str(error)


def _carry(one: socket.socket, other: socket.socket) -> None:
    """Pass on the bytes of both sides, until both have ended."""

    def pass_on(source: socket.socket, sink: socket.socket) -> None:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)

    back = threading.Thread(target=pass_on, args=(other, one))
    back.start()
    pass_on(one, other)
    back.join()
