"""Commands and files on a device: the interface that a deploy needs, however it logs in.

    target.py   text ─▶ DeployTarget ── connect ─▶ Shell   (ssh.py: over SSH)

Another way, such as `adb shell`, is a file of its own and a line in target.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

MAX_OUTPUT_BYTES = 256 * 1024
"""Size of the output that is kept; of a longer one, the end."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Exit code and output of a command that has ended."""

    code: int
    text: str
    """Standard output and standard error, printable; when it was long, the last part of it."""


class Shell(Protocol):
    """An open login on a device."""

    @property
    def target(self) -> str:
        """Name of the account: the `str` of its `DeployTarget`."""
        ...

    @property
    def address(self) -> str:
        """Address of the device in the terms of the transport `via`, as this host reached it."""
        ...

    @property
    def via(self) -> str:
        """Name of the transport that reaches an agent which was installed through this login."""
        ...

    def run(
        self, words: Sequence[str], *, what: str, timeout_s: float, stdin: bytes = b""
    ) -> CommandOutput:
        """Run one command to its end.

        Args:
            words: Program and arguments; no shell takes them apart.
            what: Purpose of the command, for error texts: "looking for Python".
            timeout_s: Limit on all of it.
            stdin: Standard input of the command.

        Raises:
            LinkTimeout: it did not end in time.
            LinkLost: the connection broke.
        """
        ...

    def put(self, files: Sequence[Path], directory: str) -> None:
        """Copy files into a directory of the device.

        Raises:
            TargetError: the device does not take them.
            LinkLost: the connection broke.
        """
        ...

    def close(self) -> None:
        """Log out; may be called twice."""
        ...


class DeployTarget(Protocol):
    """An account on a device; its `str` is the text that names it."""

    def connect(self, identity_file: Path | None = None) -> Shell:
        """Log in.

        Args:
            identity_file: Private key to try first, where there are keys.

        Raises:
            UsageError: a file of the user's cannot be read.
            Unreachable: the device does not answer.
            AccessDenied: it refuses the login, or is not trusted.
        """
        ...
