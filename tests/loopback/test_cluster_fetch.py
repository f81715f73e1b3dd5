"""A run fetched from a lab host over a link that is cut: real processes, bytes counted."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.cluster import LabProcess, SchedulerProcess
from support.commands import started
from support.relay import TcpRelay
from support.tools import need_runtime

from edgebench.host.bench.events import MeasurementEvent, PhaseReport
from edgebench.host.campaign.cluster.lab import FILES_DIRECTORY
from edgebench.protocol.record import Phase

PART_BYTES = 2**18
"""A quarter of what a coordinator fetches at a time: a run of four parts is made in a quarter of
the time."""
CUT_AFTER_PARTS = 3
SMALL_PARTS = f"""
import sys
from edgebench.host.campaign.cluster import lanes
from edgebench.host.cli.main import main
lanes.PART_BYTES = {PART_BYTES}
sys.exit(main(sys.argv[1:]))
"""
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
min_query_count = 225000
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
    cluster = f"tcp://127.0.0.1:{lab.relay.port}"
    words = "-c", SMALL_PARTS, "campaign", "run", str(file), "--cluster", cluster
    with started([sys.executable, *words], host) as process:
        # Before that, states of the devices have crossed for as long as the run took.
        run_id, received, before_bytes = first_part(host, lab.relay)
        lab.relay.cut_after_bytes = before_bytes + CUT_AFTER_PARTS * PART_BYTES
        _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, 3), errors
    campaign = host.lab.campaign()
    [row] = campaign.rows()
    assert row["state"] == "measured", (row, campaign.lanes())
    sizes = {
        stored: host.lab.bundle(stored, tmp_path / f"{stored}.zip", is_annotated=False)
        .stat()
        .st_size
        for stored in host.lab.store.run_ids()  # a busy machine may have needed a second attempt
    }
    left_bytes = sum(sizes.values()) - received
    crossed_bytes = lab.relay.from_target_bytes - before_bytes
    assert lab.relay.cut_after_bytes is None, "the link was cut"
    assert sizes[run_id] - received >= (CUT_AFTER_PARTS + 1) * PART_BYTES, "in the middle"
    assert lab.relay.from_target_bytes >= sum(sizes.values())
    assert crossed_bytes <= left_bytes + 2 * PART_BYTES, (row, errors)


def first_part(host: Host, relay: TcpRelay) -> tuple[str, int, int]:
    """Wait until a part of a run has been received.

    Returns:
        Id of the run, its bytes that were received, and the bytes that had crossed the link before
        these were counted, with none between the two counts.
    """
    found: list[tuple[str, int, int]] = []

    def is_begun() -> bool:
        crossed_bytes = relay.from_target_bytes
        parts = (host.lab.store.root / FILES_DIRECTORY).glob("*.part")
        sizes = {part.stem: part.stat().st_size for part in parts}
        if relay.from_target_bytes == crossed_bytes:
            found.extend((run_id, size, crossed_bytes) for run_id, size in sizes.items() if size)
        return bool(found)

    wait_until(is_begun, "a part of the run is received", 120)
    return found[0]


def test_job_that_dask_begins_no_more_is_settled(lab: Lab, tmp_path: Path) -> None:
    """Otherwise a lab host that dies often in a single long run would end the whole campaign."""
    host, phases = Host(tmp_path / "host"), list[Phase]()
    file = tmp_path / "campaign.toml"
    file.write_text(FILE.replace("duration_s = 1\n", "duration_s = 4\n").replace("225000", "5"))
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
