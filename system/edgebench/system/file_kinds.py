"""Kinds of files that cannot be read like regular files.

Pipes block, and devices may have no end.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHER_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
"""Maps format bits of stat(2) to kinds of files, without regular files and devices."""


def fault_of_file(path: str | Path) -> str | None:
    """Description of a file that is not regular; None for a regular file, or if stat(2) fails."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # the reader reports the reason
        return None
    if stat.S_ISREG(mode):
        return None
    return f"{_OTHER_KINDS.get(stat.S_IFMT(mode), 'a device')} in place of a file"
