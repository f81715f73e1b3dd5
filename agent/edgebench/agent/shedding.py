"""Connections that the kernel drops before they cost this process anything.

To accept, park and drop a connection takes some 70 µs, so thousands of connections a second would
take all CPU time of a slow board. While more than `FULL_PER_S` arrive whose peers do not identify
themselves, a filter on the listening sockets drops SYN packets:

- of networks that a paired host connected from: none, up to `KNOWN_PER_S`;
- of networks with more than `NETWORK_PER_S`: all but one in `SHED_PASS`, drawn at random;
- of all others: as many as exceed `FULL_PER_S`, drawn at random.

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
"""Rate of connections from unidentified peers up to which all are accepted."""
NETWORK_PER_S = 4.0
"""Rate of such connections from one network that is accepted even above `FULL_PER_S`."""
KNOWN_PER_S = 256.0
"""Rate of connections from a network of a paired host that is always accepted."""
SHED_PASS = 32
"""Of this many SYNs of a shed network, one passes, so that its hosts keep a share."""
SHED_S = 10.0
"""Time for which a network is shed, from the last time that its rate was too high."""
WINDOW_S = 1.0
"""Time over which connections are counted."""
MAX_SHED, MAX_KNOWN = 256, 64
"""Limits on the networks that a filter names: 6 and 3 instructions each, or 8 and 5 for IPv6."""


@dataclass(frozen=True, slots=True)
class ShedRule:
    """Networks whose connections are dropped, and the share of the others that passes."""

    known: tuple[str, ...] = ()
    """Networks of paired hosts, which pass."""
    shed: tuple[str, ...] = ()
    """Networks of which only every `SHED_PASS`th SYN passes, on average."""
    pass_ratio: float = 1.0
    """Share of the SYNs of all other networks that pass."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is dropped."""
        return not self.shed and self.pass_ratio >= 1.0


class ArrivalRates:
    """Rates of connections from unidentified peers, by network."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since_s = clock()
        self._count: Counter[str] = Counter()
        self._known: dict[str, None] = {}
        self._shed: dict[str, float] = {}
        """End of the time for which each network is shed."""
        self.rule = ShedRule()

    def arrived(self, network: str) -> None:
        """Count a connection."""
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
    """Have the kernel drop SYNs by a rule; returns False if it cannot.

    Accepted connections inherit the filter, which passes all packets except SYNs.
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
"""Offset of the flags in a TCP header, where the filter's data begin. Source: RFC 9293, 3.1."""
_SOURCE_AT: dict[int, int] = {socket.AF_INET: 12, socket.AF_INET6: 8}
"""Offset of the source address. Source: RFC 791, 3.1; RFC 8200, 3."""
_PASS: Instruction = (RETURN, 0, 0, 0xFFFFFFFF)
_DROP: Instruction = (RETURN, 0, 0, 0)


def syn_filter(family: int, rule: ShedRule) -> list[Instruction]:
    """The rule as a program that returns 0 for a packet to be dropped."""
    program: list[Instruction] = [(LOAD_BYTE, 0, 0, _FLAGS_AT), (JUMP_BITS, 1, 0, _SYN), _PASS]
    for words in _addresses(family, rule.known):
        program += _for_source(family, words, [_PASS])
    for words in _addresses(family, rule.shed):
        program += _for_source(family, words, _passing(1 / SHED_PASS))
    return program + _passing(rule.pass_ratio)


def _addresses(family: int, networks: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """First words of the source addresses of this family's networks: one word, or two for IPv6."""
    for network in networks:
        address = ipaddress.ip_network(network).network_address.packed
        if (len(address) == 4) == (family == socket.AF_INET):
            yield struct.unpack("!I" if len(address) == 4 else "!II", address[:8])


def _for_source(
    family: int, words: Sequence[int], then: Sequence[Instruction]
) -> list[Instruction]:
    """Instructions that run `then` for packets from this address, and skip it for others."""
    steps = list(then)
    for number, word in reversed(list(enumerate(words))):
        load = (LOAD, 0, 0, _NETWORK_HEADER + _SOURCE_AT[family] + 4 * number)
        steps = [load, (JUMP_EQUAL, 0, len(steps), word), *steps]
    return steps


def _passing(ratio: float) -> list[Instruction]:
    """Instructions that pass this share of the packets, at random."""
    limit = round(ratio * 0xFFFFFFFF)
    return [(LOAD, 0, 0, _RANDOM), (JUMP_ABOVE, 0, 1, limit), _DROP, _PASS]
