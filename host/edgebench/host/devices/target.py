"""Where `edgebench deploy` logs in: USER@HOST[:PORT]."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgebench.protocol.errors import UsageError

SSH_PORT = 22


@dataclass(frozen=True, slots=True)
class Target:
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


def parse_target(text: str) -> Target:
    """USER@HOST or USER@HOST:PORT; an IPv6 address in brackets.

    >>> parse_target("pi@raspberrypi.local"), str(parse_target("pi@[fe80::1]:2222"))
    (Target(user='pi', host='raspberrypi.local', port=22), 'pi@[fe80::1]:2222')

    Raises:
        UsageError: it is neither.
    """
    # Neither part may begin with a hyphen: the login is printed as arguments of `ssh`.
    match = re.fullmatch(
        r"(?P<user>[^@\s:/-][^@\s:/]*)@(?P<host>\[[\w:.%]+\]|\w[\w.-]*)(?::(?P<port>\d{1,5}))?",
        text.strip(),
    )
    port = int(match["port"] or SSH_PORT) if match else 0
    if match is None or not 0 < port < 65536:
        raise UsageError(f"not a login: {text!r}: expected USER@HOST or USER@HOST:PORT")
    return Target(match["user"], match["host"].strip("[]"), port)
