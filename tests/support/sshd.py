"""A real OpenSSH server with an account that has never been used."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from support.agents import wait_until

_PRIVILEGE_SEPARATION = Path("/run/sshd")
"""sshd wants it, and only the service makes it."""


@dataclass(frozen=True)
class Account:
    """A user of this machine, with one key that opens it."""

    name: str
    home: Path
    key: Path

    def listing(self) -> dict[str, str]:
        """Everything in the home directory: mode, and content of files, by path."""
        return {str(path.relative_to(self.home)): _described(path) for path in _walk(self.home)}

    def processes(self) -> list[int]:
        """What runs under this account."""
        return [int(path.name) for path in self._owned(Path("/proc")) if path.name.isdigit()]

    def temporary_files(self) -> list[Path]:
        """What it has left where everybody may write."""
        shared = map(Path, ("/tmp", "/var/tmp", "/dev/shm"))
        return [path for folder in shared if folder.is_dir() for path in self._owned(folder)]

    def _owned(self, folder: Path) -> list[Path]:
        found = []
        uid = self.home.stat().st_uid
        for path in folder.iterdir():
            with suppress(OSError):  # it is gone by now
                if path.lstat().st_uid == uid:
                    found.append(path)
        return found


@dataclass(frozen=True)
class SshServer:
    """Where it listens, and how it shows itself."""

    address: str
    port: int
    host_key: Path

    @property
    def known_hosts_line(self) -> str:
        """What a host writes down that has accepted the key."""
        kind, key = self.host_key.with_suffix(".pub").read_text().split()[:2]
        return f"[{self.address}]:{self.port} {kind} {key}\n"


@contextmanager
def fresh_account(folder: Path) -> Iterator[Account]:
    """An account made for one test; it is removed with all that it owns and runs."""
    name = f"eb{os.getpid()}{secrets.token_hex(2)}"
    key = folder / "login-key"
    new_key(key)
    # A password that nothing matches: an account that is locked may not even use a key.
    _run("useradd", "--create-home", "--shell", "/bin/bash", "--password", "*", name)
    account = Account(name, Path("/home") / name, key)
    try:
        directory = account.home / ".ssh"
        directory.mkdir(mode=0o700)
        shutil.copy(key.with_suffix(".pub"), directory / "authorized_keys")
        for path in (directory, directory / "authorized_keys"):
            shutil.chown(path, name, name)
        yield account
    finally:
        for pid in account.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not account.processes(), "the account's processes end")
        _run("userdel", "--remove", name)


@contextmanager
def ssh_server(
    folder: Path,
    account: Account,
    *,
    address: str,
    port: int = 2222,
    prefix: Sequence[str] = (),
    lines: Sequence[str] = (),
    has_host_key: bool = True,
    has_sftp: bool = True,
) -> Iterator[SshServer]:
    """A server that lets this account in, and nobody else; `lines` are more of its settings.

    Without a host key of its own, `lines` name the keys.
    """
    folder.mkdir()
    server = SshServer(address, port, folder / "host-key")
    if has_host_key:
        new_key(server.host_key)
        lines = [f"HostKey {server.host_key}", *lines]
    if has_sftp:
        lines = ["Subsystem sftp internal-sftp", *lines]
    config = folder / "sshd_config"
    config.write_text(
        f"ListenAddress {address}:{port}\n"
        f"PidFile {folder / 'sshd.pid'}\n"
        f"AllowUsers {account.name}\n"
        "PasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\n"
        "UsePAM no\n" + "".join(f"{line}\n" for line in lines)
    )
    _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    program = shutil.which("sshd", path="/usr/sbin:/sbin") or "sshd"
    log = folder / "log.txt"
    process = subprocess.Popen(
        [*prefix, program, "-D", "-f", str(config), "-E", str(log)], stdin=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: log.exists() and "listening" in log.read_text(), "sshd listens")
        yield server
    finally:
        process.terminate()
        process.wait(30)


def new_key(path: Path) -> None:
    """A private key without a passphrase, and `path`.pub beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path))


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def _described(path: Path) -> str:
    mode = f"{path.lstat().st_mode:o}"
    if path.is_symlink():
        return f"{mode} {path.readlink()}"
    return f"{mode} {hashlib.sha256(path.read_bytes()).hexdigest()}" if path.is_file() else mode


def _run(*words: str) -> None:
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, f"{' '.join(words)}: {result.stderr}"
