"""A disturbed run of a set is made again, and both runs are stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host
from support.tools import need_runtime

from edgebench.host.bench.events import ExtraRunPlanned, MeasurementEvent
from edgebench.host.bench.finish import finish
from edgebench.host.result.facts import Replacement
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict
from edgebench.host.store.files import write_run

MODEL = "digits_int8.tflite"
VALID = Verdict(state=State.VALID, rules=())
DISTURBED = Verdict(
    state=State.SUSPECT,
    rules=(
        Finding(
            id="cpu_pressure",
            outcome=RuleOutcome.FAIL,
            severity=State.SUSPECT,
            value=0.3,
            limit=0.05,
            unit="ratio",
        ),
    ),
)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for all tests: it probes the runtimes once."""
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"]).start()
    yield process
    process.kill()


@pytest.fixture
def disturbed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the analysis find a neighbour in one planned run, and no other disturbance."""

    def finish_disturbed(directory: Path, trouble: str | None = None) -> Run:
        run = finish(directory, trouble)
        assert run.member is not None
        is_planned = run.member.replaces is None
        is_disturbed = is_planned and run.member.number == request.param
        run = replace(run, verdict=DISTURBED if is_disturbed else VALID)
        write_run(directory, run)
        return run

    monkeypatch.setattr("edgebench.host.bench.host.finish", finish_disturbed)


@pytest.mark.usefixtures("disturbed")
@pytest.mark.parametrize("disturbed", [0, 2], indirect=True)
def test_disturbed_run_is_made_again(paired: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise one launch beside a neighbour would make a set of five suspect."""
    from edgebench.host.cli.main import main

    need_runtime("ai-edge-litert")
    planned: list[ExtraRunPlanned] = []

    def note(event: MeasurementEvent) -> None:
        if isinstance(event, ExtraRunPlanned):
            planned.append(event)

    runs = paired.lab.bench(
        MODEL, on="board", preset="quick", duration_s=0.5, min_query_count=50, runs=5, watcher=note
    )
    [event] = planned
    assert event.member.replaces is not None
    assert len(runs) == 6
    [found] = paired.lab.sets(runs)
    [run] = [run for run in runs if run.result.member == event.member]
    [replaced_id] = found.replaced_run_ids
    assert event.member.replaces == Replacement(replaced_id, ("cpu_pressure",))
    assert "cpu_pressure" not in {one.id for one in found.verdict.failures}
    # The further run takes the place of the replaced one, with its seed and its checks.
    [replaced] = [run for run in runs if run.id == replaced_id]
    assert run.result.spec == replaced.result.spec
    assert found.first.metrics.agreement is not None
    store = ("--store", str(paired.lab.store.root))
    assert main(["show", str(found.set_id), *store]) in (0, 3)
    assert f"{replaced_id} (cpu_pressure)" in capsys.readouterr().out
    assert main(["show", run.id, "--json", *store]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["set"]["replaces"] == {"run_id": replaced_id, "rules": ["cpu_pressure"]}


@pytest.mark.usefixtures("disturbed")
@pytest.mark.parametrize("disturbed", [2], indirect=True)
def test_no_further_runs_on_request(paired: Host) -> None:
    """Otherwise a script that needs a fixed number of runs could not have it."""
    need_runtime("ai-edge-litert")
    runs = paired.lab.bench(
        MODEL,
        on="board",
        preset="quick",
        duration_s=0.5,
        min_query_count=50,
        runs=5,
        extra_runs=0,
    )
    assert len(runs) == 5
