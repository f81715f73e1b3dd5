"""Files that are replaced atomically and survive a power cut.

Theory of operation. Until a sync, a file system may write names and contents in any order, or not
at all. ext4 writes a new name 5 s after the rename and the content up to 30 s later. After a power
cut between the two writes, the file has its new name and 0 bytes. So a file is written in four
steps:

    1. Write the content to a file with a temporary name in the same directory.
    2. Sync this file.
    3. Rename the file.
    4. Sync the directory.

Success must not be reported before the end of step 4, neither by an exit code nor by a line of
output or a message to another machine. After a crash before step 3, `is_unfinished` recognises the
file by its temporary name.

A rename moves a name from one directory to another atomically, so it is enough to sync either
directory; this holds on journaling and on copy-on-write file systems.

Host, agent and bridge all need these functions, and do not import each other, so the functions are
in this portion.

Source: fsync(2) and rename(2) of the Linux manual; Pillai and others, All File Systems Are Not
Created Equal, OSDI 2014.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

TYPE_CHECKING = False  # type checkers know this name; to import it from typing takes 2 ms
if TYPE_CHECKING:
    from typing import BinaryIO

_PREFIX, _SUFFIX = ".edgebench-", ".part"
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP}
"""Errors of file systems that cannot sync a directory. Source: fsync(2)."""
_NO_EXCHANGE = {errno.EINVAL, errno.ENOSYS}
"""Errors of file systems and kernels that cannot exchange names. Source: renameat2(2)."""
_HERE, _RENAME_EXCHANGE = -100, 2
"""Source: linux/fcntl.h, AT_FDCWD; linux/fs.h."""
_numbers = count()


def write_whole(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Write a file; readers see either the old or the new content, even after a power cut.

    Args:
        path: The file; a link is replaced, not followed.
        content: New content of the file; a text is encoded as UTF-8.
        mode: Permissions of the file, reduced by the umask.

    Raises:
        OSError: the file cannot be written; the old content is unchanged.
    """
    with whole_file(path, mode=mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a new file to write inside the block; at the end, it replaces the old file.

    After an error inside the block, the new file is removed.

    Args:
        path: The file; a link is replaced, not followed.
        mode: Permissions of the file, reduced by the umask.

    Raises:
        OSError: the file cannot be written; the old content is unchanged.
    """
    part = _unfinished(path.parent)
    try:
        # "x" never follows a link that another user has created.
        with open(part, "x+b", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:  # after Ctrl-C as well
        with suppress(OSError):
            os.unlink(part)
    sync_directory(path.parent)


def append_whole(path: Path, content: bytes) -> None:
    """Append to a file, and wait until the content is written to disk.

    A crash during the write may leave only the beginning of the content.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("ab") as file:
        is_new = file.tell() == 0
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if is_new:  # its name may be new as well
        sync_directory(path.parent)


def is_unfinished(name: str) -> bool:
    """Whether this is the temporary name of a file that was not completed."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def make_directory(path: Path, *, mode: int = 0o777) -> Path:
    """Create a directory with its parents, and wait until their entries are written to disk.

    Args:
        path: The directory; it may exist already.
        mode: Permissions, reduced by the umask; new parents get the default permissions.

    Raises:
        OSError: the directory cannot be created.
    """
    missing = []
    for folder in (path, *path.parents):
        if folder.is_dir():
            break
        missing.append(folder)
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync_directory(folder.parent)
    return path


def exchange(path: Path, other: Path) -> None:
    """Exchange the names of two directories, and wait until the exchange is written to disk.

    The exchange is atomic on ext4, XFS, Btrfs, F2FS and tmpfs. On other file systems, a process
    that is killed during the exchange may leave one of the two names without a directory.

    Raises:
        OSError: the names cannot be exchanged.
    """
    if not _try_exchange(path, other):
        between = _unfinished(path.parent)
        os.rename(other, between)
        os.rename(path, other)
        os.rename(between, path)
    sync_directory(other.parent)
    sync_directory(path.parent)


def sync_file(path: str | Path) -> None:
    """Wait until the content of a file is written to disk (fsync).

    Raises:
        OSError: the file cannot be read, or the disk failed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str | Path) -> None:
    """Wait until the entries of a directory are written to disk (fsync).

    Raises:
        OSError: the directory cannot be read, or the disk failed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def sync_tree(path: Path) -> None:
    """Wait until everything below a directory is on disk; the directory's own entry is not synced.

    Raises:
        OSError: the directory cannot be read, or the disk failed.
    """
    for folder, _, names in os.walk(path):
        for name in names:
            sync_file(f"{folder}{os.sep}{name}")
        sync_directory(folder)


def _try_exchange(path: Path, other: Path) -> bool:
    """Exchange two names atomically; False if the C library or the file system cannot do this.

    Source: renameat2(2).
    """
    import ctypes

    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    names = (os.fsencode(path), os.fsencode(other))
    if renameat2(_HERE, names[0], _HERE, names[1], _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code not in _NO_EXCHANGE:
        raise OSError(code, os.strerror(code), str(other))
    return False


def _unfinished(directory: Path) -> Path:
    """Unused temporary path in a directory, for a file that is being written."""
    while True:
        path = directory / f"{_PREFIX}{os.getpid()}-{next(_numbers)}{_SUFFIX}"
        if not os.path.lexists(path):
            return path
