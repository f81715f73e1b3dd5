"""Every shell that a deploy can go through, and one on this machine that needs no login."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from edgebench.host.devices import target as targets
from edgebench.host.devices.adb import AdbTarget
from edgebench.host.devices.paramiko_shell import ParamikoShell
from edgebench.host.devices.shell import MAX_OUTPUT_BYTES, CommandOutput, Shell
from edgebench.host.devices.ssh_command import SshCommandShell
from edgebench.host.transports.ssh_program import SshAddress
from edgebench.protocol.errors import LinkTimeout, TargetError
from edgebench.protocol.text import printable
from support.adb_phones import adb_server, need_phones, phone
from support.agents import Host
from support.site import trust
from support.sshd import fresh_account, ssh_server
from support.tools import need_root, need_tool


class LocalShell:
    """Commands of this machine's `sh`, with a home directory of their own."""

    target = "this machine"
    address = "127.0.0.1"
    via = "tls"
    listen = ""
    default_name = ""
    restart_note = "nobody starts it again"
    kits = ""

    def __init__(self, home: Path) -> None:
        self._environment = {"HOME": str(home), "PATH": os.environ["PATH"]}

    def run(
        self, words: Sequence[str], *, what: str, timeout_s: float, stdin: bytes = b""
    ) -> CommandOutput:
        """Run one command to its end."""
        try:
            result = subprocess.run(
                ["sh", "-c", shlex.join(words)],
                env=self._environment,
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise LinkTimeout(
                f"{what} on {self.target} did not end within {timeout_s:.0f} s"
            ) from exc
        text = result.stdout[-MAX_OUTPUT_BYTES:].decode("utf-8", "replace")
        return CommandOutput(result.returncode, printable(text, keep_lines=True))

    def put(self, files: Sequence[Path], directory: str) -> None:
        """Copy files into a directory."""
        for file in files:
            path = f"{directory}/{file.name}"
            try:
                shutil.copy(file, path)
            except OSError as exc:
                raise TargetError(f"not written on {self.target}: {path}: {exc.strerror}") from exc

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def _local(folder: Path) -> Iterator[Shell]:
    home = folder / "home"
    home.mkdir()
    yield LocalShell(home)


@contextmanager
def _ssh(folder: Path) -> Iterator[Shell]:
    need_tool("ssh")
    with _login(folder, program="ssh") as shell:
        assert isinstance(shell, SshCommandShell)
        yield shell


@contextmanager
def _paramiko(folder: Path) -> Iterator[Shell]:
    with _login(folder, program="no-such-program") as shell:
        assert isinstance(shell, ParamikoShell)
        yield shell


@contextmanager
def _login(folder: Path, *, program: str) -> Iterator[Shell]:
    """An account of a real server, by a program of this name, else by the library."""
    need_root()
    need_tool("sshd", "ssh-keygen", "useradd", "userdel")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with (
        fresh_account(folder / "account") as account,
        ssh_server(folder / "sshd", account, address="127.0.0.1", port=port) as server,
    ):
        trust(Host(folder), server.known_hosts_line)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", str(folder))
            patch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
            patch.delenv("SSH_AUTH_SOCK", raising=False)
            patch.setattr(targets, "find_ssh", lambda: shutil.which(program))
            address = SshAddress(account.name, "127.0.0.1", port)
            shell = targets.SshTarget(address).connect(account.key)
        with closing(shell):
            yield shell


@contextmanager
def _adb(_: Path) -> Iterator[Shell]:
    need_phones()
    with adb_server() as server, phone(server) as made, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        made.shell("mkdir", "/data/local/tmp/edgebench")
        with closing(AdbTarget(made.serial).connect()) as shell:
            yield shell


SHELLS: dict[str, Callable[[Path], AbstractContextManager[Shell]]] = {
    "local": _local,
    "ssh": _ssh,
    "paramiko": _paramiko,
    "adb": _adb,
}
"""Opened in a folder of their own, by name."""
