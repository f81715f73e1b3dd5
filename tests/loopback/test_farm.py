"""Several devices in one command: measured at the same time, whatever any of them does."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator

import pytest
from support.agents import AgentProcess, Host
from support.watchers import on

from edgebench.host.bench.cancellation import Interrupted
from edgebench.host.bench.events import PhaseReport
from edgebench.host.devices.health import HealthFiles
from edgebench.protocol.record import Phase
from edgebench.protocol.spec import SpecChanges

MODEL = "digits_int8.tflite"
SHORT = ("--quick", "--runs=1", "--duration=0.5s", "--min-queries=20", "--no-check")


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AgentProcess]]:
    """Three agents."""
    agents = [
        AgentProcess(tmp_path_factory.mktemp(name), options=["--name", name]).start()
        for name in ("one", "two", "three")
    ]
    yield agents
    for agent in agents:
        agent.kill()


@pytest.fixture(scope="module")
def operator(farm: list[AgentProcess], tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host that is paired with all of them, and has labels for two."""
    host = Host(tmp_path_factory.mktemp("operator"))
    for agent in farm:
        host.lab.pair(agent.pairing_string())
    path = host.folder / "config/edgebench/host/farm.toml"
    path.write_text(
        'schema = 1\n[device.two]\nlabels = ["rack"]\n'
        '[device.one]\nlabels = ["rack"]\nmeter = "synthetic:constant,power=1"\n'
    )
    return host


def test_one_device_that_is_off_and_one_that_is_busy_keep_no_other_waiting(
    farm: list[AgentProcess], operator: Host, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Otherwise a single board that is off or busy would end the night for all."""
    _, two, three = farm
    other = Host(tmp_path_factory.mktemp("other"))
    other.lab.pair(two.pairing_string())
    three.kill()
    try:
        with other.lab.connect("two") as client:
            client.acquire()
            result = operator.run("bench", MODEL, "--on", "all", *SHORT, "--json")
    finally:
        three.start()
    assert result.returncode == 1
    assert [run["device"]["name"] for run in json.loads(result.stdout)["runs"]] == ["one"]
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 2
    assert errors[0].startswith(("error: two: device is in use by ", "error: three: "))
    assert {line.split(":")[1] for line in errors} == {" two", " three"}
    health = HealthFiles(operator.state)
    fared = {one.name: health.of(one) for one in operator.devices}
    codes = {name: [event.code for event in one.events] for name, one in fared.items()}
    assert codes == {"one": [None], "two": [], "three": ["unreachable"]}
    assert [name for name, one in fared.items() if one.last_seen_utc is None] == ["three"]


def test_devices_with_a_label_are_measured(operator: Host) -> None:
    """Otherwise two boards' runs would be stored as one board's, or one would have no energy."""
    words = ("--on", "label:rack", "--meter", "farm")
    result = operator.run("bench", MODEL, *words, *SHORT)
    assert result.returncode in (0, 3), result.stderr
    assert "note: two is measured without energy" in result.stderr
    assert "note: one" not in result.stderr
    runs = [operator.lab.run(run_id) for run_id in operator.lab.runs()["run_id"][-2:]]
    assert {run.result.device.name for run in runs} == {"one", "two"}
    assert len({run.id for run in runs}) == 2


def test_ctrl_c_ends_the_runs_of_all_devices_and_keeps_them(
    farm: list[AgentProcess], operator: Host
) -> None:
    """Otherwise two boards would measure for the rest of the hour after Ctrl-C."""
    before = set(operator.lab.runs()["run_id"])
    both_measure = threading.Barrier(2, timeout=60)

    def press_ctrl_c(event: PhaseReport) -> None:
        if event.progress.phase is Phase.MEASURING and both_measure.wait() == 0:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

    settings: SpecChanges = {"duration_s": 60.0, "is_checked": False, "warmup_query_count": 1}
    with pytest.raises(Interrupted):
        operator.lab.bench(
            MODEL,
            on=["one,two"],
            preset="quick",
            runs=1,
            watcher=on(PhaseReport, press_ctrl_c),
            **settings,
        )
    runs = [operator.lab.run(run_id) for run_id in operator.lab.runs()["run_id"]]
    kept = [run.result for run in runs if run.id not in before]
    assert {run.device.name for run in kept} == {"one", "two"}
    assert all(run.verdict.is_refused for run in kept)
    assert all(agent.status().running is None for agent in farm[:2])


def test_check_ends_and_begins_a_quarantine(farm: list[AgentProcess], operator: Host) -> None:
    """Otherwise a repaired board would stay out of the farm, or a dead board in it."""
    one, three = (next(d for d in operator.devices if d.name == name) for name in ("one", "three"))
    health = HealthFiles(operator.state)
    health.quarantine(one, "check_failed", "its disk was full")
    runs = len(operator.lab.runs())
    farm[2].kill()
    try:
        result = operator.run("devices", "check", "one", "three")
    finally:
        farm[2].start()
    assert result.returncode == 1
    lines = sorted(result.stdout.splitlines())
    assert lines[0].startswith("one: well, digits_int8.tflite in ")
    assert lines[1].startswith("three: not well: cannot reach three")
    assert not health.of(one).is_quarantined
    assert health.of(three).is_quarantined
    assert len(operator.lab.runs()) == runs
    assert farm[0].status().spooled_count == 0
