"""Campaigns on real agents: after any kill, every planned run is stored exactly once at the end."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.farm import Cable

from edgebench.host.campaign.plan import attempt_name

FILE = """\
schema = 1
name = "three"
repeats = {repeats}
wait_s = {wait_s}
{top}
[axes]
model = [{models}]
device = [{devices}]
threads = [{threads}]
scenario = ["server"]           # a run waits more than it computes
[settings]
preset = "quick"
target_qps = 20
duration_s = {duration_s}
warmup_duration_s = 0.05
min_query_count = 5
is_checked = false
{more}
"""


def written(
    folder: Path,
    *devices: str,
    models: tuple[str, ...] = ("digits_int8.tflite",),
    threads: str = "1",
    repeats: int = 2,
    wait_s: float = 20,
    duration_s: float = 0.4,
    top: str = "",
    more: str = "",
) -> Path:
    """A campaign file."""
    path = folder / "campaign.toml"
    path.write_text(
        FILE.format(
            threads=threads,
            repeats=repeats,
            wait_s=wait_s,
            duration_s=duration_s,
            models=", ".join(map(repr, models)),
            devices=", ".join(map(repr, devices)),
            top=top,
            more=more,
        )
    )
    return path


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AgentProcess]]:
    """Two agents."""
    made = [
        AgentProcess(tmp_path_factory.mktemp(name), options=["--name", name]).start()
        for name in ("one", "two")
    ]
    yield made
    for agent in made:
        agent.kill()


@pytest.fixture
def operator(agents: list[AgentProcess], tmp_path: Path) -> Host:
    """A host that is paired with both."""
    host = Host(tmp_path / "operator")
    for agent in agents:
        host.lab.pair(agent.pairing_string())
    return host


def restart(agent: AgentProcess) -> None:
    """Start an agent again at the same place."""
    agent.listen = f"127.0.0.1:{agent.port}"
    agent.start()


def status(host: Host) -> dict[str, Any]:
    """The document of `campaign status`."""
    result = host.run("campaign", "status", "--json")
    assert result.returncode == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def is_waiting(host: Host) -> bool:
    """Whether the campaign waits for its first device."""
    return bool(status(host)["devices"][0]["state"] == "waiting")


def check_complete(host: Host, run_count: int) -> dict[str, Any]:
    """Every planned run is stored once, and counted once."""
    document = status(host)
    assert document["campaign"]["left_count"] == 0
    assert len(document["runs"]) == run_count
    final = Counter(run["run_id"] for run in document["runs"])
    assert set(final.values()) == {1}
    stored = list(host.lab.runs()["run_id"])
    assert len(stored) == len(set(stored))
    assert set(final) <= set(stored)
    return document


def test_campaign_measures_every_cell_on_every_device(operator: Host, tmp_path: Path) -> None:
    """Otherwise a cell could be left out, or measured with the settings of another."""
    file = written(tmp_path, "all", threads="1, 2", repeats=1)
    planned = operator.run("campaign", "plan", str(file), "--json")
    assert json.loads(planned.stdout)["run_count"] == 4
    result = operator.run("campaign", "run", str(file), "--json")
    assert result.returncode in (0, 3), result.stderr
    document = check_complete(operator, 4)
    assert json.loads(result.stdout)["runs"] == document["runs"]
    for row in document["runs"]:
        run = operator.lab.run(row["run_id"]).result
        assert (run.device.name, run.spec.threads) == (row["device"], row["threads"])
    table = operator.lab.campaign("three").table()
    assert list(table["run_id"]) == [row["run_id"] for row in document["runs"]]
    # All is done: nothing is started again.
    again = operator.run("campaign", "resume")
    assert again.returncode == result.returncode
    for one in (again, operator.run("campaign", "status")):
        for cell in document["sets"]:
            state = cell["verdict"]["state"]
            assert state == "valid" or f"\n{state}: " in one.stdout + one.stderr
        assert "\nnote: effects of factors not computed: each effect needs valid or" in one.stdout
        name = document["campaign"]["id"]
        assert one.stderr.splitlines()[-1] == f"next: edgebench report {name} --open"
    assert len(operator.lab.runs()) == 4


def test_killed_host_resumes_without_repeating_or_losing_a_run(
    operator: Host, tmp_path: Path
) -> None:
    """Otherwise the night's runs would be lost with the laptop, or measured twice."""
    file = written(tmp_path, "one", repeats=4, duration_s=0.8)
    for kill in range(2):
        words = ["campaign", "run", str(file)] if kill == 0 else ["campaign", "resume"]
        host = operator.popen(*words)
        wait_until(lambda count=kill: len(intents(operator)) > count + 1, "a run is begun")
        time.sleep(0.3 * kill)
        host.send_signal(signal.SIGKILL)
        host.communicate()
    result = operator.run("campaign", "resume")
    assert result.returncode in (0, 3), result.stderr
    document = check_complete(operator, 4)
    starts = intents(operator)
    assert len(starts) <= 4 + 2
    assert len({name.planned for one in starts if (name := attempt_name(one))}) == 4
    [found] = document["sets"]
    assert found["device"] == "one"
    assert found["set_id"].startswith(f"set-{document['campaign']['id']}-")
    members = [operator.lab.run(row["run_id"]).result.member for row in document["runs"]]
    assert [one.number for one in members if one] == [0, 1, 2, 3]


def intents(host: Host) -> list[str]:
    """Ids of the runs that were started."""
    try:
        return list(host.lab.campaign().journal.read().intended)
    except Exception:  # it does not exist yet
        return []


def test_agent_that_dies_is_waited_for(
    agents: list[AgentProcess], operator: Host, tmp_path: Path
) -> None:
    """Otherwise a restarted board would end its campaign, or its lost run would count as made."""
    file = written(tmp_path, "one", "two", repeats=2, duration_s=0.8, wait_s=90)
    host = operator.popen("campaign", "run", str(file))
    wait_until(lambda: len(intents(operator)) > 1, "runs are begun")
    agents[0].kill()
    time.sleep(1.0)
    restart(agents[0])
    output = host.communicate(timeout=150)
    assert host.returncode in (0, 3), output
    document = check_complete(operator, 4)
    assert sum(run["attempt_count"] for run in document["runs"]) <= 4 + 1


def test_device_that_stays_away_keeps_no_other_from_being_measured(
    agents: list[AgentProcess], operator: Host, tmp_path: Path
) -> None:
    """Otherwise a single board that is off would end the night for all."""
    file = written(tmp_path, "one", "two", repeats=1, wait_s=1)
    agents[1].kill()
    try:
        result = operator.run("campaign", "run", str(file))
    finally:
        restart(agents[1])
    assert result.returncode == 1
    assert "error: two: " in result.stderr
    assert "next: edgebench campaign resume" in result.stderr
    lanes = {lane["device"]: lane for lane in status(operator)["devices"]}
    assert (lanes["one"]["measured_count"], lanes["one"]["state"]) == (1, "ended")
    assert (lanes["two"]["left_count"], lanes["two"]["state"]) == (1, "given_up")
    assert operator.run("campaign", "resume", "three").returncode in (0, 3)
    check_complete(operator, 2)


def test_run_that_somebody_stops_is_made_again(operator: Host, tmp_path: Path) -> None:
    """Otherwise a third of a run would count as a whole run."""
    file = written(tmp_path, "one", repeats=1, duration_s=3)
    host = operator.popen("campaign", "run", str(file))
    wait_until(lambda: len(intents(operator)) > 0, "a run is begun")
    time.sleep(1.5)
    host.send_signal(signal.SIGINT)
    host.communicate(timeout=90)
    assert host.returncode == 130
    [row] = status(operator)["runs"]
    # None if it was stopped before the device had reported that it runs.
    assert (row["state"], row["code"]) in (("left", "run_stopped"), ("unsettled", None))
    result = operator.run("campaign", "resume", "--json")
    assert result.returncode in (0, 3), result.stderr
    [row] = check_complete(operator, 1)["runs"]
    assert row["attempt_count"] == 2


def test_model_that_is_refused_is_a_failed_run_and_no_loop(operator: Host, tmp_path: Path) -> None:
    """Otherwise a broken file would be tried until morning, or silently left out."""
    (tmp_path / "broken.tflite").write_bytes(b"\x1c\0\0\0TFL3" + os.urandom(500))
    file = written(tmp_path, "one", models=("digits_int8.tflite", "broken.tflite"), repeats=1)
    result = operator.run("campaign", "run", str(file))
    assert result.returncode == 1
    assert result.stdout.count("failed: broken.tflite on one: ") == 1
    document = check_complete_but(operator, failed=1)
    assert {run["code"] for run in document["runs"] if run["state"] == "failed"} == {
        "model_refused"
    }


def test_meter_that_is_unplugged_is_waited_for_by_the_next_process_too(
    operator: Host, tmp_path: Path
) -> None:
    """Otherwise the device would be given up when host and meter lose power together."""
    cable = Cable(tmp_path / "port")
    farm = f'schema = 1\n[device.one]\nmeter = "{cable.meter}"\n'
    (operator.config / "farm.toml").write_text(farm)
    more = 'meter = "farm"\nsync = "arrival"\nidle_duration_s = 0.2'
    file = written(tmp_path, "one", repeats=2, wait_s=120, more=more)
    cable.plug()
    try:
        host = operator.popen("campaign", "run", str(file))
        wait_until(lambda: len(intents(operator)) > 0, "a run is begun")
        host.send_signal(signal.SIGKILL)
        host.communicate()
        cable.pull()
        host = operator.popen("campaign", "resume")
        wait_until(lambda: is_waiting(operator), "it waits")
        cable.plug()
        output = host.communicate(timeout=150)
        assert host.returncode in (0, 3), output
    finally:
        cable.pull()
    check_complete(operator, 2)


METERED = 'meter = "agent:{}"\nidle_duration_s = 0.2'


def test_meter_that_one_of_two_boards_has_is_said_before_a_run_is_begun(tmp_path: Path) -> None:
    """Otherwise each run of the second board would start, and fail while the first measures."""
    boards = ("--simulate", "raspberry-pi-5-bare", "--simulate", "rock-5b")
    options = ["--name", "rack", *boards, "--meter", "synthetic:follow"]
    agent = AgentProcess(tmp_path / "agent", options=options).start()
    try:
        host = Host(tmp_path / "host")
        host.lab.pair(agent.pairing_string())
        [first, second] = [
            one["name"]
            for one in json.loads(host.run("devices", "--json", "--timeout", "0.1s").stdout)[
                "devices"
            ]
            if one["name"].startswith("rack")
        ]
        more = METERED.format("synthetic:follow")
        both = written(tmp_path, first, second, repeats=2, more=more)
        result = host.run("campaign", "run", str(both))
        assert (result.returncode, result.stdout) == (2, "")
        error, hint = result.stderr.splitlines()
        assert error == (
            f"error: the agent of {second} does not serve meter synthetic:follow; it serves none"
        )
        assert hint.startswith(
            "hint: start the device's agent with the meter (of several boards, the first board "
            "gets the meter): edgebench-agent serve --meter synthetic:follow"
        )
        assert host.run("campaign", "status").returncode == 2, "nothing was begun"
        short = written(tmp_path, first, second, repeats=2, more=METERED.format("synthetic"))
        result = host.run("campaign", "run", str(short))
        assert f"; the meter is also missing on {second}" in result.stderr
        assert 'full name in the campaign file: meter = "agent:synthetic:follow"' in (result.stderr)
        alone = written(tmp_path, first, repeats=1, more=more)
        result = host.run("campaign", "run", str(alone))
        assert result.returncode in (0, 3), result.stderr
        check_complete(host, 1)
    finally:
        agent.kill()


def test_meter_of_an_agent_that_was_away_costs_no_run(
    agents: list[AgentProcess], operator: Host, tmp_path: Path
) -> None:
    """Otherwise each run on an agent that was away at the campaign's start would start and fail."""
    agents[0].kill()
    try:
        file = written(tmp_path, "one", repeats=3, wait_s=60, more=METERED.format("synthetic"))
        host = operator.popen("campaign", "run", str(file))
        begun = ("campaign", "status")
        wait_until(lambda: operator.run(*begun).returncode == 0, "the campaign is begun")
        wait_until(lambda: is_waiting(operator), "it waits")
    finally:
        restart(agents[0])
    stdout, _ = host.communicate(timeout=150)
    assert host.returncode == 1
    assert "the agent of one does not serve meter synthetic; it serves none" in stdout
    assert intents(operator) == []
    document = status(operator)
    assert document["devices"][0]["state"] == "given_up"
    assert document["campaign"]["left_count"] == 3


def check_complete_but(host: Host, *, failed: int) -> dict[str, Any]:
    """All runs are over, and so many have failed."""
    document = status(host)
    assert document["campaign"]["left_count"] == 0
    assert document["campaign"]["failed_count"] == failed
    return document


def test_budget_ends_the_campaign_before_a_run_that_would_be_too_long(
    operator: Host, tmp_path: Path
) -> None:
    """Otherwise a campaign would measure until noon on a farm that is needed at eight."""
    # The timed loops alone take twice the budget: no machine completes all of them.
    file = written(tmp_path, "one", repeats=6, duration_s=12, top="budget_s = 6")
    result = operator.run("campaign", "run", str(file))
    assert result.returncode == 1
    document = status(operator)
    assert document["campaign"]["left_count"] > 0
    assert {row["state"] for row in document["runs"]} <= {"measured", "left"}


def test_two_processes_do_not_make_the_same_runs(operator: Host, tmp_path: Path) -> None:
    """Otherwise two terminals that resume one campaign would make each run twice."""
    operator.lab.begin_campaign(written(tmp_path, "one", repeats=1))
    with operator.lab.campaign().journal.held():
        result = operator.run("campaign", "resume")
    assert result.returncode == 2
    assert "is being run by another process" in result.stderr
    assert "hint: " in result.stderr
    host = operator.popen("campaign", "resume")
    try:
        wait_until(lambda: len(intents(operator)) > 0, "a run is begun")
        watched = operator.run("campaign", "watch", "--json")
        assert watched.returncode == 0
        last = json.loads(watched.stdout.splitlines()[-1])
        assert last["campaign"]["left_count"] == 0
    finally:
        host.communicate(timeout=120)
    check_complete(operator, 1)
