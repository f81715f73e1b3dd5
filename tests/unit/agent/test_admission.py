"""Which connections get a handshake, and which are dropped if there are too many."""

from __future__ import annotations

import random
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from support.clocks import Clock
from support.flood import client_hello

from edgebench.agent.admission import (
    MAX_HANDSHAKES,
    MAX_PARKED,
    MAX_PARKED_PER_NETWORK,
    PATIENCE_S,
    SAME_PATIENCE_S,
    Admission,
)

HELLO = client_hello()


class Crowd:
    """Peers over loopback, and the admission that their connections pass."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.clock = Clock()
        self.admission = Admission(self.clock, random.Random(1))
        self.peers: dict[Any, socket.socket] = {}
        self._parked: dict[Any, socket.socket] = {}

    def connect(self, address: Any, sent: bytes = b"") -> None:
        """A connection that seems to come from this address, and what it sends at once."""
        peer = self._stack.enter_context(socket.create_connection(self._server.getsockname()))
        connection = self._stack.enter_context(self._server.accept()[0])
        connection.setblocking(False)
        self.peers[address], self._parked[address] = peer, connection
        self.admission.park(connection, address)
        self.send(address, sent)

    def send(self, address: Any, data: bytes) -> None:
        """Send from a peer; loopback delivers at once."""
        if data:
            self.peers[address].sendall(data)
        if (descriptor := self._parked[address].fileno()) >= 0:
            self.admission.look(descriptor)

    def read(self, address: Any) -> None:
        """Read what a peer has sent, as asyncio does in its handshake."""
        self._parked[address].recv(65536)

    def end(self, address: Any) -> None:
        """Close a connection, as asyncio does when its handshake has failed."""
        self._parked[address].close()

    def is_open(self, address: Any) -> bool:
        """Whether the agent has kept the connection."""
        peer = self.peers[address]
        peer.setblocking(False)
        try:
            return peer.recv(1) != b""
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False

    def granted(self) -> list[Any]:
        """Addresses of all connections that get a handshake now, in their order."""
        found = []
        while (grant := self.admission.grant()) is not None:
            found.append(grant[1])
        return found

    @property
    def open_addresses(self) -> list[Any]:
        """Addresses of the connections that are kept."""
        return [address for address in self.peers if self.is_open(address)]


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    """A crowd without peers."""
    with ExitStack() as stack:
        yield Crowd(stack)


def at(network: int, number: int = 0) -> Any:
    """The address of a peer."""
    return f"10.0.{network}.1", 1000 + number


@pytest.mark.parametrize(
    "sent", [b"", b"\x16", HELLO[:4], HELLO[:5], HELLO[:6], HELLO[:-1]], ids=len
)
def test_connection_without_a_whole_hello_gets_no_handshake(crowd: Crowd, sent: bytes) -> None:
    """Otherwise a byte would cost a handshake's memory and time."""
    crowd.connect(at(1), sent)
    assert crowd.granted() == []
    assert crowd.is_open(at(1))
    crowd.send(at(1), HELLO[len(sent) :])
    assert crowd.granted() == [at(1)]


@pytest.mark.parametrize(
    "sent",
    [
        b"G",
        b"SSH-2.0-x\r\n",
        b"\x15\x03\x01\0\x02\x02\x28",
        b"\x16\x02\x01\x02\0\x01",
        b"\x16\x03\x01\x02\0\x02",
        b"\x16\x03\x01\xff\xff\x01",
        b"\x16\x03\x01\0\0\x01",
    ],
)
def test_what_is_no_hello_is_dropped_at_once(crowd: Crowd, sent: bytes) -> None:
    """Otherwise a peer without TLS would keep a place until its time is over."""
    crowd.connect(at(1), sent)
    assert not crowd.is_open(at(1))
    assert crowd.granted() == []


def test_peer_that_has_gone_costs_no_handshake(crowd: Crowd) -> None:
    """Otherwise a flood would not even have to wait for a response."""
    crowd.connect(at(1), HELLO)
    crowd.connect(at(2), HELLO)
    crowd.peers[at(1)].close()
    assert crowd.granted() == [at(2)]
    for address, content in ((at(3), b""), (at(4), HELLO)):
        crowd.connect(address, content)
        reset = struct.pack("ii", 1, 0)
        crowd.peers[address].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        crowd.peers[address].close()
        crowd.send(address, b"")
    assert crowd.granted() == []


def test_oldest_without_a_hello_goes_first(crowd: Crowd) -> None:
    """Otherwise a host whose hello is there would be dropped for peers that send nothing."""
    crowd.connect(at(1, 0), HELLO)
    for number in range(1, MAX_PARKED_PER_NETWORK + 1):
        crowd.connect(at(1, number), b"\x16")
    dropped = set(crowd.peers) - set(crowd.open_addresses)
    assert dropped == {at(1, 1)}
    assert crowd.granted() == [at(1, 0)]


def test_random_one_goes_where_all_have_sent_a_hello(crowd: Crowd) -> None:
    """Otherwise a peer that knows the order could keep all other connections of its address out."""
    survivors: Counter[int] = Counter()
    for trial in range(20):
        addresses = [at(trial, number) for number in range(2 * MAX_PARKED_PER_NETWORK)]
        for address in addresses:
            crowd.connect(address, HELLO)
        survivors.update(address[1] - 1000 for address in addresses if crowd.is_open(address))
        crowd.admission.close()
    halves = [sum(survivors[n + k] for n in range(MAX_PARKED_PER_NETWORK)) for k in (0, 24)]
    assert sum(halves) == 20 * MAX_PARKED_PER_NETWORK
    assert min(halves) > 0.2 * sum(halves)


def test_network_with_the_most_gives_way(crowd: Crowd) -> None:
    """Otherwise peers with many connections would drive away a peer with a single connection."""
    crowd.connect(at(0), HELLO)
    for number in range(MAX_PARKED):
        crowd.connect(at(1 + number // MAX_PARKED_PER_NETWORK, number), HELLO)
    assert len(crowd.open_addresses) == MAX_PARKED
    assert at(0) in crowd.open_addresses


def test_addresses_of_one_ipv6_network_are_one_network(crowd: Crowd) -> None:
    """Otherwise each of a user's 2^64 addresses would have a budget of its own."""
    for number in range(MAX_PARKED_PER_NETWORK + 1):
        crowd.connect((f"2001:db8::{number:x}%eth0", 1000, 0, 0))
    assert len(crowd.open_addresses) == MAX_PARKED_PER_NETWORK


def test_new_network_gets_the_next_handshake(crowd: Crowd) -> None:
    """Otherwise a host would wait behind everything that a flood has sent before."""
    for number in range(100):
        crowd.connect(at(1 + number % 5, number), HELLO)
    for address in crowd.granted():
        crowd.read(address)
    crowd.connect(at(99), HELLO)
    crowd.clock.now_s += PATIENCE_S + 0.1
    assert crowd.granted()[0] == at(99)


def test_network_of_a_known_peer_is_first_again(crowd: Crowd) -> None:
    """Otherwise a host's second connection would wait for every address of a flood."""
    crowd.connect(at(99), HELLO)
    assert crowd.granted() == [at(99)]
    crowd.admission.leave(at(99), is_known=True)
    for number in range(MAX_HANDSHAKES + 1):
        crowd.connect(at(number), HELLO)
    assert len(crowd.granted()) == MAX_HANDSHAKES
    crowd.connect(at(99, 1), HELLO)
    crowd.admission.leave(at(1), is_known=False)
    assert crowd.granted() == [at(99, 1)]


def test_silent_handshake_gives_way_and_one_that_we_are_slow_with_does_not(crowd: Crowd) -> None:
    """Otherwise eight hellos would keep all others out, or a busy agent would drop its own host."""
    for number in range(MAX_HANDSHAKES + 2):
        crowd.connect(at(number), HELLO)
    in_progress = crowd.granted()
    assert len(in_progress) == MAX_HANDSHAKES
    crowd.clock.now_s += 10 * SAME_PATIENCE_S
    assert crowd.granted() == [], "what they have sent was not read yet: the agent is slow"
    crowd.read(in_progress[3])
    assert len(crowd.granted()) == 1
    assert [one for one in in_progress if not crowd.is_open(one)] == [in_progress[3]]


@pytest.mark.parametrize(("network", "patience_s"), [(1, SAME_PATIENCE_S), (2, PATIENCE_S)])
def test_hosts_of_the_same_network_wait_longer(
    crowd: Crowd, network: int, patience_s: float
) -> None:
    """Otherwise a loaded host that opens many connections would lose some that it is slow with."""
    for number in range(MAX_HANDSHAKES):
        crowd.connect(at(1, number), HELLO)
    for address in crowd.granted():
        crowd.read(address)
    crowd.connect(at(network, 99), HELLO)
    crowd.clock.now_s += patience_s - 0.1
    assert crowd.granted() == []
    crowd.clock.now_s += 0.2
    assert crowd.granted() == [at(network, 99)]


def test_handshake_that_is_over_makes_room(crowd: Crowd) -> None:
    """Otherwise the budget would be used up by peers that were let in, or failed, long ago."""
    for number in range(MAX_HANDSHAKES + 2):
        crowd.connect(at(number), HELLO)
    known, failed, *_ = crowd.granted()
    assert crowd.granted() == []
    crowd.admission.leave(known, is_known=True)
    crowd.end(failed)
    assert len(crowd.granted()) == 2
    assert crowd.is_open(known)
