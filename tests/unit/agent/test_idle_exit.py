"""When an unneeded agent ends: never under a host that has just connected."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest
from support.denied import without_socket_files
from websockets.asyncio.client import unix_connect
from websockets.exceptions import WebSocketException

from edgebench.agent import daemon
from edgebench.agent.agent import AgentSettings
from edgebench.agent.server import Connections
from edgebench.protocol.codec import decode, encode
from edgebench.protocol.messages import PROTOCOL_VERSION, Hello, Welcome
from edgebench.system.control_address import ControlAddress

LIMIT_S = 3.0
TURNS = 12
"""Turns of the event loop: more than it takes to remove the socket or to accept a connection."""
VISITS = 200 if "EDGEBENCH_TESTS_SEEDS" in os.environ else 2 * TURNS
"""Visits around the moment at which the time is up."""


class Time:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.look_count = 0

    def __call__(self) -> float:
        self.look_count += 1
        return self.now_s


async def hello(client: socket.socket) -> bool:
    """Return whether an agent responds on this connection."""
    async with unix_connect(sock=client, uri="ws://agent/", compression=None) as connection:
        await connection.send(encode(1, Hello(PROTOCOL_VERSION, "test", "host", "session")))
        answer = await connection.recv(decode=False)
        return isinstance(decode(answer).message, Welcome)


async def turn(count: int) -> None:
    """Let the event loop turn this many times."""
    for _ in range(count):
        await asyncio.sleep(0)


def come_in(address: ControlAddress) -> socket.socket | None:
    """Connect; return None if there is no agent."""
    try:
        client = address.connect(0)
    except OSError:
        return None
    client.setblocking(False)
    return client


async def started(state: Path, time: Time) -> asyncio.Task[None]:
    """An agent that waits for its first host."""
    settings = AgentSettings(config=state / "config", state=state, idle_exit_s=LIMIT_S)
    serving = asyncio.create_task(daemon._serve(settings, time))
    while not ControlAddress(state).is_there:
        assert not serving.done(), serving
        await asyncio.sleep(0)
    while time.look_count < TURNS:  # it looks for boards first, in a thread of its own
        await asyncio.sleep(0)
    return serving


async def ended(serving: asyncio.Task[None], time: Time) -> None:
    """Let time pass until the agent has gone."""
    while not serving.done():
        time.now_s += LIMIT_S
        await asyncio.sleep(0)
    await serving


async def visit(state: Path, turns: int) -> bool | None:
    """Connect this many turns after the time is up, or before; None: no socket, False: dropped."""
    time, address = Time(), ControlAddress(state)
    serving = await started(state, time)
    if turns < 0:
        client = come_in(address)
        await turn(-turns)
        time.now_s += LIMIT_S
    else:
        time.now_s += LIMIT_S
        await turn(turns)
        client = come_in(address)
    is_welcome = None
    if client is not None:
        try:
            is_welcome = await hello(client)
        except (OSError, WebSocketException):
            is_welcome = False
    await ended(serving, time)
    assert list(state.glob("agent.[sa]*")) == []
    return is_welcome


@pytest.fixture(autouse=True)
def always_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent looks at the time in each turn of the loop."""
    monkeypatch.setattr(daemon, "IDLE_CHECK_S", 0.0)


def visits(folder: Path) -> list[tuple[int, bool | None]]:
    """Visits before and after the time is up: turns of the loop, and what came of it."""
    found: list[tuple[int, bool | None]] = []
    for i in range(VISITS):
        turns = i % (2 * TURNS) - TURNS
        state = folder / str(i)
        state.mkdir()
        found.append((turns, asyncio.run(asyncio.wait_for(visit(state, turns), 60))))
    return found


@pytest.mark.parametrize("has_socket_file", [True, False], ids=["file", "name"])
def test_host_that_comes_in_at_the_last_moment_is_served(
    tmp_path: Path, has_socket_file: bool
) -> None:
    """Otherwise a command right after another would sometimes end in "connection lost"."""
    found = visits(tmp_path) if has_socket_file else without_socket_files(lambda: visits(tmp_path))
    outcomes = {outcome for _, outcome in found}
    assert False not in outcomes, found
    assert {True, None} == outcomes, "the agent was always there, or never"


def test_connection_counts_before_anything_is_said_on_it(tmp_path: Path) -> None:
    """Otherwise a host on a slow machine would be dropped between its connection and its hello."""

    async def wait_silently() -> bool:
        time = Time()
        serving = await started(tmp_path, time)
        client = come_in(ControlAddress(tmp_path))
        assert client is not None
        for _ in range(TURNS):
            await asyncio.sleep(0)
            time.now_s += LIMIT_S
        is_welcome = await hello(client)
        await ended(serving, time)
        return is_welcome

    assert asyncio.run(asyncio.wait_for(wait_silently(), 60))


def test_idle_time_begins_where_the_last_conversation_ended() -> None:
    """Otherwise a visit between two looks at the connections would count as none."""
    time = Time()
    connections = Connections(time)
    time.now_s += 2
    assert connections.idle_s == 2
    connections.enter()
    time.now_s += 2
    with connections.conversation():
        connections.leave()
        time.now_s += 2
        assert connections.idle_s == 0, "a request is still being handled"
    assert connections.idle_s == 0
    time.now_s += 1
    assert connections.idle_s == 1
