"""The sampler as a process, on made-up boards."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.boards import BOARDS, make_board
from support.sampling import facts_of, last_values, sampling

from edgebench.agent.telemetry import sampler
from edgebench.agent.telemetry.job import SamplerJob
from edgebench.agent.telemetry.source import FileSensors, NoData, scaled
from edgebench.agent.telemetry.sources.thermal import Thermal
from edgebench.protocol.record import TelemetryFacts
from edgebench.protocol.traces import TELEMETRY_COLUMNS, TELEMETRY_FILE, row_count

PID = 4321


def test_sampler_writes_whole_columns_on_the_clock_of_the_queries(tmp_path: Path) -> None:
    """Telemetry cannot be laid over the latencies, or the sampler outlives its run."""
    root = make_board(tmp_path / "root", BOARDS["raspberry_pi_5"])
    directory = tmp_path / "run"
    begin_ns = time.perf_counter_ns()
    with sampling(directory, SamplerJob(PID, str(root), rate_hz=20.0)):
        time.sleep(1.2)
    found = facts_of(directory)
    data = (directory / TELEMETRY_FILE).read_bytes()
    count = row_count(len(data), TELEMETRY_COLUMNS)
    assert count == found.reading_count
    time_ns, sensor = np.frombuffer(data, "<i8", 2 * count).reshape(2, count)
    assert begin_ns < time_ns[0]
    assert time_ns[-1] < time.perf_counter_ns()
    assert np.all(np.diff(time_ns) >= 0)
    assert set(sensor) == set(range(len(found.sensors)))
    fast, slow = (
        int(np.count_nonzero(sensor == found.sensors.index(name)))
        for name in ("thermal.cpu-thermal.0.temp_c", "rpi.throttled_bits")
    )
    assert fast > 3 * slow > 0, "a command is started once a second, not twenty times"
    assert 0 < found.cpu_s < found.wall_s


def test_sampler_stays_on_its_cpus(tmp_path: Path) -> None:
    """The sampler shares the core that is under test."""
    root = make_board(tmp_path / "root", BOARDS["bare_vm"])
    first = min(os.sched_getaffinity(0))
    with sampling(tmp_path / "run", SamplerJob(PID, str(root), cpus=(first,))) as process:
        assert os.sched_getaffinity(process.pid) == {first}


def test_sampler_tells_the_hottest_zone_once_a_second(tmp_path: Path) -> None:
    """A person who waits for half an hour does not see how warm the device is."""
    root = make_board(tmp_path / "root", BOARDS["raspberry_pi_5"])
    with sampling(tmp_path / "run", SamplerJob(PID, str(root))) as process:
        assert process.stdout is not None
        live = json.loads(process.stdout.readline())["live"]
    assert (live["temp_c"], live["freq_hz"]) == (54.05, 2.4e9)
    assert live["time_ns"] < time.perf_counter_ns()


@pytest.mark.parametrize(
    ("board", "zones", "path"),
    [
        ("raspberry_pi_5", (), "thermal_zone0"),
        ("raspberry_pi_5", ("cpu-thermal",), "thermal_zone0"),
        ("raspberry_pi_5", ("no such zone",), "thermal_zone0"),
        ("jetson_nano", ("CPU-therm",), None),
    ],
)
def test_device_that_is_too_hot_is_told_once(
    tmp_path: Path, board: str, zones: tuple[str, ...], path: str | None
) -> None:
    """A board is cooked by a benchmark that nobody watches, or a dummy of 100 °C ends every run."""
    root = make_board(tmp_path / "root", BOARDS[board])
    job = SamplerJob(PID, str(root), rate_hz=20.0, abort_c=88.0, zones=zones)
    with sampling(tmp_path / "run", job) as process:
        time.sleep(0.3)
        if path:
            (root / f"sys/class/thermal/{path}/temp").write_text("88500\n")
        time.sleep(1.0)
        assert process.stdin is not None
        process.stdin.close()
        assert process.stdout is not None
        said = [json.loads(line) for line in process.stdout]
    aborts = [message["abort"] for message in said if "abort" in message]
    assert aborts == ([{"zone": "cpu-thermal", "temp_c": 88.5, "limit_c": 88.0}] if path else [])
    assert all(message["live"]["temp_c"] < 89 for message in said if "live" in message)


def test_one_nonsensical_reading_ends_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A sensor that answers 200 degrees once costs a run of half an hour."""
    from edgebench.agent.telemetry.live import Observer

    guard = Observer(("thermal.cpu.0.temp_c",), SamplerJob(PID, abort_c=90.0))
    for temp_c in (50.0, 200.0, 50.0, 200.0, 200.0, 50.0):
        guard.look([temp_c])
    assert capsys.readouterr().out == ""
    for _ in range(5):
        guard.look([91.0])
    assert capsys.readouterr().out.count("abort") == 1


class Breaking:
    """A source that fails where it should look."""

    name = "breaking"
    rate_hz_max = math.inf

    def open(self, root: Path, worker_pid: int) -> NoData:
        """Fail over something that nobody foresaw."""
        raise RuntimeError(f"no such thing\nunder {root}")


def test_source_that_fails_to_look_is_absent_with_its_reason(tmp_path: Path) -> None:
    """A file of an unknown board in one source costs the telemetry of all others."""
    root = make_board(tmp_path / "root", BOARDS["raspberry_pi_5"])
    opened, facts = sampler.open_sources(root, SamplerJob(PID, str(root)), (Breaking, Thermal))
    assert len(opened) == 1
    assert facts.sensors == ("thermal.cpu-thermal.0.temp_c",)
    (absent,) = facts.absent
    reason = f"probing failed: RuntimeError: no such thing under {root}"
    assert (absent.sensor, absent.reason) == ("breaking", reason)


def test_all_sensors_are_read_once_more_at_the_end(tmp_path: Path) -> None:
    """A bit that was set after the last slow reading is not seen, though it stays set."""
    root = make_board(tmp_path / "root", BOARDS["raspberry_pi_5"])
    with sampling(tmp_path / "run", SamplerJob(PID, str(root), rate_hz=1.0)):
        time.sleep(0.3)  # the first readings of slow sources are over, the second are not due
        (root / "sys/class/thermal/thermal_zone0/temp").write_text("61000\n")
        (root / "sim/get_throttled").write_text("0xe0000\n")
    values = last_values(tmp_path / "run")
    assert values["rpi.throttled_bits"] == 0xE0000
    assert values["thermal.cpu-thermal.0.temp_c"] == 61.0


class Stuck:
    """A reader that never answers."""

    sensors = ("stuck.volts_v",)
    constants: dict[str, float] = {}
    absent: dict[str, str] = {}

    def read(self) -> list[float]:
        """Wait for ever."""
        threading.Event().wait()
        return []


@pytest.mark.timeout(20)
def test_sensor_that_hangs_does_not_keep_the_trace_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chip whose bus is stuck keeps the sampler, and the run with it, for ever."""
    read_end, write_end = os.pipe()
    os.close(write_end)
    monkeypatch.setattr(sampler, "JOIN_TIMEOUT_S", 0.2)
    with os.fdopen(read_end) as ended:
        monkeypatch.setattr("sys.stdin", ended)
        fast = FileSensors()
        assert fast.add("thermal.cpu.0.temp_c", Path("/proc/self/coredump_filter"), scaled())
        sources = [
            sampler.Opened(Stuck(), 0, 2.0, is_slow=True),
            sampler.Opened(fast, 1, 10.0, is_slow=False),
        ]
        facts = TelemetryFacts((*Stuck.sensors, *fast.sensors), rate_hz=10.0)
        traces = sampler.sample(sources, facts, SamplerJob(PID))
    assert [len(trace) for trace in traces] == [1, 0]
