"""The daemon: an agent's life from start to stop, and its two doors."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TextIO

from websockets.asyncio.server import ServerConnection, serve, unix_serve

from edgebench.agent.agent import Agent, Settings
from edgebench.agent.files import disk_errors, make_private_directory
from edgebench.agent.server import (
    LocalConnection,
    PinnedConnection,
    Session,
    connection_class,
)
from edgebench.protocol.codec import MAX_FRAME_BYTES
from edgebench.protocol.errors import AgentRunning, TargetError, UsageError
from edgebench.protocol.paths import CONTROL_SOCKET

MAX_SOCKET_PATH = 107
"""sun_path without its NUL. Source: unix(7)."""
MAX_PID_DIGITS = 10
IDLE_CHECK_S = 0.5
HANDSHAKE_TIMEOUT_S = 5.0
"""Who says nothing gives its place to somebody who does."""

_WEBSOCKET_OPTIONS: dict[str, Any] = {
    "compression": None,  # models do not compress, and a bomb must not expand
    "max_size": MAX_FRAME_BYTES,
    "max_queue": 4,
    "open_timeout": 10.0,
    "ping_interval": 20.0,
    "ping_timeout": 20.0,
    "close_timeout": 2.0,
    "server_header": None,
}

logger = logging.getLogger(__name__)


def run_daemon(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, or until idle for long enough.

    Raises:
        AgentRunning: another agent has this state directory.
        TargetError: the port is taken.
    """
    with disk_errors("agent not started", settings.state):
        make_private_directory(settings.state)
    with _only_one(settings.state):
        asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    agent = Agent(settings)
    for run_id in agent.spool.sweep():
        logger.warning("run %s was cut off by the end of an earlier agent; removed", run_id)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as doors:
        connections = _Connections(agent)
        await doors.enter_async_context(_local_door(settings, connections))
        if settings.listen:
            await doors.enter_async_context(_tls_door(settings, agent, connections))
        if agent.simulated:
            living = asyncio.create_task(agent.simulated.live())
            doors.callback(living.cancel)
        print(f"ready {agent.device.name} port {agent.port or '-'}", flush=True)
        await _until_done(settings, agent, connections, stop)
        if agent.runner.current:
            await agent.runner.current.worker.stop()
            await agent.runner.wait()


class _Connections:
    """Counts the open connections."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.count = 0

    async def serve(self, connection: ServerConnection) -> None:
        """Handle one connection."""
        assert isinstance(connection, (PinnedConnection, LocalConnection))
        self.count += 1
        try:
            await Session(self._agent, connection).serve()
        finally:
            self.count -= 1


@asynccontextmanager
async def _local_door(settings: Settings, connections: _Connections) -> AsyncIterator[None]:
    path = settings.state / CONTROL_SOCKET
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise UsageError(f"path of the agent's socket is over {MAX_SOCKET_PATH} bytes: {path}")
    path.unlink(missing_ok=True)
    mask = os.umask(0o177)  # the socket must never be open to others, not even for a moment
    try:
        server = unix_serve(
            connections.serve, str(path), create_connection=LocalConnection, **_WEBSOCKET_OPTIONS
        )
        await server.__aenter__()
    finally:
        os.umask(mask)
    try:
        yield
    finally:
        await server.__aexit__(None, None, None)
        path.unlink(missing_ok=True)


@asynccontextmanager
async def _tls_door(
    settings: Settings, agent: Agent, connections: _Connections
) -> AsyncIterator[None]:
    assert settings.listen is not None
    host, port = settings.listen
    trust = agent.require_trust()
    try:
        server = await serve(
            connections.serve,
            host,
            port,
            ssl=trust.context,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            create_connection=connection_class(trust),
            **_WEBSOCKET_OPTIONS,
        )
    except OSError as exc:
        raise TargetError(f"cannot listen on {host or '*'}:{port}: {exc.strerror}") from exc
    agent.port = next(iter(server.sockets)).getsockname()[1]
    announce = asyncio.ensure_future(_advertise(settings, agent))
    try:
        yield
    finally:
        announce.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await announce
        server.close()
        await server.wait_closed()


async def _advertise(settings: Settings, agent: Agent) -> None:
    if not settings.is_advertised or agent.port is None:
        return
    # Imported when the doors are open: it takes a tenth of the start, and 4 MB of memory.
    from edgebench.agent.advertise import advertise

    pin = agent.require_trust().fingerprint
    properties = {
        "id": agent.device.id,
        "name": agent.device.name,
        "arch": agent.device.arch,
        "pin": pin,
        "software": agent.software,
    }
    await advertise(agent.addresses, agent.port, pin, properties)


async def _until_done(
    settings: Settings, agent: Agent, connections: _Connections, stop: asyncio.Event
) -> None:
    if settings.idle_exit_s is None:
        await stop.wait()
        return
    idle_since_s = time.monotonic()
    while not stop.is_set() and time.monotonic() - idle_since_s < settings.idle_exit_s:
        if connections.count or agent.runner.current:
            idle_since_s = time.monotonic()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stop.wait(), IDLE_CHECK_S)


@contextlib.contextmanager
def _only_one(state: Path) -> Any:
    with (state / "agent.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            what = f"another agent is running with the state in {state}"
            raise AgentRunning(what, _holder(file)) from exc
        _sign(file)
        yield


def _sign(file: TextIO) -> None:
    """Say who holds the lock, for whoever comes second."""
    with contextlib.suppress(OSError):  # a full disk: then nobody says it
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()


def _holder(file: TextIO) -> int | None:
    file.seek(0)
    text = file.read(MAX_PID_DIGITS).strip()
    return int(text) if text.isascii() and text.isdecimal() else None
