"""This machine's own agent: started by whoever needs it, also beside one that is just ending."""

from __future__ import annotations

import fcntl
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agents import Host, end_local_agent, wait_until

from edgebench.host.client import Client
from edgebench.host.transports import local
from edgebench.host.transports.base import Endpoint
from edgebench.host.transports.link import Link
from edgebench.protocol.errors import TargetError
from edgebench.protocol.paths import CONTROL_SOCKET


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host whose machine has an agent only if somebody starts it."""
    host = Host(tmp_path)
    (host.folder / "data" / "edgebench" / "agent").mkdir(parents=True)
    yield host
    end_local_agent(host)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The agents that are started."""
    found: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        found.append(popen(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return found


def agent_state(host: Host) -> Path:
    """The state directory of this host's own agent."""
    return host.folder / "data" / "edgebench" / "agent"


def connect(state: Path) -> Link:
    """A connection to the agent on this machine, which may have to be started."""
    return local.LocalTransport(state).connect(Endpoint("local", "", (), 0))


def say_hello(state: Path) -> str:
    """Connect and say hello; the name of the device."""
    with Client(connect(state)) as client:
        return client.device.name


@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
def test_agent_that_ends_as_we_connect_is_followed_by_a_new_one(
    host: Host, starts: list[subprocess.Popen[bytes]], is_reset: bool
) -> None:
    """A command ends in an error because the agent of the command before it has just ended."""
    path = agent_state(host) / CONTROL_SOCKET
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def drop() -> None:
            # What nobody has read when a unix socket is closed resets the other end.
            connection, _ = listener.accept()
            path.unlink()
            if not is_reset:
                connection.recv(65536)
            connection.close()

        thread = threading.Thread(target=drop)
        thread.start()
        assert say_hello(agent_state(host))
        thread.join()
    assert len(starts) == 1


def test_agent_that_still_has_the_directory_as_it_ends_is_waited_for(
    host: Host, starts: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that we start finds the directory taken, ends, and nobody starts another."""
    with (agent_state(host) / "agent.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        start = local._start

        def start_and_end(state: Path) -> subprocess.Popen[bytes]:
            if starts:  # the first has ended; so does now the one that kept it out
                fcntl.flock(lock, fcntl.LOCK_UN)
            return start(state)

        monkeypatch.setattr(local, "_start", start_and_end)
        assert say_hello(agent_state(host))
    assert [process.poll() for process in starts] == [1, None]


def test_agent_that_cannot_start_says_why(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason of the last start is lost among the starts."""
    start = local._start

    def start_and_end(state: Path) -> subprocess.Popen[bytes]:
        process = start(state)
        process.wait(60)  # however long that takes here: it is not cut off without a word
        return process

    monkeypatch.setattr(local, "_start", start_and_end)
    monkeypatch.setattr(local, "START_TIMEOUT_S", 1.5)
    (agent_state(host) / "agent.lock").mkdir()
    with pytest.raises(TargetError, match=r"^agent on this machine does not start: .*directory"):
        connect(agent_state(host))


def test_agent_that_does_not_answer_in_time_says_where_it_was_waited_for(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent hangs as it starts, and its log is lost with it."""
    said = host.folder / "said"
    code = (
        "import sys, time; print('importing', file=sys.stderr, flush=True); "
        "open(sys.argv[1], 'w').close(); time.sleep(60)"
    )

    def hang(state: Path) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-S", "-c", code, str(said)]
        process = subprocess.Popen(words, stderr=subprocess.PIPE)
        wait_until(said.exists, "it has said where it is")
        return process

    monkeypatch.setattr(local, "_start", hang)
    monkeypatch.setattr(local, "START_TIMEOUT_S", 1.0)
    state = agent_state(host)
    with pytest.raises(TargetError) as raised:
        connect(state)
    assert str(raised.value) == (
        f"agent on this machine does not start: no answer at {state / CONTROL_SOCKET} after 1 s; "
        f"the last line of its log: importing; its log: {state / local.FAILED_LOG}"
    )
    assert (state / local.FAILED_LOG).read_text() == "importing\n"


def test_agent_that_can_have_no_state_is_not_started_again(
    tmp_path: Path, starts: list[subprocess.Popen[bytes]]
) -> None:
    """A home that cannot be written keeps each command waiting for 20 s."""
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetError, match=r"agent on this machine does not start: .*file"):
        connect(tmp_path / "file" / "agent")
    assert len(starts) == 1
