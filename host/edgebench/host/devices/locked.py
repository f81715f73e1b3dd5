"""Small files that several processes and threads of this user change: one at a time, each whole."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgebench.protocol.errors import StoreError

LOCK_FILE = ".lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep everybody else from changing the files of a directory meanwhile; makes the directory.

    Raises:
        StoreError: it cannot be made, or not be locked.
    """
    with _errors(directory):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(directory / LOCK_FILE, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        with _errors(directory):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # which unlocks it


def write_whole(path: Path, text: str, *, mode: int = 0o600, is_durable: bool = True) -> None:
    """Write a file so that readers see either the old text or the new one.

    Args:
        path: The file.
        text: Its new content.
        mode: Permissions of the file.
        is_durable: Whether it must outlast a power cut right after this, which takes up to 0.1 s.

    Raises:
        StoreError: it cannot be written.
    """
    with _errors(path):
        beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(path)


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise StoreError(f"not written: {exc.strerror}: {path}") from exc
