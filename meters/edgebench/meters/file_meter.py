"""What meters have in common that are files: opened once, read round by round."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

from edgebench.meters.base import Header, Missing
from edgebench.meters.polled import Clock, Files, PolledSession, number
from edgebench.protocol.errors import MeasurementError

NS_PER_S = 1e9


class FileMeter(ABC):
    """Keeps files open; a driver says which, and what they mean."""

    name: str

    def __init__(self, root: Path, clock_ns: Clock = time.perf_counter_ns) -> None:
        self._root = root
        self._clock_ns = clock_ns
        self._files: Files | None = None
        self._header: Header | None = None

    @abstractmethod
    def open(self) -> Header | Missing:
        """Find the meter and ask it what it is; reports, never raises."""

    def session(self, path: Path) -> PolledSession:
        """A recording of everything that was opened."""
        if self._files is None or self._header is None:
            raise MeasurementError(f"the meter {self.name} is not open")
        return PolledSession(self._files.read, self._header, path)

    def close(self) -> None:
        """Let go; may be called twice."""
        if self._files is not None:
            self._files.close()
            self._files = None

    def _keep(self, paths: Sequence[Path]) -> float:
        """Open the files of a session; the seconds that a round of reading takes.

        Raises:
            OSError: one cannot be opened.
        """
        self.close()
        self._files = Files(paths, self._clock_ns)
        before_ns = self._clock_ns()
        self._files.read()
        return (self._clock_ns() - before_ns) / NS_PER_S


def text_of(path: Path) -> str:
    """What a small file says; nothing where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip().strip("\0")
    except OSError:
        return ""


def number_of(path: Path) -> int | None:
    """The integer that it holds, if it does."""
    return number(text_of(path).encode())


def is_there(path: Path) -> bool:
    """Whether it exists, as far as may be seen; behind a closed folder Path.exists() raises."""
    try:
        return path.exists()
    except OSError:
        return False


def why_unreadable(paths: Iterable[Path]) -> str:
    """What a refusal adds, of the first of these that is there and cannot be read; else nothing."""
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
    """Where folders of these patterns are looked for."""
    return [root / pattern[: pattern.index("*")].rpartition("/")[0] for pattern in patterns]


def folders_of(root: Path, *patterns: str) -> list[Path]:
    """Folders of these patterns in order of their numbers, each once whatever links lead there."""
    found: dict[Path, Path] = {}
    for pattern in patterns:
        for folder in sorted(root.glob(pattern), key=lambda path: (len(path.name), path.name)):
            found.setdefault(folder.resolve(), folder)
    return list(found.values())
