"""An agent that gets no facts from the system: no /proc, no /sys, no load, no interfaces."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.agents import AgentProcess, Host
from support.denied import denying_environment
from support.tools import need_runtime

QUICK = (
    *("--quick", "--runs=1", "--duration", "0.2s", "--min-queries", "50"),
    *("--warmup", "5", "--warmup-duration", "0.05s"),
)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent on all interfaces, of which it may list none."""
    need_runtime("onnxruntime")
    folder = tmp_path_factory.mktemp("agent")
    environment = denying_environment(folder / "modules")
    process = AgentProcess(
        folder, options=["--name", "board"], listen=":0", environment=environment
    )
    yield process.start()
    process.kill()


def test_agent_that_is_told_nothing_pairs_and_measures(paired: Host, agent: AgentProcess) -> None:
    """Otherwise, on a phone or under proot, pairing or the run would fail, or be suspect."""
    result = paired.run("bench", "digits_int8.onnx", "--on", "board", *QUICK, "--json")
    assert result.returncode in (0, 3), result.stderr
    (run,) = json.loads(result.stdout)["runs"]
    environment = run["environment"]
    assert environment["load_1m"] is None
    assert environment["memory_available_bytes"] is None
    assert environment["cpu"]["model"] == "unknown"
    outcomes = {rule["id"]: rule["outcome"] for rule in run["verdict"]["rules"]}
    untold = ("frequency", "background_load", "cpu_pressure", "memory_pressure", "memory", "swap")
    assert {outcomes[name] for name in untold} == {"unknown"}
    assert outcomes["complete"] == outcomes["real_time"] == "pass"
    assert run["verdict"]["unwatched"] == ["clock", "heat", "load"]
    log = agent.errors()
    assert "Traceback" not in log
    assert "denied" not in log
