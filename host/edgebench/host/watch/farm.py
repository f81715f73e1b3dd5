"""Watch many devices at once, in a single event loop.

Theory of operation. There is a single connection and a single task per agent, and no thread per
device. The tasks put their updates into a short common queue. If the caller is slow, the queue
fills up, the tasks stop reading, and finally the agents close the connections, so no buffer grows
without limit. A separate task checks once a second for agents that no longer send data; this is
cheaper than a timer per agent.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path

from websockets.asyncio.client import ClientConnection

from edgebench.host.devices.discovery import transport_of
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.transports.async_links import open_local, open_pinned
from edgebench.host.transports.local import LocalTransport
from edgebench.host.transports.pinned import Dial, PinnedTransport, client_context
from edgebench.host.transports.registry import transports
from edgebench.host.transports.tls import TlsTransport
from edgebench.host.watch.follow import AgentWatch, Open
from edgebench.host.watch.update import Update
from edgebench.system.paths import user_paths

MAX_WAITING = 256
"""Maximum length of the queue of updates that the caller has not taken yet."""
PARALLEL_HANDSHAKES = 16
"""Maximum number of simultaneous TLS handshakes. Each handshake takes 2 ms of CPU time, so
simultaneous handshakes of a whole farm would time out."""
CHECK_S = 1.0


async def watch(
    devices: Sequence[KnownDevice], files: HostFiles, *, state: Path | None = None
) -> AsyncGenerator[Update, None]:
    """Yield updates of devices, first their current states, until the caller stops iterating.

    The iterator ends by itself only if every agent has violated the protocol.

    Args:
        devices: Devices to watch. If a device names no seat, all devices of its agent are watched.
        files: Identity of this host.
        state: State directory of the agent on this machine. None selects the default directory of
            this user. This agent is watched only if it is already running; it is not started.
    """
    updates: asyncio.Queue[Update | None] = asyncio.Queue(MAX_WAITING)
    context = client_context(files.identity_path())
    slots = asyncio.Semaphore(PARALLEL_HANDSHAKES)
    local = state or Path(user_paths(os.environ).agent_state)
    registry = transports(files.identity_path, state)

    def opener(device: KnownDevice) -> Open:
        if device.via == LocalTransport.name:
            return partial(open_local, local)

        async def open_stream() -> ClientConnection:
            transport = transport_of(device, registry)
            dial: Dial | None = None
            if isinstance(transport, PinnedTransport) and not isinstance(transport, TlsTransport):
                dial = transport.dial
            return await open_pinned(device.endpoint, context, slots, dial)

        return open_stream

    agents: dict[tuple[str, str], list[KnownDevice]] = {}
    for device in devices:
        agents.setdefault((device.via, device.pin), []).append(device)
    watches = [AgentWatch(group, opener(group[0]), updates.put) for group in agents.values()]

    async def report_end() -> None:
        # A defect in this code also ends the watch.
        await asyncio.wait(following, return_when=asyncio.FIRST_EXCEPTION)
        await updates.put(None)

    async def check_all() -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            now_s = time.monotonic()
            for watch in watches:
                watch.check(now_s)

    if not watches:
        return
    following = [asyncio.create_task(watch.follow()) for watch in watches]
    others = [asyncio.create_task(check_all()), asyncio.create_task(report_end())]
    try:
        while (update := await updates.get()) is not None:
            yield update
        await asyncio.gather(*following)
    finally:
        for task in (*following, *others):
            task.cancel()
        await asyncio.gather(*following, *others, return_exceptions=True)
