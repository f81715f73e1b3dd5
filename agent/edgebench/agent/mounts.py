"""Mounts of this process, as /proc/self/mountinfo lists them.

Source: proc_pid_mountinfo(5); Linux, fs/seq_file.c, mangle_path().
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ESCAPED = re.compile(rb"\\([0-7]{3})")
"""A blank, tab, line feed or backslash of a path, in octal."""
_FIELD_COUNT, _AFTER_COUNT = 6, 3
"""Fields before the optional ones, and after the dash that ends them."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount."""

    root: str
    """Directory of the file system that is mounted, relative to its root."""
    point: str
    """Path at which it is mounted."""
    options: frozenset[str]
    """Options of this mount, such as `ro`."""
    kind: str
    """Type of the file system."""
    super_options: frozenset[str]
    """Options of the file system; of control groups of version 1, their controllers."""


def read_mounts(root: Path = Path("/")) -> Iterator[Mount]:
    """Mounts, the innermost last.

    Args:
        root: Stands for / in tests and simulations.

    Raises:
        OSError: the list cannot be read.
    """
    for line in (root / "proc/self/mountinfo").read_bytes().splitlines():
        before, _, after = line.partition(b" - ")
        fields, rest = before.split(b" "), after.split(b" ")
        if len(fields) >= _FIELD_COUNT and len(rest) >= _AFTER_COUNT:
            yield Mount(
                root=_path(fields[3]),
                point=_path(fields[4]),
                options=_options(fields[5]),
                kind=os.fsdecode(rest[0]),
                super_options=_options(rest[2]),
            )


def _path(field: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), field))


def _options(field: bytes) -> frozenset[str]:
    return frozenset(os.fsdecode(field).split(","))
