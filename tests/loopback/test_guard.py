"""The highest temperature of a device is enforced by a real agent; the test sets the zone.

The simulated board gets a second zone of its profile's type, which only the test writes.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.agents import AgentProcess, Host
from support.tools import need_runtime
from support.watchers import At, worker_pid

from edgebench.agent.coolest import COOLEST_FILE
from edgebench.host.bench.verify import verify
from edgebench.host.stored_run import StoredRun
from edgebench.protocol.errors import TargetError, TooHot, WorkerDied
from edgebench.protocol.record import Phase

MODEL = "digits_fp32.tflite"
LIMIT = "the profile's limit is 90 °C"
SETTINGS: dict[str, Any] = {
    "duration_s": 60.0,
    "min_query_count": 30,
    "warmup_duration_s": 0.1,
    "is_checked": False,
    "cooldown_timeout_s": 0.0,
}
MAX_WAIT_S = 150.0
"""Wait for a cool device, too long for any test to wait in full."""


class HeatedBoard:
    """A simulated i.MX 8M Plus with an agent, and a host that is paired with it."""

    def __init__(self, folder: Path) -> None:
        options = ["--simulate", "imx8mp-evk"]
        self.agent = AgentProcess(folder / "agent", options=options).start()
        self.host = Host(folder / "host")
        self.host.lab.pair(self.agent.pairing_string())
        zone = self.agent.state / "simulated/sys/class/thermal/thermal_zone7"
        zone.mkdir()
        self._temp = zone / "temp"
        self._temp.touch()
        self.heat(40.0)
        (zone / "type").write_text("cpu-thermal\n")

    def heat(self, temp_c: float) -> None:
        """Give the zone this temperature, in place: it must never be read empty."""
        with self._temp.open("r+") as file:
            file.write(f"{temp_c * 1000:.0f}\n")

    def kill_sampler(self) -> None:
        """Kill the sampler of the run in progress."""
        for child in psutil.Process(self.agent.pid).children():
            if "edgebench.agent.telemetry.sampler" in child.cmdline():
                os.kill(child.pid, signal.SIGKILL)

    def bench(self, **settings: Any) -> StoredRun:
        """One run, which `verify` computes again."""
        name = "imx8mp-evk-simulated"
        [run] = self.host.lab.bench(
            MODEL, runs=1, on=[name], runtime="litert", **(SETTINGS | settings)
        )
        assert verify(self.host.lab.store, run.id) == []
        return run


@pytest.fixture
def board(tmp_path: Path) -> Iterator[HeatedBoard]:
    """A board of its own."""
    need_runtime("ai-edge-litert")
    made = HeatedBoard(tmp_path)
    yield made
    made.agent.kill()


def completeness(run: StoredRun) -> str:
    """The statement of the verdict on the end of the run."""
    (found,) = [one for one in run.document["verdict"]["rules"] if one["id"] == "complete"]
    assert found["outcome"] == "fail"
    return str(found["detail"])


def test_run_that_grows_too_hot_is_stopped_and_keeps_what_it_measured(board: HeatedBoard) -> None:
    """Otherwise the board would overheat, or the samples so far or the reason would be lost."""
    later = At(Phase.MEASURING, lambda: threading.Timer(1.0, board.heat, (91.2,)).start())
    run = board.bench(watcher=later)
    detail = completeness(run)
    assert detail == f"run interrupted: stopped at 91.2 °C (cpu-thermal): {LIMIT}"
    assert run.document["metrics"]["latency_ns"]["count"] > 30
    took_s = (run.queries["end_ns"].max() - run.queries["start_ns"].min()) / 1e9
    assert took_s < SETTINGS["duration_s"]
    trace = run.telemetry
    assert trace.loc[trace["sensor"] == "thermal.cpu-thermal.1.temp_c", "value"].max() == 91.2
    assert detail.partition(": ")[2] in board.host.run("show", run.id).stdout


def test_worker_that_dies_while_the_device_cools_is_noticed_at_once(board: HeatedBoard) -> None:
    """Otherwise the device would be kept for the whole wait before the failure is reported."""
    board.heat(95.0)  # the gate stays shut
    begin_s = time.monotonic()
    killer = At(Phase.COOLING, lambda: os.kill(worker_pid(board.agent), signal.SIGKILL))
    with pytest.raises(WorkerDied, match="worker was killed by SIGKILL while starting"):
        board.bench(cooldown_timeout_s=MAX_WAIT_S, watcher=killer)
    assert time.monotonic() - begin_s < MAX_WAIT_S


def test_run_does_not_start_above_the_limit(board: HeatedBoard) -> None:
    """Otherwise, with the wait for a cool device switched off, a run would start at 95 degrees."""
    board.heat(95.0)
    with pytest.raises(TooHot, match=rf"not started at 95\.0 °C \(cpu-thermal\): {LIMIT}"):
        board.bench()
    result = board.host.run("bench", MODEL, "--runtime", "litert", "--cooldown", "0s", *ON)
    assert result.returncode == 1
    assert f"not started at 95.0 °C (cpu-thermal): {LIMIT}" in result.stderr
    assert "hint: cool the device, or wait longer" in result.stderr
    board.heat(50.0)
    assert board.bench(duration_s=0.3).document["metrics"]["latency_ns"]["count"] >= 30


ON = ("--on", "imx8mp-evk-simulated")


def test_run_waits_until_the_other_zone_is_cool(board: HeatedBoard) -> None:
    """Otherwise a run would be refused at once if the gate's zone is cool and another too hot."""
    board.heat(95.0)
    later = At(Phase.COOLING, lambda: threading.Timer(7.0, board.heat, (50.0,)).start())
    run = board.bench(duration_s=0.3, cooldown_timeout_s=MAX_WAIT_S, watcher=later)
    found = run.document["conditions"]["cooldown"]
    assert found["outcome"] == "cool"
    assert 7.0 <= found["waited_s"] < MAX_WAIT_S
    kept = board.agent.state / COOLEST_FILE
    assert not kept.exists(), "a made-up temperature is no baseline of this machine"


def test_run_whose_sampler_dies_is_stopped(board: HeatedBoard) -> None:
    """Otherwise the guard would die with the sampler, and the board overheat until the run ends."""
    later = At(Phase.MEASURING, lambda: threading.Timer(1.0, board.kill_sampler).start())
    run = board.bench(watcher=later)
    assert run.document["metrics"]["latency_ns"]["count"] > 30
    expected = f"stopped, temperature not monitored: the sampler ended with status -9; {LIMIT}"
    assert completeness(run) == f"run interrupted: {expected}"
    assert board.agent.status().running is None


def test_run_whose_sampler_is_gone_does_not_start(board: HeatedBoard) -> None:
    """Otherwise a device would cool for ten minutes before a run without its guard."""
    at = At(Phase.COOLING, board.kill_sampler)
    begin_s = time.monotonic()
    with pytest.raises(TargetError, match="not started, temperature not monitored"):
        board.bench(cooldown_timeout_s=MAX_WAIT_S, watcher=at)
    assert time.monotonic() - begin_s < MAX_WAIT_S
