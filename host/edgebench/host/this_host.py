"""Who this host is, as others see it."""

from __future__ import annotations

import getpass
import os
import socket
from importlib.metadata import PackageNotFoundError, version


def software() -> str:
    """Name and version of this program."""
    try:
        return f"edgebench {version('edgebench')}"
    except PackageNotFoundError:
        return "edgebench (not installed)"


def host_name() -> str:
    """The user and the machine, for people who wonder who holds a device."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user that nobody knows
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
