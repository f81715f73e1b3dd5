"""What is left when everything is over: processes that a variable marks, and files."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

MARK = "EDGEBENCH_CHAOS"
"""Variable that every process of a test inherits, by which the ones left behind are found."""


def marked_processes(value: str) -> Iterator[int]:
    """Processes whose mark has this value."""
    mark = f"{MARK}={value}\0".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_bytes():
                yield int(path.parent.name)


def command_line(pid: int) -> str:
    """Command line of a process; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def orphans(value: str, expected: Collection[int] = (), timeout_s: float = 10.0) -> list[str]:
    """Marked processes beside the expected ones, which have not ended after a while."""
    limit_s = time.monotonic() + timeout_s
    while left := [pid for pid in marked_processes(value) if pid not in expected]:
        if time.monotonic() > limit_s:
            return [f"{pid}: {command_line(pid)}" for pid in left]
        time.sleep(0.05)
    return []


def files_beside(root: Path, expected: Collection[str]) -> list[str]:
    """Files under a directory whose path in it matches none of the patterns."""
    found: list[str] = []
    for folder, _, files in os.walk(root):
        names = [str((Path(folder) / name).relative_to(root)) for name in files]
        found += [one for one in names if not any(fnmatch(one, pattern) for pattern in expected)]
    return sorted(found)
