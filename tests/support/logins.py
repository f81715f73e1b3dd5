"""Logins that OpenSSH can make, and some that it cannot, on servers and homes of their own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgebench.host.devices.shell import CommandOutput, Shell
from edgebench.host.devices.target import parse_target
from edgebench.host.transports.ssh_program import parse_address
from edgebench.protocol.errors import EdgebenchError
from support.agents import wait_until
from support.ssh_home import configure_ssh
from support.sshd import Account, SshServer, new_key, ssh_server
from support.tools import need_root, need_tool

SERVERS = {
    "board": "127.0.0.1",
    "jump-1": "127.0.0.2",
    "jump-2": "127.0.0.3",
    "no-sftp": "127.0.0.1",
    "certified": "127.0.0.1",
}
"""Addresses of the servers: `ssh` refuses a jump by way of its own target."""
AGENT_KEY_COUNT = 8
"""More keys than MaxAuthTries, 6, lets try."""
TIMEOUT_S = 60.0
_SOURCE = Path(__file__).with_name("security_key.c")


@dataclass(frozen=True)
class LoginBench:
    """Servers on loopback, and the keys that open them."""

    folder: Path
    servers: Mapping[str, SshServer]
    user: str

    def port(self, name: str) -> int:
        """Port of a server."""
        return self.servers[name].port

    def public(self, name: str) -> str:
        """Type and key of a public key."""
        return " ".join((self.folder / f"{name}.pub").read_text().split()[:2])

    def line(self, name: str) -> str:
        """Line of known_hosts for a server."""
        return self.servers[name].known_hosts_line

    def host(self, name: str, *lines: str) -> str:
        """Section of ~/.ssh/config by which a server has its name as an alias."""
        settings = [f"HostName {SERVERS[name]}", f"Port {self.port(name)}", f"User {self.user}"]
        return "\n  ".join((f"Host {name}", *settings, *lines)) + "\n"

    def key(self, name: str = "login") -> str:
        """Line of ~/.ssh/config for this key and no other."""
        return f"IdentityFile {self.folder / name}\n  IdentitiesOnly yes"

    def home(self, name: str, config: str, known_hosts: str) -> dict[str, str]:
        """Environment of a user with these files."""
        home = self.folder / "homes" / name.replace(" ", "-")
        program = configure_ssh(home, config)
        (home / ".ssh" / "known_hosts").write_text(known_hosts)
        return {"HOME": str(home), "PATH": f"{program.parent}:{os.environ['PATH']}"}


@dataclass(frozen=True)
class Login:
    """A login as a user has set it up."""

    config: Callable[[LoginBench], str]
    target: Callable[[LoginBench], str] = lambda _: "board"
    known_hosts: Callable[[LoginBench], str] = lambda b: "".join(
        map(b.line, ("board", "jump-1", "jump-2"))
    )
    has_agent: bool = False
    """Whether an agent holds many keys, none of which is the right one."""
    identity_file: bool = False
    refusal: str = ""
    """Part of the error's text; empty: it succeeds."""
    is_direct: bool = True
    """Whether no other program leads to the device."""


def _jump(bench: LoginBench, *lines: str, user: str | None = None) -> str:
    """The board by way of the first jump host."""
    jump = bench.host("jump-1", bench.key())
    if user:
        jump = jump.replace(f"User {bench.user}", f"User {user}")
    return bench.host("board", bench.key(), *lines) + jump


def _no_listener(bench: LoginBench, section: str) -> str:
    """A section whose port nothing listens on."""
    return section.replace(f"Port {bench.port('board')}", "Port 9")


LOGINS: dict[str, Login] = {
    "alias": Login(lambda b: b.host("board", b.key())),
    "other port": Login(
        lambda b: f"Host *\n  {b.key()}\n",
        target=lambda b: f"{b.user}@127.0.0.1:{b.port('board')}",
    ),
    "jump": Login(lambda b: _jump(b, "ProxyJump jump-1"), is_direct=False),
    "two jumps": Login(
        lambda b: _jump(b, "ProxyJump jump-1,jump-2") + b.host("jump-2", b.key()), is_direct=False
    ),
    "proxy command": Login(
        lambda b: _jump(
            b, f"ProxyCommand ssh -F {b.folder}/homes/proxy-command/.ssh/config -W [%h]:%p jump-1"
        ),
        is_direct=False,
    ),
    "user certificate": Login(
        lambda b: b.host(
            "board", b.key("certified"), f"CertificateFile {b.folder}/certified-cert.pub"
        )
    ),
    "hardware key": Login(
        lambda b: b.host("board", b.key("hardware"), f"SecurityKeyProvider {b.folder}/key.so")
    ),
    "agent with eight keys": Login(
        lambda b: b.host("board"),
        has_agent=True,
        refusal="board refuses this login: too many authentication failures after 6 keys",
    ),
    "agent with eight keys, one named": Login(
        lambda b: b.host("board"), has_agent=True, identity_file=True
    ),
    "hashed host": Login(
        lambda b: b.host("board", b.key()),
        known_hosts=lambda b: (b.folder / "hashed").read_text(),
    ),
    "authority": Login(
        lambda b: b.host("certified", b.key()),
        target=lambda _: "certified",
        known_hosts=lambda b: f"@cert-authority * {b.public('authority')}\n",
    ),
    "authority of another domain": Login(
        lambda b: b.host("board", b.key()),
        known_hosts=lambda b: f"@cert-authority *.x {b.public('authority')}\n{b.line('board')}",
    ),
    "no sftp": Login(
        lambda b: b.host("no-sftp", b.key()),
        target=lambda _: "no-sftp",
        known_hosts=lambda b: b.line("no-sftp"),
    ),
    # Refused, with the reason.
    "revoked key": Login(
        lambda b: b.host("board", b.key()),
        known_hosts=lambda b: f"@revoked * {b.line('board').split(maxsplit=1)[1]}{b.line('board')}",
        refusal="is revoked: ssh-ed25519 SHA256:",
    ),
    "unknown key": Login(
        lambda b: b.host("board", b.key()),
        known_hosts=lambda _: "",
        refusal="is unknown: ssh-ed25519 SHA256:",
    ),
    "changed key": Login(
        lambda b: b.host("board", b.key()),
        known_hosts=lambda b: f"{b.line('board').split()[0]} {b.public('login')}\n",
        refusal="known_hosts line 1 has another",
    ),
    "wrong key": Login(
        lambda b: b.host("board", b.key("authority")),
        refusal="board refuses this login: Permission denied (publickey)",
    ),
    "missing key": Login(
        lambda b: b.host("board", b.key("no-such-key")),
        refusal="Permission denied (publickey); no such identity: ",
    ),
    "nothing listens": Login(
        lambda b: _no_listener(b, b.host("board", b.key())),
        refusal="cannot reach 127.0.0.1 port 9: Connection refused",
    ),
    "unknown name": Login(
        lambda b: b.host("board", b.key()),
        target=lambda _: "board.invalid",
        refusal="cannot reach board.invalid: ",
    ),
    "no host key in common": Login(
        lambda b: b.host("board", b.key(), "HostKeyAlgorithms rsa-sha2-512"),
        refusal="have no algorithm in common: no matching host key type found",
    ),
    "broken configuration": Login(
        lambda b: b.host("board", b.key(), "IdentityFiles x"),
        refusal="ssh rejects its configuration: ",
    ),
    "jump host refuses": Login(
        lambda b: _jump(b, "ProxyJump jump-1", user="nobody"),
        refusal="on the way to board: nobody@127.0.0.2 refuses this login: Permission denied",
        is_direct=False,
    ),
    "jump host is off": Login(
        lambda b: _jump(b, "ProxyJump jump-1").replace(f"Port {b.port('jump-1')}", "Port 9"),
        refusal="on the way to board: cannot reach 127.0.0.2 port 9: Connection refused",
        is_direct=False,
    ),
    "jump host is unknown": Login(
        lambda b: _jump(b, "ProxyJump jump-1"),
        known_hosts=lambda b: b.line("board"),
        refusal="on the way to board: host key of a host on the way is not accepted",
        is_direct=False,
    ),
    "device behind the jump is off": Login(
        lambda b: _no_listener(b, _jump(b, "ProxyJump jump-1")),
        refusal="jump host cannot reach board: Connection refused",
        is_direct=False,
    ),
    "device behind the jump refuses": Login(
        lambda b: _jump(b, "ProxyJump jump-1").replace(b.key(), b.key("authority"), 1),
        refusal="board refuses this login: Permission denied (publickey)",
        is_direct=False,
    ),
    "proxy command fails": Login(
        lambda b: b.host("board", b.key(), "ProxyCommand echo the cable is out >&2; exit 1"),
        refusal="cannot reach board: jump host or proxy command ended: the cable is out",
        is_direct=False,
    ),
}
"""Logins by name."""


@contextmanager
def login_bench(folder: Path) -> Iterator[LoginBench]:
    """Servers for all of the logins, for the account of this process."""
    need_root()
    need_tool("sshd", "ssh", "ssh-keygen", "ssh-agent", "ssh-add", "cc")
    make_keys(folder)
    account = Account(getpass.getuser(), folder, folder / "login")
    # The cheapest key exchange: there are many logins.
    common = ["KexAlgorithms curve25519-sha256,curve25519-sha256@libssh.org", "StrictModes no"]
    common += [
        f"AuthorizedKeysFile {folder}/authorized",
        f"TrustedUserCAKeys {folder}/authority.pub",
    ]
    certificate = [f"HostCertificate {folder}/host-cert.pub", f"HostKey {folder}/host"]
    with ExitStack() as stack:
        servers = {}
        for name, address in SERVERS.items():
            with socket.create_server((address, 0)) as free:
                port = int(free.getsockname()[1])
            is_certified = name == "certified"
            server = ssh_server(
                folder / f"server-{name}",
                account,
                address=address,
                port=port,
                lines=[*common, *(certificate if is_certified else ())],
                has_host_key=not is_certified,
                has_sftp=name != "no-sftp",
            )
            servers[name] = stack.enter_context(server)
        stack.enter_context(_full_agent(folder))
        bench = LoginBench(folder, servers, account.name)
        (folder / "hashed").write_text(bench.line("board"))
        _run("ssh-keygen", "-q", "-H", "-f", str(folder / "hashed"))
        yield bench


def make_keys(folder: Path) -> None:
    """Keys of the user, of the authority, of a host and of hardware; who may log in."""
    for name in ("login", "authority", "certified", "host"):
        new_key(folder / name)
    sign = ("ssh-keygen", "-q", "-s", f"{folder}/authority", "-I", "test")
    _run(*sign, "-n", getpass.getuser(), f"{folder}/certified.pub")
    _run(*sign, "-h", "-n", "127.0.0.1", f"{folder}/host.pub")
    library = folder / "key.so"
    _run("cc", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-l:libcrypto.so.3")
    hardware = ("-t", "ed25519-sk", "-N", "", "-w", str(library), "-f", f"{folder}/hardware")
    _run("ssh-keygen", "-q", *hardware)
    allowed = [(folder / f"{name}.pub").read_text() for name in ("login", "hardware")]
    (folder / "authorized").write_text("".join(allowed))


@contextmanager
def _full_agent(folder: Path) -> Iterator[None]:
    """An agent that holds more keys than a server lets try."""
    path = folder / "agent.sock"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        wait_until(path.exists, "the agent listens")
        for number in range(AGENT_KEY_COUNT):
            new_key(folder / f"agent-{number}")
            keys = str(folder / f"agent-{number}")
            _run("ssh-add", "-q", keys, environment={"SSH_AUTH_SOCK": str(path)})
        yield
    finally:
        agent.terminate()
        agent.wait(30)


def _run(*words: str, environment: Mapping[str, str] | None = None) -> None:
    result = subprocess.run(
        words, capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | dict(environment or {}), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert result.returncode == 0, f"{' '.join(words)}: {result.stderr}"


def environment_of(name: str, bench: LoginBench) -> dict[str, str]:
    """Environment of the user of a login."""
    login = LOGINS[name]
    environment = bench.home(name, login.config(bench), login.known_hosts(bench))
    agent = {"SSH_AUTH_SOCK": str(bench.folder / "agent.sock")} if login.has_agent else {}
    return environment | agent


def connect(name: str, bench: LoginBench, patch: pytest.MonkeyPatch) -> Shell:
    """Log in as that user."""
    patch.delenv("SSH_AUTH_SOCK", raising=False)
    for variable, value in environment_of(name, bench).items():
        patch.setenv(variable, value)
    key = bench.folder / "login" if LOGINS[name].identity_file else None
    return parse_target(LOGINS[name].target(bench)).connect(key)


def is_echoed(output: CommandOutput) -> bool:
    """Whether `echo in` printed its line; the account's shell may print before it as it starts."""
    return output.code == 0 and output.text.endswith("in\n")


def check(name: str, bench: LoginBench, folder: Path) -> str:
    """Log in as `ssh` does, run a command and send a file.

    Returns:
        The refusal, which is checked to be the right one; empty: logged in.
    """
    login, refusal = LOGINS[name], ""
    with pytest.MonkeyPatch.context() as patch:
        try:
            with closing(connect(name, bench, patch)) as shell:
                output = shell.run(["echo", "in"], what="testing", timeout_s=TIMEOUT_S)
                assert is_echoed(output), output
                (folder / "sent").write_bytes(os.urandom(200_000))
                (folder / "there").mkdir()
                shell.put([folder / "sent"], str(folder / "there"))
                assert (folder / "there" / "sent").read_bytes() == (folder / "sent").read_bytes()
                is_number = shell.address.replace(".", "").isdecimal()
                assert is_number or not login.is_direct
        except EdgebenchError as exc:
            refusal = str(exc)
        assert _ssh_logs_in(login, bench) == (refusal == ""), refusal
    assert bool(refusal) == bool(login.refusal), refusal
    assert login.refusal in refusal, refusal
    return refusal


def _ssh_logs_in(login: Login, bench: LoginBench) -> bool:
    """Whether OpenSSH's own client logs in, in this environment; the oracle."""
    address = parse_address(login.target(bench))
    assert address is not None
    key = ["-i", str(bench.folder / "login"), "-oIdentitiesOnly=yes"] if login.identity_file else []
    result = subprocess.run(
        [str(shutil.which("ssh")), "-T", "-oBatchMode=yes", *key, *address.words, "true"],
        capture_output=True,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )
    return result.returncode == 0
