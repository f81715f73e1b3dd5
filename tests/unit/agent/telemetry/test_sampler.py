"""The sampler as a process, on a made-up tree."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from support.agents import wait_until
from support.trees import RASPBERRY_PI_5, make_tree

from edgebench.agent.telemetry.sampler import ABSENT_FILE
from edgebench.protocol.traces import SENSORS_FILE, TELEMETRY_COLUMNS, TELEMETRY_FILE, row_count


def test_sampler_writes_whole_columns_on_the_clock_of_the_queries(tmp_path: Path) -> None:
    """Telemetry cannot be laid over the latencies, or the sampler outlives its run."""
    root = make_tree(tmp_path / "root", RASPBERRY_PI_5)
    directory = tmp_path / "run"
    directory.mkdir()
    begin_ns = time.perf_counter_ns()
    command = ["-m", "edgebench.agent.telemetry.sampler", str(directory), "4321", str(root)]
    with subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE) as process:
        wait_until((directory / SENSORS_FILE).exists, "the sampler opened its sources")
        sampling_ns = time.perf_counter_ns()
        wait_until(lambda: time.perf_counter_ns() - sampling_ns > 1.7e9, "two readings were made")
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == 0
    sensors = json.loads((directory / SENSORS_FILE).read_text())
    assert "thermal.cpu-thermal.0.temp_c" in sensors
    assert "memory" in json.loads((directory / ABSENT_FILE).read_text())
    data = (directory / TELEMETRY_FILE).read_bytes()
    count = row_count(len(data), TELEMETRY_COLUMNS)
    assert count >= 2 * len(sensors)
    time_ns, sensor = np.frombuffer(data, "<i8", 2 * count).reshape(2, count)
    value = np.frombuffer(data, "<f8", count, 16 * count)
    assert begin_ns < time_ns[0]
    assert time_ns[-1] < time.perf_counter_ns()
    assert np.all(np.diff(time_ns) >= 0)
    assert set(sensor) == set(range(len(sensors)))
    assert set(value[sensor == sensors.index("thermal.cpu-thermal.0.temp_c")]) == {54.05}
