"""The sampler process, which reads every source at its rate until standard input closes.

The sampler is a separate process, so that its code does not run in the worker, and it does not use
the CPUs under test. Each value is stored with the time at which it was read, on the clock that also
times the queries. Each slow source (a chip behind a bus, a command) has its own thread, so that it
does not delay other readings.

Once a second, the sampler prints temperature and CPU frequency as a line of JSON. It prints another
line when the heat state of the device changes, for example when a zone reaches the temperature at
which the run must end. The daemon signals on standard input whether the seat has watchers. While it
has watchers, the line of each second also contains the samples since the previous line.
"""

from __future__ import annotations

import json
import math
import os
import resource
import select
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path

from edgebench.agent.telemetry.job import FACTS_FILE, JOB_FILE, READY, WATCHED, SamplerJob
from edgebench.agent.telemetry.live import LIVE_PERIOD_S, Observer
from edgebench.agent.telemetry.source import SLOW_HZ, NoData, Reader, TelemetrySource
from edgebench.agent.telemetry.sources import sources_under
from edgebench.agent.telemetry.trace import TelemetryColumns
from edgebench.protocol.telemetry import AbsentSensor, TelemetryFacts
from edgebench.protocol.text import one_line
from edgebench.protocol.traces import TELEMETRY_FILE

JOIN_TIMEOUT_S = 10.0
"""Maximum time for the last readings of all slow sources; a command that reads a sensor also has
its own limit."""


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A telemetry source that was opened and can be read."""

    reader: Reader
    first_sensor: int
    rate_hz: float
    is_slow: bool
    every: int = 1
    """Number of rounds from one reading to the next, for a source without its own thread."""


@dataclass(slots=True)
class LatestValues:
    """The latest value of each sensor; each thread writes only the values of its own sources."""

    sensors: tuple[str, ...]
    values: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = [math.nan] * len(self.sensors)

    def set(self, first_sensor: int, values: Sequence[float]) -> None:
        """Store a new reading of a source."""
        self.values[first_sensor : first_sensor + len(values)] = values


def main(arguments: list[str]) -> int:
    """Sample as the job file in the directory `arguments[0]` specifies; returns the exit code."""
    directory = Path(arguments[0])
    job = SamplerJob(**json.loads((directory / JOB_FILE).read_bytes()))
    if job.cpus:
        with suppress(OSError):  # a CPU that went offline
            os.sched_setaffinity(0, job.cpus)
    sources, facts = open_sources(Path(job.root), job)
    # The cost of opening precedes the worker; only the cost during its run is counted.
    begin_s, begin_cpu_s = time.monotonic(), _cpu_s()
    print(READY, flush=True)
    traces = sample(sources, facts, job)
    facts = replace(
        facts,
        reading_count=sum(map(len, traces)),
        cpu_s=_cpu_s() - begin_cpu_s,
        wall_s=time.monotonic() - begin_s,
    )
    TelemetryColumns.write(directory / TELEMETRY_FILE, traces)
    (directory / FACTS_FILE).write_text(json.dumps(asdict(facts)))
    return 0


def open_sources(
    root: Path, job: SamplerJob, kinds: Sequence[type[TelemetrySource]] | None = None
) -> tuple[list[OpenedSource], TelemetryFacts]:
    """Open the sources that work here; the facts list the other sources, with the reasons."""
    opened: list[OpenedSource] = []
    sensors: list[str] = []
    constants: dict[str, float] = {}
    absent: list[AbsentSensor] = []
    for kind in sources_under(root) if kinds is None else kinds:
        source = kind()
        try:
            reader = source.open(root, job.worker_pid)
        except Exception as exc:  # OSError, ValueError or any other type
            # An unknown board costs a single source, never the others.
            reader = NoData(one_line(f"probing failed: {type(exc).__name__}: {exc}"))
        if isinstance(reader, NoData):
            absent.append(AbsentSensor(source.name, reader.reason))
            continue
        rate_hz = min(job.rate_hz, source.rate_hz_max)
        is_slow = source.rate_hz_max <= SLOW_HZ
        every = 1 if is_slow else max(1, round(job.rate_hz / rate_hz))
        opened.append(OpenedSource(reader, len(sensors), rate_hz, is_slow, every))
        sensors += reader.sensors
        constants |= reader.constants
        absent += [AbsentSensor(name, reason) for name, reason in reader.absent.items()]
    return opened, TelemetryFacts(tuple(sensors), constants, tuple(absent), job.rate_hz)


def sample(
    sources: list[OpenedSource], facts: TelemetryFacts, job: SamplerJob
) -> list[TelemetryColumns]:
    """Read all sources until standard input ends; returns a trace for each thread."""
    latest, observer = LatestValues(facts.sensors), Observer(facts.sensors, job)
    ended = threading.Event()
    slow = [_SlowSource(source, latest, ended) for source in sources if source.is_slow]
    fast = [source for source in sources if not source.is_slow]
    for thread in slow:
        thread.start()
    trace = TelemetryColumns()
    period_s = 1 / job.rate_hz
    next_s = live_s = time.monotonic()
    for look in count():
        if not _wait_until(next_s, observer):
            break
        for source in fast:
            if look % source.every == 0:
                _read(source, trace, latest)
        observer.look(latest.values)
        if observer.is_watched:
            observer.keep(time.perf_counter_ns(), latest.values)
        if next_s >= live_s:
            observer.report(time.perf_counter_ns(), latest.values)
            live_s = next_s + LIVE_PERIOD_S
        # After a stall, continue from now: catching up in a burst would disturb the run.
        next_s = max(next_s + period_s, time.monotonic())
    ended.set()
    for source in fast:
        _read(source, trace, latest)
    # A slow sensor that never responds must not cost the last readings of the others.
    deadline_s = time.monotonic() + JOIN_TIMEOUT_S
    for thread in slow:
        thread.join(max(0.0, deadline_s - time.monotonic()))
    return [trace, *(thread.trace for thread in slow)]


def _wait_until(next_s: float, observer: Observer) -> bool:
    """Wait for the next round, and read the daemon's signals; False if the pipe is closed."""
    while select.select([sys.stdin], [], [], max(0.0, next_s - time.monotonic()))[0]:
        words = os.read(sys.stdin.fileno(), 64)
        if not words:  # closed by the daemon or its end
            return False
        observer.is_watched = words.endswith(WATCHED)
    return True


class _SlowSource(threading.Thread):
    """Reads a source at its own rate, and once more at the end.

    Without the reading at the end, a status bit that was set after the previous reading would be
    missed.
    """

    def __init__(self, source: OpenedSource, latest: LatestValues, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self.trace = TelemetryColumns()
        self._source = source
        self._latest = latest
        self._ended = ended

    def run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._ended.is_set()
            _read(self._source, self.trace, self._latest)
            self._ended.wait(1 / self._source.rate_hz)


def _read(source: OpenedSource, trace: TelemetryColumns, latest: LatestValues) -> None:
    """Read a source; if it fails, NaN is stored, and the source is read again in the next round."""
    try:
        values: Sequence[float] = source.reader.read()
    except Exception:  # OSError, ValueError: NaN marks a missing reading
        values = [math.nan] * len(source.reader.sensors)
    trace.add(time.perf_counter_ns(), source.first_sensor, values)
    latest.set(source.first_sensor, values)


def _cpu_s() -> float:
    """CPU time of this process and of the commands that it started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
