"""Status line on the terminal for the fraction of a second in which a command loads its modules.

This module imports nothing slow. The line is erased before any other output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from edgebench.host.devices.names import is_on_this_machine

_ERASE = "\r\x1b[2K"
_shown: list[str] = []


def print_starting(devices: Sequence[str] | None) -> None:
    """Show that an agent is starting or that devices are being connected, if stderr is a terminal.

    Args:
        devices: Words that select the devices; None for this machine.
    """
    is_here = all(map(is_on_this_machine, devices or ()))
    print_waiting("starting agent…" if is_here else "connecting to devices…")


def print_waiting(text: str) -> None:
    """Show a text that `end_starting` erases, if stderr is a terminal."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return
    _shown.append(text)
    sys.stderr.write(text)
    sys.stderr.flush()


def end_starting() -> str | None:
    """Erase the line and return its text; None if there is none."""
    if not _shown:
        return None
    sys.stderr.write(_ERASE)
    sys.stderr.flush()
    return _shown.pop()
