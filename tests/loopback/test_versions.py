"""Hosts and agents one version apart: the older one is sent nothing that it does not know."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host
from support.tools import need_runtime
from support.wire import Conversation, tls_context

from edgebench.host.bench.builtin import find_model
from edgebench.protocol import messages as m
from edgebench.protocol.errors import ErrorCode
from edgebench.protocol.record import Outcome, Phase
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.traces import HOST_FILE

SPEC = RunSpec(
    "onnx",
    duration_s=0.1,
    min_query_count=10,
    warmup_duration_s=0,
    is_checked=False,
    cooldown_timeout_s=8.0,
)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    """A simulated board: it has a thermometer, so that there is something to wait for."""
    need_runtime("onnxruntime")
    made = AgentProcess(tmp_path / "agent", options=["--simulate", "imx8mp-evk"]).start()
    yield made
    made.kill()


def push(link: Conversation, path: Path) -> str:
    """Send a model there; its digest."""
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    assert isinstance(link.ask(m.Acquire(60.0)), m.Granted)
    assert isinstance(link.ask(m.ModelOffer(digest, len(data))), m.ModelState)
    link.say(m.ModelChunk(digest, 0), data)
    assert isinstance(link.ask(m.ModelCommit(digest)), m.ModelState)
    return digest


@pytest.mark.parametrize("protocol", [4, 5])
def test_host_of_the_version_before_measures_on_the_first_seat(
    agent: AgentProcess, tmp_path: Path, protocol: int
) -> None:
    """Otherwise an agent's update would end every run of an older host with an unknown message."""
    host = Host(tmp_path / "host")
    host.lab.pair(agent.pairing_string())
    identity = host.folder / "config" / "edgebench" / "host" / "identity.pem"
    with Conversation(agent.port, tls_context(identity)) as link:
        welcome = link.ask(m.Hello(protocol, "test", "ada", "1"))
        assert isinstance(welcome, m.Welcome)
        assert welcome.device.name == "imx8mp-evk-simulated"
        digest = push(link, find_model("digits_int8.onnx").path)
        start = m.RunStart("run", SPEC, digest, "digits")
        told: list[m.Message | None] = [link.ask(start, b"opaque")]
        while not isinstance(told[-1], (m.RunEnded, m.Problem, type(None))):
            told.append(link.receive())
        offered = link.ask(m.RunOpen("run"))
        assert isinstance(link.ask(m.FileRead("run", HOST_FILE, 0)), m.FileData)
        host_file = link.payload
    assert isinstance(offered, m.RunFiles)
    assert (HOST_FILE in {file.name for file in offered.files}) == (protocol == 5)
    assert host_file == b"opaque"
    ended = told[-1]
    assert isinstance(ended, m.RunEnded), ended
    assert ended.outcome is Outcome.COMPLETED
    known = {m.RunAccepted, m.Progress, m.Telemetry, m.RunEnded}
    assert {type(one) for one in told} <= known, "what version 4 has words for"
    phases = [one.phase for one in told if isinstance(one, m.Progress)]
    assert {Phase.COOLING, Phase.MEASURING} <= set(phases)


def test_seat_that_is_not_there_is_refused_with_the_names_of_those_that_are(
    agent: AgentProcess, tmp_path: Path
) -> None:
    """Otherwise a misspelt seat would measure on another device."""
    host = Host(tmp_path / "host")
    host.lab.pair(agent.pairing_string())
    identity = host.folder / "config" / "edgebench" / "host" / "identity.pem"
    with Conversation(agent.port, tls_context(identity)) as link:
        hello = m.Hello(m.PROTOCOL_VERSION, "test", "ada", "1", seat="nucleo")
        line = "no device seat is named 'nucleo'; available: imx8mp-evk"
        assert link.ask(hello) == m.Problem(ErrorCode.NO_SUCH_DEVICE, line)
        answer = link.ask(m.Acquire(30.0))
        assert isinstance(answer, m.Problem)
        assert "before hello" in answer.text
