"""Campaigns over two lab hosts: after any kill, every planned run is stored once at the end.

Agents, lab hosts, the scheduler and, where it is killed, the coordinator are separate processes.
"""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.cluster import LabProcess, SchedulerProcess
from support.tools import need_runtime

from edgebench.host.bench import events
from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.cluster.lab import LAB_DIRECTORY
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import LabHostsUnreachable, NoSuchCampaign, UsageError
from edgebench.protocol.record import Phase

FILE = """\
schema = 1
name = "both"
repeats = {repeats}
wait_s = 60
lab_wait_s = {lab_wait_s}
[axes]
model = [{model!r}]
device = [{device!r}]
scenario = ["server"]           # a run waits more than it computes
[settings]
preset = "quick"
target_qps = 20
duration_s = {duration_s}
warmup_duration_s = 0.05
min_query_count = 5
is_checked = false
cooldown_timeout_s = 0
"""


@dataclass
class Site:
    """Two devices, two lab hosts that both offer them, a scheduler."""

    scheduler: SchedulerProcess
    labs: dict[str, LabProcess]

    @property
    def address(self) -> str:
        """Address of the scheduler."""
        return self.scheduler.address


@pytest.fixture
def site(whole: Site) -> Site:
    """All processes except a coordinator; lab hosts that a test has killed are started again."""
    for lab in whole.labs.values():
        if lab.process is None:
            lab.start()
    return whole


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """All processes."""
    need_runtime("ai-edge-litert")
    folder = tmp_path_factory.mktemp("site")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    agents = [
        AgentProcess(folder / name, options=["--simulate", "imx8mp-evk", "--name", name]).start()
        for name in ("one", "two")
    ]
    hosts = {name: Host(folder / f"lab-{name}") for name in ("a", "b")}
    for agent in agents:
        hosts["a"].lab.pair(agent.pairing_string())
    hosts["a"].lab.export_lab(folder / "lab.json")
    hosts["b"].lab.join_lab(folder / "lab.json")
    scheduler = SchedulerProcess(folder / "scheduler", port).start()
    labs = {name: LabProcess(host, name, scheduler.address) for name, host in hosts.items()}
    try:
        for lab in labs.values():
            lab.start()
        yield Site(scheduler, labs)
    finally:
        for process in (*labs.values(), scheduler):
            process.kill()
        for agent in agents:
            agent.kill()


def written(
    folder: Path,
    device: str = "one-simulated",
    *,
    model: str = "digits_int8.tflite",
    repeats: int = 2,
    lab_wait_s: float = 120,
    duration_s: float = 0.4,
) -> Path:
    """A campaign file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "campaign.toml"
    path.write_text(
        FILE.format(
            model=model,
            device=device,
            repeats=repeats,
            lab_wait_s=lab_wait_s,
            duration_s=duration_s,
        )
    )
    return path


class Phases:
    """Record the phases of the runs, and the ends of devices."""

    def __init__(self) -> None:
        self.seen: list[Phase] = []
        self.reasons: list[str] = []

    def __call__(self, event: events.MeasurementEvent) -> None:
        """Keep the phases, and the reason why a device is no longer measured."""
        if isinstance(event, events.PhaseReport):
            self.seen.append(event.progress.phase)
        elif isinstance(event, events.DeviceFailed):
            self.reasons.append(f"{type(event.error).__name__}: {event.error}")


def in_background(host: Host, campaign: Campaign, cluster: str, watcher: events.Notify) -> Any:
    """Make the runs in a thread, and return a function that waits for the end."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            host.lab.resume_campaign(campaign.plan.id, watcher, cluster=cluster)
        except BaseException as exc:  # for the thread that joins
            errors.append(exc)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def join() -> None:
        thread.join(150)
        assert not thread.is_alive(), campaign.lanes()
        assert errors == []

    return join


def intents(campaign: Campaign) -> list[str]:
    """Ids of the runs that were started."""
    return list(campaign.journal.read().intended)


def check_complete(host: Host, campaign: Campaign, *, kills: int) -> None:
    """Every planned run is measured once, and no more were started than the kills explain."""
    rows = campaign.rows()
    assert [row["state"] for row in rows] == ["measured"] * len(rows), (rows, campaign.lanes())
    stored = list(host.lab.runs()["run_id"])
    assert sorted(stored) == sorted(row["run_id"] for row in rows)
    assert len(intents(campaign)) <= len(rows) + kills


def measuring(phases: Phases, count: int = 1) -> Callable[[], bool]:
    """Whether so many runs have reached their timed loop."""
    return lambda: phases.seen.count(Phase.MEASURING) >= count


def test_two_labs_share_a_campaign(site: Site, tmp_path: Path) -> None:
    """Otherwise a device could be measured twice or never, or its result stay at a lab host."""
    host = Host(tmp_path / "host")
    own_model = tmp_path / "own.tflite"
    own_model.write_bytes(
        (
            Path(__file__).parents[2] / "host/edgebench/host/builtin_models/digits_int8.tflite"
        ).read_bytes()
    )
    file = written(tmp_path, "all", model="own.tflite", repeats=1)
    result = host.run("campaign", "run", str(file), "--cluster", site.address, "--json")
    assert result.returncode in (0, 3), result.stderr
    document = json.loads(result.stdout)
    # Which lane chooses first depends on the threads; the other takes the idle lab host.
    assert sorted(lane["lab"] for lane in document["devices"]) == ["a", "b"]
    assert sorted(lane["device"] for lane in document["devices"]) == [
        "one-simulated",
        "two-simulated",
    ]
    campaign = host.lab.campaign()
    check_complete(host, campaign, kills=0)
    for row in document["runs"]:
        run = host.lab.run(row["run_id"])
        assert run.result.model.name == "own.tflite"
        assert len(run.queries) > 0
    # The lab hosts have transferred everything, and the devices have removed it.
    for lab in site.labs.values():
        way = Store(lab.host.lab.store.root / LAB_DIRECTORY)
        wait_until(lambda store=way: not store.run_ids(), "the lab host forgets its runs")
    for device in ("one-simulated", "two-simulated"):
        with site.labs["a"].host.lab.connect(device) as client:
            assert client.list_runs().finished == ()
    host.lab.resume_campaign(cluster=site.address)
    assert len(intents(campaign)) == 2


def test_runs_come_by_a_file_system_where_one_is_named(site: Site, tmp_path: Path) -> None:
    """Otherwise recordings of gigabytes would pass through the scheduler."""
    host, folder = Host(tmp_path / "host"), tmp_path / "shared"
    file = written(tmp_path, repeats=1)
    url = f"file://{folder}"
    words = ("campaign", "run", str(file), "--cluster", site.address, "--store-url", url)
    result = host.run(*words)
    assert result.returncode in (0, 3), result.stderr
    check_complete(host, host.lab.campaign(), kills=0)
    assert list(folder.iterdir()) == [], "what was taken is removed"
    result = host.run("campaign", "run", str(file), "--store-url", url)
    assert result.returncode == 2
    assert result.stderr.startswith("error: --store-url needs a cluster")


def test_model_that_fails_at_a_lab_host_is_refused_here(site: Site, tmp_path: Path) -> None:
    """Otherwise a refused model would be tried again at every lab host, until morning."""
    host = Host(tmp_path / "host")
    (tmp_path / "bad.tflite").write_bytes(b"no model" * 100)
    file = written(tmp_path, model="bad.tflite", repeats=1)
    result = host.run("campaign", "run", str(file), "--cluster", site.address, "--json")
    assert result.returncode == 1, result.stderr
    [row] = json.loads(result.stdout)["runs"]
    assert (row["state"], row["code"]) == ("failed", "model_refused")
    assert row["attempt_count"] == 1


def test_two_campaigns_take_turns_on_a_device(site: Site, tmp_path: Path) -> None:
    """Otherwise the second would count its runs as lost five times, and give them up."""
    host = Host(tmp_path / "host")
    files = [written(tmp_path / name, repeats=3, duration_s=1) for name in ("first", "second")]
    campaigns = [host.lab.begin_campaign(file, cluster=site.address) for file in files]
    joins = [in_background(host, one, site.address, events.ignore_events) for one in campaigns]
    for join in joins:
        join()
    for campaign in campaigns:
        assert [row["state"] for row in campaign.rows()] == ["measured"] * 3
        assert len(intents(campaign)) == 3
        assert campaign.journal.read().gone == set()


def test_lane_of_a_killed_lab_moves_to_another_one(site: Site, tmp_path: Path) -> None:
    """Otherwise devices would be idle until morning after a lab host lost power at ten."""
    host, phases = Host(tmp_path / "host"), Phases()
    file = written(tmp_path, lab_wait_s=1, duration_s=4)
    campaign = host.lab.begin_campaign(file, cluster=site.address)
    join = in_background(host, campaign, site.address, phases)
    wait_until(measuring(phases), "a run is measured")
    site.labs["a"].kill()
    join()
    check_complete(host, campaign, kills=1)
    [lane] = campaign.lanes()
    assert (lane.lab, lane.state) == ("b", "ended")
    # The run in progress went on without its lab host, and the other lab host followed it.
    assert len(intents(campaign)) == 2


def test_lane_stays_with_a_lab_that_comes_back(site: Site, tmp_path: Path) -> None:
    """Otherwise the lanes of an updated lab host would move to a lab host without meters."""
    host, phases = Host(tmp_path / "host"), Phases()
    campaign = host.lab.begin_campaign(written(tmp_path, duration_s=4), cluster=site.address)
    join = in_background(host, campaign, site.address, phases)
    wait_until(measuring(phases), "a run is measured")
    site.labs["a"].kill()
    wait_until(lambda: campaign.lanes()[0].state == "waiting", "the campaign notices its death")
    site.labs["a"].start()
    join()
    check_complete(host, campaign, kills=1)
    [lane] = campaign.lanes()
    assert (lane.lab, lane.state) == ("a", "ended")
    assert len(intents(campaign)) == 2


def test_killed_scheduler_costs_nothing(site: Site, tmp_path: Path) -> None:
    """Otherwise a failure of the scheduler, which carries all messages, would cost the night."""
    host, phases = Host(tmp_path / "host"), Phases()
    file = written(tmp_path, "all", repeats=1, duration_s=1.5)
    campaign = host.lab.begin_campaign(file, cluster=site.address)
    join = in_background(host, campaign, site.address, phases)
    wait_until(measuring(phases, 2), "two runs are measured")
    pids = [lab.process.pid for lab in site.labs.values() if lab.process]
    site.scheduler.kill()
    time.sleep(2.5)  # the runs end meanwhile
    site.scheduler.start()
    join()
    check_complete(host, campaign, kills=0)
    assert [lab.process.pid for lab in site.labs.values() if lab.process] == pids
    assert all(lab.process and lab.process.poll() is None for lab in site.labs.values())


def test_killed_coordinator_resumes(site: Site, tmp_path: Path) -> None:
    """Otherwise a closed laptop would make the lab hosts measure everything again, or in vain."""
    host = Host(tmp_path / "host")
    file = written(tmp_path, repeats=2, duration_s=2)
    coordinator = host.popen("campaign", "run", str(file), "--cluster", site.address)

    def is_begun() -> bool:
        try:
            return len(intents(host.lab.campaign())) > 1
        except NoSuchCampaign:
            return False

    wait_until(is_begun, "the second run is begun", 150)
    coordinator.send_signal(signal.SIGKILL)
    coordinator.communicate()
    campaign = host.lab.campaign()
    before = {row["run_id"] for row in campaign.rows() if row["state"] == "measured"}
    assert before
    host.lab.resume_campaign(cluster=site.address)
    check_complete(host, campaign, kills=1)
    assert before <= {row["run_id"] for row in campaign.rows()}


def test_device_without_a_lab_ends_with_its_reason(site: Site, tmp_path: Path) -> None:
    """Otherwise a campaign would wait for ever for a lab host that was removed."""
    host, phases = Host(tmp_path / "host"), Phases()
    site.labs["b"].kill()
    campaign = host.lab.begin_campaign(
        written(tmp_path, repeats=1, lab_wait_s=0), cluster=site.address
    )
    site.labs["a"].kill()
    wait_until(lambda: not offers(host, file=tmp_path, site=site), "the lab hosts are gone")
    host.lab.resume_campaign(campaign.plan.id, phases, cluster=site.address)
    [reason] = phases.reasons
    assert reason.startswith("LabHostsUnreachable: no lab host offers one-simulated")
    [lane] = campaign.lanes()
    assert lane.state == "given_up"


def offers(host: Host, *, file: Path, site: Site) -> bool:
    """Whether a lab host offers a device."""
    try:
        host.lab.plan_campaign(written(file / "other"), cluster=site.address)
    except LabHostsUnreachable:
        return False
    return True


def test_mistakes_are_told_in_one_line(tmp_path: Path) -> None:
    """Otherwise a missing port, or a missing scheduler, would end in a traceback of Dask."""
    host = Host(tmp_path / "host")
    file = written(tmp_path)
    with pytest.raises(UsageError, match="tcp://HOST:PORT"):
        host.lab.plan_campaign(file, cluster="server")
    with pytest.raises(UsageError, match="tls-ca-file"):
        host.lab.plan_campaign(file, cluster="tls://127.0.0.1:1")
    with pytest.raises(LabHostsUnreachable, match="no scheduler responds at tcp://"):
        host.lab.plan_campaign(file, cluster="tcp://127.0.0.1:9")
