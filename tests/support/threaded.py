"""What made-up instruments have in common: a thread of their own, while a block lasts."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(slots=True)
class Threaded(ABC):
    """Opens, runs until it is over, closes."""

    _over: threading.Event = field(init=False, default_factory=threading.Event)
    _thread: threading.Thread | None = field(init=False, default=None)

    def __enter__(self) -> Self:
        self._open()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        if self._thread:
            self._thread.join()
        self._close()

    @abstractmethod
    def _open(self) -> None:
        """What the thread needs."""

    @abstractmethod
    def _run(self) -> None:
        """What the thread does."""

    def _stop(self) -> None:
        """Let the thread end."""
        self._over.set()

    @abstractmethod
    def _close(self) -> None:
        """After the thread has ended."""
