"""The daemon, which runs an agent from start to stop and listens on a unix socket and on TLS."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from websockets.asyncio.server import Server, ServerConnection, serve, unix_serve

from edgebench.agent.admission import Admission
from edgebench.agent.agent import Agent, AgentSettings
from edgebench.agent.files import disk_errors, make_private_directory
from edgebench.agent.listener import bind_listener
from edgebench.agent.log import log_to_file
from edgebench.agent.server import (
    ConnectionHandler,
    Connections,
    CountedConnection,
    LocalConnection,
    PinnedConnection,
)
from edgebench.protocol.codec import MAX_FRAME_BYTES
from edgebench.protocol.errors import AgentRunning, PortTaken
from edgebench.protocol.hardware import BoardChange
from edgebench.system.control_address import ControlAddress
from edgebench.system.terminal import echo

MAX_PID_DIGITS = 10
IDLE_CHECK_S = 0.5
ACCEPT_TURNS = 3
"""Number of iterations of the event loop after which a connection that was waiting to be accepted
is counted. In the first iteration, the socket is accepted. In the second iteration, the object of
the connection is created. The third iteration is needed because the agent's callbacks run first.
Source: asyncio, `BaseSelectorEventLoop._accept_connection`."""
HANDSHAKE_TIMEOUT_S = 30.0
"""Maximum time for the TLS handshake; a board that swaps memory to disk, or measures on its only
core, takes seconds."""

_WEBSOCKET_OPTIONS: dict[str, Any] = {
    "compression": None,  # models hardly compress, and a decompression bomb must not expand
    "max_size": MAX_FRAME_BYTES,
    "max_queue": 4,
    "open_timeout": 10.0,
    "ping_interval": 20.0,
    "ping_timeout": 20.0,
    "close_timeout": 2.0,
    "server_header": None,
}
END_TIMEOUT_S = 10.0
"""Maximum time for connections to close when the agent ends."""

logger = logging.getLogger(__name__)


def run_daemon(settings: AgentSettings) -> None:
    """Serve until SIGTERM or SIGINT, or until the agent has been idle for `idle_exit_s`.

    Raises:
        AgentRunning: another agent uses this state directory.
        PortTaken: the address or port cannot be bound.
    """
    with disk_errors("agent not started", settings.state):
        make_private_directory(settings.state)
    with only_one(settings.state):
        if settings.log is not None:  # only now: a failed start is reported to the user
            with disk_errors("log not written", settings.log):
                log_to_file(settings.log)
        run_until_ended(_serve(settings))


def run_until_ended(serving: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine like `asyncio.run`, but wait at most END_TIMEOUT_S for other tasks to end.

    `asyncio.run` waits forever for a task that continues after its cancellation. The package
    websockets leaves such a task behind for a connection that is closing.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(serving)
    finally:
        loop.run_until_complete(_cancel_tasks())
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()


async def _cancel_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=END_TIMEOUT_S)
        for task in left:
            logger.warning("task %s continues after its cancellation", task.get_name())


async def _serve(settings: AgentSettings, clock: Callable[[], float] = time.monotonic) -> None:
    agent = Agent(settings)
    # Every path is absolute by now. The agent must not keep its start directory in use, which may
    # be on a removable drive.
    os.chdir("/")
    for seat in agent.seats.values():
        for run_id in seat.spool.sweep():
            logger.warning("removed run %s, interrupted when an earlier agent ended", run_id)
    if os.geteuid() == 0:
        logger.info("runs as root: governors can be set; models run without root's capabilities")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if settings.idle_exit_s is not None:
        agent.claims.leave = stop.set
    connections = Connections(clock)

    async def converse(connection: ServerConnection) -> None:
        assert isinstance(connection, CountedConnection)
        with connections.conversation():
            await ConnectionHandler(agent, connection).serve()

    options = _WEBSOCKET_OPTIONS | {"handler": converse}
    async with contextlib.AsyncExitStack() as listeners:
        local = ControlAddress(settings.state)
        await listeners.enter_async_context(_local_listener(local, connections, options))
        if settings.listen:
            await listeners.enter_async_context(
                _tls_listener(settings, agent, connections, options)
            )
        if agent.hotplug is not None:
            await agent.hotplug.look()
        following = asyncio.create_task(agent.hotplug.follow()) if agent.hotplug else None
        change = _change_text(agent.trust.change) if agent.trust and agent.trust.change else None
        if change is not None:
            logger.warning("%s", change)
        print(f"ready {agent.first.device.name} port {agent.port or '-'}", flush=True)
        if change is not None:
            print(change, flush=True)
        if settings.listen and sys.stderr.isatty():
            echo("next: pair a host, from another terminal: edgebench-agent pair")
        await _until_done(settings, agent, connections, local, stop)
        if agent.hotplug is not None and following is not None:
            await agent.hotplug.end(following)
        await asyncio.gather(*(seat.end() for seat in agent.seats.values()))


def _change_text(change: BoardChange) -> str:
    """Message that the identity was renewed because the board has changed."""
    return (
        f"new identity: the old identity was created on another board ({_CHANGES[change]}); hosts "
        "have to pair again: edgebench-agent pair"
    )


_CHANGES = {
    BoardChange.SERIAL: "the serial number differs",
    BoardChange.NETWORK_CARDS: "none of its network cards is present",
}


@asynccontextmanager
async def _local_listener(
    address: ControlAddress, connections: Connections, options: dict[str, Any]
) -> AsyncIterator[None]:
    with contextlib.ExitStack() as bound:
        with disk_errors("agent not started", address.state):
            listener = bound.enter_context(address.listening())
        server = await unix_serve(
            sock=listener, create_connection=partial(LocalConnection, connections), **options
        )
        try:
            yield
        finally:
            server.close()
            await _wait_closed(server)


async def _wait_closed(server: Server) -> None:
    """Wait at most END_TIMEOUT_S until all connections are closed.

    A connection whose setup has failed may never be closed; it ends with the process.
    """
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(server.wait_closed(), END_TIMEOUT_S)


@asynccontextmanager
async def _tls_listener(
    settings: AgentSettings, agent: Agent, connections: Connections, options: dict[str, Any]
) -> AsyncIterator[None]:
    assert settings.listen is not None
    host, port = settings.listen
    trust = agent.require_trust()
    admission = Admission()
    # `serve` only calls it, although its type requires a class.
    connection: Any = partial(PinnedConnection, trust, admission, connections)
    try:
        listener = bind_listener(host or "", port, admission)
        server = await serve(
            sock=listener,
            ssl=trust.context,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            create_connection=connection,
            process_request=lambda connection, _: cast(
                PinnedConnection, connection
            ).refuse_surplus(),
            **options,
        )
    except OSError as exc:
        raise PortTaken(f"cannot listen on {host or '*'}:{port}: {exc.strerror}") from exc
    agent.port = listener.getsockname()[1]
    gc.freeze()  # the objects that exist by now stay, and need not be scanned again
    announce = asyncio.ensure_future(_advertise(settings, agent))
    try:
        yield
    finally:
        server.close()  # before any await, so that no peer can connect
        announce.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await announce
        await _wait_closed(server)


async def _advertise(settings: AgentSettings, agent: Agent) -> None:
    if not settings.is_advertised or agent.port is None:
        return
    # Imported only when the agent listens: it takes a tenth of the start, and 4 MB of memory.
    from edgebench.agent.advertise import Advertisement, advertise

    pin, device = agent.require_trust().fingerprint, agent.first.device

    def advertisement() -> Advertisement:
        agent.seats_changed.clear()
        properties = {
            "id": device.id,
            "name": device.name,
            "arch": device.arch,
            "pin": pin,
            "software": agent.software,
            "seats": str(sum(seat.is_there for seat in agent.seats.values())),
        }
        return Advertisement(agent.addresses(), properties)

    name = f"{pin[:12]}-{agent.instance[:6]}"
    await advertise(advertisement, agent.port, name, changed=agent.seats_changed)


async def _until_done(
    settings: AgentSettings,
    agent: Agent,
    connections: Connections,
    local: ControlAddress,
    stop: asyncio.Event,
) -> None:
    if (limit_s := settings.idle_exit_s) is None:
        await stop.wait()
        return

    def is_idle() -> bool:
        if agent.is_measuring:
            connections.active()
        return connections.idle_s >= limit_s

    while not (is_idle() and await _shut(local, is_idle)):
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stop.wait(), IDLE_CHECK_S)
        if stop.is_set():
            return


async def _shut(local: ControlAddress, is_idle: Callable[[], bool]) -> bool:
    """Close the control address; if a host has connected by then, reopen it and return False.

    The last check of idleness is made after the address was closed. If the check came first, a host
    that connects between the check and the closing would be dropped. A host that connects later
    finds no agent, and starts a new agent.
    """
    local.shut()
    for _ in range(ACCEPT_TURNS):
        await asyncio.sleep(0)
    if is_idle():
        return True
    local.reopen()
    return False


@contextlib.contextmanager
def only_one(state: Path) -> Iterator[None]:
    """Lock the state directory by a file that contains the id of this process.

    Raises:
        AgentRunning: another agent uses the directory.
    """
    with (state / "agent.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            file.seek(0)
            text = file.read(MAX_PID_DIGITS).strip()
            pid = int(text) if text.isascii() and text.isdecimal() else None
            what = f"another agent is running with the state in {state}"
            raise AgentRunning(what, pid) from exc
        with contextlib.suppress(OSError):  # on a full disk, a second agent finds no pid
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        yield
