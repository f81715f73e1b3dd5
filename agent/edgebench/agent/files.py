"""Writes private files, reads ends of logs, and cleans the directories of workers."""

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
    """Replace a file atomically; only its owner may read it."""
    write_whole(path, text, mode=0o600)


def make_private_directory(path: Path) -> Path:
    """Create a directory that only its owner may enter, and its parents; return its path."""
    return make_directory(path, mode=0o700)


def last_line(path: Path, size: int = 16 * 1024, *, unlike: re.Pattern[str] | None = None) -> str:
    """The last non-blank line of a log; empty if there is none.

    Args:
        path: The log.
        size: Number of bytes that are searched, counted from the end of the file.
        unlike: Pattern; lines whose beginning matches it are skipped.
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
    """Remove all entries of a directory except regular files, and take ownership of the files.

    Other entries that a worker leaves are unsafe:

    - a symbolic link would be followed;
    - a pipe would block the reader;
    - a file with two names may belong to another user.
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
    """Convert an OSError into an `EdgebenchError` that names the path."""
    try:
        yield
    except OSError as exc:
        kind = NoSpace if exc.errno in _FULL else TargetError
        raise kind(f"{doing}: {exc.strerror or exc}: {path}") from exc
