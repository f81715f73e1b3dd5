"""The address of an agent on its own machine: a socket file, or a name where there can be none."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.confined import in_a_child
from support.denied import without_socket_files
from support.tools import need_root

from edgebench.system.control_address import (
    CONTROL_NAME,
    MAX_SOCKET_PATH,
    ControlAddress,
    may_control,
    peer_uid,
)
from edgebench.system.paths import CONTROL_SOCKET

STRANGER = 65534
TIMEOUT_S = 30.0


def exchange(address: ControlAddress) -> dict[str, Any]:
    """Listen, connect, and send a byte each way; list the directory meanwhile, and afterwards."""
    with address.listening() as listener:
        seen = {path.name: oct(path.stat().st_mode) for path in address.state.iterdir()}
        with address.connect(TIMEOUT_S) as client, listener.accept()[0] as server:
            client.sendall(b"a")
            server.sendall(b"b")
            passed = [server.recv(1).decode(), client.recv(1).decode()]
            users = [peer_uid(client), peer_uid(server)]
    left = sorted(path.name for path in address.state.iterdir())
    return {"seen": seen, "passed": passed, "users": users, "left": left}


def deep(folder: Path) -> Path:
    """A directory whose path no socket's address can hold."""
    state = folder / ("d" * 100) / ("e" * 100)
    state.mkdir(parents=True)
    assert len(os.fsencode(state / CONTROL_SOCKET)) > MAX_SOCKET_PATH
    return state


@pytest.mark.parametrize("of_state", [Path, deep], ids=["short", "long"])
def test_socket_is_a_file_for_its_owner_only(
    tmp_path: Path, of_state: Callable[[Path], Path]
) -> None:
    """Otherwise other users would reach it, or an agent with a long path would not start."""
    found = exchange(ControlAddress(of_state(tmp_path)))
    mode = oct(stat.S_IFSOCK | 0o600)
    assert found["seen"] == {CONTROL_SOCKET: mode}
    assert found["passed"] == ["a", "b"]
    assert found["users"] == [os.geteuid()] * 2
    assert found["left"] == []


@pytest.mark.parametrize("of_state", [Path, deep], ids=["short", "long"])
def test_socket_has_a_name_where_there_can_be_no_socket_files(
    tmp_path: Path, of_state: Callable[[Path], Path]
) -> None:
    """Otherwise no agent would start in the shell of a phone."""
    address = ControlAddress(of_state(tmp_path))
    found = without_socket_files(lambda: exchange(address))
    assert found["seen"] == {CONTROL_NAME: oct(stat.S_IFREG | 0o600)}
    assert found["passed"] == ["a", "b"]
    assert found["left"] == []


def test_each_agent_draws_a_name_of_its_own(tmp_path: Path) -> None:
    """Otherwise a process that has seen a name could wait for the next agent in its place."""
    address = ControlAddress(tmp_path)

    def names() -> list[str]:
        drawn = []
        for _ in range(2):
            with address.listening():
                drawn.append((tmp_path / CONTROL_NAME).read_text())
        return drawn

    first, second = without_socket_files(names)
    assert first != second
    assert len(first.strip()) == len("edgebench-") + 32


def test_directory_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """Otherwise an agent whose directory is gone would listen where no client looks."""
    with (
        pytest.raises(FileNotFoundError),
        ControlAddress(tmp_path / "gone").listening(),
    ):
        pass


@pytest.mark.parametrize("is_named", [False, True], ids=["file", "name"])
def test_address_that_is_shut_accepts_nobody_until_it_is_reopened(
    tmp_path: Path, is_named: bool
) -> None:
    """Otherwise a host would connect to an agent that is about to end."""
    address = ControlAddress(tmp_path)

    def visit() -> list[bool]:
        with address.listening():
            found = [address.is_there]
            address.shut()
            found.append(address.is_there)
            with pytest.raises(OSError, match="No such file"):
                address.connect(TIMEOUT_S)
            address.reopen()
            address.connect(TIMEOUT_S).close()
            return [*found, address.is_there]

    assert (without_socket_files(visit) if is_named else visit()) == [True, False, True]


def test_address_that_is_shut_while_a_client_connects_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an agent that ends would drop a client that has read its name before."""
    address = ControlAddress(tmp_path)
    connect = socket.socket.connect

    def shut_first(client: socket.socket, target: Any) -> None:
        address.shut()
        connect(client, target)

    def visit() -> str:
        with address.listening():
            monkeypatch.setattr(socket.socket, "connect", shut_first)
            with pytest.raises(ConnectionRefusedError) as raised:
                address.connect(TIMEOUT_S)
            return str(raised.value)

    assert "refused" in without_socket_files(visit)


def test_what_is_no_name_of_ours_is_not_connected_to(tmp_path: Path) -> None:
    """Otherwise a damaged file would lead a client to any socket of the machine."""
    (tmp_path / CONTROL_NAME).write_text("/run/dbus/system_bus_socket\n")
    with pytest.raises(FileNotFoundError):
        ControlAddress(tmp_path).connect(TIMEOUT_S)


def test_owner_and_root_may_control() -> None:
    """Otherwise the agent of a user would not serve root, or would serve strangers."""
    assert may_control(0)
    assert may_control(os.geteuid())
    assert not may_control(STRANGER)


def test_client_refuses_a_process_of_another_user_in_the_place_of_its_agent(
    tmp_path: Path,
) -> None:
    """Otherwise a process that binds an ended agent's name would get its models and requests."""
    need_root()
    name = f"edgebench-{'5' * 32}"
    (tmp_path / CONTROL_NAME).write_text(f"{name}\n")
    ready, go = os.pipe()

    def squat() -> None:
        with socket.socket(socket.AF_UNIX) as squatter:
            squatter.bind(b"\0" + name.encode())
            squatter.listen()
            os.write(go, b"1")
            squatter.settimeout(TIMEOUT_S)
            connection, _ = squatter.accept()
            assert connection.recv(1) == b"", "it was sent something"

    child = os.fork()
    if child == 0:
        try:
            os.setresuid(STRANGER, STRANGER, STRANGER)
            squat()
        except BaseException:  # the parent reads the status
            os._exit(1)
        os._exit(0)
    assert os.read(ready, 1) == b"1"
    with pytest.raises(PermissionError, match=rf"another user \(uid {STRANGER}\)") as raised:
        ControlAddress(tmp_path).connect(TIMEOUT_S)
    assert raised.value.errno == errno.EACCES
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(ready)
    os.close(go)


def test_root_uses_the_agent_of_the_directory_s_owner(tmp_path: Path) -> None:
    """Otherwise `sudo edgebench-agent status` would refuse the agent of a user."""
    need_root()
    os.chown(tmp_path, STRANGER, STRANGER)
    tmp_path.chmod(0o700)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    address = ControlAddress(tmp_path)
    ready, go = os.pipe()
    done_reading, done = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(done)
            os.setresgid(STRANGER, STRANGER, STRANGER)
            os.setresuid(STRANGER, STRANGER, STRANGER)
            with address.listening():
                os.write(go, b"1")
                os.read(done_reading, 1)
        except BaseException:  # the parent reads the status
            os._exit(1)
        os._exit(0)
    os.close(go)
    try:
        assert os.read(ready, 1) == b"1"
        with address.connect(TIMEOUT_S) as client:
            assert peer_uid(client) == STRANGER
    finally:
        os.close(done)
        os.close(ready)
        os.close(done_reading)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_stranger_reaches_neither_the_file_nor_its_directory(tmp_path: Path) -> None:
    """Otherwise the permissions of the directory would be all that keeps others out."""
    need_root()
    with ControlAddress(tmp_path).listening():

        def knock() -> str:
            try:
                ControlAddress(tmp_path).connect(TIMEOUT_S).close()
            except OSError as exc:
                return type(exc).__name__
            return "connected"

        assert in_a_child(knock, STRANGER) == "PermissionError"
