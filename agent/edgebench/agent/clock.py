"""Describes the clock that times inferences: its source, its step, and how long a reading takes.

The clock is read many times in direct succession. If the clock's step is longer than a reading
takes, the difference of any two readings is a whole number of steps, and the step is computed from
such differences. With a finer clock, the intervals between readings are irregular, so no step is
found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns

from edgebench.agent.telemetry.source import read_text
from edgebench.protocol.device import ClockDescription

SOURCE_FILE = "sys/devices/system/clocksource/clocksource0/current_clocksource"
"""Source: https://docs.kernel.org/timers/timekeeping.html."""
SERIES = 5
"""Number of series of readings. The duration of a reading is computed from the fastest series,
which was not interrupted. A step is reported only if it is found in most series."""
READS = 200
"""Number of readings in a series, which takes 10 µs with a fine clock."""
MAX_READS = 20_000
"""Maximum number of readings in a series with a coarse clock. The series takes 1 ms, in which some
clocks do not advance at all."""
DISTINCT = 20
"""Minimum number of distinct readings from which a step is computed."""
MIN_STEP_NS = 8.0
"""Smallest step that is reported; a smaller step is negligible for an inference of 1 µs or more."""
MAX_STEPS = 12
"""Maximum number of clock steps in the shortest interval between two readings; this interval is 40
to 100 ns."""
LONG_GAP = 5
"""An interval between two readings counts as an interruption if it exceeds the shortest interval by
this factor; its steps are not counted."""
ROUNDING_NS = 2.0
"""Maximum distance of a reading from a whole number of steps, due to rounding to nanoseconds."""


def describe_clock(
    root: Path = Path("/"), clock: Callable[[], int] = perf_counter_ns
) -> ClockDescription:
    """Measure the clock's step and how long a reading takes; needs 0.1 ms with a fine clock.

    Args:
        root: Directory that replaces / in tests.
        clock: Function that reads the clock, in nanoseconds.
    """
    each_ns, steps_ns = list[float](), list[float]()
    for _ in range(SERIES):
        count, reads_ns = READS, [clock() for _ in range(READS)]
        while len(set(reads_ns)) < DISTINCT and count < MAX_READS:
            count *= 10
            reads_ns = [clock() for _ in range(count)]
        each_ns.append((reads_ns[-1] - reads_ns[0]) / (count - 1))
        if (step_ns := grid_step_ns(sorted(set(reads_ns)))) is not None:
            steps_ns.append(step_ns)
    steps_ns.sort()
    return ClockDescription(
        source=read_text(root / SOURCE_FILE) or None,
        step_ns=steps_ns[len(steps_ns) // 2] if 2 * len(steps_ns) > SERIES else None,
        read_ns=min(each_ns),
    )


def grid_step_ns(reads_ns: Sequence[int]) -> float | None:
    """Find the step of the clock from its readings; None if it is below `MIN_STEP_NS` or unknown.

    Args:
        reads_ns: Distinct readings, ascending.
    """
    if len(reads_ns) < DISTINCT:
        return None
    gaps_ns = [later - earlier for earlier, later in pairwise(reads_ns)]
    # Rounded to whole nanoseconds, the shortest gap has one of two lengths.
    shortest = [gap for gap in gaps_ns if gap <= min(gaps_ns) + 1]
    shortest_ns = sum(shortest) / len(shortest)
    for steps in range(1, MAX_STEPS + 1):
        step_ns = _fitted(reads_ns, shortest_ns / steps, longest_ns=LONG_GAP * shortest_ns)
        if step_ns is not None:
            return step_ns if step_ns >= MIN_STEP_NS else None
    return None


def _fitted(reads_ns: Sequence[int], step_ns: float, *, longest_ns: float) -> float | None:
    """Refine an approximate step by all readings; None if readings are not whole steps apart."""
    first_ns, count, most = reads_ns[0], 0, 0
    for earlier_ns, later_ns in pairwise(reads_ns):
        if later_ns - earlier_ns > longest_ns:  # an interruption, of an unknown number of steps
            first_ns, count = later_ns, 0
            continue
        count += round((later_ns - earlier_ns) / step_ns)
        if abs(later_ns - first_ns - count * step_ns) > ROUNDING_NS:
            return None
        if count > most:  # the rounding is divided among more steps than before
            step_ns, most = (later_ns - first_ns) / count, count
    return step_ns
