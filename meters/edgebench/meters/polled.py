"""Session of polled meters, in which a thread takes readings at a mean rate.

A packet holds a round of readings: the contents of files, and the times when they were read. The
driver's decoder converts the contents to numbers later.
"""

from __future__ import annotations

import math
import os
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import msgpack
import numpy as np

from edgebench.meters.base import Flag, Gap, Header, LossReport, Packet, SampleBlock
from edgebench.meters.recorder import Recorder

HOST_CLOCK = "host:monotonic"
READ_BYTES = 4096
INTERVAL_RATIOS = 0.5, 1.5
"""Shortest and longest polling interval of instantaneous values, relative to the mean interval.
Polling in step with the inferences would sample the same moment of each inference. If the
difference between the longest and the shortest interval equals the mean interval, random intervals
are not in step with any period.

Source: Shapiro and Silverman, Alias-free sampling of random noise (1960), additive random
sampling."""
_LATE_RATIO = 1.9
"""Rounds were missed if more than this many mean intervals have passed since the previous round."""
_ROUNDS = 256
"""Number of polling rounds whose points form a block of samples."""
_INTEGER_END = 1 << 64

Reading = tuple[int, bytes | None]
"""Time of the host's clock in ns, and the content of a file (None if the file could not be
read)."""
Read = Callable[[], list[Reading]]
"""Function that reads a round; raises TargetError if the meter is gone."""
Clock = Callable[[], int]


def timed(read: Callable[[], bytes | None], clock_ns: Clock = time.perf_counter_ns) -> Reading:
    """Call `read`, and return its result with the time in the middle of the call."""
    before_ns = clock_ns()
    content = read()
    return (before_ns + clock_ns()) // 2, content


class Files:
    """Files that are kept open and read from their beginning each time."""

    def __init__(self, paths: Sequence[Path], clock_ns: Clock = time.perf_counter_ns) -> None:
        """Open all files.

        Raises:
            OSError: a file cannot be opened.
        """
        self._clock_ns = clock_ns
        self._descriptors: list[int] = []
        try:
            for path in paths:
                self._descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            self.close()
            raise

    def read(self) -> list[Reading]:
        """Read a round, in the order of the paths."""
        return [self._one(descriptor) for descriptor in self._descriptors]

    def close(self) -> None:
        """Close all files; may be called twice."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _one(self, descriptor: int) -> Reading:
        before_ns = self._clock_ns()
        try:
            content = os.pread(descriptor, READ_BYTES, 0)
        except OSError:
            return before_ns, None
        # Reading a sensor on a bus takes a millisecond: the time of the value is the middle of it.
        return (before_ns + self._clock_ns()) // 2, content


class PolledSession(Recorder):
    """Calls `read` in its own thread, at random intervals if values are instantaneous."""

    def __init__(
        self,
        read: Read,
        header: Header,
        path: Path,
        chance: random.Random | None = None,
        *,
        set_up: Callable[[], Header] | None = None,
    ) -> None:
        super().__init__(header, path, set_up=set_up)
        self._read = read
        self._chance = chance or random.Random()

    def _begin(self) -> None:
        self._attempt(self._keep)  # the start of the first interval

    def _work(self) -> None:
        next_s = time.monotonic() + self._interval_s()
        while not self._is_over.wait(max(0.0, next_s - time.monotonic())):
            self._keep()
            # Missed rounds are not repeated: they would all sample the same moment.
            next_s = max(next_s + self._interval_s(), time.monotonic())

    def _interval_s(self) -> float:
        capability = self._header.capability
        # Means cover all time between readings, and are noisier over shorter intervals.
        low, high = (1.0, 1.0) if capability.is_averaging else INTERVAL_RATIOS
        return self._chance.uniform(low, high) / capability.rate_hz

    def _finish(self) -> None:
        if self.trouble is None:
            self._keep()  # the end of the last interval

    def _keep(self) -> None:
        readings = self._read()
        times = [time_ns for time_ns, _ in readings]
        self._append(Packet(times[0], times[-1], cast(bytes, msgpack.packb(readings))))


class Point(NamedTuple):
    """A value of a channel.

    Points are tuples for speed, because every round creates one for each rail.
    """

    time_ns: int
    power_w: float
    channel: int = 0
    flags: Flag = Flag.NONE
    begin_ns: int | None = None
    """Start of the averaging interval; None if the value is instantaneous."""
    current_a: float = math.nan
    voltage_v: float = math.nan

    @classmethod
    def missing(cls, time_ns: int, channel: int = 0, begin_ns: int | None = None) -> Point:
        """A value that could not be read: NaN, never zero."""
        return cls(time_ns, math.nan, channel, Flag.MISSING, begin_ns)


class PolledDecoder(ABC):
    """Groups points into blocks; a driver defines the points of a round."""

    def __init__(self, header: Header) -> None:
        capability = self._capability = header.capability
        self._points: list[list[Point]] = [[] for _ in capability.channels]
        self._index = [0] * len(capability.channels)
        self._rounds = 0
        self._missing = 0
        self._saturated = 0
        self._late_ns = _LATE_RATIO * 1e9 / capability.rate_hz
        self._last_ns: int | None = None
        self._gaps: list[Gap] = []

    @abstractmethod
    def points(self, readings: list[Reading]) -> list[Point]:
        """Return the points of a round; the first round of an energy counter has no points."""

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return a block per channel after every `_ROUNDS` rounds, otherwise none."""
        readings = [(int(time_ns), data) for time_ns, data in msgpack.unpackb(packet.data)]
        self._watch(packet.first_rx_ns)
        for point in self.points(readings):
            self._points[point.channel].append(point)
        self._rounds += 1
        return self.finish() if self._rounds % _ROUNDS == 0 else []

    def finish(self) -> list[SampleBlock]:
        """Return the samples that were held back until a block is full."""
        blocks = [self._block(c, points) for c, points in enumerate(self._points) if points]
        self._points = [[] for _ in self._points]
        return blocks

    def loss(self) -> LossReport:
        """Missed rounds and unreadable values, counted per channel."""
        waiting = [point for points in self._points for point in points]
        missing = self._missing + sum(Flag.MISSING in point.flags for point in waiting)
        saturated = self._saturated + sum(Flag.SATURATED in point.flags for point in waiting)
        missed = len(self._index) * sum(gap.count for gap in self._gaps)
        return LossReport(
            received_count=sum(self._index) + len(waiting) - missing,
            lost_count=missed + missing,
            gaps=tuple(self._gaps),
            saturated_count=saturated,
        )

    def _watch(self, time_ns: int) -> None:
        """Record a gap if rounds are missing between the previous round and this round.

        Averaging meters lose nothing in a missed round, because the next mean includes the time of
        this round.
        """
        if self._capability.is_averaging:
            return
        if self._last_ns is not None and time_ns - self._last_ns > self._late_ns:
            missed = round((time_ns - self._last_ns) * self._capability.rate_hz / 1e9) - 1
            if missed > 0:
                self._gaps.append(Gap(self._last_ns, time_ns, missed, "rounds missed"))
        self._last_ns = time_ns

    def _block(self, channel: int, points: list[Point]) -> SampleBlock:
        begins = [point.begin_ns for point in points if point.begin_ns is not None]
        index0 = self._index[channel]
        self._index[channel] += len(points)
        flags = np.array([int(point.flags) for point in points], np.uint8)
        self._missing += int(np.count_nonzero(flags & np.uint8(Flag.MISSING)))
        self._saturated += int(np.count_nonzero(flags & np.uint8(Flag.SATURATED)))
        return SampleBlock(
            channel=channel,
            index0=index0,
            begin_ns=np.array(begins, np.int64) if len(begins) == len(points) else None,
            time_ns=np.array([point.time_ns for point in points], np.int64),
            power_w=np.array([point.power_w for point in points]),
            flags=flags,
            current_a=_column([point.current_a for point in points]),
            voltage_v=_column([point.voltage_v for point in points]),
        )


def _column(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """Array of the values; None if the meter does not measure this quantity."""
    column = np.array(values)
    return None if np.isnan(column).all() else column


def number(content: bytes | None) -> int | None:
    """Integer in the content of a file; None if it is not an integer of at most 64 bits."""
    try:
        value = None if content is None else int(content)
    except ValueError:
        return None
    return value if value is not None and abs(value) < _INTEGER_END else None
