"""What earlier commands left on a device, and a command that fetches only that."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.started import SPEC, start
from support.watchers import worker_pid

from edgebench.host.bench.cancellation import Interrupted
from edgebench.host.bench.finish import finish
from edgebench.host.bench.verify import verify
from edgebench.host.client import Client
from edgebench.protocol.traces import HOST_FILE


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for all tests: each fetches what it leaves there."""
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"]).start()
    yield process
    process.kill()


def test_run_in_progress_is_followed_and_stored(paired: Host) -> None:
    """Otherwise the last run of a killed host would have to be measured again."""
    with paired.lab.connect("board") as first:
        run_id = start(first, replace(SPEC, duration_s=0.3))
    assert [run.id for run in paired.lab.collect(["board"])] == [run_id]
    assert verify(paired.lab.store, run_id) == []
    assert paired.lab.collect(["board"]) == []


def test_run_that_has_ended_is_stored_in_spite_of_ctrl_c(
    paired: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise Ctrl-C in the analysis would silently leave a complete run on its device."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def finish_interrupted(*words: Any, **named: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return finish(*words, **named)

    monkeypatch.setattr("edgebench.host.bench.host.finish", finish_interrupted)
    try:
        with pytest.raises(Interrupted) as interrupted:
            paired.lab.bench(
                "digits_int8.onnx",
                on=["board"],
                runs=1,
                preset="quick",
                duration_s=0.1,
                warmup_duration_s=0.05,
            )
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupted.value.run is not None
    assert paired.lab.store.run_ids() == [interrupted.value.run.run_id]
    assert paired.lab.collect(["board"]) == []


def test_ctrl_c_while_a_run_starts_stops_it(
    agent: AgentProcess, paired: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the run would go on for its whole length, and hold the device in vain."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    start_run = Client.start_run

    def start_interrupted(*words: Any, **named: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        start_run(*words, **named)

    monkeypatch.setattr(Client, "start_run", start_interrupted)
    try:
        with pytest.raises(Interrupted):
            paired.lab.bench(
                "digits_int8.onnx", on=["board"], runs=1, preset="quick", duration_s=60.0
            )
    finally:
        signal.signal(signal.SIGINT, before)
    assert agent.status().running is None
    assert agent.status().spooled_count == 0


def test_device_that_measures_is_left_alone_and_failures_are_told(
    agent: AgentProcess, paired: Host
) -> None:
    """Otherwise files would be read during a timed loop, or a failed run would not be reported.

    A model that writes in its run's directory could also forge what the host knew of the run.
    """
    with paired.lab.connect("board") as first:
        measured = start(first, replace(SPEC, duration_s=0.1))
        list(first.follow_run())
        failed = start(first)
    result = paired.run("collect", "--on", "board", "--no-wait")
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr.splitlines()[0] == (
        f"note: run {failed} is in progress on board; to wait for it: edgebench collect --on board"
    )
    assert paired.lab.store.run_ids() == []
    [work] = agent.state.glob(f"**/work/{failed}")
    (work / HOST_FILE).write_text('{"ambient_c": 99.0}\n')
    os.kill(worker_pid(agent), signal.SIGKILL)
    wait_until(lambda: agent.status().running is None, "run has ended")
    result = paired.run("collect", "--on", "board", "--json")
    assert result.returncode == 1
    told = json.loads(result.stdout)
    assert [run["run_id"] for run in told["runs"]] == [measured]
    [error] = told["errors"]
    assert (error["run_id"], error["device"], error["code"]) == (failed, "board", "worker_died")
    assert paired.lab.store.run_ids() == sorted([measured, failed])
    assert paired.lab.run(failed).result.conditions.ambient_c is None
    with paired.lab.connect("board") as client:
        assert client.list_runs().finished == ()
