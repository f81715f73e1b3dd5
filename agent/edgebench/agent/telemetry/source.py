"""The interface of a telemetry source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class NoData:
    """A source has nothing to say here, and why; that is not an error."""

    reason: str


class Reader(Protocol):
    """An opened source."""

    @property
    def sensors(self) -> tuple[str, ...]:
        """Names of what `read` returns, with their unit as suffix."""
        ...

    def read(self) -> Sequence[float]:
        """One value for each sensor; NaN where a sensor does not answer now."""
        ...


class Source(Protocol):
    """Something that can be watched: a kind of file under /sys or /proc."""

    @property
    def name(self) -> str:
        """Stable lower-case name."""
        ...

    def open(self, root: Path, worker_pid: int) -> Reader | NoData:
        """Find and open the files, once; `root` stands for / in tests."""
        ...


class KeptFile:
    """A file that is opened once and read again and again from its start.

    The kernel makes the content of /sys and /proc files anew for every read at offset 0; a kept
    descriptor costs a quarter of opening the file each time.
    """

    def __init__(self, path: Path, size: int = 4096) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = size

    def read(self) -> bytes:
        """The content now.

        Raises:
            OSError: the sensor does not answer.
        """
        return os.pread(self._descriptor, self._size, 0)
