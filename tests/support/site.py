"""A device that `edgebench deploy` has never seen: a machine, a real SSH server, a new account."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgebench.host.devices.on_device import ANSWER_MARK, DeviceFacts, Interpreter
from edgebench.protocol.plain import from_plain
from support.agents import Host
from support.netns import Namespace, two_machines
from support.ssh_home import configure_ssh
from support.sshd import Account, SshServer, fresh_account, ssh_server
from support.tools import need_root, need_tool

SYSTEM_PYTHON = "/usr/bin/python3"
"""What the account finds: what this test suite runs on is not on its path."""


@dataclass(frozen=True)
class Site:
    """The host's machine and the device's."""

    here: Namespace
    there: Namespace
    account: Account
    server: SshServer
    host: Host

    @property
    def target(self) -> str:
        """What the host calls the account."""
        return f"{self.account.name}@{self.server.address}:{self.server.port}"

    def deploy(self, *words: str, host: Host | None = None) -> subprocess.CompletedProcess[str]:
        """Run `edgebench deploy` from the host's machine."""
        key = ("--identity-file", str(self.account.key))
        return self.run("deploy", self.target, *key, *words, host=host)

    def run(self, *words: str, host: Host | None = None) -> subprocess.CompletedProcess[str]:
        """Run `edgebench` on the host's machine, which has no internet."""
        return (host or self.host).run(*words, prefix=self.here.prefix)

    def trusting(self, folder: Path) -> Host:
        """Another host that has accepted the server's key."""
        made = Host(folder)
        trust(made, self.server.known_hosts_line)
        return made

    def listen(self, port: int) -> subprocess.Popen[str]:
        """A program on the device that has this port."""
        code = (
            "import socket, sys; s = socket.create_server(('', int(sys.argv[1]))); "
            "print('ready', flush=True); sys.stdin.read()"
        )
        process = subprocess.Popen(
            [*self.there.prefix, sys.executable, "-c", code, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process


@contextmanager
def fresh_site(folder: Path) -> Iterator[Site]:
    """A device that has only an account, and a host that trusts its SSH server."""
    with (
        two_machines() as (here, there),
        fresh_account(folder / "account") as account,
        ssh_server(folder / "sshd", account, address=there.address, prefix=there.prefix) as server,
    ):
        host = Host(folder / "host")
        trust(host, server.known_hosts_line)
        yield Site(here, there, account, server, host)


def trust(host: Host, line: str) -> None:
    """Make the known_hosts of a host this one line."""
    configure_ssh(host.folder)
    (host.folder / ".ssh" / "known_hosts").write_text(line)


def interpreter_of(python: str) -> Interpreter:
    """What deploy finds out about a Python, found out here."""
    from edgebench.host.devices import on_device

    result = subprocess.run(
        [python, "-I", on_device.__file__, json.dumps({"verb": "look"})],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answer = result.stdout.splitlines()[-1].removeprefix(ANSWER_MARK)
    return from_plain(json.loads(answer), DeviceFacts).interpreter


def need_machines() -> None:
    """The test makes machines with accounts on them."""
    need_root()
    need_tool("ip", "sshd", "ssh-keygen", "useradd", "userdel")
