"""Files of an agent: private ones, logs, and what is left in a worker's directory."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgebench.protocol.errors import NoSpace, TargetError
from edgebench.system.whole_files import make_directory, write_whole

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_private(path: Path, text: str) -> None:
    """Write a secret file whole, readable by its owner only."""
    write_whole(path, text, mode=0o600)


def make_private_directory(path: Path) -> Path:
    """Make a directory that only its owner may enter, with its parents."""
    return make_directory(path, mode=0o700)


def last_line(path: Path, size: int = 16 * 1024, *, unlike: re.Pattern[str] | None = None) -> str:
    """The last line of a log with content; empty where there is none.

    Args:
        path: The log.
        size: Bytes at its end that are searched.
        unlike: Pattern at the beginning of lines that do not count.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            lines = file.read(size).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    filled = (line for line in reversed(lines) if line.strip())
    return next((line for line in filled if unlike is None or not unlike.match(line)), "")


def keep_end(path: Path, size: int) -> None:
    """Keep only the last `size` bytes of a file."""
    with path.open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        if length <= size:
            return
        file.seek(length - size)
        tail = file.read(size)
    path.write_bytes(tail)


def keep_regular(directory: Path) -> None:
    """Remove what is no regular file, and own the rest: it may be another user's.

    A link would be followed, a pipe be waited for; a file with two names may be another user's.
    """
    owner = os.geteuid()
    for entry in os.scandir(directory):
        status = entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        elif not entry.is_file(follow_symlinks=False) or status.st_nlink > 1:
            os.unlink(entry.path)
        elif status.st_uid != owner:
            os.chown(entry.path, owner, os.getegid(), follow_symlinks=False)
    if directory.stat().st_uid != owner:
        os.chown(directory, owner, os.getegid())


@contextmanager
def disk_errors(doing: str, path: Path) -> Iterator[None]:
    """Translate file errors of the operating system into one line that names the path."""
    try:
        yield
    except OSError as exc:
        kind = NoSpace if exc.errno in _FULL else TargetError
        raise kind(f"{doing}: {exc.strerror or exc}: {path}") from exc
