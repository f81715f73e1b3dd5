"""The sampler as a process, on made-up boards."""

from __future__ import annotations

import json
import math
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.boards import BOARDS, make_board
from support.sampling import facts_of, last_values, sampled, sampling

from edgebench.agent.telemetry import sampler
from edgebench.agent.telemetry.job import SamplerJob
from edgebench.agent.telemetry.live import Observer
from edgebench.agent.telemetry.source import FileSensors, NoData, scaled
from edgebench.agent.telemetry.sources.thermal import ThermalSource
from edgebench.protocol.telemetry import TelemetryFacts
from edgebench.protocol.traces import TELEMETRY_COLUMNS, TELEMETRY_FILE, row_count

PID = 4321


def heard_until(process: subprocess.Popen[str], kind: str) -> list[dict[str, Any]]:
    """Return what the sampler sends, up to the next message of this kind."""
    assert process.stdout is not None
    said: list[dict[str, Any]] = []
    while not said or kind not in said[-1]:
        said.append(json.loads(process.stdout.readline()))
    return said


def test_sampler_writes_whole_columns_on_the_clock_of_the_queries(tmp_path: Path) -> None:
    """Otherwise telemetry could not be aligned with latencies, or the sampler outlive its run."""
    root = make_board(tmp_path / "root", BOARDS["raspberry_pi_5"])
    directory = tmp_path / "run"
    begin_ns = time.perf_counter_ns()
    with sampling(directory, SamplerJob(PID, str(root), rate_hz=20.0)) as process:
        for _ in range(3):
            heard_until(process, "live")
    found = facts_of(directory)
    data = (directory / TELEMETRY_FILE).read_bytes()
    count = row_count(len(data), TELEMETRY_COLUMNS)
    assert count == found.reading_count
    time_ns, sensor = np.frombuffer(data, "<i8", 2 * count).reshape(2, count)
    assert begin_ns < time_ns[0]
    assert time_ns[-1] < time.perf_counter_ns()
    assert np.all(np.diff(time_ns) >= 0)
    assert set(sensor) == set(range(len(found.sensors)))
    slow_ns = time_ns[sensor == found.sensors.index("rpi.throttled_bits")]
    assert len(slow_ns) >= 3
    is_seldom = np.diff(slow_ns)[:-1] > 0.9e9  # except for the last
    assert is_seldom.all(), "a command is started once a second, not twenty times"
    assert 0 < found.cpu_s < found.wall_s


def test_totals_of_the_machine_are_read_less_often(tmp_path: Path) -> None:
    """Otherwise most of the cost of watching would go into files that change slowly."""
    root = make_board(tmp_path / "root", BOARDS["raspberry_pi_5"])
    directory = tmp_path / "run"
    with sampling(directory, SamplerJob(PID, str(root), rate_hz=20.0)) as process:
        for _ in range(2):
            heard_until(process, "live")
    series = sampled(directory).series
    fast_ns, calm_ns = (
        series[name].time_ns for name in ("thermal.cpu-thermal.0.temp_c", "memory.available_bytes")
    )
    assert len(calm_ns) >= 3
    looks_between = np.diff(np.searchsorted(fast_ns, calm_ns))[:-1]  # except for the last
    assert looks_between.min() > 4


def test_sampler_stays_on_its_cpus(tmp_path: Path) -> None:
    """Otherwise the sampler would share the core that is under test."""
    root = make_board(tmp_path / "root", BOARDS["bare_vm"])
    first = min(os.sched_getaffinity(0))
    with sampling(tmp_path / "run", SamplerJob(PID, str(root), cpus=(first,))) as process:
        assert os.sched_getaffinity(process.pid) == {first}


def test_sampler_tells_the_hottest_zone_once_a_second(tmp_path: Path) -> None:
    """Otherwise a user who waits for half an hour would not see how warm the device is."""
    root = make_board(tmp_path / "root", BOARDS["raspberry_pi_5"])
    job = SamplerJob(PID, str(root), freq_sources=("scaling_cur_freq",))
    with sampling(tmp_path / "run", job) as process:
        assert process.stdout is not None
        live = json.loads(process.stdout.readline())["live"]
    assert (live["temp_c"], live["freq_hz"]) == (54.05, 2.4e9)
    assert live["time_ns"] < time.perf_counter_ns()


DUMMY = "thermal_zone4"
"""Zone of the Jetson Nano that always reads 100 °C."""


def watched(said: list[dict[str, Any]]) -> list[tuple[str, str, float | None]]:
    """How the heat changed, with the zone and its temperature."""
    found = [message["watched"] for message in said if "watched" in message]
    return [(one["heat"], one["zone"], one["temp_c"]) for one in found]


@pytest.mark.parametrize(
    ("board", "zones", "expected"),
    [
        ("raspberry_pi_5", ("cpu-thermal",), [("cool", "cpu-thermal", 54.05)]),
        ("raspberry_pi_5", (), [("blind", "", None)]),
        ("raspberry_pi_5", ("no such zone",), [("blind", "", None)]),
    ],
)
def test_device_that_is_too_hot_is_told_once(
    tmp_path: Path, board: str, zones: tuple[str, ...], expected: list[tuple[str, str, float]]
) -> None:
    """Otherwise an unattended benchmark would cook a board."""
    root = make_board(tmp_path / "root", BOARDS[board])
    job = SamplerJob(PID, str(root), rate_hz=20.0, abort_c=88.0, zones=zones)
    with sampling(tmp_path / "run", job) as process:
        said = heard_until(process, "watched")
        for temp_c in (88.5, 87.5):
            temp = root / "sys/class/thermal/thermal_zone0/temp"
            temp.write_text(f"{temp_c * 1000:.0f}\n")
            said += heard_until(process, "watched")
            said += heard_until(process, "live")  # some looks later
        assert process.stdin is not None
        process.stdin.close()
        assert process.stdout is not None
        said += [json.loads(line) for line in process.stdout]
    then = [("hot", "cpu-thermal", 88.5), ("cool", "cpu-thermal", 87.5)]
    assert watched(said) == expected + then
    assert all(message["live"]["temp_c"] < 89 for message in said if "live" in message)


@pytest.mark.parametrize("zones", [("CPU-therm",), (), ("cpu-thermal of another kernel",)])
def test_dummy_that_always_says_100_degrees_ends_no_run(
    tmp_path: Path, zones: tuple[str, ...]
) -> None:
    """Otherwise a kernel with other zone names would make every run of a board end at once."""
    root = make_board(tmp_path / "root", BOARDS["jetson_nano"])
    assert (root / f"sys/class/thermal/{DUMMY}/temp").read_text() == "100000\n"
    job = SamplerJob(PID, str(root), rate_hz=20.0, abort_c=95.0, zones=zones)
    with sampling(tmp_path / "run", job) as process:
        said = heard_until(process, "watched") + heard_until(process, "live")
        assert process.stdin is not None
        process.stdin.close()
        assert process.stdout is not None
        said += [json.loads(line) for line in process.stdout]
    assert [heat for heat, _, _ in watched(said)] == (
        ["cool"] if zones == ("CPU-therm",) else ["blind"]
    )


def heats(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what was reported since the last look."""
    lines = capsys.readouterr().out.splitlines()
    return [json.loads(line)["watched"]["heat"] for line in lines]


def test_one_nonsensical_reading_ends_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a sensor that reads 200 degrees once would cost a run of half an hour."""
    guard = Observer(("thermal.cpu.0.temp_c",), SamplerJob(PID, abort_c=90.0, zones=("cpu",)))
    for temp_c in (50.0, 200.0, 50.0, 200.0, 200.0, 50.0):
        guard.look([temp_c])
    assert heats(capsys) == ["cool"]
    for _ in range(5):
        guard.look([91.0])
    assert heats(capsys) == ["hot"]
    for _ in range(5):
        guard.look([math.nan])
    assert heats(capsys) == [], "a sensor that died while it was hot has not cooled"
    guard.look([60.0])
    for _ in range(5):
        guard.look([math.nan])
    assert heats(capsys) == ["cool", "blind"]


def test_unknown_zone_counts_from_when_it_moves(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise the only real zone of an unknown board would be unwatched."""
    sensors = ("thermal.dummy.0.temp_c", "thermal.real.0.temp_c", "thermal.odd.0.temp_c")
    guard = Observer(sensors, SamplerJob(PID, abort_c=90.0))
    for step in range(8):
        guard.look([100.0, 88.0 + step, 127.0 + step])
    assert heats(capsys) == ["cool", "hot"]


class Breaking:
    """A source that fails where it should look."""

    name = "breaking"
    rate_hz_max = math.inf

    def open(self, root: Path, worker_pid: int) -> NoData:
        """Fail with an unforeseen error."""
        raise RuntimeError(f"no such thing\nunder {root}")


def test_source_that_fails_to_look_is_absent_with_its_reason(tmp_path: Path) -> None:
    """Otherwise one source's failure on an unknown board would cost the telemetry of all others."""
    root = make_board(tmp_path / "root", BOARDS["raspberry_pi_5"])
    opened, facts = sampler.open_sources(
        root, SamplerJob(PID, str(root)), (Breaking, ThermalSource)
    )
    assert len(opened) == 1
    assert facts.sensors == ("thermal.cpu-thermal.0.temp_c",)
    (absent,) = facts.absent
    reason = f"probing failed: RuntimeError: no such thing under {root}"
    assert (absent.sensor, absent.reason) == ("breaking", reason)


def test_all_sensors_are_read_once_more_at_the_end(tmp_path: Path) -> None:
    """Otherwise a bit set after the last slow reading would be missed, though it stays set."""
    root = make_board(tmp_path / "root", BOARDS["raspberry_pi_5"])
    with sampling(tmp_path / "run", SamplerJob(PID, str(root), rate_hz=1.0)):
        time.sleep(0.3)  # the first readings of slow sources are over, the second are not due
        (root / "sys/class/thermal/thermal_zone0/temp").write_text("61000\n")
        (root / "sim/get_throttled").write_text("0xe0000\n")
    values = last_values(tmp_path / "run")
    assert values["rpi.throttled_bits"] == 0xE0000
    assert values["thermal.cpu-thermal.0.temp_c"] == 61.0


class Stuck:
    """A reader that never returns."""

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
    """Otherwise a chip whose bus is stuck would keep the sampler, and the run, for ever."""
    read_end, write_end = os.pipe()
    os.close(write_end)
    monkeypatch.setattr(sampler, "JOIN_TIMEOUT_S", 0.2)
    with os.fdopen(read_end) as ended:
        monkeypatch.setattr("sys.stdin", ended)
        fast = FileSensors()
        assert fast.add("thermal.cpu.0.temp_c", Path("/proc/self/coredump_filter"), scaled())
        sources = [
            sampler.OpenedSource(Stuck(), 0, 2.0, is_slow=True),
            sampler.OpenedSource(fast, 1, 10.0, is_slow=False),
        ]
        facts = TelemetryFacts((*Stuck.sensors, *fast.sensors), rate_hz=10.0)
        traces = sampler.sample(sources, facts, SamplerJob(PID))
    assert [len(trace) for trace in traces] == [1, 0]
