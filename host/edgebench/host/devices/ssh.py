"""A shell on a device over SSH: login, commands, files.

Only host keys that the user has accepted before are accepted: nothing is added to known_hosts
here, and nobody is asked. The library's exceptions end in this file.
"""

from __future__ import annotations

import getpass
import logging
import os
import re
import shlex
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import paramiko

from edgebench.host.devices.shell import MAX_OUTPUT_BYTES, CommandOutput
from edgebench.host.transports.tls import TlsTransport
from edgebench.protocol.errors import (
    AccessDenied,
    LinkLost,
    LinkTimeout,
    TargetError,
    Unreachable,
    UsageError,
)
from edgebench.protocol.text import one_line, printable

SSH_PORT = 22
CONNECT_TIMEOUT_S = 15.0
SEND_TIMEOUT_S = 60.0
"""Time without progress after which sending a file has failed."""
KEEPALIVE_S = 15
MAX_PASSWORD_COUNT = 3
SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"

# The library logs whatever goes wrong, with traces; what matters arrives as an exception.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class SshTarget:
    """An account on a machine that answers SSH."""

    user: str
    host: str
    port: int = SSH_PORT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}" + (f":{self.port}" if self.port != SSH_PORT else "")

    @property
    def login(self) -> str:
        """Arguments of `ssh` for the same login by hand."""
        port = f"-p {self.port} " if self.port != SSH_PORT else ""
        return f"{port}{self.user}@{self.host}"

    def connect(self, identity_file: Path | None = None) -> SshShell:
        """Log in with the keys of ssh-agent and the usual files, on a terminal with a password."""
        if identity_file is not None and not os.access(identity_file, os.R_OK):
            raise UsageError(f"identity file cannot be read: {identity_file}")
        password: str | None = None
        for attempt in range(MAX_PASSWORD_COUNT + 1):
            try:
                return _log_in(self, identity_file, password)
            except _LoginFailure as exc:
                if attempt == MAX_PASSWORD_COUNT or not sys.stdin.isatty():
                    raise AccessDenied(f"{self} refuses this login: {exc}", self.login) from exc
            # The library takes it as the passphrase of an encrypted key, too.
            password = getpass.getpass(f"Password of {self}: ")
        raise AssertionError


def parse_target(text: str) -> SshTarget | None:
    """USER@HOST or USER@HOST:PORT, an IPv6 address in brackets; None when it is neither.

    >>> parse_target("pi@raspberrypi.local"), str(parse_target("pi@[fe80::1]:2222"))
    (SshTarget(user='pi', host='raspberrypi.local', port=22), 'pi@[fe80::1]:2222')
    """
    # Neither part may begin with a hyphen: the login is printed as arguments of `ssh`.
    match = re.fullmatch(
        r"(?P<user>[^@\s:/-][^@\s:/]*)@(?P<host>\[[\w:.%]+\]|\w[\w.-]*)(?::(?P<port>\d{1,5}))?",
        text,
    )
    port = int(match["port"] or SSH_PORT) if match else 0
    if match is None or not 0 < port < 65536:
        return None
    return SshTarget(match["user"], match["host"].strip("[]"), port)


class SshShell:
    """An open SSH connection."""

    via = TlsTransport.name

    def __init__(self, client: paramiko.SSHClient, target: str, address: str) -> None:
        transport = client.get_transport()
        assert transport is not None
        transport.set_keepalive(KEEPALIVE_S)
        self._client, self._transport = client, transport
        self.target = target
        self.address = address

    def run(
        self, words: Sequence[str], *, what: str, timeout_s: float, stdin: bytes = b""
    ) -> CommandOutput:
        """Run one command to its end."""
        deadline_s = time.monotonic() + timeout_s
        with (
            self._translated(what, timeout_s),
            self._transport.open_session(timeout=timeout_s) as channel,
        ):
            channel.set_combine_stderr(True)
            channel.settimeout(timeout_s)
            channel.exec_command(shlex.join(words))
            channel.sendall(stdin)
            channel.shutdown_write()
            kept = _read_tail(channel, deadline_s)
            # The library's own way to ask for the status may wait for ever.
            if not channel.status_event.wait(max(0.0, deadline_s - time.monotonic())):
                raise TimeoutError
            if channel.exit_status < 0 and not self._transport.is_active():
                raise EOFError
            text = printable(kept.decode("utf-8", "replace"), keep_lines=True)
            return CommandOutput(channel.exit_status, text)

    def put(self, files: Sequence[Path], directory: str) -> None:
        """Copy files into a directory of the device; SFTP does not say why it takes none."""
        with (
            self._translated("sending files", SEND_TIMEOUT_S),
            self._client.open_sftp() as sftp,
        ):
            if (channel := sftp.get_channel()) is not None:
                channel.settimeout(SEND_TIMEOUT_S)
            for file in files:
                path = f"{directory}/{file.name}"
                try:
                    sftp.put(str(file), path)
                except OSError as exc:
                    if isinstance(exc, TimeoutError) or not self._transport.is_active():
                        raise
                    reason = f"{path}: {_reason(exc)}"
                    raise TargetError(f"not written on {self.target}: {reason}") from exc

    def close(self) -> None:
        """Log out."""
        self._client.close()

    @contextmanager
    def _translated(self, what: str, timeout_s: float) -> Iterator[None]:
        try:
            yield
        except TimeoutError as exc:
            raise LinkTimeout(f"{what} on {self.target} did not end in {timeout_s:.0f} s") from exc
        except (paramiko.SSHException, OSError, EOFError) as exc:
            lost = f"connection to {self.target} was lost while {what}"
            raise LinkLost(f"{lost}: {_reason(exc)}") from exc


def _read_tail(channel: paramiko.Channel, deadline_s: float) -> bytes:
    kept = b""
    while (left_s := deadline_s - time.monotonic()) > 0:
        channel.settimeout(left_s)
        chunk = channel.recv(32768)
        if not chunk:
            return kept
        kept = (kept + chunk)[-MAX_OUTPUT_BYTES:]
    raise TimeoutError


class _LoginFailure(Exception):
    """The device, which is the right one, does not accept what we know."""


class _RejectUnknown(paramiko.RejectPolicy):
    """Refuses a host key that is in no known_hosts file, and shows it."""

    def __init__(self, target: SshTarget) -> None:
        self._target = target

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> NoReturn:
        """Refuse."""
        raise AccessDenied(
            f"host key of {hostname} is unknown, {key.get_name()} {key.fingerprint} "
            f"is not in {_known_hosts()}",
            self._target.login,
        )


def _log_in(target: SshTarget, identity_file: Path | None, password: str | None) -> SshShell:
    connection = _open_socket(target)
    client = paramiko.SSHClient()
    try:
        for path in (SYSTEM_KNOWN_HOSTS, _known_hosts()):
            if os.path.exists(path):
                try:
                    client.load_system_host_keys(path)
                except (OSError, UnicodeDecodeError) as exc:
                    raise UsageError(f"known hosts cannot be read: {path}: {_reason(exc)}") from exc
        client.set_missing_host_key_policy(_RejectUnknown(target))
        with _login_errors(client, target):
            address = str(connection.getpeername()[0])
            client.connect(
                target.host,
                target.port,
                target.user,
                password,
                key_filename=None if identity_file is None else str(identity_file),
                sock=connection,
                timeout=CONNECT_TIMEOUT_S,
                banner_timeout=CONNECT_TIMEOUT_S,
                auth_timeout=CONNECT_TIMEOUT_S,
                channel_timeout=CONNECT_TIMEOUT_S,
            )
        return SshShell(client, str(target), address)
    except BaseException:  # Ctrl-C as well: no connection is left open
        client.close()
        connection.close()
        raise


def _open_socket(target: SshTarget) -> socket.socket:
    where = f"{target.host} port {target.port}"
    try:
        connection = socket.create_connection((target.host, target.port), CONNECT_TIMEOUT_S)
        # Without it each small packet waits for the acknowledgement of the one before.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except TimeoutError as exc:
        raise Unreachable(f"no answer from {where} within {CONNECT_TIMEOUT_S:.0f} s") from exc
    except (OSError, UnicodeError) as exc:
        raise Unreachable(f"cannot reach {where}: {_reason(exc)}") from exc
    return connection


def _known_hosts() -> str:
    return os.path.expanduser("~/.ssh/known_hosts")


@contextmanager
def _login_errors(client: paramiko.SSHClient, target: SshTarget) -> Iterator[None]:
    try:
        yield
    except paramiko.BadHostKeyException as exc:
        raise AccessDenied(
            f"host key of {target} has changed: it shows {exc.key.get_name()} "
            f"{exc.key.fingerprint}, {_known_hosts()} has {exc.expected_key.fingerprint}",
            target.login,
        ) from exc
    except (paramiko.SSHException, OSError, EOFError) as exc:
        if isinstance(exc, paramiko.AuthenticationException) or _has_host_key(client):
            raise _LoginFailure(_reason(exc)) from exc
        raise Unreachable(f"{target} does not speak SSH: {_reason(exc)}") from exc


def _has_host_key(client: paramiko.SSHClient) -> bool:
    """Whether the connection lives and the host key is accepted: what fails then is the login."""
    transport = client.get_transport()
    if transport is None:
        return False
    try:
        transport.get_remote_server_key()
    except paramiko.SSHException:
        return False
    return True


def _reason(exc: BaseException) -> str:
    return one_line(getattr(exc, "strerror", None) or exc)
