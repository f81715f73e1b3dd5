"""Which programs have a serial port open, as far as this user may know."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PSEUDO_TERMINALS = "/dev/pts/"
"""Source: pts(4)."""


def users_of(path: str, processes: Path = Path("/proc")) -> list[str]:
    """Programs that have a port open, each as `NAME (PID)`; this one is left out.

    Only root sees those of other users. A pseudo-terminal has none: the program at its other end,
    which is the board, may have this end open, too.

    Args:
        path: Path of the port, or of a link to it.
        processes: Where the system shows its processes.

    Source: proc(5), /proc/PID/fd and /proc/PID/comm.
    """
    wanted, users = os.path.realpath(path), list[str]()
    if wanted.startswith(PSEUDO_TERMINALS):
        return users
    for process in sorted(processes.glob("[0-9]*"), key=lambda one: int(one.name)):
        if int(process.name) == os.getpid():
            continue
        with suppress(OSError):  # it has ended, or is another user's
            if any(_leads_to(file) == wanted for file in (process / "fd").iterdir()):
                users.append(f"{(process / 'comm').read_text().strip()} ({process.name})")
    return users


def _leads_to(file: Path) -> str | None:
    with suppress(OSError):  # it was closed
        return os.readlink(file)
    return None
