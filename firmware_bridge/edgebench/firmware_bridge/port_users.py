"""Finds the programs that have a serial port open, if this user may see them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PSEUDO_TERMINALS = "/dev/pts/"
"""Directory of pseudo-terminals. Source: pts(4)."""


def users_of(path: str, processes: Path = Path("/proc")) -> list[str]:
    """Programs, except this process, that have a port open; each is `NAME (PID)`.

    Only root sees the programs of other users. The list is empty for a pseudo-terminal. Otherwise,
    the program that acts as the board could be listed, because it may have both ends of the
    pseudo-terminal open.

    Args:
        path: Path of the port, or of a link to it.
        processes: Directory of the process file system.

    Source: proc(5), /proc/PID/fd and /proc/PID/comm.
    """
    wanted, users = os.path.realpath(path), list[str]()
    if wanted.startswith(PSEUDO_TERMINALS):
        return users
    for process in sorted(processes.glob("[0-9]*"), key=lambda one: int(one.name)):
        if int(process.name) == os.getpid():
            continue
        with suppress(OSError):  # it has ended, or belongs to another user
            if any(_leads_to(file) == wanted for file in (process / "fd").iterdir()):
                users.append(f"{(process / 'comm').read_text().strip()} ({process.name})")
    return users


def _leads_to(file: Path) -> str | None:
    with suppress(OSError):  # the file was closed
        return os.readlink(file)
    return None
