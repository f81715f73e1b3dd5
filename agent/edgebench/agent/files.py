"""Files that survive a power cut: written beside, synced, then renamed."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgebench.protocol.errors import NoSpace, TargetError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_private(path: Path, text: str) -> None:
    """Write a secret file atomically, readable by its owner only."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_directory(path.parent)


def make_private_directory(path: Path) -> Path:
    """Make a directory that only its owner may enter, with its parents."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


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
    """Remove what is no regular file: a link would be followed, a pipe be waited for."""
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        elif not entry.is_file(follow_symlinks=False):
            os.unlink(entry.path)


def sync_file(path: Path) -> None:
    """Wait until the file's bytes are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Wait until the directory's entries are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def disk_errors(doing: str, path: Path) -> Iterator[None]:
    """Translate file errors of the operating system into one line that names the path."""
    try:
        yield
    except OSError as exc:
        kind = NoSpace if exc.errno in _FULL else TargetError
        raise kind(f"{doing}: {exc.strerror or exc}: {path}") from exc
