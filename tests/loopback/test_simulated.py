"""A simulated device: real model, real sampler, simulated heat, and a label on everything.

The machine that runs the tests may be slow, or slow for a while: the tests look at what the device
showed and what was made of that, never at how long anything took.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agents import AgentProcess, Host
from support.tools import need_runtime
from support.traces import assert_is_read_back
from support.watchers import At, on

from edgebench.host.bench.events import TelemetryReport
from edgebench.host.bench.verify import verify
from edgebench.host.export.exported import ExportedRun
from edgebench.host.stored_run import StoredRun
from edgebench.protocol.errors import GovernorRefused
from edgebench.protocol.record import Phase

BENCH = (
    "--runtime",
    "litert",
    "--no-check",
    "--warmup",
    "5",
    "--cooldown",
    "0s",
    "--ambient",
    "21.5",
)
MODEL = "digits_fp32.tflite"
THERMAL_BITS = 0xC
Start = Callable[[str], tuple[AgentProcess, Host]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts an agent on a simulated board, and pairs a host with it."""
    need_runtime("ai-edge-litert")
    started: list[AgentProcess] = []

    def make(board: str) -> tuple[AgentProcess, Host]:
        agent = AgentProcess(tmp_path / "agent", options=["--simulate", board]).start()
        started.append(agent)
        host = Host(tmp_path / "host")
        host.lab.pair(agent.pairing_string())
        return agent, host

    yield make
    for agent in started:
        agent.kill()


def sustain(
    host: Host, board: str, length: str
) -> tuple[StoredRun, subprocess.CompletedProcess[str]]:
    """One run of this length, which `verify` computes again."""
    result = host.run("bench", MODEL, "--on", f"{board}-simulated", *BENCH, "--sustained", length)
    assert result.returncode in (0, 3), result.stderr
    run = host.lab.run("last")
    assert verify(host.lab.store, run.id) == []
    return run, result


def shown(run: StoredRun, sensor: str) -> list[float]:
    """What the sampler read from a sensor during the measurement."""
    rows = run.telemetry
    begin_ns, end_ns = run.queries["start_ns"].min(), run.queries["end_ns"].max()
    is_during = (rows["time_ns"] >= begin_ns) & (rows["time_ns"] <= end_ns)
    found: list[float] = rows[is_during & (rows["sensor"] == sensor)]["value"].dropna().tolist()
    return found


def rules(run: StoredRun) -> dict[str, tuple[str, str]]:
    """Outcome and detail of each rule."""
    return {one["id"]: (one["outcome"], one["detail"]) for one in run.document["verdict"]["rules"]}


def test_governor_is_set_for_the_run_alone(start: Start) -> None:
    """Otherwise a requested governor would stay in effect after the run, or never take effect."""
    agent, host = start("imx8mp-evk")
    policy = agent.state / "simulated/sys/devices/system/cpu/cpufreq/policy0"
    path = policy / "scaling_governor"
    seen: list[str] = []
    at = At(Phase.MEASURING, lambda: seen.append(path.read_text().strip()))
    settings: dict[str, Any] = {
        "scenario": "server",  # the governor is read before the run ends, and most of it is waited
        "target_qps": 20.0,
        "duration_s": 2.0,
        "min_query_count": 30,
        "cooldown_timeout_s": 0.0,
    }
    [run] = host.lab.bench(
        MODEL, runs=1, on=["imx8mp-evk-simulated"], governor="powersave", watcher=at, **settings
    )
    assert (seen, path.read_text().strip()) == (["powersave"], "performance")
    assert run.document["spec"]["governor"] == "powersave"
    assert run.document["conditions"]["before"]["governors"] == ["powersave"]
    assert set(run.document["conditions"]["before"]["freq_hz"]) == {1_800_000_000}
    with pytest.raises(GovernorRefused, match="governor turbo is not offered; available: conserv"):
        host.lab.bench(MODEL, runs=1, on=["imx8mp-evk-simulated"], governor="turbo", **settings)
    assert agent.status().running is None


def test_clock_that_was_only_asked_for_is_not_shown_meanwhile(start: Start) -> None:
    """Otherwise a throttled board would seem to run at full clock."""
    agent, host = start("raspberry-pi-5-bare:1")
    (agent.state / "simulated/usr/bin/vcgencmd").unlink()
    clocks: list[float | None] = []
    keep = on(TelemetryReport, lambda event: clocks.append(event.telemetry.freq_hz))
    settings: dict[str, Any] = {"duration_s": 1.5, "cooldown_timeout_s": 0.0, "watcher": keep}
    host.lab.bench(
        MODEL, runs=1, on=["raspberry-pi-5-bare-simulated"], is_checked=False, **settings
    )
    assert clocks
    assert set(clocks) == {None}


def test_board_without_a_cooler_is_found_throttled(start: Start) -> None:
    """Otherwise the detector would work on arrays of numbers, but on no running device."""
    _, host = start("raspberry-pi-5-bare:1")
    run, result = sustain(host, "raspberry-pi-5-bare", "25s")
    bits = [int(value) & THERMAL_BITS for value in shown(run, "rpi.throttled_bits")]
    assert (bits[0], bits[-1]) == (0, 0x4), "cool at first, and throttled at the end"
    assert set(shown(run, "cpufreq.policy0.freq_hz")) == {2.4e9}, "the kernel does not know"
    temps = shown(run, "thermal.cpu-thermal.0.temp_c")
    assert temps[0] < 60 < 80 < max(temps) < 88
    thermal = run.document["metrics"]["thermal"]
    assert (thermal["verdict"], thermal["is_certain"]) == ("throttled:thermal", True)
    found = rules(run)
    assert found["thermal"][0] == "fail"
    assert found["complete"][0] == "pass", "the guard has no reason to end it"
    assert_tells_what_was_kept_up(run, result.stdout)
    trace = assert_is_read_back(ExportedRun(run.result, host.lab.store.directory(run.id)))
    if run.verdict != "invalid":  # a busy machine
        assert {name for name, *_ in trace.slices["throttled"]} == {"thermal"}
        shown_c = {value for _, value in trace.counters["thermal.cpu-thermal.0.temp_c"]}
        assert set(temps) <= shown_c
    assert_is_labelled(host, run, result.stdout)


def assert_tells_what_was_kept_up(run: StoredRun, printed: str) -> None:
    """Otherwise 20 minutes would be measured, and only the median over all of them be printed."""
    spec, thermal = run.document["spec"], run.document["metrics"]["thermal"]
    assert (spec["is_sustained"], spec["duration_s"]) == (True, 25.0)
    assert run.document["conditions"]["ambient_c"] == 21.5
    peak, sustained = thermal["peak_latency_ns"], thermal["sustained_latency_ns"]
    if peak is None:
        return  # a busy machine, most of it taken as a warm-up
    assert thermal["retention_ratio"] == pytest.approx(peak / sustained)
    if run.verdict != "invalid":
        assert "retention " in printed


def assert_is_labelled(host: Host, run: StoredRun, printed: str) -> None:
    """Otherwise the run could be mistaken for one of a real device."""
    assert run.document["simulated"] is True
    assert rules(run)["real_device"][0] == "fail"
    assert run.verdict != "valid"
    assert "simulated" in printed
    for words in (("show", run.id), ("runs",), ("runs", "--json"), ("show", run.id, "--json")):
        assert "simulated" in host.run(*words).stdout.lower(), words
    found = json.loads(host.run("devices", "--json", "--timeout", "0.2s").stdout)
    assert "simulated" in json.dumps(found)


def test_board_with_a_cooler_is_not(start: Start) -> None:
    """Otherwise a running fan, or a machine that is busy with other things, would count as heat."""
    _, host = start("raspberry-pi-5-cooled:1")
    run, _ = sustain(host, "raspberry-pi-5-cooled", "10s")
    states = shown(run, "cooling.pwm-fan.0.state")
    assert states[0] < max(states)
    assert set(shown(run, "rpi.throttled_bits")) == {0.0}
    assert max(shown(run, "thermal.cpu-thermal.0.temp_c")) < 78
    # A busy machine makes it interference, or takes most of it as a warm-up: neither is heat.
    assert run.document["metrics"]["thermal"]["verdict"] in (
        "not_throttled",
        "interference",
        "unknown",
    )
    assert rules(run)["thermal"][0] in ("pass", "unknown")


def test_board_that_protects_itself_by_nothing_is_stopped(start: Start) -> None:
    """Otherwise a benchmark could overheat a board, give no reason, or lose what it measured."""
    agent, host = start("raspberry-pi-5-unprotected:1")
    run, result = sustain(host, "raspberry-pi-5-unprotected", "120s")
    outcome, detail = rules(run)["complete"]
    assert outcome == "fail"
    assert "stopped at 8" in detail
    assert "limit is 88 °C" in detail
    assert "limit is 88 °C" in result.stdout + result.stderr
    assert (run.verdict, result.returncode) == ("invalid", 3)
    assert max(shown(run, "thermal.cpu-thermal.0.temp_c")) >= 88
    assert run.document["metrics"]["latency_ns"]["count"] > 0, "what was measured is kept"
    assert (agent.status().running, agent.status().spooled_count) == (None, 0)
