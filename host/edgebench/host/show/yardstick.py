"""Speed of the device, measured with a fixed amount of work, as lines for runs and sets."""

from __future__ import annotations

from collections.abc import Sequence

from edgebench.host.analysis.yardstick import UsualSpeed, integer_ns, memory_bytes_per_s
from edgebench.host.result.units import format_ns
from edgebench.protocol.record import Yardstick


def yardstick_line(yardstick: Yardstick) -> str:
    """Speed of the device before and after a run, with the change."""
    before, after = yardstick.before, yardstick.after
    was_ns, now_ns = before.integer_ns_per_unit, after.integer_ns_per_unit
    line = (
        f"integer work {format_ns(was_ns)} per unit before the run, {format_ns(now_ns)} after "
        f"({_percent(now_ns, was_ns)})"
    )
    rates = before.memory_bytes_per_s, after.memory_bytes_per_s
    if rates[0] is None or rates[1] is None:
        return f"{line}; copy not measured, for lack of memory"
    return (
        f"{line}; copy {_gigabytes(rates[0])} before, {_gigabytes(rates[1])} after "
        f"({_percent(rates[1], rates[0])})"
    )


def yardsticks_line(yardsticks: Sequence[Yardstick]) -> str:
    """Range of the device's speed over the runs of a set, using the faster reading of each run."""
    times_ns = list(map(integer_ns, yardsticks))
    rates = list(map(memory_bytes_per_s, yardsticks))
    low_ns, high_ns = min(times_ns), max(times_ns)
    return (
        f"integer work {format_ns(low_ns)} to {format_ns(high_ns)} per unit "
        f"({_percent(high_ns, low_ns)}), copy {_gigabytes(min(rates))} to "
        f"{_gigabytes(max(rates))}, over {len(times_ns)} runs"
    )


def usual_line(usual: UsualSpeed) -> str:
    """Speed of the device compared with earlier runs."""
    times = f"integer work took {usual.integer_ratio:.3f} times the median"
    return f"{times} of the last {usual.run_count} valid runs on this device"


def _percent(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.1f} %" if base > 0 else "—"


def _gigabytes(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.3g} GB/s"
