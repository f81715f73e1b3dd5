"""The yardstick: fixed work that shows the speed of the device before and after a run.

Theory of operation. Virtual machines, containers and phones may hide the clock frequency of their
CPUs. The same work takes longer at a lower frequency, whether or not the frequency can be read. The
yardstick has two kinds of work. The integer work is a modular power of a number of 521 bits, which
needs the CPU and its first-level cache. The memory work is a copy between two buffers that exceed
the last-level cache of most edge devices (Raspberry Pi 5: 2 MiB, RK3588: 3 MiB, Jetson Orin: 4
MiB). On a device with a larger cache, the copy shows the speed of the cache.

Each kind of work takes about 20 ms, in many parts that are timed separately. Other processes make
parts slower, never faster, so the figure is the first decile of the times of the parts. The memory
work runs between two halves of the integer work. Another process therefore changes the figure of
the integer work only if it interferes for the whole 40 ms. The number of units in a part is
determined once, so both readings of a run do the same integer work. No reading is repeated, because
a slightly throttled device could cool down in the meantime.

The buffers are mapped, not allocated by malloc. The release of a large block of malloc would raise
glibc's threshold for mapped blocks. The runtime would then allocate memory in another way during
the timed loop. The buffers are populated, so that the copy causes no page faults.

Source: mallopt(3), M_MMAP_THRESHOLD; McCalpin, STREAM, https://www.cs.virginia.edu/stream/ref.html.
STREAM counts the bytes that a copy reads, and the bytes that the copy writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from mmap import MAP_ANONYMOUS, MAP_POPULATE, MAP_PRIVATE, mmap
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from edgebench.agent.cpu_ticks import own_cpus
from edgebench.agent.simulated import slowed
from edgebench.agent.telemetry.source import read_text
from edgebench.protocol.record import YardstickReading

WORK_NS = 20_000_000
"""Duration of each kind of work."""
PART_COUNT = 40
"""Number of parts of the integer work. A part takes 0.5 ms; a process that interrupts the work gets
a longer time slice from Linux, 3 ms. Source: Linux, kernel/sched/fair.c, sysctl_sched_base_slice:
0.7 ms, times 1 + log2 of the number of CPUs, which is capped at 8."""
CALIBRATION_COUNT = 32
"""Number of trial units; the fastest of them determines the number of units in a part."""
MODULUS = 2**521 - 1
"""A prime; source: NIST SP 800-186, P-521."""
EXPONENT = 65537
BASE = 3**328
"""Base of the modular power: a number of 520 bits."""
BUFFER_BYTES = 8 * 2**20
PIECE_BYTES = 2**20
"""Size of each part of the copy."""

Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class FixedWork:
    """The work of a yardstick, the same before and after a run."""

    unit: Callable[[], Any]
    """Function that does a unit of the integer work."""
    unit_count: int
    """Number of units of integer work in each timed part."""
    root: Path = Path("/")
    """Directory with the files of the device."""
    clock: Clock = perf_counter_ns

    def measure(self) -> YardstickReading:
        """Do the work, which takes about 50 ms, and return its figures."""
        with _on_fastest_cpus(self.root):
            first_ns = self._integer_ns()
            copy_ns = _copy_ns(self.clock)
            integer_ns, integer_spread = fast_part([*first_ns, *self._integer_ns()])
        if copy_ns is None:
            return YardstickReading(integer_ns, integer_spread, None, None)
        piece_ns, memory_spread = fast_part(copy_ns)
        bytes_per_s = 2 * PIECE_BYTES / max(piece_ns, 1) * 1e9
        return YardstickReading(integer_ns, integer_spread, bytes_per_s, memory_spread)

    def _integer_ns(self) -> list[float]:
        """Do half of the integer work; returns the mean time of a unit for each part."""
        unit, clock, times_ns = self.unit, self.clock, list[float]()
        for _ in range(PART_COUNT // 2):
            begin_ns = clock()
            for _ in range(self.unit_count):
                unit()
            times_ns.append((clock() - begin_ns) / self.unit_count)
        return times_ns


def calibrated_work(root: Path = Path("/"), speed_path: str | None = None) -> FixedWork:
    """Work whose parts take about `WORK_NS / PART_COUNT` on this device now.

    Args:
        root: Directory with the files of the device.
        speed_path: File with the speed of a simulated device; None for a real device.
    """
    unit, times_ns = slowed(_unit, speed_path), list[int]()
    for _ in range(CALIBRATION_COUNT):
        begin_ns = perf_counter_ns()
        unit()
        times_ns.append(perf_counter_ns() - begin_ns)
    part_ns = WORK_NS / PART_COUNT
    return FixedWork(unit, max(1, round(part_ns / max(1, min(times_ns)))), root)


def fast_part(times_ns: Sequence[float]) -> tuple[float, float]:
    """First decile of the parts' times, and their interquartile range divided by their median.

    >>> fast_part([110, 120, 130, 140, 150, 160, 170, 180, 190, 200, 300])
    (120, 0.375)
    """
    ordered, count = sorted(times_ns), len(times_ns)
    lower, median, upper = (ordered[count * quarter // 4] for quarter in (1, 2, 3))
    return ordered[count // 10], (upper - lower) / max(median, 1)


def _unit() -> None:
    pow(BASE, EXPONENT, MODULUS)


def _copy_ns(clock: Clock) -> list[int] | None:
    """Time of each copied piece; None if there is no memory for the buffers."""
    flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE
    try:
        source, target = mmap(-1, BUFFER_BYTES, flags), mmap(-1, BUFFER_BYTES, flags)
    except OSError:
        return None
    times_ns: list[int] = []
    with source, target, memoryview(source) as read, memoryview(target) as written:
        begin_ns = end_ns = clock()
        while end_ns - begin_ns < WORK_NS or len(times_ns) < BUFFER_BYTES // PIECE_BYTES:
            offset = len(times_ns) * PIECE_BYTES % BUFFER_BYTES
            part = slice(offset, offset + PIECE_BYTES)
            start_ns = clock()
            written[part] = read[part]
            end_ns = clock()
            times_ns.append(end_ns - start_ns)
    return times_ns


@contextmanager
def _on_fastest_cpus(root: Path) -> Iterator[None]:
    """Keep this thread on the fastest of the run's CPUs, to which Linux also moves a busy model.

    Otherwise, a reading from an efficiency core could be compared with a reading from a performance
    core.
    """
    allowed = own_cpus()
    fastest = fastest_cpus(allowed, root)
    if fastest == allowed:
        yield
        return
    with suppress(OSError):
        os.sched_setaffinity(0, fastest)
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)


def fastest_cpus(cpus: tuple[int, ...], root: Path) -> tuple[int, ...]:
    """The CPUs with the highest capacity; all of them if the kernel does not report capacities.

    Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu, cpu_capacity.
    """
    folder = root / "sys/devices/system/cpu"
    texts = {cpu: read_text(folder / f"cpu{cpu}/cpu_capacity") for cpu in cpus}
    capacities = {cpu: int(text) for cpu, text in texts.items() if text.isdecimal()}
    if len(capacities) < len(cpus):
        return cpus
    return tuple(cpu for cpu in cpus if capacities[cpu] == max(capacities.values()))
