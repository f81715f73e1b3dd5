"""A shell on a device through the user's own `ssh`.

    ssh -M -S control ADDRESS cat      logs in once, and stays open until its input is closed
    ssh -S control … -- COMMAND        a session in that login, without another handshake

When this process ends, the input of `cat` is closed, so `cat` and the login also end. Files are
also sent through `cat`, because many devices have no SFTP. ~/.ssh/config applies only to the login.
A session reads no configuration, and opens no connection.
"""

from __future__ import annotations

import io
import os
import re
import selectors
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from edgebench.host.devices.shell import (
    MAX_OUTPUT_BYTES,
    RESTART_NOTE,
    CommandOutput,
    write_file_words,
)
from edgebench.host.transports.ssh import LOOPBACK, SshTransport
from edgebench.host.transports.ssh_program import (
    FAILED,
    SshAddress,
    SshConfig,
    failure_of,
    identity_words,
    last_message,
    login_words,
    read_config,
    read_log,
)
from edgebench.host.transports.tls import TlsTransport
from edgebench.protocol.errors import AccessDenied, LinkLost, LinkTimeout, TargetError, Unreachable
from edgebench.protocol.text import one_line, printable

LOGIN_TIMEOUT_S = 120.0
"""Time limit of a login without prompts; it is long because a hardware key may wait for a touch."""
SEND_TIMEOUT_S = 60.0
"""Time without progress after which sending a file has failed."""
CLOSE_TIMEOUT_S = 5.0
CHECK_TIMEOUT_S = 10.0
CHUNK_BYTES = 64 * 1024
MAX_DIRECTORY_CHARS = 50
"""Maximum length of the path of a control socket's directory. The path of the socket, including 17
characters that `ssh` adds, is limited to 107 characters. Source: unix(7); OpenSSH, mux.c."""
_READY = "edgebench-ready"
_KEEP = f"echo {_READY}; exec cat"
"""Remote command that keeps a login open; it works in any login shell."""


class SshCommandShell:
    """A login through the program `ssh`."""

    default_name = ""
    restart_note = RESTART_NOTE
    kits = ""

    def __init__(self, program: str, login: _Login, target: str, route: _Route) -> None:
        self._program, self._login = program, login
        self.target = target
        self.address, self.via, self.listen = route.address, route.via, route.listen

    def run(
        self, words: Sequence[str], *, what: str, timeout_s: float, stdin: bytes = b""
    ) -> CommandOutput:
        """Run a command to its end."""
        deadline_s = time.monotonic() + timeout_s
        with self._session(words, what) as session:
            try:
                kept = _converse(session, io.BytesIO(stdin), deadline_s=deadline_s)
                code = session.wait(max(0.0, deadline_s - time.monotonic()))
            except (TimeoutError, subprocess.TimeoutExpired) as exc:
                text = f"{what} on {self.target} did not end within {timeout_s:.0f} s"
                raise LinkTimeout(text) from exc
        self._require_session(code, what)
        return CommandOutput(code, printable(kept.decode("utf-8", "replace"), keep_lines=True))

    def put(self, files: Sequence[Path], directory: str) -> None:
        """Copy files into a directory of the device."""
        what = "sending files"
        for file in files:
            path = f"{directory}/{file.name}"
            with file.open("rb") as source, self._session(write_file_words(path), what) as session:
                try:
                    kept = _converse(session, source, quiet_s=SEND_TIMEOUT_S)
                    code = session.wait(SEND_TIMEOUT_S)
                except (TimeoutError, subprocess.TimeoutExpired) as exc:
                    text = f"{what} to {self.target}: no progress in {SEND_TIMEOUT_S:.0f} s"
                    raise LinkTimeout(text) from exc
            self._require_session(code, what)
            if code:
                reason = one_line(kept.decode("utf-8", "replace")) or f"status {code}"
                raise TargetError(f"not written on {self.target}: {path}: {reason}")

    def close(self) -> None:
        """Log out, and remove the login's files."""
        self._login.close()

    @contextmanager
    def _session(self, words: Sequence[str], what: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command in the login; kill it if it still runs at the end of the context."""
        self._login.session_log.unlink(missing_ok=True)
        command = [self._program, "-F", "none", "-S", str(self._login.control), "-T"]
        # If the login's socket is gone, ssh would open a connection; the proxy makes that fail.
        command += ["-oProxyCommand=exit 1", "-oBatchMode=yes", "-oControlMaster=no"]
        command += ["-E", str(self._login.session_log), "--", "device", shlex.join(words)]
        try:
            session = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to this process, which ends it
            )
        except OSError as exc:
            raise TargetError(f"{self._program} not started for {what}: {exc.strerror}") from exc
        with session:
            try:
                yield session
            finally:
                if session.poll() is None:
                    session.kill()

    def _require_session(self, code: int, what: str) -> None:
        """Raise an error if the exit status is from `ssh`, not from the command."""
        if code != FAILED:
            return
        if not self._login.is_open():
            reason = last_message(read_log(self._login.log)) or "ssh ended"
            raise LinkLost(f"connection to {self.target} was lost while {what}: {reason}")
        if message := last_message(read_log(self._login.session_log)):
            raise TargetError(f"{self.target} cannot start a command for {what}: {message}")


@dataclass(frozen=True, slots=True)
class _Route:
    """Route to an agent that was installed through a login; `Shell` documents the fields."""

    address: str
    via: str
    listen: str


@dataclass(frozen=True, slots=True)
class _Login:
    program: str
    folder: Path
    """Directory of the login's files."""
    control: Path
    """Socket through which other processes use the login."""
    process: subprocess.Popen[bytes] | None
    """Process that keeps the login open; None if the user's own login is used, which stays open."""

    @property
    def log(self) -> Path:
        """File with the log messages of `ssh` about the login."""
        return self.folder / "log"

    @property
    def output(self) -> Path:
        """File with the messages of other programs that `ssh` uses to connect to the device."""
        return self.folder / "output"

    @property
    def session_log(self) -> Path:
        """File with the log messages of `ssh` about the last session."""
        return self.folder / "session-log"

    def is_open(self) -> bool:
        """Whether the login is still open, so that commands can be run in it."""
        words = [self.program, "-F", "none", "-S", str(self.control), "-O", "check", "device"]
        with suppress(subprocess.TimeoutExpired):
            result = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=CHECK_TIMEOUT_S, check=False,
            )  # fmt: skip
            return result.returncode == 0
        return False

    def close(self) -> None:
        """End the login; no effect if it has ended already."""
        if self.process is not None:
            with self.process:
                assert self.process.stdin is not None
                self.process.stdin.close()  # so that `cat` ends
                try:
                    self.process.wait(CLOSE_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def log_in(
    program: str,
    address: SshAddress,
    identity_file: Path | None,
    via: str | None,
    *,
    can_prompt: bool,
) -> SshCommandShell:
    """Log in with the program `ssh`.

    Args:
        program: Path of `ssh`.
        address: Destination of the login.
        identity_file: The only private key to use; None for the default keys of `ssh`.
        via: Transport for the agent. None selects a tunnel if `ssh` reaches the device through
            other programs or hosts, and otherwise a direct connection to the agent's port.
        can_prompt: Whether `ssh` may prompt on the terminal, for a password or about a host key.

    Raises:
        UsageError: `ssh` rejects its configuration.
        Unreachable: the device does not respond.
        AccessDenied: the device refuses the login, or its host key is not trusted.
    """
    config = read_config(program, address, identity_file)
    temporary = tempfile.gettempdir()
    place = temporary if len(temporary) <= MAX_DIRECTORY_CHARS else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="edgebench-", dir=place))
    if config.control_path:
        shared = _Login(program, folder, Path(config.control_path), None)
        if shared.is_open():
            return SshCommandShell(program, shared, str(address), _route(address, config, via, ""))
    login = _Login(program, folder, folder / "control", None)
    words = [program, "-M", "-S", str(login.control), "-oControlPersist=no"]
    words += [*login_words(config, login.log, can_prompt=can_prompt)]
    words += [*identity_words(identity_file), *address.words, _KEEP]
    with login.output.open("wb") as output:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A notice to touch a key is useful only on a terminal.
            stderr=None if can_prompt else output,
            # If ssh may not prompt, the programs that connect to the device may not either.
            start_new_session=not can_prompt,
        )
    login = replace(login, process=process)
    # Wait until the command that keeps the login open has started.
    try:
        deadline_s = None if can_prompt else time.monotonic() + LOGIN_TIMEOUT_S
        try:
            printed = _converse(process, io.BytesIO(), deadline_s=deadline_s, until=_READY.encode())
        except TimeoutError as exc:
            raise Unreachable(f"no login at {address} within {LOGIN_TIMEOUT_S:.0f} s") from exc
        if _READY.encode() in printed:
            route = _route(address, config, via, read_log(login.log))
            return SshCommandShell(program, login, str(address), route)
        status = process.wait()
        if status != FAILED:  # logged in, but the shell ended, as nologin does
            reason = one_line(printed.decode("utf-8", "replace")) or f"status {status}"
            raise AccessDenied(f"{address} cannot start a command: {reason}", address.login)
        log, messages = read_log(login.log), read_log(login.output)
        raise failure_of(address, config, log, messages, status=status).error(address)
    except BaseException:  # Ctrl-C as well: no connection is left open
        process.kill()
        login.close()
        raise


def _route(address: SshAddress, config: SshConfig, via: str | None, log: str) -> _Route:
    """Route to the agent by the given transport; None selects the transport that fits the login."""
    if via == SshTransport.name or (via is None and config.is_proxied):
        return _Route(str(address), SshTransport.name, LOOPBACK)
    # The address of the device that the login has used. Source: OpenSSH, sshconnect2.c,
    # ssh_userauth2.
    direct = re.search(
        r"^Authenticated to .* \(\[([0-9a-fA-F:.]+(?:%\w+)?)\]:\d+\) using", log, re.MULTILINE
    )
    return _Route(direct[1] if direct else config.host_name, TlsTransport.name, "")


def _converse(
    process: subprocess.Popen[bytes],
    source: IO[bytes],
    *,
    deadline_s: float | None = None,
    quiet_s: float | None = None,
    until: bytes | None = None,
) -> bytes:
    """Send a process its input, and read the output of the process to the end.

    Args:
        process: The process, with pipes for input and output.
        source: Input of the process; its pipe is closed after the input was sent. If `until` is
            given, no input is sent.
        deadline_s: Time of the monotonic clock at which the transfer fails; None for no deadline.
        quiet_s: Maximum time without a byte in either direction; used if there is no deadline.
        until: Bytes in the output after which reading stops; None reads to the end of the output.

    Returns:
        The output, at most its last `MAX_OUTPUT_BYTES`.

    Raises:
        TimeoutError: the deadline passed, or no byte was transferred for `quiet_s`.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    kept, pending = b"", memoryview(b"")
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if until is None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            left_s = quiet_s if deadline_s is None else deadline_s - time.monotonic()
            if (left_s is not None and left_s <= 0) or not (ready := selector.select(left_s)):
                raise TimeoutError
            for key, _ in ready:
                if key.fileobj is process.stdout:
                    chunk = os.read(process.stdout.fileno(), CHUNK_BYTES)
                    kept = (kept + chunk)[-MAX_OUTPUT_BYTES:]
                    if not chunk or (until is not None and until in kept):
                        selector.unregister(process.stdout)
                    continue
                pending = pending or memoryview(source.read(CHUNK_BYTES))
                is_open = bool(pending)
                try:
                    pending = pending[os.write(process.stdin.fileno(), pending) :]
                except BrokenPipeError:  # the process does not read the rest
                    is_open = False
                if not is_open:
                    selector.unregister(process.stdin)
                    process.stdin.close()
    return kept
