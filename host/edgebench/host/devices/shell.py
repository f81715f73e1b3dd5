"""Commands and files on a device: the interface that a deploy needs, however it logs in.

    target.py   text ─▶ DeployTarget ── connect ─▶ Shell
                        ssh.py                     ssh_command.py, paramiko_shell.py
                        adb.py                     adb.py

Another way is a file of its own and a line in target.py. What differs between devices is data of
their shells, and deploy.py does not ask which one it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

RESTART_NOTE = (
    "it does not start at boot, as this account has neither systemd nor cron; after a reboot, "
    "deploy again"
)
"""Note for whoever has deployed to a computer where nothing starts an agent at boot."""
MAX_OUTPUT_BYTES = 256 * 1024
"""Size of the output that is kept; of a longer one, the end."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Exit code and output of a command that has ended."""

    code: int
    text: str
    """Standard output and standard error, printable; when it was long, the last part of it."""


def write_file_words(path: str) -> list[str]:
    """Command that writes its standard input to a file."""
    return ["sh", "-c", 'cat > "$1"', "sh", path]


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

    @property
    def listen(self) -> str:
        """Address that the agent listens on; empty: all of the device's.

        With a loopback address the device's other addresses lead to no agent, and only `address` is
        remembered.
        """
        ...

    @property
    def default_name(self) -> str:
        """Name of a new device, with a number where it is taken; empty: its host name."""
        ...

    @property
    def kits(self) -> str:
        """Directory for a Python that a deploy brings; empty: the device has one of its own."""
        ...

    @property
    def restart_note(self) -> str:
        """What ends the agent, and how it is started again."""
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

    def connect(self, identity_file: Path | None = None, via: str | None = None) -> Shell:
        """Log in.

        Args:
            identity_file: Private key to use, where there are keys.
            via: Transport that is to reach the agent; None: the first of those that fit.

        Raises:
            UsageError: a file of the user's cannot be read, or no agent there is reached that way.
            Unreachable: the device does not answer.
            AccessDenied: it refuses the login, or is not trusted.
        """
        ...
