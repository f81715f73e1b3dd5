"""Commands and files on a device: the interface of a deploy, independent of the way to log in.

    target.py   text ─▶ DeployTarget ── connect ─▶ Shell
                        target.py                  ssh_command.py, paramiko_shell.py
                        adb.py                     adb.py

To add a way to log in, write a module, and add it to target.py. Differences between devices are
attributes of their shells; deploy.py does not depend on the kind of shell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

RESTART_NOTE = (
    "the agent does not start at boot, because this account has neither systemd nor cron; after a "
    "reboot, deploy again"
)
"""Note after a deploy to a computer on which no service starts an agent at boot."""
MAX_OUTPUT_BYTES = 256 * 1024
"""Maximum size of a command's output that is kept; only the end of a longer output is kept."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Exit code and output of a command that has ended."""

    code: int
    text: str
    """Standard output and standard error, printable; at most the last `MAX_OUTPUT_BYTES`."""


def write_file_words(path: str) -> list[str]:
    """Command that writes its standard input to a file."""
    return ["sh", "-c", 'cat > "$1"', "sh", path]


class Shell(Protocol):
    """An open login on a device."""

    @property
    def target(self) -> str:
        """Name of the account, which is the `str` of its `DeployTarget`."""
        ...

    @property
    def address(self) -> str:
        """Address of the device as this host reached it, in the form for the transport `via`."""
        ...

    @property
    def via(self) -> str:
        """Name of the transport for an agent that was installed through this login."""
        ...

    @property
    def listen(self) -> str:
        """Address on which the agent listens; empty: all addresses of the device.

        An agent that listens on a loopback address is not reachable at other addresses, so only
        `address` is stored for it.
        """
        ...

    @property
    def default_name(self) -> str:
        """Name of a new device, with a number if the name is taken; empty: the host name."""
        ...

    @property
    def kits(self) -> str:
        """Directory for a Python that a deploy installs; empty: the device has its own Python."""
        ...

    @property
    def restart_note(self) -> str:
        """A note for the user: when the agent ends, and how to start it again."""
        ...

    def run(
        self, words: Sequence[str], *, what: str, timeout_s: float, stdin: bytes = b""
    ) -> CommandOutput:
        """Run a command to its end.

        Args:
            words: Program and arguments; no shell splits them.
            what: Purpose of the command, for error texts: "looking for Python".
            timeout_s: Time limit of the whole command.
            stdin: Standard input of the command.

        Raises:
            LinkTimeout: the command did not end in time.
            LinkLost: the connection broke.
        """
        ...

    def put(self, files: Sequence[Path], directory: str) -> None:
        """Copy files into a directory of the device.

        Raises:
            TargetError: the device does not accept a file.
            LinkLost: the connection broke.
        """
        ...

    def close(self) -> None:
        """Log out; may be called twice."""
        ...


class DeployTarget(Protocol):
    """An account on a device; its `str` is the text that names the account."""

    def connect(self, identity_file: Path | None = None, via: str | None = None) -> Shell:
        """Log in.

        Args:
            identity_file: Private key to use, if the login uses keys.
            via: Transport for the agent; None: the first transport that fits.

        Raises:
            UsageError: a file of the user cannot be read, or the transport does not fit the target.
            Unreachable: the device does not respond.
            AccessDenied: the device refuses the login, or is not trusted.
        """
        ...
