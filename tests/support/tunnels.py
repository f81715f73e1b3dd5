"""A device behind a jump host: three machines, of which the host's sees only the one between."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.agents import AgentProcess, Host
from support.netns import Namespace, three_machines
from support.ssh_home import configure_ssh
from support.sshd import Account, SshServer, new_key, ssh_server
from support.tools import need_root, need_tool

PORT = 2222
_PAIR = (
    "import json, sys; from edgebench.host.devices.files import HostFiles; "
    "from edgebench.host.devices.pairing import pair; "
    "from edgebench.protocol.identity import PairingString; "
    "address, port, fingerprint, secret = json.loads(sys.argv[1]); "
    "string = PairingString((address,), port, fingerprint, bytes.fromhex(secret)); "
    "pair(HostFiles(), string, via='ssh')"
)


@dataclass(frozen=True)
class TunnelSite:
    """The machines, and the two servers of SSH."""

    here: Namespace
    between: Namespace
    there: Namespace
    host: Host
    jump: SshServer
    device: SshServer

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `edgebench` on the host's machine."""
        return self.host.run(*words, prefix=self.here.prefix)

    def pair(self, agent: AgentProcess) -> None:
        """Pair with an agent on the device, through the tunnel."""
        from edgebench.protocol.identity import parse_pairing_string

        answer = subprocess.check_output(agent.command("pair", "--json"), text=True)
        string = parse_pairing_string(json.loads(answer)["pairing"])
        parts = ["board", agent.port, string.fingerprint, string.secret.hex()]
        command = [sys.executable, "-c", _PAIR, json.dumps(parts)]
        result = subprocess.run(
            [*self.here.prefix, "env", *self._variables, *command],
            capture_output=True,
            text=True,
            timeout=400,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert result.returncode == 0, result.stderr

    @property
    def _variables(self) -> list[str]:
        return [f"{name}={value}" for name, value in self.host.environment.items()]

    def listeners(self, machine: Namespace) -> list[str]:
        """Addresses at which a machine accepts TCP connections, as the kernel writes them."""
        tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        text = subprocess.check_output([*machine.prefix, "cat", *tables], text=True)
        rows = [line.split() for line in text.splitlines() if ":" in line.split()[0]]
        return [row[1] for row in rows if row[3] == "0A"]


@contextmanager
def tunnel_site(folder: Path, account: Account | None = None) -> Iterator[TunnelSite]:
    """A host whose ~/.ssh/config has the device, called board, behind a jump.

    Args:
        folder: For files of the host and of the servers.
        account: Account on both servers; None: that of this process.
    """
    need_root()
    need_tool("ip", "ssh", "sshd", "ssh-keygen")
    if account is None:
        account = Account(getpass.getuser(), folder, folder / "login-key")
        new_key(account.key)
    key = account.key
    allowed = ["StrictModes no", f"AuthorizedKeysFile {key}.pub"]
    with (
        three_machines() as (here, between, there),
        ssh_server(
            folder / "jump", account, address=between.address, port=PORT,
            prefix=between.prefix, lines=allowed,
        ) as jump,
        ssh_server(
            folder / "device", account, address=there.address, port=PORT,
            prefix=there.prefix, lines=allowed,
        ) as device,
    ):  # fmt: skip
        host = Host(folder / "host")
        common = f"  Port {PORT}\n  User {account.name}\n  IdentityFile {key}\n"
        configure_ssh(
            host.folder,
            f"Host board\n  HostName {there.address}\n  ProxyJump jump\n{common}"
            f"Host jump\n  HostName {between.address}\n{common}",
        )
        lines = jump.known_hosts_line + device.known_hosts_line
        (host.folder / ".ssh" / "known_hosts").write_text(lines)
        yield TunnelSite(here, between, there, host, jump, device)
