"""Runs of drivers whose timed calls do not compute the model are invalid, and state that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.agents import AgentProcess, Host
from support.digits import PACKAGES
from support.faulty_drivers import BASES, FAULTS, install
from support.tools import need_runtime

from edgebench.host.result.verdict import RuleOutcome, State
from edgebench.host.show.sentences import described

QUICK: dict[str, Any] = {
    "runs": 1,
    "duration_s": 0.1,
    "min_query_count": 20,
    "warmup_query_count": 1,
    "warmup_duration_s": 0.0,
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host paired with an agent that has the drivers."""
    folder = tmp_path_factory.mktemp("drivers")
    environment = install(folder / "packages")
    agent = AgentProcess(folder / "agent", ["--name", "board"], environment=environment).start()
    host = Host(folder / "host")
    host.lab.pair(agent.pairing_string())
    yield host
    agent.kill()


@pytest.mark.slow
@pytest.mark.parametrize("base", list(BASES))
def test_runs_of_drivers_with_a_fault_are_invalid(host: Host, base: str) -> None:
    """Otherwise the time of something else would be valid, with an agreement of 100 %.

    All runtimes are measured by a single command, because their probes take longer than the runs.
    """
    need_runtime(PACKAGES[base])
    suffix = "onnx" if base == "onnx" else "tflite"
    stored = host.lab.bench(f"digits_fp32.{suffix}", on="board", runtime="all", **QUICK)
    runs = {one.result.spec.runtime: one.result for one in stored}
    assert set(runs) >= {base, *(f"{base}-{fault}" for fault in FAULTS)}
    for runtime, run in runs.items():
        finding = next(rule for rule in described(run.verdict).rules if rule.id == "timed_path")
        facts = run.conditions.timed_path
        assert facts is not None
        if runtime in PACKAGES:
            assert finding.outcome is RuleOutcome.PASS, finding
            assert facts.inference_count == 9
        else:
            assert run.verdict.state is State.INVALID
            assert finding.outcome is RuleOutcome.FAIL, finding
            assert finding.detail.startswith("timed path: ")
            assert finding.value == facts.differing_count > 0
