"""A code of active and idle chips (time slots) that aligns a meter's trace with the device's clock.

Theory of operation. A meter without a digital input still records the power of the device. So the
device is active and idle in a pattern, and the host searches for this pattern in the trace. The
pattern resembles no shifted copy of itself. The pattern is drawn from the id of the run, so that
the recording of another run does not contain it. Patterns are drawn until a pattern has about as
many active as idle chips, many changes, and small aperiodic side lobes. A pattern begins and ends
with an active chip, so that its first and last edges differ from the idle time before and after it.

The record of a code contains the actual times of the edges, not the scheduled times; a timestamp is
taken right after each change. Each chip is scheduled relative to the beginning of the code, so that
a late chip does not delay the next chips. The edges between chips are shifted at random. Without
the shifts, evenly spaced edges may all lie at the same position between two samples of a meter. All
edges would then have the same error, and the rates of the two clocks could be compared only to
within a sample interval.

Source: M. Golay, The merit factor of long low autocorrelation binary sequences, IEEE Trans. Inf.
Theory 28 (1982), for side lobes as the measure of such a pattern; I. Bilinskis & A. Mikelsons,
Randomized Signal Processing (1992), for events at random moments between samples.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from itertools import count, pairwise
from random import Random

from edgebench.protocol.record import LoadCode

CHIP_COUNT = 31
BUSY_COUNTS = (15, 16, 17)
"""Allowed numbers of active chips (time slots). The correlation is steepest if about half of all
chips are active."""
MIN_CHANGES = 14
"""Minimum number of changes between active and idle chips; the alignment uses every change. A drawn
pattern has 15 changes on average."""
MAX_SHIFT_CHIPS = 1 / 16
"""Largest shift of an edge in either direction, in chips. The range of the shifts is 1/8 chip,
because the slowest meter for which a code is played takes eight samples per chip."""
MAX_SIDE_LOBE = 6
"""A pattern is drawn again if a side lobe of its aperiodic autocorrelation (peak: 31) is above this
value. The largest side lobe of an m-sequence of 31 chips is 5 or more; about 1 of 60 drawn patterns
has no side lobe above 6."""


def chips_of(run_id: str, number: int) -> tuple[bool, ...]:
    """Whether the device is active, for each chip of a run's code; shape (CHIP_COUNT,).

    Args:
        run_id: Id of the run.
        number: 0 for the code before the warm-up, 1 for the code after the timed loop.
    """
    drawn = (_drawn(f"{run_id} {number} {attempt}") for attempt in count())
    return next(chips for chips in drawn if _is_suitable(chips))


def shifts_of(run_id: str, number: int) -> tuple[float, ...]:
    """Shift of each edge of a run's code, in chips; shape (CHIP_COUNT + 1,).

    The first and the last edge, which border on idle time, are not shifted.
    """
    random = Random(f"{run_id} {number}")
    inner = (random.uniform(-MAX_SHIFT_CHIPS, MAX_SHIFT_CHIPS) for _ in range(CHIP_COUNT - 1))
    return (0.0, *inner, 0.0)


def _drawn(text: str) -> tuple[bool, ...]:
    bits = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    return (True, *(bool(bits >> place & 1) for place in range(CHIP_COUNT - 2)), True)


def _is_suitable(chips: Sequence[bool]) -> bool:
    changes = sum(before != after for before, after in pairwise(chips))
    if sum(chips) not in BUSY_COUNTS or changes < MIN_CHANGES:
        return False
    signs = [1 if is_busy else -1 for is_busy in chips]
    lobes = (
        sum(a * b for a, b in zip(signs[shift:], signs, strict=False))
        for shift in range(1, CHIP_COUNT)
    )
    return all(abs(lobe) <= MAX_SIDE_LOBE for lobe in lobes)


def code_s(chip_s: float) -> float:
    """Duration of a code with the idle chips before and after it."""
    return (CHIP_COUNT + 2) * chip_s


def play(
    chips: Sequence[bool],
    shifts: Sequence[float],
    chip_s: float,
    *,
    clock: Callable[[], int] = time.perf_counter_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> LoadCode:
    """Play the code with an idle chip before and after it; returns the times of its edges.

    Args:
        chips: Whether the device is active, for each chip.
        shifts: Shift of each edge, in chips; there is one more edge than there are chips.
        chip_s: Mean length of a chip.
        clock: Clock of the edges, nanoseconds.
        sleep: Function that waits for a time in seconds.
    """
    chip_ns = round(chip_s * 1e9)
    begin_ns = clock() + chip_ns
    edges_ns: list[int] = []
    _stay_idle(begin_ns, clock, sleep)
    for index, is_busy in enumerate(chips):
        edges_ns.append(clock())
        due_ns = begin_ns + round((index + 1 + shifts[index + 1]) * chip_ns)
        if is_busy:
            while clock() < due_ns:
                pass
        else:
            _stay_idle(due_ns, clock, sleep)
    edges_ns.append(clock())
    _stay_idle(begin_ns + (len(chips) + 1) * chip_ns, clock, sleep)
    return LoadCode(tuple(edges_ns), tuple(chips))


def _stay_idle(due_ns: int, clock: Callable[[], int], sleep: Callable[[float], None]) -> None:
    """Sleep until a time, without polling the clock at the end, because a late end does no harm."""
    left_ns = due_ns - clock()
    if left_ns > 0:
        sleep(left_ns / 1e9)
