"""The sampler process: reads every source at a fixed rate until its standard input closes.

It is a process of its own, so that not a single one of its instructions runs in the worker. It
stamps each value when it was read, on the clock that the queries use.
"""

from __future__ import annotations

import json
import math
import select
import sys
import time
from array import array
from dataclasses import dataclass
from pathlib import Path

from edgebench.agent.telemetry.source import NoData, Reader, Source
from edgebench.agent.telemetry.sources.cpu import Cpu
from edgebench.agent.telemetry.sources.memory import Memory
from edgebench.agent.telemetry.sources.thermal import Thermal
from edgebench.protocol.traces import SENSORS_FILE, TELEMETRY_FILE

RATE_HZ = 2.0
ABSENT_FILE = "absent.json"
SOURCES: tuple[type[Source], ...] = (Cpu, Memory, Thermal)


@dataclass(slots=True)
class Trace:
    """The columns of the telemetry trace."""

    time_ns: array[int]
    sensor: array[int]
    value: array[float]

    def add(self, time_ns: int, first_sensor: int, values: list[float]) -> None:
        """Append one reading of one source."""
        count = len(values)
        self.time_ns.extend([time_ns] * count)
        self.sensor.extend(range(first_sensor, first_sensor + count))
        self.value.extend(values)

    def write(self, path: Path) -> None:
        """Write the packed trace."""
        with path.open("wb") as file:
            for column in (self.time_ns, self.sensor, self.value):
                if sys.byteorder == "big":
                    column.byteswap()
                column.tofile(file)


def main(arguments: list[str]) -> int:
    """Sample into a directory: DIRECTORY WORKER_PID [ROOT]."""
    directory, worker_pid = Path(arguments[0]), int(arguments[1])
    root = Path(arguments[2]) if len(arguments) > 2 else Path("/")
    readers, absent = open_sources(root, worker_pid)
    (directory / ABSENT_FILE).write_text(json.dumps(absent))
    (directory / SENSORS_FILE).write_text(
        json.dumps([sensor for reader in readers for sensor in reader.sensors])
    )
    sample(readers, RATE_HZ).write(directory / TELEMETRY_FILE)
    return 0


def open_sources(root: Path, worker_pid: int) -> tuple[list[Reader], dict[str, str]]:
    """The sources that work here, and why the others do not."""
    readers: list[Reader] = []
    absent: dict[str, str] = {}
    for kind in SOURCES:
        source = kind()
        opened = source.open(root, worker_pid)
        if isinstance(opened, NoData):
            absent[source.name] = opened.reason
        else:
            readers.append(opened)
    return readers, absent


def sample(readers: list[Reader], rate_hz: float) -> Trace:
    """Read at this rate until standard input ends."""
    trace = Trace(array("q"), array("q"), array("d"))
    period_s = 1 / rate_hz
    next_s = time.monotonic() + period_s
    while not _input_ended(next_s - time.monotonic()):
        first = 0
        for reader in readers:
            values = _read(reader)
            trace.add(time.perf_counter_ns(), first, values)
            first += len(values)
        # After a stall, go on from now: a burst of catching up would disturb the run.
        next_s = max(next_s + period_s, time.monotonic())
    return trace


def _read(reader: Reader) -> list[float]:
    """One reading; a source that fails now may answer the next time."""
    try:
        return list(reader.read())
    except (OSError, ValueError, IndexError):
        return [math.nan] * len(reader.sensors)


def _input_ended(wait_s: float) -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], max(0.0, wait_s))
    return bool(readable)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
