"""A host process that follows an earlier process of the same host, and finds its run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.started import SPEC, start
from support.watchers import At

from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.events import raise_failures
from edgebench.host.bench.follow import follow
from edgebench.host.bench.run import OpenDevice
from edgebench.host.bench.verify import verify
from edgebench.host.client import Client
from edgebench.protocol.errors import LeaseHeld, NoSuchRun, UsageError
from edgebench.protocol.messages import Progress, RunEnded
from edgebench.protocol.record import Outcome, Phase


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for all tests: each ends the run that it starts."""
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"]).start()
    yield process
    process.kill()


def first_phase(client: Client) -> Phase:
    """The first notice of a phase that a follower receives."""
    return next(one.phase for one in client.follow_run() if isinstance(one, Progress))


def end(client: Client, run_id: str) -> RunEnded:
    """Stop the followed run, and return how it ended."""
    client.request_cancel(run_id)
    return next(one for one in client.follow_run() if isinstance(one, RunEnded))


def test_run_of_a_host_that_is_gone_is_followed_with_its_lease(
    agent: AgentProcess, paired: Host
) -> None:
    """Otherwise a restarted campaign would silently wait for its run, and then lose the device."""
    with paired.lab.connect("board") as first:
        run_id = start(first)
        assert Phase.MEASURING in (
            one.phase for one in first.follow_run() if isinstance(one, Progress)
        )
    wait_until(lambda: agent.status().lease_expires_in_s is None, "run holds the lease")
    with paired.lab.connect("board") as second:
        second.follow(run_id)
        assert first_phase(second) is Phase.MEASURING
        second.acquire()
        ended = end(second, run_id)
        # On a busy machine it is stopped before its first query.
        assert ended.outcome in (Outcome.INTERRUPTED, Outcome.FAILED)
        second.acquire()
        assert agent.status().lease_holder is not None
        second.follow(run_id)
        assert list(second.follow_run()) == [ended]
        second.acknowledge(run_id)
        with pytest.raises(UsageError, match=f"no run {run_id} of this host is on the device"):
            second.follow(run_id)


def test_lease_stays_with_a_holder_that_is_there(agent: AgentProcess, paired: Host) -> None:
    """Otherwise looking at a run would take the device away from the command that measures."""
    with paired.lab.connect("board") as first, paired.lab.connect("board") as second:
        run_id = start(first)
        second.follow(run_id)
        assert first_phase(second) in Phase
        with pytest.raises(LeaseHeld):
            second.acquire()
        ended = end(second, run_id)
        assert next(one for one in first.follow_run() if isinstance(one, RunEnded)) == ended
        first.acquire()
        first.acknowledge(run_id)


def test_run_of_another_host_is_not_followed(
    agent: AgentProcess, paired: Host, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Otherwise a host could read the progress of another host's runs, or take its lease."""
    other = Host(tmp_path_factory.mktemp("other"))
    other.lab.pair(agent.pairing_string())
    with paired.lab.connect("board") as first, other.lab.connect("board") as stranger:
        run_id = start(first)
        with pytest.raises(UsageError, match=f"no run {run_id} of this host is on the device"):
            stranger.follow(run_id)
        end(first, run_id)
        first.acknowledge(run_id)


def device_of(client: Client, host: Host) -> OpenDevice:
    """The device, as a later process of the host uses it."""
    return OpenDevice(
        name="board",
        client=client,
        store=host.lab.store,
        notify=raise_failures,
        cancellation=Cancellation(),
    )


def test_followed_run_is_stored_once(paired: Host) -> None:
    """Otherwise a run that is in progress or has ended would be made again."""
    with paired.lab.connect("board") as first:
        run_id = start(first, replace(SPEC, duration_s=0.3))
    with paired.lab.connect("board") as second:
        run = follow(device_of(second, paired), run_id)
        assert run == follow(device_of(second, paired), run_id), "it is in the store"
        assert run.failure is None
        with pytest.raises(NoSuchRun, match="run 20200101-000000-none is neither on board nor in"):
            follow(device_of(second, paired), "20200101-000000-none")
        assert second.list_runs().finished == ()
        second.release()
    assert paired.lab.store.run_ids() == [run.run_id] == [run_id]
    assert verify(paired.lab.store, run_id) == []


def test_process_that_is_there_stores_its_own_run(paired: Host) -> None:
    """Otherwise two processes would fetch one run, and the first would take it from the other."""
    measures = threading.Event()
    at = At(Phase.MEASURING, measures.set)
    with paired.lab.connect("board") as second, ThreadPoolExecutor(1) as pool:
        benched = pool.submit(
            lambda: paired.lab.bench(
                *("digits_int8.onnx",),
                on=["board"],
                preset="quick",
                runs=1,
                watcher=at,
                # Long enough to be found in progress; most of the run is spent waiting.
                scenario="server",
                target_qps=20.0,
                duration_s=3.0,
                is_checked=False,
            )
        )
        wait_until(lambda: measures.is_set() or benched.done(), "the run is measured, or refused")
        assert measures.is_set(), benched.result()
        [run_id] = filter(None, [second.list_runs().running])
        assert follow(device_of(second, paired), run_id).run_id == run_id
        assert [run.id for run in benched.result()] == [run_id]
        second.release()
    assert paired.lab.store.run_ids() == [run_id]
