"""Files `known_hosts` of every kind, each decided as OpenSSH's own client does."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.sshd import Account, new_key, ssh_server
from support.tools import need_root, need_shared, need_tool

from edgebench.host.devices import paramiko_shell
from edgebench.host.transports.ssh_program import SshAddress
from edgebench.protocol.errors import AccessDenied

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Bench:
    """Servers on loopback that present different host keys, and the keys to write into files."""

    folder: Path
    ports: dict[str, int]
    login_key: Path

    def public(self, name: str) -> str:
        """Type and key of a public key, as a line of known_hosts has them."""
        return " ".join((self.folder / f"{name}.pub").read_text().split()[:2])

    def hashed(self, name: str, key: str) -> str:
        """A line whose host is hashed, made by ssh-keygen."""
        path = self.folder / "hashed"
        path.write_text(f"{name} {key}\n")
        _run("ssh-keygen", "-q", "-H", "-f", str(path))
        return path.read_text()

    def is_accepted_by_ssh(self, port: int, user_file: Path, system_file: Path) -> bool:
        """Whether the real client logs in with these files."""
        settings = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "UpdateHostKeys": "no",
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": user_file,
            "GlobalKnownHostsFile": system_file,
        }
        options = [f"-o{name}={value}" for name, value in settings.items()]
        words = ["ssh", "-F", "none", "-p", str(port), "-i", str(self.login_key), *options]
        result = subprocess.run(
            [*words, f"{getpass.getuser()}@{HOST}", "true"],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if result.returncode:
            assert "Host key verification failed" in result.stderr, result.stderr
        return result.returncode == 0


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Servers with keys of three types, with one, and with certificates good and bad."""
    need_root()
    need_tool("sshd", "ssh", "ssh-keygen")
    folder = tmp_path_factory.mktemp("known-hosts")
    for name in ("ed25519", "other", "authority", "authority-2", "login"):
        new_key(folder / name)
    for name, kind in (("ecdsa", ["ecdsa"]), ("rsa", ["rsa", "-b", "2048"])):
        _run("ssh-keygen", "-q", "-t", *kind, "-N", "", "-f", str(folder / name))
    certificates = {
        "certified": ["-n", f"localhost,{HOST}"],
        "expired": ["-n", HOST, "-V", "20200101:20200102"],
        "early": ["-n", HOST, "-V", "20990101:20990102"],
        "misnamed": ["-n", "board.example.com"],
        "pattern": ["-n", "127.0.*"],
        "nameless": [],
    }
    account = Account(getpass.getuser(), folder, folder / "login")
    # The cheapest key exchange: there are hundreds of logins.
    kex = "KexAlgorithms curve25519-sha256,curve25519-sha256@libssh.org"
    common = [kex, f"AuthorizedKeysFile {folder}/login.pub", "StrictModes no"]
    servers = {
        "plain": [f"HostKey {folder}/ed25519"],
        "three": [f"HostKey {folder}/{kind}" for kind in ("ed25519", "ecdsa", "rsa")],
    }
    for name, words in certificates.items():
        shutil.copy(folder / "ed25519.pub", folder / f"{name}.pub")
        shutil.copy(folder / "ed25519", folder / name)
        sign = ["ssh-keygen", "-q", "-s", f"{folder}/authority", "-I", name, "-h", *words]
        _run(*sign, f"{folder}/{name}.pub")
        keys = [f"HostKey {folder}/{name}", f"HostCertificate {folder}/{name}-cert.pub"]
        servers[name] = keys
    for key_type in ("ecdsa", "rsa"):
        sign = ["ssh-keygen", "-q", "-s", f"{folder}/{key_type}", "-I", key_type, "-h", "-n", HOST]
        shutil.copy(folder / f"{key_type}.pub", folder / f"certified-{key_type}.pub")
        shutil.copy(folder / key_type, folder / f"certified-{key_type}")
        _run(*sign, f"{folder}/certified-{key_type}.pub")
        path = folder / f"certified-{key_type}"
        servers[path.name] = [f"HostKey {path}", f"HostCertificate {path}-cert.pub"]
    with ExitStack() as stack:
        ports = {}
        for name, lines in servers.items():
            with socket.create_server((HOST, 0)) as free:
                port = int(free.getsockname()[1])
            server = ssh_server(
                folder / f"server-{name}",
                account,
                address=HOST,
                port=port,
                lines=[*common, *lines],
                has_host_key=False,
            )
            stack.enter_context(server)
            ports[name] = port
        yield Bench(folder, ports, folder / "login")


Write = Callable[[Bench, str], str]
"""Content of a file, from the keys and the name under which the server is known."""

FILES: dict[str, tuple[str, Write]] = {
    "the key": ("plain", lambda b, n: f"{n} {b.public('ed25519')} comment here\n"),
    "no line feed at the end": ("plain", lambda b, n: f"{n} {b.public('ed25519')}"),
    "name without port": ("plain", lambda b, _: f"{HOST} {b.public('ed25519')}\n"),
    "nothing": ("plain", lambda _b, _n: ""),
    "comments, blanks, tabs": (
        "plain",
        lambda b, n: f"# of us\n\n \t\n  {n}\t{b.public('ed25519')}\n",
    ),
    "commented out": ("plain", lambda b, n: f"#{n} {b.public('ed25519')}\n"),
    "carriage returns": ("plain", lambda b, n: f"\r\n{n} {b.public('ed25519')}\r\n"),
    "not UTF-8": ("plain", lambda b, n: f"\xff\xfe x y\n{n} {b.public('ed25519')} \xe9\n"),
    "a NUL before the key": ("plain", lambda b, n: f"{n} \0{b.public('ed25519')}\n"),
    "a NUL after the key": ("plain", lambda b, n: f"{n} {b.public('ed25519')} \0x\n"),
    "unknown type, then the key": (
        "plain",
        lambda b, n: f"{n} ssh-future AAAA\n{n} {b.public('ed25519')}\n",
    ),
    "key of a token, then the key": (
        "plain",
        lambda b, n: (
            f"{n} sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIAAAAAAA"
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABHNzaDo=\n"
            f"{n} {b.public('ed25519')}\n"
        ),
    ),
    "truncated base64 only": ("plain", lambda b, n: f"{n} {b.public('ed25519')[:-9]}\n"),
    "truncated base64, then the key": (
        "plain",
        lambda b, n: f"{n} {b.public('ed25519')[:-9]}\n{n} {b.public('ed25519')}\n",
    ),
    "no key": ("plain", lambda _b, n: f"{n}\n{n} ssh-ed25519\n"),
    "type of another key": (
        "plain",
        lambda b, n: f"{n} ssh-rsa {b.public('ed25519').split()[1]}\n",
    ),
    "hashed": ("plain", lambda b, n: b.hashed(n, b.public("ed25519"))),
    "hashed without port": ("plain", lambda b, _: b.hashed(HOST, b.public("ed25519"))),
    "hash of another name": ("plain", lambda b, _: b.hashed("board", b.public("ed25519"))),
    "hash that is damaged": (
        "plain",
        lambda b, n: f"|1|AAAA|BBBB {b.public('ed25519')}\n|2| x y\n{n} {b.public('ed25519')}\n",
    ),
    "any port": ("plain", lambda b, _: f"[{HOST}]:* {b.public('ed25519')}\n"),
    "question marks": ("plain", lambda b, n: f"{n.replace('0', '?')} {b.public('ed25519')}\n"),
    "brackets are no set": (
        "plain",
        lambda b, n: f"[12]{n[1:]} {b.public('ed25519')}\n",
    ),
    "negated": ("plain", lambda b, n: f"*,!{n} {b.public('ed25519')}\n"),
    "another negated": ("plain", lambda b, n: f"!board,{n},*.lab {b.public('ed25519')}\n"),
    "several names": ("plain", lambda b, n: f"board,{n},board.lab {b.public('ed25519')}\n"),
    "another key": ("plain", lambda b, n: f"{n} {b.public('other')}\n"),
    "another key, then the key": (
        "plain",
        lambda b, n: f"{n} {b.public('other')}\n{n} {b.public('ed25519')}\n",
    ),
    "another type, the key without port": (
        "plain",
        lambda b, n: f"{n} {b.public('rsa')}\n{HOST} {b.public('ed25519')}\n",
    ),
    "only RSA of three": ("three", lambda b, n: f"{n} {b.public('rsa')}\n"),
    "only ECDSA of three": ("three", lambda b, n: f"{n} {b.public('ecdsa')}\n"),
    "all of three": (
        "three",
        lambda b, n: "".join(f"{n} {b.public(k)}\n" for k in ("rsa", "ecdsa", "ed25519")),
    ),
    "authority of another domain": (
        "plain",
        lambda b, n: (
            f"@cert-authority *.example.com {b.public('authority')}\n{n} {b.public('ed25519')}\n"
        ),
    ),
    "authority, no certificate": (
        "plain",
        lambda b, n: f"@cert-authority {n} {b.public('authority')}\n",
    ),
    "authority, no certificate, the key": (
        "plain",
        lambda b, n: f"@cert-authority {n} {b.public('authority')}\n{n} {b.public('ed25519')}\n",
    ),
    "authority": ("certified", lambda b, n: f"@cert-authority {n} {b.public('authority')}\n"),
    "authority of all": ("certified", lambda b, _: f"@cert-authority * {b.public('authority')}\n"),
    "authority without port": (
        "certified",
        lambda b, _: f"@cert-authority 127.* {b.public('authority')}\n",
    ),
    "authority with an ECDSA key": (
        "certified-ecdsa",
        lambda b, n: f"@cert-authority {n} {b.public('ecdsa')}\n",
    ),
    "authority with an RSA key": (
        "certified-rsa",
        lambda b, n: f"@cert-authority {n} {b.public('rsa')}\n",
    ),
    "certificate, no authority, the key": (
        "certified",
        lambda b, n: f"{n} {b.public('ed25519')}\n",
    ),
    "certificate, another authority": (
        "certified",
        lambda b, n: f"@cert-authority {n} {b.public('authority-2')}\n",
    ),
    "certificate, another authority, the key": (
        "certified",
        lambda b, n: f"@cert-authority {n} {b.public('authority-2')}\n{n} {b.public('ed25519')}\n",
    ),
    "authority without its marker": ("certified", lambda b, n: f"{n} {b.public('authority')}\n"),
    "certificate of the past": (
        "expired",
        lambda b, n: f"@cert-authority {n} {b.public('authority')}\n",
    ),
    "certificate of the past, the key": (
        "expired",
        lambda b, n: f"@cert-authority {n} {b.public('authority')}\n{n} {b.public('ed25519')}\n",
    ),
    "certificate of the future": (
        "early",
        lambda b, n: f"@cert-authority {n} {b.public('authority')}\n",
    ),
    "certificate of another host": (
        "misnamed",
        lambda b, n: f"@cert-authority {n} {b.public('authority')}\n",
    ),
    "certificate for a pattern": (
        "pattern",
        lambda b, n: f"@cert-authority {n} {b.public('authority')}\n",
    ),
    "certificate for any host": (
        "nameless",
        lambda b, n: f"@cert-authority {n} {b.public('authority')}\n",
    ),
    "revoked, then the key": (
        "plain",
        lambda b, n: f"@revoked {n} {b.public('ed25519')}\n{n} {b.public('ed25519')}\n",
    ),
    "the key, then revoked for all": (
        "plain",
        lambda b, n: f"{n} {b.public('ed25519')}\n@revoked * {b.public('ed25519')}\n",
    ),
    "revoked for another host": (
        "plain",
        lambda b, n: f"{n} {b.public('ed25519')}\n@revoked board {b.public('ed25519')}\n",
    ),
    "another key revoked": (
        "plain",
        lambda b, n: f"@revoked {n} {b.public('other')}\n{n} {b.public('ed25519')}\n",
    ),
    "authority revoked": (
        "certified",
        lambda b, n: (
            f"@cert-authority {n} {b.public('authority')}\n@revoked {n} {b.public('authority')}\n"
        ),
    ),
    "key of the certificate revoked": (
        "certified",
        lambda b, n: (
            f"@cert-authority {n} {b.public('authority')}\n@revoked {n} {b.public('ed25519')}\n"
        ),
    ),
    "a marker of later": (
        "plain",
        lambda b, n: f"@future {n} {b.public('other')}\n{n} {b.public('ed25519')}\n",
    ),
    "two markers": (
        "certified",
        lambda b, n: f"@cert-authority @revoked {n} {b.public('authority')}\n",
    ),
    "a marker alone": ("plain", lambda b, n: f"@revoked\n@revoked\t\n{n} {b.public('ed25519')}\n"),
    "a line of 200 kB": (
        "plain",
        lambda b, n: f"{'x' * 200_000} y z\n{n} {b.public('ed25519')} {'c' * 200_000}\n",
    ),
}


def decide(
    bench: Bench, server: str, user_file: Path, system_file: Path, patch: pytest.MonkeyPatch
) -> str:
    """Our refusal, or nothing if we log in; the same as OpenSSH's decision."""
    port = bench.ports[server]
    patch.setattr(paramiko_shell, "USER_KNOWN_HOSTS", (str(user_file),))
    patch.setattr(paramiko_shell, "SYSTEM_KNOWN_HOSTS", (str(system_file),))
    patch.delenv("SSH_AUTH_SOCK", raising=False)
    patch.setenv("HOME", str(bench.folder))
    before = user_file.read_bytes() if user_file.is_file() else None
    refusal = ""
    try:
        address = SshAddress(getpass.getuser(), HOST, port)
        paramiko_shell.log_in(address, bench.login_key, can_prompt=False).close()
    except AccessDenied as exc:
        refusal = str(exc)
        assert "refuses this login" not in refusal
    assert bench.is_accepted_by_ssh(port, user_file, system_file) == (refusal == "")
    if before is not None:
        assert user_file.read_bytes() == before, "a line is lost"
    return refusal


@pytest.mark.parametrize("name", FILES)
def test_decides_as_openssh(
    name: str, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a line that OpenSSH ignores would end a deploy, or a revoked key be trusted."""
    server, write = FILES[name]
    path = tmp_path / "known_hosts"
    path.write_bytes(write(bench, f"[{HOST}]:{bench.ports[server]}").encode("latin-1"))
    decide(bench, server, path, tmp_path / "absent", monkeypatch)


@pytest.mark.parametrize("kind", ["missing", "directory", "loop"])
def test_file_without_lines_refuses(
    kind: str, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be read trusts nothing, and is named; the system's file still counts."""
    path, system = tmp_path / "known_hosts", tmp_path / "system"
    if kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    refusal = decide(bench, "plain", path, system, monkeypatch)
    assert f"is not in {path}" in refusal
    assert (f"{path}: " in refusal) == (kind != "missing")
    system.write_text(f"[{HOST}]:{bench.ports['plain']} {bench.public('ed25519')}\n")
    assert decide(bench, "plain", path, system, monkeypatch) == ""


def test_system_file_revokes(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that the administrator has revoked is refused, though the user trusts it."""
    name, key = f"[{HOST}]:{bench.ports['plain']}", bench.public("ed25519")
    path, system = tmp_path / "known_hosts", tmp_path / "system"
    path.write_text(f"{name} {key}\n")
    system.write_text(f"# ours\n@revoked * {key}\n")
    refusal = decide(bench, "plain", path, system, monkeypatch)
    assert f"is revoked by {system} line 2: ssh-ed25519 SHA256:" in refusal


@pytest.mark.parametrize(
    ("server", "lines", "named"),
    [
        ("plain", "\n{n} {other}\n", "the host presents ssh-ed25519 SHA256:"),
        ("plain", "\n{n} {other}\n", "known_hosts line 2 has ssh-ed25519 SHA256:"),
        ("plain", "@cert-authority {n} {ca}\n", "known_hosts line 1 accepts only certificates"),
        ("plain", "{n} ssh-ed25519 AAAA\n", "known_hosts line 1: malformed key"),
        ("plain", "{n} ssh-future AAAA\n", "known_hosts line 1: unknown type of key: ssh-future"),
        ("expired", "@cert-authority {n} {ca}\n", "was valid until 2020-01-02 00:00 UTC ("),
        ("early", "@cert-authority {n} {ca}\n", "is not valid before 2099-01-01 00:00 UTC ("),
        ("misnamed", "@cert-authority {n} {ca}\n", "is for board.example.com ("),
    ],
)
def test_refusal_names_the_line(
    server: str,
    lines: str,
    named: str,
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the user would have to search hundreds of lines for the one that decides."""
    path, name = tmp_path / "known_hosts", f"[{HOST}]:{bench.ports[server]}"
    path.write_text(lines.format(n=name, other=bench.public("other"), ca=bench.public("authority")))
    monkeypatch.setenv("TZ", "UTC")
    assert named in decide(bench, server, path, tmp_path / "absent", monkeypatch)


def test_reported_case_of_an_authority_logs_in(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user with a certificate authority of another domain in known_hosts can deploy."""
    case = need_shared("cases/02-known-hosts-certificate-authority") / "case.md"
    assert "@cert-authority line of another domain and the right key" in case.read_text()
    path, name = tmp_path / "known_hosts", f"[{HOST}]:{bench.ports['plain']}"
    path.write_text(
        f"@cert-authority *.example.com {bench.public('authority')}\n"
        f"{name} {bench.public('ed25519')}\n"
    )
    assert decide(bench, "plain", path, tmp_path / "absent", monkeypatch) == ""


def _run(*words: str) -> None:
    result = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"TZ": "UTC"},
    )
    assert result.returncode == 0, f"{' '.join(words)}: {result.stderr}"
