"""A host process that comes after another one of its host, and finds the run of that one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.agents import AgentProcess, Host, wait_until

from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.run import new_run_id
from edgebench.host.client import Client
from edgebench.protocol.errors import LeaseHeld, UsageError
from edgebench.protocol.messages import Progress, RunEnded
from edgebench.protocol.record import Outcome, Phase
from edgebench.protocol.spec import RunSpec

SPEC = RunSpec(
    "onnx",
    duration_s=60.0,
    min_query_count=10,
    warmup_duration_s=0,
    is_checked=False,
    cooldown_timeout_s=0.0,
)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for all of them: each test ends the run that it starts."""
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"]).start()
    yield process
    process.kill()


def start(client: Client) -> str:
    """A run of a minute; its id."""
    path = find_model("digits_int8.onnx").path
    model = find_model("digits_int8.onnx")
    client.acquire()
    client.push_model(path, model.sha256)
    run_id = new_run_id()
    client.start_run(
        run_id,
        SPEC,
        sha256=model.sha256,
        model_name=model.name,
        size_bytes=model.size_bytes,
    )
    return run_id


def first_phase(client: Client) -> Phase:
    """The first notice of a phase that a follower gets."""
    return next(one.phase for one in client.follow_run() if isinstance(one, Progress))


def end(client: Client, run_id: str) -> RunEnded:
    """Stop the followed run; how it ended."""
    client.request_cancel(run_id)
    return next(one for one in client.follow_run() if isinstance(one, RunEnded))


def test_run_of_a_host_that_is_gone_is_followed_with_its_lease(
    agent: AgentProcess, paired: Host
) -> None:
    """A campaign that was killed waits for its run without a word, and loses the device after."""
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
        assert end(second, run_id) == RunEnded(run_id, Outcome.INTERRUPTED)
        second.acquire()
        assert agent.status().lease_holder is not None
        second.follow(run_id)
        assert list(second.follow_run()) == [RunEnded(run_id, Outcome.INTERRUPTED)]
        second.acknowledge(run_id)
        with pytest.raises(UsageError, match=f"no run {run_id} waits here"):
            second.follow(run_id)


def test_lease_stays_with_a_holder_that_is_there(agent: AgentProcess, paired: Host) -> None:
    """Whoever looks at a run takes the device from the command that measures."""
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
    """A host reads the progress of another's runs, or takes its lease."""
    other = Host(tmp_path_factory.mktemp("other"))
    other.lab.pair(agent.pairing_string())
    with paired.lab.connect("board") as first, other.lab.connect("board") as stranger:
        run_id = start(first)
        with pytest.raises(UsageError, match=f"no run {run_id} waits here for this host"):
            stranger.follow(run_id)
        end(first, run_id)
        first.acknowledge(run_id)
