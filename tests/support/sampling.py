"""A real sampler in a process of its own."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from edgebench.agent.telemetry.job import FACTS_FILE, JOB_FILE, READY, SamplerJob
from edgebench.host.analysis.thermal.telemetry import TelemetryTrace, split_by_sensor
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.protocol.telemetry import TelemetryFacts
from edgebench.protocol.traces import TELEMETRY_COLUMNS, TELEMETRY_FILE, row_count


@contextmanager
def sampling(directory: Path, job: SamplerJob) -> Iterator[subprocess.Popen[str]]:
    """A sampler that has opened its sources; ends it, and waits for its trace."""
    directory.mkdir(exist_ok=True)
    (directory / JOB_FILE).write_text(json.dumps(to_plain(job)))
    command = [sys.executable, "-m", "edgebench.agent.telemetry.sampler", str(directory)]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().strip() == READY
        yield process
        process.stdin.close()
        assert process.wait(60) == 0


def wait_for_a_look(process: subprocess.Popen[str]) -> None:
    """Until every source was read once; those with a thread of their own read before they end."""
    assert process.stdout is not None
    assert "live" in json.loads(process.stdout.readline())


def facts_of(directory: Path) -> TelemetryFacts:
    """What the sampler found."""
    return from_plain(json.loads((directory / FACTS_FILE).read_text()), TelemetryFacts)


def sampled(directory: Path) -> TelemetryTrace:
    """Every reading, on the clock of this machine."""
    data = (directory / TELEMETRY_FILE).read_bytes()
    count = row_count(len(data), TELEMETRY_COLUMNS)
    time_ns, sensor = np.frombuffer(data, "<i8", 2 * count).reshape(2, count)
    value = np.frombuffer(data, "<f8", count, 16 * count)
    facts = facts_of(directory)
    return TelemetryTrace(split_by_sensor(time_ns, sensor, value, facts.sensors), facts.constants)


def last_values(directory: Path) -> dict[str, float]:
    """The last number of each sensor; NaN where there never was one."""
    data = (directory / TELEMETRY_FILE).read_bytes()
    count = row_count(len(data), TELEMETRY_COLUMNS)
    _, sensor = np.frombuffer(data, "<i8", 2 * count).reshape(2, count)
    value = np.frombuffer(data, "<f8", count, 16 * count)
    sensors = facts_of(directory).sensors
    found = dict.fromkeys((sensors[i] for i in sensor), math.nan)
    is_number = ~np.isnan(value)
    return found | {
        sensors[i]: float(v) for i, v in zip(sensor[is_number], value[is_number], strict=True)
    }
