"""A run fetched from a lab host over a link that is cut: real processes, bytes counted."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host
from support.cluster import LabProcess, SchedulerProcess
from support.relay import TcpRelay
from support.tools import need_runtime

from edgebench.host.bench.events import MeasurementEvent, PhaseReport
from edgebench.host.campaign.cluster.lanes import PART_BYTES
from edgebench.protocol.record import Phase

CUT_AFTER_PARTS = 3
FILE = """\
schema = 1
name = "large"
repeats = 1
wait_s = 60
lab_wait_s = 60
[axes]
model = ["digits_int8.tflite"]
device = ["large"]
[settings]
preset = "quick"
duration_s = 1
min_query_count = 900000
max_duration_s = 120
is_checked = false
cooldown_timeout_s = 0
"""


@dataclass
class Lab:
    """A lab host, and a relay to its scheduler that only the coordinator uses."""

    scheduler: SchedulerProcess
    relay: TcpRelay
    process: LabProcess


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """An agent, its lab host, a scheduler, and a relay."""
    need_runtime("ai-edge-litert")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    agent = AgentProcess(tmp_path / "agent", options=["--name", "large"]).start()
    scheduler = SchedulerProcess(tmp_path / "scheduler", port, allowed_failures=0).start()
    host = Host(tmp_path / "lab")
    host.lab.pair(agent.pairing_string())
    process = LabProcess(host, "a", scheduler.address)
    try:
        process.start()
        with TcpRelay(port) as relay:
            yield Lab(scheduler, relay, process)
    finally:
        process.kill()
        scheduler.kill()
        agent.kill()


def test_run_that_was_cut_off_comes_over_the_link_once(lab: Lab, tmp_path: Path) -> None:
    """Otherwise each cut would restart a large run, and send its bytes over the link many times."""
    host = Host(tmp_path / "host")
    file = tmp_path / "campaign.toml"
    file.write_text(FILE)
    lab.relay.cut_after_bytes = CUT_AFTER_PARTS * PART_BYTES
    cluster = f"tcp://127.0.0.1:{lab.relay.port}"
    result = host.run("campaign", "run", str(file), "--cluster", cluster)
    assert result.returncode in (0, 3), result.stderr
    campaign = host.lab.campaign()
    [row] = campaign.rows()
    assert row["state"] == "measured", (row, campaign.lanes())
    bundle = host.lab.bundle(row["run_id"], tmp_path / "run.zip", is_annotated=False)
    size_bytes = bundle.stat().st_size
    crossed_bytes = lab.relay.from_target_bytes
    assert lab.relay.cut_after_bytes is None, "the link was cut"
    assert size_bytes >= (CUT_AFTER_PARTS + 1) * PART_BYTES, "in the middle"
    assert size_bytes <= crossed_bytes <= size_bytes + 2 * PART_BYTES


def test_job_that_dask_begins_no_more_is_settled(lab: Lab, tmp_path: Path) -> None:
    """Otherwise a lab host that dies often in a single long run would end the whole campaign."""
    host, phases = Host(tmp_path / "host"), list[Phase]()
    file = tmp_path / "campaign.toml"
    file.write_text(FILE.replace("duration_s = 1\n", "duration_s = 4\n").replace("900000", "5"))
    campaign = host.lab.begin_campaign(file, cluster=lab.scheduler.address)

    def keep(event: MeasurementEvent) -> None:
        if isinstance(event, PhaseReport):
            phases.append(event.progress.phase)
            if phases.count(Phase.MEASURING) == 1 and phases[-1] is Phase.MEASURING:
                lab.process.kill()
                lab.process.start()

    host.lab.resume_campaign(campaign.plan.id, keep, cluster=lab.scheduler.address)
    [row] = campaign.rows()
    assert (row["state"], row["attempt_count"]) == ("measured", 1), campaign.lanes()
