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
"""A blank, tab, line feed or backslash in a path, escaped as an octal number."""
_FIELD_COUNT, _AFTER_COUNT = 6, 3
"""Number of fields before the optional fields, and number of fields after them. A dash ends the
optional fields."""


@dataclass(frozen=True, slots=True)
class Mount:
    """An entry of /proc/self/mountinfo."""

    root: str
    """Mounted directory, as a path within its file system; `/` is the whole file system."""
    point: str
    """Path of the mount point."""
    options: frozenset[str]
    """Options of this mount, such as `ro`."""
    kind: str
    """Type of the file system."""
    super_options: frozenset[str]
    """Options of the file system; for control groups of version 1, the controllers are among
    them."""


def read_mounts(root: Path = Path("/")) -> Iterator[Mount]:
    """Read the mounts of this process; of nested mounts, the inner mount follows the outer mount.

    Args:
        root: Directory that replaces / in tests and simulations.

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
