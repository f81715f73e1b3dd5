"""Where `edgebench deploy` logs in, from its text."""

from __future__ import annotations

from collections.abc import Callable

from edgebench.host.devices import adb, ssh
from edgebench.host.devices.shell import DeployTarget
from edgebench.protocol.errors import UsageError

PARSERS: tuple[Callable[[str], DeployTarget | None], ...] = (
    adb.parse_target,
    ssh.parse_target,
)
"""One parser for each way to log in; None where a text is not its own."""


def parse_target(text: str) -> DeployTarget:
    """The account that a text names.

    Raises:
        UsageError: it names none.
    """
    for parse in PARSERS:
        if (target := parse(text.strip())) is not None:
            return target
    raise UsageError(
        f"not a login: {text!r}: expected [USER@]HOST[:PORT], a host of ~/.ssh/config, "
        "or adb:SERIAL"
    )
