"""Time that a loop of real-time priority leaves to other tasks, by the kernel's limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.tools import skip_or_fail

from edgebench.agent.worker.loop import Pauses
from edgebench.agent.worker.realtime import pauses_for, realtime_limit
from edgebench.protocol.record import RealtimeLimit
from edgebench.protocol.spec import Engine, RunSpec, Scenario

SECOND, MS = 10**9, 10**6
LIMIT = RealtimeLimit(0.95, 1.0)
FIFO_LOOP = """
import json, os, subprocess, sys
from edgebench.agent.worker import facts
from edgebench.agent.worker.loop import Calls
from edgebench.agent.worker.jitter import jitter_for
from edgebench.agent.worker.realtime import pauses_for, realtime_limit
from edgebench.agent.worker.scenarios import run_scenario
from edgebench.protocol.spec import Priority, RunSpec
cpu = max(os.sched_getaffinity(0))
busy = f"import os; os.sched_setaffinity(0, [{cpu}])\\nwhile True: pass"
spec = RunSpec("tflite", cpus=(cpu,), priority=Priority.REALTIME, duration_s=2.5, min_query_count=1,
               idle_duration_s=5.0, jitter_s=1e-3)
rival = subprocess.Popen([sys.executable, "-c", busy])
try:
    refused, limit = facts.apply_scheduling(spec), realtime_limit()
    calls = Calls([lambda: None], lambda: sum(range(2000)), lambda: None)
    waited_s = [sum(thread.wait_s for thread in facts.read_moment().threads)]
    gaps = jitter_for(spec, "a run", 50_000)
    for pauses in ([gaps, pauses_for(limit, spec, 50_000)], [gaps]):
        run_scenario(calls, spec, [kind for kind in pauses if kind is not None])
        waited_s.append(sum(thread.wait_s for thread in facts.read_moment().threads))
finally:
    rival.kill()
    rival.wait()
print(json.dumps({
    "has_limit": not refused and limit is not None and limit.runtime_s is not None,
    "waited_s": [waited_s[1] - waited_s[0], waited_s[2] - waited_s[1]],
}))
"""


def kernel(folder: Path, runtime: str | None, period: str = "1000000") -> Path:
    """Return a root whose kernel has this limit."""
    settings = folder / "proc/sys/kernel"
    settings.mkdir(parents=True)
    if runtime is not None:
        (settings / "sched_rt_runtime_us").write_text(f"{runtime}\n")
    (settings / "sched_rt_period_us").write_text(f"{period}\n")
    return folder


@pytest.mark.parametrize(
    ("runtime", "period", "limit"),
    [
        ("950000", "1000000", LIMIT),
        ("400000", "500000", RealtimeLimit(0.4, 0.5)),
        ("-1", "1000000", RealtimeLimit(None, 1.0)),
        ("1000000", "1000000", RealtimeLimit(None, 1.0)),
        ("0", "1000000", RealtimeLimit(0.0, 1.0)),
        (None, "1000000", None),
        ("950000", "unlimited", None),
    ],
)
def test_limit_is_that_of_the_kernel(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    runtime: str | None,
    period: str,
    limit: RealtimeLimit | None,
) -> None:
    """Otherwise the loop would pause where nothing stops it, or be stopped."""
    root = kernel(tmp_path, runtime, period)
    assert realtime_limit(root) is None, "this process has no real-time priority"
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_FIFO)
    assert realtime_limit(root) == limit


@pytest.mark.parametrize(
    ("inference_ns", "fields", "every_ns"),
    [
        (MS, {}, 939 * MS),
        (500 * MS, {}, 440 * MS),
        (MS, {"scenario": Scenario.MULTI_STREAM, "samples_per_query": 40}, 900 * MS),
        (2 * SECOND, {}, None),
        (MS, {"scenario": Scenario.OFFLINE}, None),
        (MS, {"scenario": Scenario.SERVER, "target_qps": 10.0}, None),
        (MS, {"engine": Engine.LOADGEN}, None),
        (MS, {"idle_duration_s": 5.0}, None),
        (MS, {"idle_duration_s": 5.0, "jitter_s": 1e-3}, 939 * MS),
    ],
)
def test_loop_pauses_where_that_helps_and_changes_no_result(
    inference_ns: int, fields: dict[str, Any], every_ns: int | None
) -> None:
    """Otherwise a throughput or an energy would contain pauses, or inferences a stop."""
    found = pauses_for(LIMIT, RunSpec("tflite", **fields), inference_ns)
    assert found == (None if every_ns is None else Pauses(every_ns, 60 * MS))


@pytest.mark.parametrize("limit", [None, RealtimeLimit(None, 1.0), RealtimeLimit(0.0, 1.0)])
def test_loop_without_a_limit_that_pauses_can_keep_does_not_pause(
    limit: RealtimeLimit | None,
) -> None:
    """Otherwise a kernel without a limit would cost a run 6 % of its time."""
    assert pauses_for(limit, RunSpec("tflite"), MS) is None


def test_kernel_stops_no_loop_that_pauses() -> None:
    """A loop of SCHED_FIFO that pauses waits for at most half as long as one with gaps only."""
    result = subprocess.run(
        [sys.executable, "-c", FIFO_LOOP], capture_output=True, text=True, check=True
    )
    found = json.loads(result.stdout)
    if not found["has_limit"]:
        skip_or_fail("needs SCHED_FIFO and the kernel's limit on real-time tasks")
    pausing_s, stopped_s = found["waited_s"]
    assert pausing_s <= stopped_s / 2
