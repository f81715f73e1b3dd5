"""A simulated device: real model, real sampler, made-up heat, and a label on everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.agents import AgentProcess, Host
from support.tools import need_runtime
from support.watchers import At

from edgebench.host.store.verify import verify
from edgebench.protocol.errors import TargetError
from edgebench.protocol.record import Phase

BENCH = ("--runtime", "litert", "--no-check", "--warmup", "5", "--cooldown", "0s")
MODEL = "digits_fp32.tflite"


def test_governor_is_set_for_the_run_alone(tmp_path: Path) -> None:
    """The operator asks for full clock, and gets it for ever, or not at all."""
    need_runtime("ai-edge-litert")
    agent = AgentProcess(tmp_path / "agent", options=["--simulate", "imx8mp-evk"]).start()
    try:
        host = Host(tmp_path / "host")
        host.lab.pair(agent.pairing_string())
        policy = agent.state / "simulated/sys/devices/system/cpu/cpufreq/policy0"
        path = policy / "scaling_governor"
        seen: list[str] = []
        at = At(Phase.MEASURING, lambda: seen.append(path.read_text().strip()))
        settings: dict[str, Any] = {
            "duration_s": 0.3,
            "min_query_count": 30,
            "cooldown_timeout_s": 0.0,
        }
        [run] = host.lab.bench(
            MODEL, on=["imx8mp-evk-simulated"], governor="powersave", watcher=at, **settings
        )
        assert (seen, path.read_text().strip()) == (["powersave"], "performance")
        assert run.document["spec"]["governor"] == "powersave"
        (policy / "scaling_available_governors").write_text("performance\n")
        with pytest.raises(TargetError, match="governor powersave is not offered"):
            host.lab.bench(MODEL, on=["imx8mp-evk-simulated"], governor="powersave", **settings)
        assert agent.status().running is None
    finally:
        agent.kill()


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("board", "verdict"),
    [
        ("raspberry-pi-5-bare", "throttled:thermal"),
        ("imx8mp-evk", "throttled:thermal"),
        ("raspberry-pi-5-cooled", "not_throttled"),
    ],
)
def test_simulated_board_throttles_as_its_kind_does(
    tmp_path: Path, board: str, verdict: str
) -> None:
    """The detector works on arrays of numbers, and on nothing that runs."""
    need_runtime("ai-edge-litert")
    agent = AgentProcess(tmp_path / "agent", options=["--simulate", f"{board}:1"]).start()
    try:
        host = Host(tmp_path / "host")
        host.lab.pair(agent.pairing_string())
        name = f"{board}-simulated"
        result = host.run("bench", MODEL, "--on", name, *BENCH, "--sustained", "30s")
        assert result.returncode in (0, 3), result.stderr
        run = host.lab.run("last")
        assert run.document["simulated"] is True
        thermal = run.metrics["thermal"]
        assert thermal["verdict"] == verdict, thermal
        rules = {one["id"]: one for one in run.document["verdict"]["rules"]}
        assert rules["real_device"]["outcome"] == "fail"
        assert rules["thermal"]["outcome"] == ("pass" if verdict == "not_throttled" else "fail")
        assert rules["start_temperature"]["outcome"] == "pass"
        assert run.verdict != "valid"
        if verdict != "not_throttled":
            assert thermal["retention_ratio"] < 0.95
            assert thermal["onset_s"] > 2
        assert verify(host.lab.store, run.id) == []
        for words in (("show", run.id), ("runs",), ("runs", "--json"), ("show", run.id, "--json")):
            assert "simulated" in host.run(*words).stdout.lower(), words
        assert "simulated" in result.stdout
        found = json.loads(host.run("devices", "--json", "--timeout", "0.2s").stdout)
        assert "simulated" in json.dumps(found)
    finally:
        agent.kill()
