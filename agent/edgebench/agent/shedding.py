"""A kernel filter that drops surplus connections before they take CPU time of the agent.

Accepting, parking and dropping a connection takes about 70 µs, so thousands of connections a second
would take all CPU time of a slow board. While unidentified peers open more than `FULL_PER_S`
connections a second, a filter on the listening sockets drops SYN packets:

- from the network of a paired host with at most `KNOWN_PER_S` connections a second: no packet;
- from any other network with more than `NETWORK_PER_S` connections a second: all packets except a
  random 1 in `SHED_PASS`;
- from the remaining networks: a random share of the packets, so that `FULL_PER_S` connections a
  second pass.

Source: OpenSSH, sshd_config(5), MaxStartups (random early drop); Linux,
Documentation/networking/filter.rst (classic BPF, SO_ATTACH_FILTER, which needs no rights).
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from edgebench.agent.bpf import (
    JUMP_ABOVE,
    JUMP_BITS,
    JUMP_EQUAL,
    LOAD,
    LOAD_BYTE,
    RETURN,
    Instruction,
    Program,
)

FULL_PER_S = 128.0
"""While unidentified peers open at most this many connections a second, all are accepted."""
NETWORK_PER_S = 4.0
"""Limit for the connections that the unidentified peers of a network open in a second. While the
total rate is above `FULL_PER_S`, a network above this limit is shed: most of its SYN packets are
dropped."""
KNOWN_PER_S = 256.0
"""Limit in place of `NETWORK_PER_S` for the network of a paired host."""
SHED_PASS = 32
"""Of the SYN packets from a shed network, 1 in this number passes, so that hosts in that network
can still connect."""
SHED_S = 10.0
"""Time for which a network is shed, counted from the last update at which its rate was too high."""
WINDOW_S = 1.0
"""Time over which connections are counted before the rule is updated."""
MAX_SHED, MAX_KNOWN = 256, 64
"""Maximum numbers of shed networks and of known networks in a filter. The filter has 6 instructions
for each shed IPv4 network (IPv6: 8), and 3 instructions for each known IPv4 network (IPv6: 5)."""


@dataclass(frozen=True, slots=True)
class ShedRule:
    """Networks whose SYN packets pass, networks to shed, and the pass ratio of all others."""

    known: tuple[str, ...] = ()
    """Networks of paired hosts; all their SYN packets pass."""
    shed: tuple[str, ...] = ()
    """Networks from which only 1 in `SHED_PASS` SYN packets passes, on average."""
    pass_ratio: float = 1.0
    """Share of SYN packets that pass, for all other networks."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is dropped."""
        return not self.shed and self.pass_ratio >= 1.0


class ArrivalRates:
    """Measures for each network the rate of connections from unidentified peers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since_s = clock()
        self._count: Counter[str] = Counter()
        self._known: dict[str, None] = {}
        self._shed: dict[str, float] = {}
        """Maps each shed network to the time until which it is shed."""
        self.rule = ShedRule()

    def arrived(self, network: str) -> None:
        """Count a connection from a network."""
        self._count[network] += 1

    def identified(self, network: str) -> None:
        """Remove a connection from the count, because its peer is a paired host."""
        self._count[network] -= 1
        self._known.pop(network, None)
        self._known[network] = None
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]

    @property
    def is_due(self) -> bool:
        """Whether `WINDOW_S` has passed since the last update."""
        return self._clock() - self._since_s >= WINDOW_S

    def update(self) -> None:
        """Compute the rule from the connections since the last update."""
        now_s = self._clock()
        passed_s = now_s - self._since_s
        per_s = {network: count / passed_s for network, count in self._count.items()}
        if sum(per_s.values()) > FULL_PER_S:
            for network, rate in sorted(per_s.items(), key=lambda item: item[1]):
                if rate > (KNOWN_PER_S if network in self._known else NETWORK_PER_S):
                    self._shed.pop(network, None)
                    self._shed[network] = now_s + SHED_S
        self._shed = {network: end_s for network, end_s in self._shed.items() if end_s > now_s}
        shed = tuple(self._shed)[-MAX_SHED:]
        others = sum(rate for network, rate in per_s.items() if network not in shed)
        offered_per_s = others / self.rule.pass_ratio
        pass_ratio = min(1.0, FULL_PER_S / offered_per_s) if offered_per_s > 0 else 1.0
        known = tuple(network for network in self._known if network not in shed)
        self.rule = ShedRule(known, shed, pass_ratio)
        self._count.clear()
        self._since_s = now_s


def apply_rule(listening: socket.socket, rule: ShedRule) -> bool:
    """Attach a rule to a listening socket as a filter; returns False if the kernel cannot filter.

    Accepted connections inherit the filter, which has no effect on them, because it drops only SYN
    packets.
    """
    try:
        if rule.is_idle:
            listening.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            return True
        program = Program.of(syn_filter(listening.family, rule))
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, bytes(program))
    except OSError:  # no filter to detach, or no support for filters
        return rule.is_idle
    return True


_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
"""Source: Linux, include/uapi/asm-generic/socket.h."""
_NETWORK_HEADER = 0x1_0000_0000 - 0x100000
_RANDOM = 0x1_0000_0000 - 0x1000 + 56
"""SKF_NET_OFF, and SKF_AD_OFF + SKF_AD_RANDOM. Source: linux/filter.h."""
_FLAGS_AT, _SYN = 13, 0x02
"""Offset of the flags in a TCP header, and the flag SYN. The filter's data begin with this header.
Source: RFC 9293, 3.1."""
_SOURCE_AT: dict[int, int] = {socket.AF_INET: 12, socket.AF_INET6: 8}
"""Offset of the source address in an IP header, by address family. Source: RFC 791, 3.1; RFC 8200,
3."""
_PASS: Instruction = (RETURN, 0, 0, 0xFFFFFFFF)
_DROP: Instruction = (RETURN, 0, 0, 0)


def syn_filter(family: int, rule: ShedRule) -> list[Instruction]:
    """Translate a rule into a BPF program that returns 0 for each packet to drop."""
    program: list[Instruction] = [(LOAD_BYTE, 0, 0, _FLAGS_AT), (JUMP_BITS, 1, 0, _SYN), _PASS]
    for words in _addresses(family, rule.known):
        program += _for_source(family, words, [_PASS])
    for words in _addresses(family, rule.shed):
        program += _for_source(family, words, _passing(1 / SHED_PASS))
    return program + _passing(rule.pass_ratio)


def _addresses(family: int, networks: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """First 32-bit words of the networks of an address family: 1 word for IPv4, 2 for IPv6."""
    for network in networks:
        address = ipaddress.ip_network(network).network_address.packed
        if (len(address) == 4) == (family == socket.AF_INET):
            yield struct.unpack("!I" if len(address) == 4 else "!II", address[:8])


def _for_source(
    family: int, words: Sequence[int], then: Sequence[Instruction]
) -> list[Instruction]:
    """Instructions that run `then` only for packets whose source address begins with `words`."""
    steps = list(then)
    for number, word in reversed(list(enumerate(words))):
        load = (LOAD, 0, 0, _NETWORK_HEADER + _SOURCE_AT[family] + 4 * number)
        steps = [load, (JUMP_EQUAL, 0, len(steps), word), *steps]
    return steps


def _passing(ratio: float) -> list[Instruction]:
    """Instructions that pass a random share of the packets and drop the rest."""
    limit = round(ratio * 0xFFFFFFFF)
    return [(LOAD, 0, 0, _RANDOM), (JUMP_ABOVE, 0, 1, limit), _DROP, _PASS]
