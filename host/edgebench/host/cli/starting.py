"""A line on the terminal while a command that measures loads: it takes a part of a second.

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
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return
    is_here = all(word.startswith(THIS_MACHINE) for word in devices or ())
    _shown.append("starting agent…" if is_here else "connecting to devices…")
    sys.stderr.write(_shown[-1])
    sys.stderr.flush()


def end_starting() -> str | None:
    """Erase the line; what it said, None where there is none."""
    if not _shown:
        return None
    sys.stderr.write(_ERASE)
    sys.stderr.flush()
    return _shown.pop()
