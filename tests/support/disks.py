"""Small and read-only file systems, mounted for one test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[Path]:
    """A file system of this size at `path`; needs root."""
    path.mkdir(parents=True, exist_ok=True)
    options = f"size={size_bytes},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        # Lazily: a process that dies just now may still have a file open there.
        subprocess.run(["umount", "-l", str(path)], check=True)


@contextmanager
def read_only(path: Path) -> Iterator[Path]:
    """The directory as a read-only mount of itself; needs root."""
    subprocess.run(["mount", "--bind", str(path), str(path)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(path)], check=True)
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path: Path, leave_bytes: int = 0) -> Path:
    """Fill the file system except for some bytes; the file that does it."""
    filler = path / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(b"\0" * 65536)
            except OSError:
                break
        file.truncate(max(0, file.tell() - leave_bytes))
    return filler
