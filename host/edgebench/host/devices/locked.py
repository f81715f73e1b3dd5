"""Locks and atomic writes for small files that several processes and threads of a user change."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgebench.protocol.errors import StoreError, os_error_as
from edgebench.system.whole_files import make_directory, write_whole

LOCK_FILE = ".lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Create a directory if it is missing, and lock its files against other processes and threads.

    Raises:
        StoreError: the directory cannot be created or locked.
    """
    with os_error_as(StoreError, "not written", directory):
        make_directory(directory, mode=0o700)
        descriptor = os.open(directory / LOCK_FILE, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        with os_error_as(StoreError, "not written", directory):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def write_host_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file of this host atomically.

    Raises:
        StoreError: the file cannot be written.
    """
    with os_error_as(StoreError, "not written", path):
        write_whole(path, text, mode=mode)
