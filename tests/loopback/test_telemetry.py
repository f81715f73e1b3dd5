"""Telemetry is sampled during a measurement, and never costs a run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from support.agents import AgentProcess, Host
from support.tools import need_runtime

from edgebench.host.bench import events
from edgebench.host.bench.verify import verify
from edgebench.host.stored_run import StoredRun
from edgebench.protocol.messages import Telemetry
from edgebench.protocol.record import Phase

SETTINGS: dict[str, Any] = {
    "scenario": "server",  # a run waits more than it computes
    "target_qps": 20.0,
    "duration_s": 2.5,
    "min_query_count": 30,
    "warmup_duration_s": 0.1,
    "is_checked": False,
}
MODEL = "digits_fp32.tflite"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for all runs."""
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"]).start()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def host(agent: AgentProcess, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host that is paired with the agent."""
    need_runtime("ai-edge-litert")
    made = Host(tmp_path_factory.mktemp("host"))
    made.lab.pair(agent.pairing_string())
    return made


def rule(run: StoredRun, name: str) -> tuple[str, str]:
    """Outcome and detail of one rule."""
    (found,) = [one for one in run.document["verdict"]["rules"] if one["id"] == name]
    return found["outcome"], found["detail"]


def bench(host: Host, **settings: Any) -> StoredRun:
    """One run, which `verify` computes again."""
    [run] = host.lab.bench(MODEL, runs=1, on=["board"], runtime="litert", **(SETTINGS | settings))
    assert verify(host.lab.store, run.id) == []
    return run


class Listener:
    """Keeps the reported telemetry, and may act when the measurement begins."""

    def __init__(self, at_measuring: Any = None) -> None:
        self.heard: list[Telemetry] = []
        self._at_measuring = at_measuring

    def __call__(self, event: events.MeasurementEvent) -> None:
        """Keep telemetry, act on phases, and raise failures."""
        events.raise_failures(event)
        if isinstance(event, events.TelemetryReport):
            self.heard.append(event.telemetry)
        phase = event.progress.phase if isinstance(event, events.PhaseReport) else None
        if self._at_measuring and phase is Phase.MEASURING:
            self._at_measuring()


def sampler_pid(agent: AgentProcess) -> int:
    """The sampler of the run in progress."""
    (found,) = [
        child
        for child in psutil.Process(agent.pid).children()
        if "edgebench.agent.telemetry.sampler" in child.cmdline()
    ]
    return found.pid


def test_run_is_watched_and_tells_what_that_cost(host: Host) -> None:
    """Otherwise the device's temperature, or what sampling it cost, would be unknown."""
    listener = Listener()
    run = bench(host, watcher=listener)
    told = run.document["conditions"]["telemetry"]
    assert told["rate_hz"] == 10.0
    assert {"worker.rss_bytes", "memory.available_bytes"} <= set(told["sensors"])
    assert 0 < told["sampler_cpu_ratio"] < 0.2
    trace = run.telemetry
    assert len(trace) == told["reading_count"] > 3 * len(told["sensors"])
    assert trace["time_ns"].is_monotonic_increasing
    queries = run.queries
    begins, ends = queries["start_ns"].min(), queries["end_ns"].max()
    during = trace[(trace["time_ns"] > begins) & (trace["time_ns"] < ends)]
    assert len(during) > 3 * len(told["sensors"]), "on the clock of the queries"
    assert len(listener.heard) >= 2, "about once a second"
    assert rule(run, "telemetry")[0] in ("pass", "fail")
    assert "sensors at 10 Hz" in rule(run, "telemetry")[1]
    assert run.document["metrics"]["thermal"]["verdict"].split(":")[0] in (
        *("throttled", "frequency_limited", "interference", "not_throttled", "unknown"),
    )


def test_sampler_that_is_killed_costs_its_telemetry_and_no_latency(
    agent: AgentProcess, host: Host
) -> None:
    """Otherwise a sensor that crashes its reader would cost an hour's run, or fail unnoticed."""
    listener = Listener(lambda: os.kill(sampler_pid(agent), signal.SIGKILL))
    run = bench(host, watcher=listener)
    assert run.document["metrics"]["latency_ns"]["count"] > 0
    outcome, detail = rule(run, "telemetry")
    assert (outcome, detail) == ("fail", "no telemetry: the sampler ended with status -9")
    assert run.verdict in ("suspect", "invalid")
    assert rule(run, "thermal")[0] == "unknown", "never “not throttled”"


def test_nobody_looks_when_nobody_is_asked_to(host: Host) -> None:
    """Otherwise a run without telemetry would be sampled all the same, or be suspect for it."""
    listener = Listener()
    run = bench(host, watcher=listener, telemetry_rate_hz=0.0)
    assert listener.heard == []
    assert run.document["conditions"]["telemetry"]["sensors"] == []
    assert rule(run, "telemetry") == ("not_applicable", "switched off")
