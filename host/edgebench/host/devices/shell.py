"""An open SSH connection: commands with a limit on time and output, and files.

The library's exceptions end in this file and in ssh.py.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paramiko

from edgebench.host.devices.target import Target
from edgebench.protocol.errors import LinkLost, LinkTimeout, TargetError

SEND_TIMEOUT_S = 60.0
"""For a file to go on, not for all of it."""
KEEPALIVE_S = 15
MAX_OUTPUT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Output:
    """What a command left behind."""

    code: int
    text: str
    """Standard output and standard error, printable; when it was long, the last part of it."""


class Shell:
    """An open SSH connection."""

    def __init__(self, client: paramiko.SSHClient, target: Target, address: str) -> None:
        transport = client.get_transport()
        assert transport is not None
        transport.set_keepalive(KEEPALIVE_S)
        self._client, self._transport = client, transport
        self.target = target
        self.address = address
        """Of the device, as this host reached it."""

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def run(
        self, words: Sequence[str], *, what: str, timeout_s: float, stdin: bytes = b""
    ) -> Output:
        """Run one command to its end.

        Args:
            words: The program and its arguments; the shell there takes none of them apart.
            what: What it does, for the error.
            timeout_s: Limit on all of it.
            stdin: What it reads.

        Raises:
            LinkTimeout: it did not end in time.
            LinkLost: the connection broke.
        """
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
            return Output(channel.exit_status, printable(kept.decode("utf-8", "replace")))

    def put(self, files: Sequence[Path], directory: str) -> None:
        """Copy files into a directory of the device.

        Raises:
            TargetError: the device does not take them; SFTP does not say why.
            LinkLost: the connection broke.
        """
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
                    raise TargetError(f"not written on {self.target}: {path}: {exc}") from exc

    @contextmanager
    def _translated(self, what: str, timeout_s: float) -> Iterator[None]:
        try:
            yield
        except TimeoutError as exc:
            raise LinkTimeout(f"{what} on {self.target} did not end in {timeout_s:.0f} s") from exc
        except (paramiko.SSHException, OSError, EOFError) as exc:
            lost = f"connection to {self.target} was lost while {what}"
            raise LinkLost(f"{lost}: {text_of(exc)}") from exc


def _read_tail(channel: paramiko.Channel, deadline_s: float) -> bytes:
    kept = b""
    while (left_s := deadline_s - time.monotonic()) > 0:
        channel.settimeout(left_s)
        chunk = channel.recv(32768)
        if not chunk:
            return kept
        kept = (kept + chunk)[-MAX_OUTPUT_BYTES:]
    raise TimeoutError


def printable(text: str) -> str:
    """Text of a device, with nothing in it that a terminal would obey."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def text_of(exc: BaseException) -> str:
    """An exception's text in one line."""
    reason = getattr(exc, "strerror", None) or str(exc)
    return " ".join(str(reason).split()) or type(exc).__name__
