"""Comparison of yardsticks (timings of fixed work) of several runs of a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from edgebench.host.result.run import Run
from edgebench.protocol.record import Yardstick

MIN_EARLIER = 5
"""Minimum number of earlier runs whose median is the usual speed of a device."""


@dataclass(frozen=True, slots=True)
class UsualSpeed:
    """Speed of a device in a run or a set, relative to its speed in earlier valid runs."""

    integer_ratio: float
    """Time of the integer work, divided by the median of the earlier runs; above 1 is slower than
    usual."""
    run_count: int


def integer_ns(yardstick: Yardstick) -> float:
    """Time of a unit of integer work, nanoseconds, from the faster of a run's two readings.

    The faster reading is used, because another process may have slowed the other one down.
    """
    return min(yardstick.before.integer_ns_per_unit, yardstick.after.integer_ns_per_unit)


def memory_bytes_per_s(yardstick: Yardstick) -> float:
    """Rate of the copy in memory, from the faster of two readings; 0 if neither has a rate."""
    ends = yardstick.before, yardstick.after
    return max(end.memory_bytes_per_s or 0.0 for end in ends)


def work_of(run: Run) -> tuple[object, ...]:
    """Device, work and CPUs, which must be equal for yardsticks of runs to be comparable."""
    scheduling = run.conditions.scheduling
    return (
        run.device.id,
        run.environment.agent_version,
        run.environment.python,
        scheduling.cpus if scheduling is not None else None,
    )


def usual_speed(runs: Sequence[Run], earlier: Iterable[Run]) -> UsualSpeed | None:
    """Speed during these runs, relative to comparable earlier runs; None if those are too few."""
    now_ns = [
        integer_ns(readings) for run in runs if (readings := run.conditions.yardstick) is not None
    ]
    works = {work_of(run) for run in runs}
    before_ns = [
        integer_ns(readings)
        for run in earlier
        if (readings := run.conditions.yardstick) is not None and {work_of(run)} == works
    ]
    if not now_ns or len(before_ns) < MIN_EARLIER or median(before_ns) <= 0:
        return None
    return UsualSpeed(median(now_ns) / median(before_ns), len(before_ns))
