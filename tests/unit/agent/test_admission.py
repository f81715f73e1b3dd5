"""Which connections are dropped if too many wait for their handshake."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from edgebench.agent.admission import (
    MAX_STRANGERS,
    MAX_STRANGERS_PER_NETWORK,
    Admission,
    bind_listeners,
)


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """Connections over loopback: the agent's end, and the peer's."""
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as server:
        made = []
        for _ in range(MAX_STRANGERS + 1):
            peer = stack.enter_context(socket.create_connection(server.getsockname()))
            made.append((stack.enter_context(server.accept()[0]), peer))
        yield made


def is_open(peer: socket.socket) -> bool:
    """Whether the agent has kept its end."""
    peer.setblocking(False)
    try:
        return peer.recv(1) != b""
    except BlockingIOError:
        return True


def at(network: int, number: int) -> Any:
    """The address of a peer."""
    return f"10.0.{network}.1", 1000 + number


def test_newcomer_takes_the_place_of_the_oldest_silent_one(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """Whoever is slow in its handshake is dropped, and whoever says nothing is kept."""
    admission = Admission()
    pairs[0][1].sendall(b"\x16")
    time.sleep(0.05)
    for i in range(MAX_STRANGERS_PER_NETWORK + 1):
        admission.enter(pairs[i][0], at(0, i))
    here = [is_open(peer) for _, peer in pairs[: MAX_STRANGERS_PER_NETWORK + 1]]
    assert here == [True, False] + (MAX_STRANGERS_PER_NETWORK - 1) * [True]


def test_the_oldest_goes_where_all_have_said_something(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """A byte is enough to stay for ever."""
    admission = Admission()
    for i in range(MAX_STRANGERS_PER_NETWORK + 1):
        pairs[i][1].sendall(b"\x16")
        time.sleep(0.01)
        admission.enter(pairs[i][0], at(0, i))
    assert [is_open(peer) for _, peer in pairs[:3]] == [False, True, True]


def test_network_with_the_most_gives_way(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """Somebody with many connections drives away somebody with one."""
    admission = Admission()
    admission.enter(pairs[0][0], at(0, 0))
    for i in range(1, MAX_STRANGERS + 1):
        admission.enter(pairs[i][0], at(1 + i // MAX_STRANGERS_PER_NETWORK, i))
    assert [is_open(peer) for _, peer in pairs[:3]] == [True, False, True]


def test_peer_that_is_known_and_one_that_has_gone_take_no_place(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """The budget is used up by hosts that were let in long ago."""
    admission = Admission()
    for i in range(MAX_STRANGERS_PER_NETWORK):
        admission.enter(pairs[i][0], at(0, i))
    admission.leave(at(0, 0))
    pairs[1][0].close()
    for i in range(MAX_STRANGERS_PER_NETWORK, MAX_STRANGERS_PER_NETWORK + 2):
        admission.enter(pairs[i][0], at(0, i))
    assert all(is_open(pairs[i][1]) for i in range(2, MAX_STRANGERS_PER_NETWORK + 2))
    assert is_open(pairs[0][1])


def test_addresses_of_one_ipv6_network_are_one_network(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """Anybody has 2^64 addresses, and each has its own budget."""
    admission = Admission()
    for i in range(MAX_STRANGERS_PER_NETWORK + 1):
        admission.enter(pairs[i][0], (f"2001:db8::{i:x}%eth0", 1000, 0, 0))
    assert not is_open(pairs[0][1])


def test_every_address_of_the_machine_has_the_same_port() -> None:
    """With port 0, the IPv6 listener is at another port than the one that is told."""
    made = bind_listeners("", 0, Admission())
    try:
        assert len({one.getsockname()[1] for one in made}) == 1
    finally:
        for one in made:
            one.close()
