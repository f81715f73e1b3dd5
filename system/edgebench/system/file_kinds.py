"""What a path is: whoever reads a pipe waits, and a device may have no end."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHER_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
"""What is no file, by its format; the others are devices."""


def fault_of_file(path: str | Path) -> str | None:
    """What is in place of a file; None for a file, and for what cannot be looked at."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # whoever reads it says why not
        return None
    if stat.S_ISREG(mode):
        return None
    return f"{_OTHER_KINDS.get(stat.S_IFMT(mode), 'a device')} in place of a file"
