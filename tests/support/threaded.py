"""What made-up instruments have in common: a thread of their own, while a block lasts."""

from __future__ import annotations

import os
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


def outrank(thread: int = 0) -> None:
    """Run a thread, by default this one, before all others, where that is allowed.

    A real board and a real meter have processors and clocks of their own: no host makes them late,
    however busy that is. A double that sends tens of thousands of samples per second needs too much
    of the CPU for that. What the thread starts later runs before all others, too.
    """
    with suppress(PermissionError):
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))


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


@dataclass(slots=True)
class TcpServer(Threaded):
    """An instrument on a port of this machine; one connection at a time."""

    _listener: socket.socket = field(init=False)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    @property
    def address(self) -> str:
        """As a meter takes it."""
        return f"127.0.0.1:{self.port}"

    def _open(self) -> None:
        self._listen(0)

    def _listen(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._listener.settimeout(0.05)

    def _close(self) -> None:
        self._listener.close()

    def _run(self) -> None:
        while not self._over.is_set():
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(0.05)
                    self._serve(connection)

    @abstractmethod
    def _serve(self, connection: socket.socket) -> None:
        """One connection, until either side ends it."""
