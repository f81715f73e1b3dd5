"""Logins by the user's own `ssh`, each as OpenSSH's client decides; all: ssh_logins.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.agents import wait_until
from support.logins import (
    TIMEOUT_S,
    LoginBench,
    check,
    connect,
    environment_of,
    is_echoed,
    login_bench,
)

from edgebench.host.devices import target as targets
from edgebench.host.devices.target import parse_target
from edgebench.protocol.errors import LinkLost, TooManyKeys

NAMES = (
    *("alias", "two jumps", "user certificate", "hardware key", "authority", "no sftp"),
    *("agent with eight keys", "agent with eight keys, one named", "revoked key"),
    *("jump host refuses", "device behind the jump is off", "broken configuration"),
)
"""Logins that no unit test can replace."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBench]:
    """Servers, keys and an agent that is full of other keys."""
    folder = tmp_path_factory.mktemp("logins")
    with login_bench(folder) as made:
        yield made


@pytest.mark.parametrize("name", NAMES)
def test_logs_in_as_openssh(name: str, bench: LoginBench, tmp_path: Path) -> None:
    """Otherwise a device that `ssh` reaches could fail to deploy, or the reason be a wrong one."""
    check(name, bench, tmp_path)


def test_library_names_a_full_agent(bench: LoginBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a server that has seen enough keys would be reported as speaking no SSH."""
    monkeypatch.setattr(targets, "find_ssh", lambda: None)
    name = "agent with eight keys"
    environment_of(name, bench)
    known = bench.folder / "homes" / "agent-with-eight-keys" / ".ssh" / "known_hosts"
    monkeypatch.setattr("edgebench.host.devices.paramiko_shell.USER_KNOWN_HOSTS", (str(known),))
    monkeypatch.setenv("HOME", str(known.parents[1]))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(bench.folder / "agent.sock"))
    target = parse_target(f"{bench.user}@127.0.0.1:{bench.port('board')}")
    with pytest.raises(TooManyKeys, match=r"refuses this login: .* after 6 rejected keys"):
        target.connect()


def test_login_that_breaks_is_named(bench: LoginBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a command that never ran would count as one that failed on the device."""
    with closing(connect("alias", bench, monkeypatch)) as shell:
        parent = shell.run(["sh", "-c", "echo $PPID"], what="testing", timeout_s=TIMEOUT_S).text
        os.kill(int(parent), signal.SIGKILL)
        with pytest.raises(LinkLost, match=r"connection to board was lost while testing: \w+"):
            shell.run(["true"], what="testing", timeout_s=TIMEOUT_S)


def test_status_255_of_a_command_is_its_own(
    bench: LoginBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a program that fails with 255 would be taken for a broken connection."""
    with closing(connect("alias", bench, monkeypatch)) as shell:
        output = shell.run(["sh", "-c", "echo x; exit 255"], what="testing", timeout_s=TIMEOUT_S)
        assert (output.code, output.text) == (255, "x\n")


def test_login_ends_with_its_process(bench: LoginBench) -> None:
    """Otherwise a killed command would leave a login open, through which others could enter."""
    code = (
        "import sys, time; from edgebench.host.devices.target import parse_target; "
        "shell = parse_target('board').connect(); print(shell._login.process.pid, flush=True); "
        "time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=dict(os.environ) | environment_of("alias", bench),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    login = Path("/proc") / process.stdout.readline().strip() / "cmdline"
    assert b"ssh" in login.read_bytes()
    process.kill()
    process.communicate()
    wait_until(lambda: not login.exists() or not login.read_bytes(), "the login ends")


def test_login_that_the_user_shares_is_used(
    bench: LoginBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise a user who has logged in with a one-time code would need another code."""
    environment = environment_of("alias", bench)
    config = Path(environment["HOME"]) / ".ssh" / "config"
    program = Path(environment["HOME"]) / "bin" / "ssh"
    control = f"-oControlPath={tmp_path / 'shared'}"
    master = [str(program), "-M", "-N", "-f", control, "board"]
    subprocess.run(master, check=True, timeout=TIMEOUT_S, stderr=subprocess.DEVNULL)
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.setenv("PATH", environment["PATH"])
    no_key = config.read_text().replace(bench.key(), bench.key("no-such-key"))
    config.write_text(f"ControlPath {tmp_path / 'shared'}\n{no_key}")
    try:
        for _ in range(2):  # it stays
            with closing(parse_target("board").connect()) as shell:
                output = shell.run(["echo", "in"], what="testing", timeout_s=TIMEOUT_S)
                assert is_echoed(output), output
    finally:
        words = [str(program), "-O", "exit", control, "board"]
        subprocess.run(words, check=True, timeout=TIMEOUT_S, stderr=subprocess.DEVNULL)
