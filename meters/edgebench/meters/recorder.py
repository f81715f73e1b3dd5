"""What every session is: a file, a thread that fills it, and why that ended early."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from pathlib import Path

from edgebench.meters.base import Header, Packet, Recording
from edgebench.meters.spool import SpoolWriter


class Recorder(ABC):
    """A driver's kind of session says what the thread does."""

    _writer: SpoolWriter
    """While the session is open."""

    def __init__(self, header: Header, path: Path) -> None:
        self._header = header
        self._path = path
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="meter", daemon=True)
        self.trouble: str | None = None
        """Why nothing more is recorded; None while all is well."""

    @abstractmethod
    def _work(self) -> None:
        """Record until it is over."""

    def recording(self) -> Recording:
        """What was recorded; after the block has ended."""
        return Recording(self._path, self._header, self.trouble)

    def _append(self, packet: Packet) -> None:
        try:
            self._writer.append(packet)
        except OSError as exc:
            self._end(f"recording cannot be written: {exc.strerror}: {self._path}")

    def _end(self, why: str) -> None:
        """Nothing more is recorded; the first reason counts."""
        self.trouble = self.trouble or why
        self._is_over.set()

    def _join(self) -> None:
        """Wait until the thread has done what it is at."""
        self._is_over.set()
        self._thread.join()
