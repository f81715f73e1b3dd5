"""Name and software of this host, as sent to agents."""

from __future__ import annotations

import getpass
import os
import socket

from edgebench.protocol.distributions import HOST_DISTRIBUTION
from edgebench.system.installed import installed_version


def software() -> str:
    """Name and version of this program."""
    return f"edgebench {installed_version(HOST_DISTRIBUTION) or '(not installed)'}"


def host_name() -> str:
    """USER@MACHINE, by which an agent names the holder of its lease."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
