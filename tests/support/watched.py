"""Agents in the event loop of a test, behind real TLS, that tell a watcher what a test wants."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.watch import Update, watch
from edgebench.protocol import messages as m
from edgebench.protocol.codec import decode, encode
from edgebench.protocol.identity import new_identity
from edgebench.protocol.live import pack_samples
from support.records import DEVICE

TIMEOUT_S = 150.0
SEAT = "machine"
STATE = m.SeatState(SEAT, DEVICE)
WATCH_NUMBER = 2
"""Number of a watcher's second request."""
Behave = Callable[[ServerConnection], Awaitable[None]]


def batch(count: int = 3) -> bytes:
    """A frame of readings, as an agent sends it."""
    samples = pack_samples([(number, 50.0 + number, 1e9) for number in range(count)])
    return encode(WATCH_NUMBER, m.SeatReadings(SEAT, count, None, 0.5), samples)


async def greet(connection: ServerConnection, protocol: int = m.PROTOCOL_VERSION) -> None:
    """Answer hello and watch as an agent with one seat."""
    for answer in (m.Welcome(protocol, "edgebench-agent 0", DEVICE), m.Seats((STATE,))):
        data = await connection.recv(decode=False)
        await connection.send(encode(decode(data).number, answer))


async def well_behaved(connection: ServerConnection) -> None:
    """A batch every 50 ms."""
    await greet(connection)
    while True:
        await connection.send(batch())
        await asyncio.sleep(0.05)


def saying(*frames: bytes | str) -> Behave:
    """An agent that says these frames after a proper beginning."""

    async def behave(connection: ServerConnection) -> None:
        await greet(connection)
        for frame in frames:
            await connection.send(frame)
        await connection.wait_closed()

    return behave


@asynccontextmanager
async def agent_at_loopback(
    folder: Path, name: str, behave: Behave
) -> AsyncIterator[tuple[KnownDevice, list[bytes]]]:
    """A device with an identity of its own; and the first frame that it got, if it got one."""
    identity = new_identity(name)
    path = folder / f"{name}.pem"
    path.write_text(identity.key_pem + identity.certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    got: list[bytes] = []

    async def serve_one(connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            await behave(connection)

    def note(connection: ServerConnection, request: object) -> None:
        del connection
        got.append(str(request).encode())

    async with serve(
        serve_one, "127.0.0.1", 0, ssl=context, compression=None, close_timeout=0.1,
        process_request=note,
    ) as server:  # fmt: skip
        port = server.sockets[0].getsockname()[1]
        yield KnownDevice(name, name, identity.fingerprint, ("127.0.0.1",), port), got


async def until(
    files: HostFiles,
    devices: list[KnownDevice],
    is_enough: Callable[[list[Update]], bool],
    at_start: Callable[[], None] | None = None,
) -> list[Update]:
    """Updates until there are enough of them."""
    updates: list[Update] = []

    async def collect() -> None:
        async with aclosing(watch(devices, files)) as watching:
            async for update in watching:
                if at_start is not None and not updates:
                    at_start()
                updates.append(update)
                if is_enough(updates):
                    return

    await asyncio.wait_for(collect(), TIMEOUT_S)
    return updates
