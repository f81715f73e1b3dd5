"""Small files that several processes and threads of this user change: one at a time, each whole."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgebench.protocol.errors import StoreError
from edgebench.system.whole_files import make_directory, write_whole

LOCK_FILE = ".lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep everybody else from changing the files of a directory meanwhile; makes the directory.

    Raises:
        StoreError: it cannot be made, or not be locked.
    """
    with _errors(directory):
        make_directory(directory, mode=0o700)
        descriptor = os.open(directory / LOCK_FILE, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        with _errors(directory):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # which unlocks it


def write_host_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file of this host whole.

    Raises:
        StoreError: it cannot be written.
    """
    with _errors(path):
        write_whole(path, text, mode=mode)


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise StoreError(f"not written: {exc.strerror}: {path}") from exc
