"""LoadGen as the engine, in processes of its own: it can neither be stopped nor be raised through.

What it issues and logs is tested with a real agent, in tests/loopback.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.tools import need_loadgen

from edgebench.agent.worker import loadgen
from edgebench.agent.worker.loop import Calls
from edgebench.protocol.errors import RuntimeUnavailable
from edgebench.protocol.spec import RunSpec, Scenario

PROGRAM = """
import json, os, signal, sys, time
from edgebench.agent.worker.loadgen import run_loadgen
from edgebench.agent.worker.loop import Calls
from edgebench.agent.worker.stop import STOP
from edgebench.protocol.spec import Engine, RunSpec, Scenario

fields, event, at, directory = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
STOP.install()
count = 0

def invoke():
    global count
    count += 1
    if count == at and event == "raise":
        raise RuntimeError("index out of range")
    if count == at and event == "stop":
        os.kill(os.getpid(), signal.SIGTERM)
    if event == "slow":
        time.sleep(0.01)

scenario = Scenario(fields.pop("scenario"))
spec = RunSpec("x", scenario=scenario, engine=Engine.LOADGEN, **fields)
try:
    calls = Calls([lambda: None] * 3, invoke, lambda: None)
    times = run_loadgen(calls, spec, typical_ns=100_000, directory=directory)
    said = {"rows": len(times), "stopped": times.is_interrupted, "count": count,
            "samples": sorted(set(times.sample)), "last": times.end_ns[-1] if len(times) else 0}
except Exception as exc:  # whatever it is, the test wants to see it
    said = {"error": f"{type(exc).__name__}: {exc}"}
print(json.dumps(said), flush=True)
os._exit(0)
"""
SCENARIOS: dict[Scenario, dict[str, Any]] = {
    Scenario.SINGLE_STREAM: {},
    Scenario.MULTI_STREAM: {"samples_per_query": 4},
    Scenario.OFFLINE: {},
    Scenario.SERVER: {"target_qps": 500.0, "target_latency_s": 1.0},
}


def run(folder: Path, scenario: Scenario, event: str, at: int = 0, **more: Any) -> dict[str, Any]:
    """Return the result of a run in which something happens at a certain inference."""
    need_loadgen()
    fields = {"scenario": scenario.value, "duration_s": 0.2, "min_query_count": 20}
    fields |= SCENARIOS[scenario] | more
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(fields), event, str(at), str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("scenario", list(Scenario))
def test_every_inference_is_in_the_trace(tmp_path: Path, scenario: Scenario) -> None:
    """Otherwise LoadGen would issue queries that are not recorded."""
    found = run(tmp_path, scenario, "nothing")
    assert found["rows"] == found["count"] >= 20
    assert not found["stopped"]
    assert set(found["samples"]) <= {0, 1, 2}
    assert "Result is" in (tmp_path / "mlperf_log_summary.txt").read_text()


@pytest.mark.parametrize("scenario", list(Scenario))
def test_model_that_fails_is_its_own_error(tmp_path: Path, scenario: Scenario) -> None:
    """Otherwise an exception would pass through LoadGen, and cause a segmentation fault."""
    found = run(tmp_path, scenario, "raise", at=7)
    assert found == {"error": "RuntimeError: index out of range"}


@pytest.mark.parametrize("scenario", list(Scenario))
def test_stop_keeps_whole_queries(tmp_path: Path, scenario: Scenario) -> None:
    """Otherwise a stop would wait for ten minutes, lose everything, or keep half a query."""
    found = run(tmp_path, scenario, "stop", at=30, duration_s=100.0, max_query_count=60_000)
    assert found["stopped"]
    assert 24 <= found["rows"] <= found["count"]
    assert found["rows"] % SCENARIOS[scenario].get("samples_per_query", 1) == 0
    assert found["last"] > 0


@pytest.mark.parametrize("scenario", list(Scenario))
def test_maximum_duration_ends_the_test_too(tmp_path: Path, scenario: Scenario) -> None:
    """Otherwise LoadGen would go on until a slow model has processed every requested query."""
    found = run(
        *(tmp_path, scenario, "slow"), duration_s=0.1, max_duration_s=0.3, min_query_count=2000
    )
    assert not found["stopped"]
    assert 4 <= found["rows"] < 1000
    assert found["rows"] % SCENARIOS[scenario].get("samples_per_query", 1) == 0


def test_loadgen_that_is_not_there_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a device without LoadGen would show a traceback."""
    monkeypatch.setitem(sys.modules, "mlperf_loadgen", None)
    with pytest.raises(RuntimeUnavailable, match="pip install mlcommons-loadgen"):
        loadgen.run_loadgen(
            Calls([], lambda: None, lambda: None),
            RunSpec("x"),
            typical_ns=1,
            directory=str(tmp_path),
        )
