"""Whose connections the kernel drops, and that it drops no others."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from support.clocks import Clock

from edgebench.agent.shedding import (
    FULL_PER_S,
    KNOWN_PER_S,
    MAX_KNOWN,
    MAX_SHED,
    NETWORK_PER_S,
    SHED_S,
    WINDOW_S,
    ArrivalRates,
    ShedRule,
    apply_rule,
    syn_filter,
)

TRIES = 24


def window(rates: ArrivalRates, clock: Clock, arrivals: dict[str, int]) -> ShedRule:
    """Return the rule after this many connections of each network within a second."""
    for network, number in arrivals.items():
        for _ in range(number):
            rates.arrived(network)
    clock.now_s += WINDOW_S
    assert rates.is_due
    rates.update()
    return rates.rule


def test_nothing_is_dropped_while_few_come() -> None:
    """Otherwise a host that opens many connections would lose some of them."""
    clock = Clock()
    rates = ArrivalRates(clock)
    assert not rates.is_due
    assert window(rates, clock, {"10.0.0.1": round(FULL_PER_S)}).is_idle


def test_networks_that_send_too_much_are_shed_and_others_are_not() -> None:
    """Otherwise a host would be dropped together with the flood next to it."""
    clock = Clock()
    rates = ArrivalRates(clock)
    flooding = {f"10.0.0.{number}": 20 for number in range(32)}
    few = {"10.0.1.1": round(NETWORK_PER_S)}
    rule = window(rates, clock, flooding | few)
    assert sorted(rule.shed) == sorted(flooding)
    assert rule.pass_ratio == 1.0
    clock.now_s += SHED_S - 0.1
    rates.update()
    assert len(rates.rule.shed) == 32
    clock.now_s += 0.2
    rates.update()
    assert rates.rule.is_idle, "the flood is over"


def test_many_networks_that_each_send_little_are_thinned_out() -> None:
    """Otherwise a thousand addresses would take what 32 do not get."""
    clock = Clock()
    rates = ArrivalRates(clock)
    rule = window(rates, clock, {f"10.0.{n // 200}.{n % 200}": 1 for n in range(1024)})
    assert (rule.shed, rule.pass_ratio) == ((), FULL_PER_S / 1024)
    # This many pass now, with as many offered as before.
    rule = window(rates, clock, {f"10.1.0.{number}": 1 for number in range(128)})
    assert rule.pass_ratio == pytest.approx(FULL_PER_S / 1024)
    assert window(rates, clock, {}).is_idle


def test_network_of_a_paired_host_passes() -> None:
    """Otherwise a campaign of many devices would be taken for a flood."""
    clock = Clock()
    rates = ArrivalRates(clock)
    for _ in range(64):
        rates.arrived("10.0.0.1")
        rates.identified("10.0.0.1")
    rule = window(rates, clock, {"10.0.0.1": 40, "10.0.0.2": 200})
    assert (rule.known, rule.shed) == (("10.0.0.1",), ("10.0.0.2",))
    rule = window(rates, clock, {"10.0.0.1": round(KNOWN_PER_S) + 1, "10.0.0.2": 200})
    assert set(rule.shed) == {"10.0.0.1", "10.0.0.2"}, "there may be others beside that host"


def addresses(family: int) -> tuple[str, ...]:
    """Networks as a rule names them."""
    return (
        tuple(f"10.{n >> 8}.{n & 255}.1" for n in range(MAX_SHED))
        if family == socket.AF_INET
        else tuple(f"2001:db8:{n:x}::/64" for n in range(MAX_SHED))
    )


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_longest_program_is_one_that_the_kernel_takes(family: int) -> None:
    """Otherwise nothing would be done about the largest flood."""
    named = addresses(family)
    rule = ShedRule(named[:MAX_KNOWN], named, 0.5)
    assert len(syn_filter(family, rule)) <= 4096
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        assert apply_rule(listening, rule)
        assert apply_rule(listening, ShedRule())


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """A listening socket on all IPv4 addresses of loopback."""
    with socket.create_server(("127.0.0.1", 0), backlog=2 * TRIES) as made:
        yield made


def connected(listening: socket.socket, source: str, timeout_s: float) -> int:
    """Return how many of `TRIES` connections from this address are accepted, with all they send."""
    count, content = 0, b"x" * 1000
    for _ in range(TRIES):
        with socket.socket() as link:
            link.bind((source, 0))
            link.settimeout(timeout_s)
            with suppress(TimeoutError):
                link.connect(listening.getsockname())
                with listening.accept()[0] as accepted:
                    link.settimeout(10.0)
                    link.sendall(content)
                    assert accepted.recv(1000, socket.MSG_WAITALL) == content
                    count += 1
    return count


@pytest.mark.parametrize(
    ("rule", "source", "least", "most"),
    [
        (ShedRule(), "127.0.0.2", TRIES, TRIES),
        (ShedRule(shed=("127.0.0.3", "127.0.0.2")), "127.0.0.2", 0, TRIES // 4),
        (ShedRule(shed=("127.0.0.3",)), "127.0.0.2", TRIES, TRIES),
        (ShedRule(shed=("127.0.0.3",), pass_ratio=0.0), "127.0.0.2", 0, 0),
        (ShedRule(known=("127.0.0.2",), pass_ratio=0.0), "127.0.0.2", TRIES, TRIES),
        (ShedRule(known=("127.0.0.3",), pass_ratio=0.5), "127.0.0.2", 3, TRIES - 3),
    ],
)
def test_kernel_drops_by_the_rule(
    listening: socket.socket, rule: ShedRule, source: str, least: int, most: int
) -> None:
    """Otherwise a flood would pass, or a host that was not meant would be dropped."""
    assert apply_rule(listening, rule)
    # Shorter than the second after which the kernel sends a SYN again.
    timeout_s = 0.9 if least == TRIES else 0.05
    assert least <= connected(listening, source, timeout_s) <= most


def test_ipv6_networks_are_told_apart() -> None:
    """Otherwise a flood over IPv6 would pass, or keep all others out."""
    with socket.socket(socket.AF_INET6) as listening:
        try:
            listening.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 on this machine")
        listening.listen()
        for network, passes in (("::/64", False), ("2001:db8::/64", True)):
            assert apply_rule(listening, ShedRule(shed=(network,), pass_ratio=1.0))
            count = 0
            for _ in range(TRIES):
                with socket.socket(socket.AF_INET6) as link, suppress(TimeoutError):
                    link.settimeout(0.9 if passes else 0.05)
                    link.connect(listening.getsockname())
                    listening.accept()[0].close()
                    count += 1
            assert count == TRIES if passes else count <= TRIES // 4
