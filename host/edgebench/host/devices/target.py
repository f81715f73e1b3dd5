"""Targets of `edgebench deploy`, parsed from text: accounts reachable by SSH, and phones.

A login uses the user's own `ssh`, or the library paramiko if `ssh` is not installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgebench.host.devices import adb
from edgebench.host.devices.shell import DeployTarget, Shell
from edgebench.host.transports.ssh import SshTransport
from edgebench.host.transports.ssh_program import SshAddress, find_ssh, parse_address
from edgebench.host.transports.tls import TlsTransport
from edgebench.protocol.errors import UsageError, unknown_name


@dataclass(frozen=True, slots=True)
class SshTarget:
    """An account on a machine that is reachable by SSH."""

    address: SshAddress

    def __str__(self) -> str:
        return str(self.address)

    def connect(self, identity_file: Path | None = None, via: str | None = None) -> Shell:
        """Log in with `ssh`, or with the library paramiko if `ssh` is not installed.

        The agent is reached at its port, or through a tunnel if `ssh` reaches the device through
        other programs or hosts.
        """
        if via not in (None, TlsTransport.name, SshTransport.name):
            raise unknown_name("transport", via, (TlsTransport.name, SshTransport.name))
        # Both shells import large modules, and only one of them is needed.
        if identity_file is not None and not os.access(identity_file, os.R_OK):
            raise UsageError(f"identity file cannot be read: {identity_file}")
        can_prompt = sys.stdin.isatty()
        if program := find_ssh():
            from edgebench.host.devices import ssh_command

            return ssh_command.log_in(
                program, self.address, identity_file, via, can_prompt=can_prompt
            )
        if via == SshTransport.name:
            raise UsageError("an SSH tunnel needs the program ssh, which is not installed")
        from edgebench.host.devices import paramiko_shell

        return paramiko_shell.log_in(self.address, identity_file, can_prompt=can_prompt)


def parse_ssh_target(text: str) -> SshTarget | None:
    """Parse [USER@]HOST[:PORT], an alias of ~/.ssh/config, or ssh://…; None for any other text.

    >>> str(parse_ssh_target("pi@raspberrypi.local")), str(parse_ssh_target("ssh://board:2222"))
    ('pi@raspberrypi.local', 'board:2222')
    """
    address = parse_address(text)
    return None if address is None else SshTarget(address)


PARSERS: tuple[Callable[[str], DeployTarget | None], ...] = (adb.parse_target, parse_ssh_target)
"""Parsers of targets, one for each way to log in; a parser returns None for an unknown form."""


def parse_target(text: str) -> DeployTarget:
    """Parse the text that names an account or a phone.

    Raises:
        UsageError: the text has none of the known forms.
    """
    for parse in PARSERS:
        if (target := parse(text.strip())) is not None:
            return target
    raise UsageError(
        f"not a login: {text!r}: expected [USER@]HOST[:PORT], a host of ~/.ssh/config, "
        "or adb:SERIAL"
    )
