"""This machine's own agent: started by the command that needs it, even while another is ending."""

from __future__ import annotations

import fcntl
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from support.agents import AgentProcess, Host, end_local_agent, wait_until
from support.confined import in_a_child, need_landlock
from support.denied import denying_environment, without_socket_files
from support.renamed import renamed_runtime
from support.tools import need_root, need_runtime

from edgebench.host.client import Client
from edgebench.host.transports import local
from edgebench.host.transports.base import Endpoint
from edgebench.host.transports.link import Link
from edgebench.protocol.errors import LeaseHeld, OtherEnvironment, TargetError
from edgebench.system.control_address import CONTROL_NAME
from edgebench.system.paths import CONTROL_SOCKET
from edgebench.system.python_environment import PythonEnvironment


@pytest.fixture(autouse=True)
def _is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents are started as for a user; in other tests, they are forks."""
    monkeypatch.setattr(local, "subprocess", subprocess)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host whose machine has an agent only if a test starts it."""
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
    """Connect and send the hello; the name of the device."""
    with Client(connect(state)) as client:
        return client.device.name


@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
def test_agent_that_ends_as_we_connect_is_followed_by_a_new_one(
    host: Host, starts: list[subprocess.Popen[bytes]], is_reset: bool
) -> None:
    """Otherwise a command would fail because the agent of the command before it has just ended."""
    path = agent_state(host) / CONTROL_SOCKET
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def drop() -> None:
            # Unread data in a unix socket that is closed resets the other end.
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
    """Otherwise the started agent would find the directory taken and end, and none would follow."""
    with (agent_state(host) / "agent.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        start = local._start

        def start_and_end(state: Path, environment: PythonEnvironment) -> subprocess.Popen[bytes]:
            if starts:  # the first has ended; the agent that kept it out ends now
                fcntl.flock(lock, fcntl.LOCK_UN)
            return start(state, environment)

        monkeypatch.setattr(local, "_start", start_and_end)
        assert say_hello(agent_state(host))
    assert [process.poll() for process in starts] == [1, None]


def test_agent_that_cannot_start_says_why(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the reason of the last start would be lost among the starts."""
    start = local._start

    def start_and_end(state: Path, environment: PythonEnvironment) -> subprocess.Popen[bytes]:
        process = start(state, environment)
        process.wait(60)  # however long that takes here: it is not cut off without a message
        return process

    monkeypatch.setattr(local, "_start", start_and_end)
    monkeypatch.setattr(local, "START_TIMEOUT_S", 1.5)
    (agent_state(host) / "agent.lock").mkdir()
    with pytest.raises(TargetError, match=r"^agent on this machine does not start: .*directory"):
        connect(agent_state(host))


def test_agent_that_does_not_answer_in_time_says_where_it_was_waited_for(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the log of an agent that hangs at its start would be lost."""
    said = host.folder / "said"
    code = (
        "import sys, time; print('importing', file=sys.stderr, flush=True); "
        "open(sys.argv[1], 'w').close(); time.sleep(60)"
    )

    def hang(state: Path, environment: PythonEnvironment) -> subprocess.Popen[bytes]:
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
    """Otherwise a home that cannot be written would keep each command waiting for 20 s."""
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetError, match=r"agent on this machine does not start: .*file"):
        connect(tmp_path / "file" / "agent")
    assert len(starts) == 1


def test_agent_of_another_environment_leaves_when_it_is_idle(
    host: Host, starts: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a command would measure with the variables or the runtimes of the one before."""
    assert say_hello(agent_state(host))
    assert say_hello(agent_state(host))
    assert len(starts) == 1, "those of one environment share an agent"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert say_hello(agent_state(host))
    assert len(starts) == 2
    assert starts[0].wait(60) == 0


def test_agent_in_use_is_kept_from_another_environment(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the command that uses it would lose its agent in the middle of a measurement."""
    monkeypatch.setattr(local, "USED_TIMEOUT_S", 0.0)
    with Client(connect(agent_state(host))) as client:
        client.acquire()
        with monkeypatch.context() as other:
            other.setenv("OMP_NUM_THREADS", "3")
            with pytest.raises(LeaseHeld, match=r"^device is in use by .*, in another Python env"):
                connect(agent_state(host))
            with host.lab.connect(any_environment=True) as other_client:  # to stop or to collect
                assert other_client.device == client.device
        client.release()


def test_agent_that_serves_is_not_used_by_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its runtimes would be measured, and the command's own would not be mentioned."""
    agent = AgentProcess(tmp_path / "agent").start()
    try:
        assert say_hello(agent.state)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        with pytest.raises(OtherEnvironment) as raised:
            connect(agent.state)
        assert raised.value.pid == agent.pid
        assert "its environment variables, such as PYTHONPATH, differ" in str(raised.value)
    finally:
        agent.stop()


def test_runtimes_are_those_of_the_environment_of_the_command(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a latency would have the name of a runtime that was never installed there."""
    need_runtime("onnxruntime")
    other = renamed_runtime(tmp_path / "packages", "onnxruntime-vendor", "99.1")
    versions = []
    for places in ("", str(other), ""):
        monkeypatch.setenv("PYTHONPATH", places)
        with Client(connect(agent_state(host))) as client:
            (onnx,) = [one for one in client.describe().runtimes if one.name == "onnx"]
        versions.append(onnx.version)
    assert versions == [version("onnxruntime"), "99.1", version("onnxruntime")]


@pytest.mark.parametrize("has_socket_files", [True, False], ids=["file", "name"])
def test_control_socket_serves_its_user_and_no_other(
    tmp_path: Path, *, has_socket_files: bool
) -> None:
    """Otherwise an agent in the shell of a phone would not start, or any app would control it."""
    need_root()
    environment = {}
    if not has_socket_files:
        need_landlock()
        environment = denying_environment(tmp_path / "denial", "deny_socket_files")
    agent = AgentProcess(tmp_path / "agent", environment=environment).start()
    try:
        assert agent.status().pid == agent.pid
        assert (agent.state / CONTROL_SOCKET).exists() is has_socket_files
        if has_socket_files:  # for users whom the modes of file and directory do not keep out
            target: str | bytes = str(agent.state / CONTROL_SOCKET)
            for path in (agent.state, *agent.state.parents[:-2]):
                path.chmod(path.stat().st_mode | 0o011)
            (agent.state / CONTROL_SOCKET).chmod(0o666)
        else:
            target = b"\0" + (agent.state / CONTROL_NAME).read_bytes().strip()

        def knock() -> str:
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.settimeout(30.0)
                stranger.connect(target)
                with suppress(OSError):  # cut off already
                    stranger.sendall(b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n")
                try:
                    return stranger.recv(1).hex()
                except ConnectionResetError:
                    return ""

        assert in_a_child(knock, 65534) == ""
        assert agent.status().pid == agent.pid
    finally:
        agent.stop()
    assert "refused user 65534 of this machine" in agent.errors()
    assert [path.name for path in agent.state.glob("agent.[sa]*")] == []


def test_command_starts_an_agent_where_there_can_be_no_socket_files(tmp_path: Path) -> None:
    """Otherwise a host that is itself on such a system could not measure on its own machine."""
    host = Host(tmp_path)
    state = agent_state(host)
    state.mkdir(parents=True)

    def name() -> str:
        try:
            return say_hello(state)
        finally:
            end_local_agent(host)

    assert without_socket_files(name)
    assert not (state / CONTROL_SOCKET).exists()
