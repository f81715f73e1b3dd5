"""A shell on a device over SSH through the library paramiko, for hosts without the program `ssh`.

A host key is accepted only if `known_hosts.py` finds that the known_hosts files trust it. Nothing
is added to these files, and the user is not prompted. ~/.ssh/config is not read. Files are sent
through `cat`, because many devices have no SFTP. The library's exceptions are translated in this
file.
"""

from __future__ import annotations

import base64
import getpass
import hashlib
import logging
import os
import shlex
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import paramiko

from edgebench.host.devices.host_certificate import parse_certificate
from edgebench.host.devices.known_hosts import Decision, HostKey, KeyTrust, KnownHosts, host_name
from edgebench.host.devices.shell import (
    MAX_OUTPUT_BYTES,
    RESTART_NOTE,
    CommandOutput,
    write_file_words,
)
from edgebench.host.transports.ssh_program import SshAddress
from edgebench.host.transports.tls import TlsTransport
from edgebench.protocol.errors import (
    AccessDenied,
    EdgebenchError,
    LinkLost,
    LinkTimeout,
    TargetError,
    TooManyKeys,
    Unreachable,
)
from edgebench.protocol.text import one_line, printable

SSH_PORT = 22
CONNECT_TIMEOUT_S = 15.0
SEND_TIMEOUT_S = 60.0
"""Time without progress after which sending a file has failed."""
KEEPALIVE_S = 15
CHUNK_BYTES = 64 * 1024
MAX_PASSWORD_COUNT = 3
SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
"""OpenSSH's default for UserKnownHostsFile; `SYSTEM_KNOWN_HOSTS` is its default for
GlobalKnownHostsFile. Source: ssh_config(5)."""

# The library logs all failures with tracebacks; relevant failures are raised as exceptions.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


def log_in(address: SshAddress, identity_file: Path | None, *, can_prompt: bool) -> ParamikoShell:
    """Log in with keys of ssh-agent and of the default files; on a terminal, also try a password.

    Raises:
        Unreachable: the device does not respond.
        AccessDenied: the device refuses the login, or its host key is not trusted.
    """
    password: str | None = None
    for attempt in range(MAX_PASSWORD_COUNT + 1):
        try:
            return _log_in(address, identity_file, password)
        except _LoginFailure as exc:
            if attempt == MAX_PASSWORD_COUNT or not can_prompt:
                raise AccessDenied(f"{address} refuses this login: {exc}", address.login) from exc
        # The library also tries the password as the passphrase of an encrypted key.
        password = getpass.getpass(f"Password of {address}: ")
    raise AssertionError


class ParamikoShell:
    """An open SSH connection."""

    via = TlsTransport.name
    listen = ""
    default_name = ""
    restart_note = RESTART_NOTE
    kits = ""

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
        """Run a command to its end."""
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
            code, text = self._end_of(channel, deadline_s)
            return CommandOutput(code, printable(text, keep_lines=True))

    def put(self, files: Sequence[Path], directory: str) -> None:
        """Copy files into a directory of the device."""
        for file in files:
            path = f"{directory}/{file.name}"
            with (
                file.open("rb") as source,
                self._translated("sending files", SEND_TIMEOUT_S),
                self._transport.open_session(timeout=SEND_TIMEOUT_S) as channel,
            ):
                channel.set_combine_stderr(True)
                channel.settimeout(SEND_TIMEOUT_S)
                channel.exec_command(shlex.join(write_file_words(path)))
                try:
                    while chunk := source.read(CHUNK_BYTES):
                        channel.sendall(chunk)
                except OSError:  # the command or the connection has ended
                    if not channel.exit_status_ready():
                        raise
                channel.shutdown_write()
                code, text = self._end_of(channel, time.monotonic() + SEND_TIMEOUT_S)
                if code:
                    reason = f"{path}: {one_line(text) or f'status {code}'}"
                    raise TargetError(f"not written on {self.target}: {reason}")

    def close(self) -> None:
        """Log out."""
        self._client.close()

    def _end_of(self, channel: paramiko.Channel, deadline_s: float) -> tuple[int, str]:
        """After the input was sent, read the output to its end; return exit status and output."""
        kept = b""
        while True:
            if (left_s := deadline_s - time.monotonic()) <= 0:
                raise TimeoutError
            channel.settimeout(left_s)
            if not (chunk := channel.recv(32768)):
                break
            kept = (kept + chunk)[-MAX_OUTPUT_BYTES:]
        # The library's own method for the status may block forever.
        if not channel.status_event.wait(max(0.0, deadline_s - time.monotonic())):
            raise TimeoutError
        if channel.exit_status < 0 and not self._transport.is_active():
            raise EOFError
        return channel.exit_status, kept.decode("utf-8", "replace")

    @contextmanager
    def _translated(self, what: str, timeout_s: float) -> Iterator[None]:
        try:
            yield
        except TimeoutError as exc:
            raise LinkTimeout(
                f"{what} on {self.target} did not end within {timeout_s:.0f} s"
            ) from exc
        except EdgebenchError:
            raise
        except Exception as exc:  # SSHException, OSError, EOFError, or from its dependencies
            lost = f"connection to {self.target} was lost while {what}"
            raise LinkLost(f"{lost}: {_reason(exc)}") from exc


class _LoginFailure(Exception):
    """A device with a trusted host key refuses the keys and the password."""


class _HostKeyPolicy(paramiko.MissingHostKeyPolicy):
    """Accepts the host keys that known_hosts files trust; Paramiko itself does not read them."""

    def __init__(self, target: SshAddress, known: KnownHosts) -> None:
        self._target, self._known = target, known

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Return without an error if the host key is trusted.

        Raises:
            AccessDenied: the key is not trusted, or its certificate is invalid.
        """
        target, shown = self._target, f"{key.get_name()} {key.fingerprint}"
        blob = key.public_blob
        try:
            certificate = None if blob is None else parse_certificate(blob.key_blob)
        except ValueError as exc:
            text = f"host certificate of {target} is not accepted: {one_line(exc)}"
            raise AccessDenied(text, target.login) from exc
        presented = HostKey(key.asbytes(), certificate)
        port = target.port or SSH_PORT
        decision = self._known.decide(target.host, port, presented, time.time())
        if decision.trust is not KeyTrust.TRUSTED:
            raise AccessDenied(_refusal(target, shown, decision), target.login)


def _refusal(target: SshAddress, shown: str, decision: Decision) -> str:
    """Reason why a host key is not accepted, with the `known_hosts` line that decides this."""
    name, line = host_name(target.host, target.port or SSH_PORT), decision.line
    if line is None:
        text = f"host key of {name} is unknown: {shown} is not in "
        text += os.path.expanduser(USER_KNOWN_HOSTS[0])
    elif decision.trust is KeyTrust.REVOKED:
        text = f"host key of {name} is revoked by {line.place}: {shown}"
    else:
        text = f"host key of {name} has changed: the host presents {shown}, but {line.place} has "
        digest = base64.b64encode(hashlib.sha256(line.key).digest()).decode().rstrip("=")
        text += f"{line.key_type} SHA256:{digest}"  # as ssh-keygen prints it
    return f"{text}; {decision.reason}" if decision.reason else text


def _log_in(target: SshAddress, identity_file: Path | None, password: str | None) -> ParamikoShell:
    connection = _open_socket(target)
    client = paramiko.SSHClient()
    try:
        paths = (*USER_KNOWN_HOSTS, *SYSTEM_KNOWN_HOSTS)
        known = KnownHosts([Path(os.path.expanduser(path)) for path in paths])
        client.set_missing_host_key_policy(_HostKeyPolicy(target, known))
        try:
            address = str(connection.getpeername()[0])
            client.connect(
                target.host,
                target.port or SSH_PORT,
                target.user or getpass.getuser(),
                password,
                key_filename=None if identity_file is None else str(identity_file),
                sock=connection,
                timeout=CONNECT_TIMEOUT_S,
                banner_timeout=CONNECT_TIMEOUT_S,
                auth_timeout=CONNECT_TIMEOUT_S,
                channel_timeout=CONNECT_TIMEOUT_S,
                transport_factory=_transport_class(target, known),
            )
        except EdgebenchError:
            raise
        except Exception as exc:  # hostile bytes can raise any exception, also in dependencies
            is_login = isinstance(exc, paramiko.AuthenticationException)
            # If the connection is open and the host key is accepted, the login has failed.
            if (transport := client.get_transport()) is not None:
                with suppress(paramiko.SSHException):
                    transport.get_remote_server_key()
                    is_login = True
            if is_login:
                raise _LoginFailure(_reason(exc)) from exc
            raise Unreachable(f"{target} is not an SSH server: {_reason(exc)}") from exc
        return ParamikoShell(client, str(target), address)
    except BaseException:  # Ctrl-C as well: no connection is left open
        client.close()
        connection.close()
        raise


def _open_socket(target: SshAddress) -> socket.socket:
    port = target.port or SSH_PORT
    where = f"{target.host} port {port}"
    try:
        connection = socket.create_connection((target.host, port), CONNECT_TIMEOUT_S)
        # Otherwise each small packet waits for the acknowledgement of the previous packet.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except TimeoutError as exc:
        raise Unreachable(f"no answer from {where} within {CONNECT_TIMEOUT_S:.0f} s") from exc
    except (OSError, UnicodeError) as exc:
        raise Unreachable(f"cannot reach {where}: {_reason(exc)}") from exc
    return connection


def _transport_class(target: SshAddress, known: KnownHosts) -> Any:
    """Make a subclass of the library's transport that prefers the algorithms of known host keys.

    The result is typed as Any, because the library's type stubs do not accept a class as a factory
    of transports.
    """
    algorithms = known.algorithms(target.host, target.port or SSH_PORT)

    class OfferingTransport(paramiko.Transport):
        offered_count = 0

        @property
        def preferred_keys(self) -> tuple[str, ...]:
            return algorithms

        def auth_publickey(self, *arguments: Any, **options: Any) -> list[str]:
            # After the device has closed the connection, the library would continue with the next
            # key, and report only its own failure.
            if self.is_active():
                self.offered_count += 1
                try:
                    return super().auth_publickey(*arguments, **options)
                except paramiko.AuthenticationException:
                    if self.is_active():
                        raise
            raise TooManyKeys(
                f"{target} refuses this login: connection closed after {self.offered_count} "
                "rejected keys",
                target.login,
            )

    return OfferingTransport


def _reason(exc: BaseException) -> str:
    return one_line(getattr(exc, "strerror", None) or exc)
