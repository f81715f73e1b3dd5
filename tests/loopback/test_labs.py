"""Several hosts with one owner: each can continue where another one died."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.labs import contend, lab_of_two, overlaps
from support.started import SPEC, start
from support.watchers import on

from edgebench.host.bench.events import EarlierRunLost
from edgebench.host.bench.verify import verify
from edgebench.protocol.errors import LeaseHeld

MEASURING = """
from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.dataset import open_dataset
from edgebench.host.bench.model import Model
from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.events import raise_failures
from edgebench.host.bench.run import OpenDevice, RunRequest, measure
from edgebench.host.lab import Lab
from edgebench.host.result.facts import SetMember
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.protocol.spec import RunSpec

lab, dataset = Lab(), open_dataset("digits")
with lab.connect("board") as client:
    request = RunRequest(
        model=find_model("digits_int8.onnx"),
        spec=RunSpec(
            "onnx",
            duration_s=1.0,
            min_query_count=10,
            is_checked=False,
            cooldown_timeout_s=0.0,
            dataset_sha256=dataset.sha256,
        ),
        dataset=dataset,
        reference=ReferenceAccuracy("20260101-000000-000aaaaa", "digits_fp32.onnx", 0.97),
        member=SetMember("set-1234", 1, 5),
        ambient_c=21.0,
    )
    device = OpenDevice(
        name="board",
        client=client,
        store=lab.store,
        notify=raise_failures,
        cancellation=Cancellation(),
    )
    measure(device, request)
"""
"""A host that makes one run of a set, with a reference and a data set."""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for all tests."""
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"]).start()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def hosts(agent: AgentProcess, tmp_path_factory: pytest.TempPathFactory) -> tuple[Host, Host]:
    """Two hosts of one lab."""
    return lab_of_two(agent, tmp_path_factory.mktemp("hosts"))


def test_second_host_collects_what_the_first_began(
    agent: AgentProcess, hosts: tuple[Host, Host]
) -> None:
    """Otherwise runs of a first host that died would come without accuracy, and in no set."""
    first, second = hosts
    environment = os.environ | first.environment
    with subprocess.Popen([sys.executable, "-c", MEASURING], env=environment) as process:
        wait_until(lambda: agent.status().running is not None, "device runs")
        process.kill()
    [expected] = first.lab.store.unfinished.iterdir()
    [stored] = second.lab.collect(["board"])
    run = stored.result
    assert run.run_id == expected.name
    assert run.member is not None
    assert (run.member.set_id, run.member.number, run.member.count) == ("set-1234", 1, 5)
    accuracy = run.metrics.accuracy
    assert accuracy is not None
    assert accuracy.sample_count > 0
    assert accuracy.reference is not None
    assert accuracy.reference.run_id == "20260101-000000-000aaaaa"
    assert run.conditions.ambient_c == 21.0
    assert verify(second.lab.store, run.run_id) == []
    lost: list[str] = []
    keep = on(EarlierRunLost, lambda event: lost.append(event.run.run_id))
    assert first.lab.collect(["board"], watcher=keep) == []
    assert lost == [run.run_id], "the first host hears that it is somewhere else"


def test_each_host_stops_the_runs_of_the_other(hosts: tuple[Host, Host]) -> None:
    """Otherwise a host that can no longer be reached would keep a device for a day."""
    first, second = hosts
    with first.lab.connect("board") as client:
        run_id = start(client)
        with second.lab.connect("board") as other:
            assert other.list_runs().running == run_id
            with pytest.raises(LeaseHeld):
                other.acquire()
        assert second.lab.stop("board") == run_id
    assert [run.id for run in second.lab.collect(["board"])] == [run_id]


def test_run_of_a_host_that_is_gone_keeps_the_other_waiting(hosts: tuple[Host, Host]) -> None:
    """Otherwise two hosts with one key would share a lease, and measure at the same time."""
    first, second = hosts
    with first.lab.connect("board") as client:
        run_id = start(client, replace(SPEC, duration_s=0.5))
    with second.lab.connect("board") as other, pytest.raises(LeaseHeld):
        other.acquire()
    assert [run.id for run in second.lab.collect(["board"])] == [run_id]


def test_two_hosts_never_measure_at_the_same_time(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """Otherwise both hosts of a lab would be admitted. Long form: tests/system/two_labs.py."""
    windows = contend(hosts, tmp_path, tries=5)
    assert len(windows) == 10
    assert overlaps(windows) == []
