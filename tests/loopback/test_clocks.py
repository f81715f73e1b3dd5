"""Agents on devices whose clocks are coarse, run at a wrong rate, are set, or stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from support.agents import AgentProcess, Host
from support.emulated_clock import EmulatedClock
from support.tools import need_runtime
from support.watchers import At

from edgebench.agent.clock import SOURCE_FILE
from edgebench.agent.runtimes.trivial_models import TRIVIAL_MODELS
from edgebench.agent.telemetry.source import read_text
from edgebench.host.bench.verify import verify
from edgebench.host.client import Client
from edgebench.host.show.notes import run_notes
from edgebench.host.stored_run import StoredRun
from edgebench.protocol.record import Phase

ADDITION, MODEL, SLOW_MODEL = "addition", "digits_int8.tflite", "digits_fp32.tflite"
"""Models of 0.4, 7 and 23 µs on the machine of the tests."""
COARSE = (
    *((1000.0, ADDITION), (1000.0, MODEL), (1000.0, SLOW_MODEL)),
    *((100.0, ADDITION), (100.0, MODEL), (1e3 / 19.2, MODEL), (1e3 / 24, ADDITION)),
)
"""Steps of clocks of 1 MHz and 10 MHz and of the timers of Arm boards, 52 and 42 ns, with models.
The other cells are in tests/unit/host/analysis/latency/test_clock_step.py."""
CLOCK_RULES = {"clock", "clock_drift", "suspended"}
SETTINGS: dict[str, Any] = {
    "duration_s": 0.3,
    "min_query_count": 100,
    "max_query_count": 60_000,
    "warmup_duration_s": 0.05,
    "is_checked": False,
}

LONG: dict[str, Any] = {"scenario": "server", "target_qps": 50.0, "duration_s": 3.0}
"""A run that is long beside the error of the probes, and mostly waits."""

PROBE_COUNT = 100
PAUSE_S = 3.0


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> EmulatedClock:
    """The clocks of the device."""
    return EmulatedClock(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def agent(clock: EmulatedClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for all runs, with these clocks."""
    need_runtime("ai-edge-litert")
    folder, name = tmp_path_factory.mktemp("agent"), ["--name", "board"]
    process = AgentProcess(folder, options=name, environment=clock.environment).start()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def host(agent: AgentProcess, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host that is paired with the agent."""
    made = Host(tmp_path_factory.mktemp("host"))
    made.lab.pair(agent.pairing_string())
    return made


@pytest.fixture(autouse=True)
def _right(clock: EmulatedClock) -> None:
    """Each test begins with right clocks."""
    clock.set()
    clock.set_wall(0.0)


@pytest.fixture(scope="module")
def trivial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one addition."""
    path = tmp_path_factory.mktemp("models") / "addition.tflite"
    path.write_bytes(TRIVIAL_MODELS["tflite"])
    return path


def bench(host: Host, model: str | Path, **settings: Any) -> StoredRun:
    """One run, which `verify` computes again."""
    options = SETTINGS | settings
    [run] = host.lab.bench(str(model), runs=1, on=["board"], runtime="litert", **options)
    assert verify(host.lab.store, run.id) == []
    return run


def rule(run: StoredRun, name: str) -> dict[str, Any]:
    """Finding of a rule."""
    (found,) = [one for one in run.document["verdict"]["rules"] if one["id"] == name]
    return dict(found)


def failed(run: StoredRun) -> set[str]:
    """Rules that failed."""
    rules = run.document["verdict"]["rules"]
    return {finding["id"] for finding in rules if finding["outcome"] == "fail"}


def later(seconds: float, action: Callable[[], None]) -> None:
    """Act after this time, beside the run; the loop begins shortly after its phase."""
    threading.Timer(seconds, action).start()


def true_median_ns(run: StoredRun, clock: EmulatedClock) -> float:
    """Median of the counted inferences by the real clock."""
    latency = run.metrics.latency_ns
    assert latency is not None
    counted = run.queries.iloc[-latency.count :]
    columns = [counted[name].tolist() for name in ("invoke_start_ns", "invoke_end_ns", "end_ns")]
    return float(np.median(clock.real_durations_ns(list(zip(*columns, strict=True)))))


@pytest.mark.parametrize(("step_ns", "name"), COARSE)
def test_interval_holds_the_truth_on_a_coarse_clock(
    host: Host, clock: EmulatedClock, trivial: Path, step_ns: float, name: str
) -> None:
    """Otherwise p50 would be 11.000 (11.000..11.000) µs, and the truth 10.756 µs."""
    clock.set(step_ns=step_ns)
    clock.log()
    run = bench(host, trivial if name == ADDITION else name)
    truth_ns = true_median_ns(run, clock)
    assert run.metrics.harness_ns is not None
    assert run.metrics.harness_ns.clock_step == pytest.approx(step_ns, abs=1.0)
    described = run.result.environment.clock
    assert described is not None
    assert described.step_ns == pytest.approx(step_ns, rel=0.01)
    assert described.read_ns > 0
    assert described.source == (read_text(Path("/") / SOURCE_FILE) or None)
    latency = run.metrics.latency_ns
    assert latency is not None
    if latency.p50_ci95 is not None:  # without an interval, the run is suspect
        low_ns, high_ns = latency.p50_ci95
        assert low_ns <= truth_ns <= high_ns
    assert run.document["verdict"]["state"] == "invalid" or name != ADDITION


@pytest.mark.parametrize(
    ("slow_ratio", "failing"),
    [(0.0005, set()), (0.005, {"clock_drift"}), (0.1, {"clock", "clock_drift"})],
)
def test_clock_that_is_slow_is_named(
    host: Host,
    clock: EmulatedClock,
    monkeypatch: pytest.MonkeyPatch,
    slow_ratio: float,
    failing: set[str],
) -> None:
    """Otherwise each latency of a board whose timer loses ticks would be too small, and valid."""
    # A busy machine may delay all of a few probes by milliseconds, which hides a small rate.
    if "clock" not in failing:
        monkeypatch.setattr(Client, "probe_clock", partialmethod(Client.probe_clock, PROBE_COUNT))
    clock.set(rate=1 - slow_ratio)
    run = bench(host, MODEL, **LONG)
    assert failed(run) & CLOCK_RULES == failing
    if failing:
        found = rule(run, min(failing))
        assert found["value"] == pytest.approx(slow_ratio, rel=0.1)
        assert "slower than the host's" in found["detail"]


@pytest.mark.parametrize(
    ("seconds", "by"), [(1.0, "+1.00 s"), (10_800.0, "+3 h"), (1.7672e9, "+56 years")]
)
def test_wall_clock_that_is_set_in_a_run_is_a_note(
    host: Host, clock: EmulatedClock, seconds: float, by: str
) -> None:
    """Otherwise a board without a battery for its clock would have no valid first run."""
    watcher = At(Phase.MEASURING, lambda: later(1.0, lambda: clock.set_wall(seconds)))
    clock.log()
    run = bench(host, MODEL, watcher=watcher, **LONG)
    assert watcher.was_called
    [note] = run_notes(run.result)
    assert note.startswith(f"the wall clock was set by {by} during the run; the monotonic clock")
    assert not failed(run) & CLOCK_RULES
    latency = run.metrics.latency_ns
    assert latency is not None
    assert latency.p50 == pytest.approx(true_median_ns(run, clock), abs=2)


@pytest.mark.parametrize(
    ("pause", "reason"),
    [("clock goes on", "paused"), ("clocks stop", "stopped"), ("suspend", None)],
)
def test_pause_is_named(
    host: Host, agent: AgentProcess, clock: EmulatedClock, pause: str, reason: str | None
) -> None:
    """Otherwise a paused virtual machine would be a busy or a slow one, or be valid."""

    def stop() -> None:
        daemon = psutil.Process(agent.pid)
        processes = [daemon, *daemon.children(recursive=True)]
        for process in processes:
            process.suspend()
        begin_s = time.monotonic()
        time.sleep(PAUSE_S)
        if pause != "clock goes on":
            clock.lose(time.monotonic() - begin_s, is_suspend=pause == "suspend")
        for process in processes:
            process.resume()

    watcher = At(Phase.MEASURING, lambda: later(0.5, stop))
    duration_s = PAUSE_S + 1.5 if pause == "clock goes on" else 1.5
    run = bench(host, MODEL, watcher=watcher, duration_s=duration_s, max_query_count=None)
    assert failed(run) & CLOCK_RULES == {"suspended"}
    found = rule(run, "suspended")
    assert (found["reason"], found["value"]) == (reason, pytest.approx(PAUSE_S, abs=0.5))
    assert run_notes(run.result) == []
