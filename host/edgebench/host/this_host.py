"""Name and software of this host, as agents see them."""

from __future__ import annotations

import getpass
import os
import socket
from importlib.metadata import PackageNotFoundError, version

from edgebench.protocol.distributions import HOST_DISTRIBUTION


def software() -> str:
    """Name and version of this program."""
    try:
        return f"edgebench {version(HOST_DISTRIBUTION)}"
    except PackageNotFoundError:
        return "edgebench (not installed)"


def host_name() -> str:
    """User and machine, as an agent names the holder of its lease."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
