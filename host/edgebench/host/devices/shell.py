"""The interface by which a deploy runs commands and sends files, independent of the login.

    target.py   text ─▶ DeployTarget ── connect ─▶ Shell
                        target.py                  ssh_command.py, paramiko_shell.py
                        adb.py                     adb.py

To add a way to log in, write a module, and add it to target.py. Attributes of a shell describe how
its device differs from others, so deploy.py does not depend on the kind of shell.
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
"""Note for the user after a deploy to a computer that has no service to start an agent at boot."""
MAX_OUTPUT_BYTES = 256 * 1024
"""Maximum size of a command's output that is kept; of a longer output, only the end is kept."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Exit code and output of a command that has ended."""

    code: int
    text: str
    """Standard output and standard error as printable text; at most the last `MAX_OUTPUT_BYTES`."""


def write_file_words(path: str) -> list[str]:
    """Make the words of a command that writes its standard input to a file."""
    return ["sh", "-c", 'cat > "$1"', "sh", path]


class Shell(Protocol):
    """An open login on a device."""

    @property
    def target(self) -> str:
        """Text that names the account; equal to the `str` of its `DeployTarget`."""
        ...

    @property
    def address(self) -> str:
        """Address at which this host reached the device, in the form of the transport `via`."""
        ...

    @property
    def via(self) -> str:
        """Name of the transport that reaches an agent installed through this login."""
        ...

    @property
    def listen(self) -> str:
        """Address on which the agent listens; empty for all addresses of the device.

        An agent that listens on a loopback address is not reachable at the device's other
        addresses, so only `address` is stored for it.
        """
        ...

    @property
    def default_name(self) -> str:
        """Default name of a new device; empty for the device's own host name."""
        ...

    @property
    def kits(self) -> str:
        """Directory for the Python of a kit; empty if the device has its own Python."""
        ...

    @property
    def restart_note(self) -> str:
        """Note for the user: when the agent ends, and how to start the agent again."""
        ...

    def run(
        self, words: Sequence[str], *, what: str, timeout_s: float, stdin: bytes = b""
    ) -> CommandOutput:
        """Run a command to its end.

        Args:
            words: Program and arguments; no shell splits them.
            what: Purpose of the command for error texts, such as "looking for Python".
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
            via: Transport for the agent; None selects the first transport that fits.

        Raises:
            UsageError: a file of the user cannot be read, or the transport does not fit the target.
            Unreachable: the device does not respond.
            AccessDenied: the device refuses the login, or is not trusted.
        """
        ...
