"""A code of active and idle chips, by which a meter's trace is aligned with the device's clock.

Theory of operation. A meter without a digital input still records the power of the device. So the
device is active and idle in a pattern that resembles no shifted copy of itself, and the host
searches for that pattern in the trace. The pattern is an m-sequence: its cyclic autocorrelation is
-1 of 31 at every shift but zero. It is rotated so that it begins and ends with an active chip: with
idle time around it, every edge is visible. Of these rotations, this one has the smallest aperiodic
side lobes: 5 of 31.

The code records the real edges, not the scheduled ones: each is a timestamp taken right after the
change. Each chip is scheduled relative to the beginning, so that a late chip does not delay others.

Source: S. W. Golomb, Shift Register Sequences (1967), ch. 3; taps of x⁵ + x³ + 1, which is
primitive: P. Alfke, Xilinx XAPP 052 (1996), table 3.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from edgebench.protocol.record import LoadCode

_ORDER, _TAP = 5, 3
_FIRST = (True, True, True, True, False)
"""First chips, which choose the rotation."""


def _m_sequence() -> tuple[bool, ...]:
    chips = list(_FIRST)
    while len(chips) < 2**_ORDER - 1:
        chips.append(chips[-_ORDER] ^ chips[_TAP - _ORDER])
    return tuple(chips)


IS_BUSY = _m_sequence()
"""Whether the device is active, for each chip."""


def code_s(chip_s: float) -> float:
    """Duration of the code with the idle chips before and after it."""
    return (len(IS_BUSY) + 2) * chip_s


def play(
    chip_s: float,
    *,
    clock: Callable[[], int] = time.perf_counter_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> LoadCode:
    """Play the code with an idle chip before and after it; returns the times of its edges."""
    chip_ns = round(chip_s * 1e9)
    begin_ns = clock() + chip_ns
    edges_ns: list[int] = []
    _stay_idle(begin_ns, clock, sleep)
    for index, is_busy in enumerate(IS_BUSY):
        edges_ns.append(clock())
        due_ns = begin_ns + (index + 1) * chip_ns
        if is_busy:
            while clock() < due_ns:
                pass
        else:
            _stay_idle(due_ns, clock, sleep)
    edges_ns.append(clock())
    _stay_idle(begin_ns + (len(IS_BUSY) + 1) * chip_ns, clock, sleep)
    return LoadCode(tuple(edges_ns), IS_BUSY)


def _stay_idle(due_ns: int, clock: Callable[[], int], sleep: Callable[[float], None]) -> None:
    """Sleep without polling near the end: idle time that ends late is still idle."""
    left_ns = due_ns - clock()
    if left_ns > 0:
        sleep(left_ns / 1e9)
