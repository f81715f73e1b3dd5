"""An agent dies during a run: what the host kept is shown as lost, and removed on request."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from support.agents import AgentProcess, Host
from support.watchers import on

from edgebench.host.bench.events import EarlierRunLost, PhaseReport
from edgebench.host.store.incomplete import IncompleteRun, IncompleteState, incomplete_runs
from edgebench.protocol.errors import LinkLost
from edgebench.protocol.record import Phase
from edgebench.protocol.spec import SpecChanges

MODEL = "digits_int8.tflite"
SHORT: SpecChanges = {
    "duration_s": 0.2,
    "warmup_duration_s": 0.05,
    "min_query_count": 20,
    "is_checked": False,
}
RECORDED_S = 0.4


def test_metered_run_of_a_killed_agent_is_shown_as_lost_and_removed_when_told(
    agent: AgentProcess, paired: Host
) -> None:
    """Otherwise a recording of an hour would stay in a forgotten directory, or vanish silently."""
    store = paired.lab.store
    states: list[IncompleteState] = []
    told: list[IncompleteRun] = []

    def kill(event: PhaseReport) -> None:
        if event.progress.phase is Phase.MEASURING:
            time.sleep(RECORDED_S)  # the length of the recording is what is shown
            states.extend(run.state for run in incomplete_runs(store))
            agent.kill()

    with pytest.raises(LinkLost):
        paired.lab.bench(
            MODEL,
            on=["board"],
            runs=1,
            meter="synthetic:constant,power=1",
            idle_duration_s=0.0,
            watcher=on(PhaseReport, kill),
        )
    assert states == [IncompleteState.IN_PROGRESS]
    [left] = incomplete_runs(store)
    assert left.state is IncompleteState.NOT_FETCHED
    shown = paired.run("runs").stdout
    assert f"run {left.run_id} of {MODEL} on board is not fetched; the next bench" in shown

    agent.listen = f"127.0.0.1:{agent.port}"
    agent.start()
    keep = on(EarlierRunLost, lambda event: told.append(event.run))
    paired.lab.bench(MODEL, on=["board"], runs=1, watcher=keep, **SHORT)
    [lost] = told
    assert (lost.run_id, lost.state) == (left.run_id, IncompleteState.LOST)
    assert lost.recording_s is not None
    assert RECORDED_S < lost.recording_s < 30
    assert incomplete_runs(store) == [lost]
    removed = paired.run("runs", "--remove-lost")
    assert removed.returncode == 0, removed.stderr
    length = timedelta(seconds=round(lost.recording_s))
    assert removed.stdout == f"removed: run {left.run_id}: recording of {length} of power\n"
    assert incomplete_runs(store) == []
    assert list(store.unfinished.iterdir()) == []
    assert len(store.run_ids()) == 1
