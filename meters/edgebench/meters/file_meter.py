"""Meters whose values come from files that are opened once and then read repeatedly."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

from edgebench.meters.base import AbsentMeter, Header
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.polled import Clock, Files, PolledSession, number

NS_PER_S = 1e9


class FileMeter(InstrumentMeter[Files]):
    """Base class of a meter that keeps files open. A driver defines the files and their meaning."""

    def __init__(self, root: Path = Path("/"), clock_ns: Clock = time.perf_counter_ns) -> None:
        super().__init__(lambda: Files(self._find(), clock_ns))
        self._root = root
        self._clock_ns = clock_ns

    def open(self) -> Header | AbsentMeter:
        """Open the files and describe the meter; reports errors as `AbsentMeter`, never raises."""
        try:
            return super().open()
        except OSError as exc:
            self.close()
            return AbsentMeter(self._refusal(exc))

    @abstractmethod
    def _find(self) -> Sequence[Path]:
        """Files to read in each round, in order.

        Raises:
            TargetError: no files were found, or they contain no values.
        """

    def _refusal(self, exc: OSError) -> str:
        """Reason for an `AbsentMeter` when a file cannot be read."""
        return f"{self.name} is not readable: {exc}"

    def _record(self, connection: Files, header: Header, path: Path) -> PolledSession:
        return PolledSession(connection.read, header, path)


def text_of(path: Path) -> str:
    """Text of a small file; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip().strip("\0")
    except OSError:
        return ""


def number_of(path: Path) -> int | None:
    """Integer in a file; None if the file contains no integer."""
    return number(text_of(path).encode())


def is_there(path: Path) -> bool:
    """Whether a path exists and is visible; Path.exists() raises in a folder without permission."""
    try:
        return path.exists()
    except OSError:
        return False


def why_unreadable(paths: Iterable[Path]) -> str:
    """Describe why the first existing, unreadable path cannot be read; empty if there is none."""
    for path in paths:
        try:
            if path.is_dir():
                next(path.iterdir(), None)
            else:
                path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as exc:
            advice = ", which needs root" if isinstance(exc, PermissionError) else ""
            return f"; {exc.strerror}: {path}{advice}"
    return ""


def bases_of(root: Path, *patterns: str) -> list[Path]:
    """Folders in which the search for files by these patterns starts.

    For each pattern, this folder is the part of the pattern before its `*`.
    """
    return [root / pattern[: pattern.index("*")].rpartition("/")[0] for pattern in patterns]


def folders_of(root: Path, *patterns: str) -> list[Path]:
    """Matching folders in numerical order; a folder reached through several links occurs once."""
    folders: dict[Path, Path] = {}
    for pattern in patterns:
        for folder in sorted(root.glob(pattern), key=lambda path: (len(path.name), path.name)):
            folders.setdefault(folder.resolve(), folder)
    return list(folders.values())
