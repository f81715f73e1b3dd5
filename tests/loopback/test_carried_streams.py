"""A transport that carries the stream to an agent's port itself, as a tunnel does: here a relay."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from support.agents import Host

from edgebench.host.client import Client
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.transports import pinned
from edgebench.host.transports.async_links import open_pinned
from edgebench.host.transports.base import Announcement, Endpoint, Transport
from edgebench.host.transports.pinned import PinnedTransport, PlainStream, client_context
from edgebench.host.watch import StateChange, watch
from edgebench.protocol.errors import EdgebenchError, Unreachable

ADDRESS = "192.168.7.2:5555"
"""Address outside every network: no URI can contain it."""


def relay(far: socket.socket, agent: socket.socket) -> None:
    """Pass bytes on in both directions, until both have ended."""

    def one_way(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    with far, agent:
        back = threading.Thread(target=one_way, args=(agent, far), daemon=True)
        back.start()
        one_way(far, agent)
        back.join()


class RelayTransport(PinnedTransport):
    """Unix sockets that are relayed to a port of this machine."""

    name = "relay"

    def __init__(self, identity_path: Callable[[], Path]) -> None:
        super().__init__(identity_path)
        self.reason: EdgebenchError | None = None
        self.opened: list[socket.socket] = []

    def dial(self, place: Endpoint) -> PlainStream:
        """Connect by way of two threads."""
        assert place.addresses == (ADDRESS,)
        near, far = socket.socketpair()
        agent = socket.create_connection(("127.0.0.1", place.port), 10.0)
        threading.Thread(target=relay, args=(far, agent), daemon=True).start()
        self.opened.append(near)
        return PlainStream(near, lambda: self.reason)

    def discover(self, timeout_s: float) -> list[Announcement]:
        """Nothing announces itself."""
        return []


@pytest.fixture
def files(paired: Host) -> HostFiles:
    """Files of a host that is paired with the agent."""
    return HostFiles(paired.config)


@pytest.fixture
def device(files: HostFiles) -> KnownDevice:
    """The agent, as it is reached through the relay."""
    [known] = files.devices()
    return KnownDevice("phone", known.id, known.pin, (ADDRESS,), known.port, via="relay")


def ended_port() -> tuple[socket.socket, int]:
    """A server that ends each connection at once."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                server.accept()[0].close()

    threading.Thread(target=serve, daemon=True).start()
    return server, server.getsockname()[1]


def test_agent_is_spoken_to_through_another_carrier(files: HostFiles, device: KnownDevice) -> None:
    """Otherwise a transport would need a TLS of its own, or addresses that fit in a URI."""
    with Client(RelayTransport(files.identity_path).connect(device.endpoint), "relay") as client:
        assert len(client.probe_clock(2)) == 2
    assert device.endpoint.address == f"{ADDRESS} port {device.port}"


def test_device_of_another_carrier_is_watched(
    files: HostFiles, device: KnownDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise `devices --watch` would connect to an address of another transport by TCP."""
    relayed: dict[str, Transport] = {"relay": RelayTransport(files.identity_path)}
    monkeypatch.setattr("edgebench.host.watch.farm.transports", lambda *_: relayed)

    async def first_state() -> str:
        updates = watch([device], files)
        try:
            async for update in updates:
                if isinstance(update, StateChange):
                    return update.device
            raise AssertionError
        finally:
            await updates.aclose()

    assert asyncio.run(asyncio.wait_for(first_state(), 60.0)) == "phone"


def test_carrier_names_the_cause_of_an_early_end(
    files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a rebooted phone would be reported as flooded, after ten seconds of tries."""
    transport = RelayTransport(files.identity_path)
    server, port = ended_port()
    endpoint = Endpoint("phone", "p" * 43, (ADDRESS,), port)
    with server:
        transport.reason = Unreachable("no agent runs on phone")
        with pytest.raises(Unreachable, match=r"^no agent runs on phone$"):
            transport.connect(endpoint)
        assert len(transport.opened) == 1

        async def connect() -> None:
            context = client_context(files.identity_path())
            await open_pinned(endpoint, context, asyncio.Semaphore(1), transport.dial)

        with pytest.raises(Unreachable, match=r"^no agent runs on phone$"):
            asyncio.run(connect())
        monkeypatch.setattr(pinned, "BUSY_S", 0.1)
        transport.reason = None
        with pytest.raises(Unreachable, match="it is overloaded, or is not an agent"):
            transport.connect(endpoint)
    assert all(near.fileno() == -1 for near in transport.opened), "no socket stays open"


def test_stream_for_which_nobody_waits_any_more_is_closed(files: HostFiles) -> None:
    """Otherwise a watch that ends would leave streams open, which keep a phone's agent busy."""
    begun, go_on = threading.Event(), threading.Event()
    near, far = socket.socketpair()

    def dial(_: Endpoint) -> PlainStream:
        begun.set()
        assert go_on.wait(60.0)
        return PlainStream(near)

    async def cancelled() -> None:
        context = client_context(files.identity_path())
        endpoint = Endpoint("phone", "p" * 43, (ADDRESS,), 1)
        opening = asyncio.create_task(open_pinned(endpoint, context, asyncio.Semaphore(1), dial))
        assert await asyncio.to_thread(begun.wait, 60.0)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)

    asyncio.run(cancelled())
    go_on.set()
    with far:
        far.settimeout(60.0)
        assert far.recv(1) == b""
