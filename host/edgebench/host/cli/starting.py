"""A line on the terminal while a command that has much to do loads: that takes a part of a second.

Nothing else is imported here. The line goes away when there is something else to say.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

THIS_MACHINE = ("local", "qemu:")
"""How names of devices begin that an agent on this machine serves."""
_ERASE = "\r\x1b[2K"
_shown: list[str] = []


def say_starting(devices: Sequence[str] | None) -> None:
    """Say what is waited for, if somebody looks.

    Args:
        devices: Words that choose the devices; None: this machine.
    """
    is_here = all(word.startswith(THIS_MACHINE) for word in devices or ())
    say_waiting("starting agent…" if is_here else "connecting to devices…")


def say_waiting(text: str) -> None:
    """Say something that `end_starting` erases, if somebody looks."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return
    _shown.append(text)
    sys.stderr.write(text)
    sys.stderr.flush()


def end_starting() -> str | None:
    """Erase the line; what it said, None where there is none."""
    if not _shown:
        return None
    sys.stderr.write(_ERASE)
    sys.stderr.flush()
    return _shown.pop()
