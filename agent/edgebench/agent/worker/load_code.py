"""A code of work and rest, by which a meter's trace is laid over the device's clock.

Theory of operation. A meter without a digital input still sees how much the device takes. So the
device works and rests in a pattern that resembles no shifted copy of itself, and the host looks
for that pattern in the trace. The pattern is an m-sequence: laid cyclically over itself, it agrees
in one place less than it disagrees, whatever the shift. It is rotated so that it begins and ends
with work: with a rest around it, every edge is seen. Played only once, of the rotations that do so
none has smaller side lobes than this one: 5 of 31.

What counts is what was done, not what was due: each edge is a look at the clock right after the
change. A chip is due at a multiple of its length after the beginning, so that a late one makes
no other late.

Source: S. W. Golomb, Shift Register Sequences (1967), ch. 3; taps of x⁵ + x³ + 1, which is
primitive: P. Alfke, Xilinx XAPP 052 (1996), table 3.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from edgebench.protocol.record import LoadCode

_ORDER, _TAP = 5, 3
_FIRST = (True, True, True, True, False)
"""Chooses the rotation."""


def _m_sequence() -> tuple[bool, ...]:
    chips = list(_FIRST)
    while len(chips) < 2**_ORDER - 1:
        chips.append(chips[-_ORDER] ^ chips[_TAP - _ORDER])
    return tuple(chips)


IS_BUSY = _m_sequence()
"""Of each chip."""


def code_s(chip_s: float) -> float:
    """How long the code takes, with the rest before and after it."""
    return (len(IS_BUSY) + 2) * chip_s


def play(
    chip_s: float,
    *,
    clock: Callable[[], int] = time.perf_counter_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> LoadCode:
    """Play the code once, with a chip of rest before it and one after; when each chip was."""
    chip_ns = round(chip_s * 1e9)
    begin_ns = clock() + chip_ns
    edges_ns: list[int] = []
    _rest(begin_ns, clock, sleep)
    for index, is_busy in enumerate(IS_BUSY):
        edges_ns.append(clock())
        due_ns = begin_ns + (index + 1) * chip_ns
        if is_busy:
            _work(due_ns, clock)
        else:
            _rest(due_ns, clock, sleep)
    edges_ns.append(clock())
    _rest(begin_ns + (len(IS_BUSY) + 1) * chip_ns, clock, sleep)
    return LoadCode(tuple(edges_ns), IS_BUSY)


def _work(due_ns: int, clock: Callable[[], int]) -> None:
    while clock() < due_ns:
        pass


def _rest(due_ns: int, clock: Callable[[], int], sleep: Callable[[float], None]) -> None:
    """No look at the clock near the end: a rest that ends a little late is still a rest."""
    left_ns = due_ns - clock()
    if left_ns > 0:
        sleep(left_ns / 1e9)
