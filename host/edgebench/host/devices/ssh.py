"""Log in to a device over SSH.

Only host keys that the user has accepted before are accepted: nothing is added to known_hosts
here, and nobody is asked. The library's exceptions end in this file and in shell.py.
"""

from __future__ import annotations

import getpass
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import paramiko

from edgebench.host.devices.shell import Shell, text_of
from edgebench.host.devices.target import Target
from edgebench.protocol.errors import AccessDenied, Unreachable, UsageError

CONNECT_TIMEOUT_S = 15.0
MAX_PASSWORD_COUNT = 3
SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"

# The library logs whatever goes wrong, with traces; what matters arrives as an exception.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


def connect(target: Target, identity_file: Path | None = None) -> Shell:
    """Log in with the keys of the SSH agent and the usual files, on a terminal with a password.

    Args:
        target: Where.
        identity_file: A private key to try first.

    Raises:
        UsageError: the identity file, or a known_hosts file, cannot be read.
        Unreachable: nobody answers, or not with SSH.
        AccessDenied: the host key is unknown or another one, or the device refuses us.
    """
    if identity_file is not None and not os.access(identity_file, os.R_OK):
        raise UsageError(f"identity file cannot be read: {identity_file}")
    password: str | None = None
    for attempt in range(MAX_PASSWORD_COUNT + 1):
        try:
            return _log_in(target, identity_file, password)
        except _Refused as exc:
            if attempt == MAX_PASSWORD_COUNT or not sys.stdin.isatty():
                raise AccessDenied(f"{target} refuses this login: {exc}", target.login) from exc
        # The library takes it as the passphrase of an encrypted key, too.
        password = getpass.getpass(f"Password of {target}: ")
    raise AssertionError


class _Refused(Exception):
    """The device, which is the right one, does not accept what we know."""


class _RejectUnknown(paramiko.RejectPolicy):
    """Refuses a host key that is in no known_hosts file, and shows it."""

    def __init__(self, target: Target) -> None:
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


def _log_in(target: Target, identity_file: Path | None, password: str | None) -> Shell:
    connection = _open_socket(target)
    client = paramiko.SSHClient()
    try:
        _load_known_hosts(client)
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
        return Shell(client, target, address)
    except BaseException:  # Ctrl-C as well: no connection is left open
        client.close()
        connection.close()
        raise


def _open_socket(target: Target) -> socket.socket:
    where = f"{target.host} port {target.port}"
    try:
        connection = socket.create_connection((target.host, target.port), CONNECT_TIMEOUT_S)
        # Without it each small packet waits for the acknowledgement of the one before.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except TimeoutError as exc:
        raise Unreachable(f"no answer from {where} within {CONNECT_TIMEOUT_S:.0f} s") from exc
    except (OSError, UnicodeError) as exc:
        raise Unreachable(f"cannot reach {where}: {text_of(exc)}") from exc
    return connection


def _load_known_hosts(client: paramiko.SSHClient) -> None:
    for path in (SYSTEM_KNOWN_HOSTS, _known_hosts()):
        if os.path.exists(path):
            try:
                client.load_system_host_keys(path)
            except (OSError, UnicodeDecodeError) as exc:
                raise UsageError(f"known hosts cannot be read: {path}: {text_of(exc)}") from exc


def _known_hosts() -> str:
    return os.path.expanduser("~/.ssh/known_hosts")


@contextmanager
def _login_errors(client: paramiko.SSHClient, target: Target) -> Iterator[None]:
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
            raise _Refused(text_of(exc)) from exc
        raise Unreachable(f"{target} does not speak SSH: {text_of(exc)}") from exc


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
