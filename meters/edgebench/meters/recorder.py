"""Base of all sessions: a file, a thread that fills it, and why that ended early."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.meters.base import Header, NewestPackets, Packet, Recording
from edgebench.meters.spool import SpoolWriter
from edgebench.protocol.errors import TargetError
from edgebench.protocol.text import one_line

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)

NEWEST_COUNT = 32
"""Number of recent packets kept in memory: seconds of a slow meter, milliseconds of a fast one."""
JOIN_S = 10.0
"""A read that takes longer will not come back: a run must not wait for it."""


class Recorder(ABC):
    """Session whose kind says what its thread does."""

    _writer: SpoolWriter
    """While the session is open."""

    def __init__(
        self, header: Header, path: Path, *, set_up: Callable[[], Header] | None = None
    ) -> None:
        """A recording that begins with `with`.

        Args:
            header: What is known of the meter.
            path: Where the file will be; there is none yet.
            set_up: Sets the meter up, and says what came of that; None: nothing else is known then.
        """
        self._header = header
        self._set_up = set_up
        self._path = path
        self._newest: deque[Packet] = deque(maxlen=NEWEST_COUNT)
        self._is_over = threading.Event()
        self._is_done = threading.Event()
        """The thread has ended. `Thread.join` does not tell: one that Ctrl-C interrupts takes a
        thread that still runs for dead (Python 3.11, CPython gh-90882)."""
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)
        self.trouble: str | None = None
        """Why nothing more is recorded; None while all is well."""

    def __enter__(self) -> Self:
        if self._set_up is not None:  # before the file, at whose head stands what comes of it
            self._header = self._set_up()
        self._writer = SpoolWriter(self._path, self._header)
        try:
            self._begin()
            self._thread.start()
        except BaseException:  # Ctrl-C as well: what was switched on until then is switched off
            try:
                self._leave(time.monotonic() + JOIN_S)
            finally:
                self._path.unlink(missing_ok=True)  # nothing was recorded
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave(time.monotonic() + JOIN_S)

    @abstractmethod
    def _begin(self) -> None:
        """Begin, before the thread starts; if this fails, `_finish` follows all the same."""

    @abstractmethod
    def _work(self) -> None:
        """Record until it is over."""

    @abstractmethod
    def _finish(self) -> None:
        """Finish, after the thread has ended, or where it never began."""

    def recording(self) -> Recording:
        """Recording of the session; after the block has ended."""
        return Recording(self._path, self._header, self.trouble)

    def newest(self) -> NewestPackets:
        """The most recent packets."""
        # Copying a deque is atomic, so the reading thread may append meanwhile.
        return NewestPackets(self._header, tuple(self._newest.copy()))

    def _append(self, packet: Packet) -> None:
        self._newest.append(packet)
        try:
            self._writer.append(packet)
        except OSError as exc:
            self._end_unwritten(exc)

    def _end_unwritten(self, exc: OSError) -> None:
        self._end(f"recording cannot be written: {exc.strerror}: {self._path}")

    def _end(self, why: str) -> None:
        """Nothing more is recorded; the first reason counts."""
        self.trouble = self.trouble or why
        self._is_over.set()

    def _attempt(self, act: Callable[[], None]) -> None:
        """Do this; what a driver's library raises is the end of the recording, whatever it is."""
        try:
            act()
        except TargetError as exc:
            self._end(str(exc))
        except Exception as exc:  # pyserial's, pyvisa's, a bug of ours: the run goes on
            logger.exception("meter %s", self._header.driver)
            self._end(f"the meter's driver failed: {one_line(exc)}")

    def _run(self) -> None:
        try:
            self._attempt(self._work)
        finally:
            self._is_done.set()

    def _leave(self, deadline_s: float) -> None:
        """Stop the meter, and close the file however that ends."""
        try:
            is_done = self._join(deadline_s)
        except KeyboardInterrupt:  # once more: who is in a hurry wants no device left on, either
            self._leave(deadline_s)
            raise
        try:
            if is_done:  # else the thread is still at it, and nothing else may be
                self._attempt(self._finish)
        finally:
            try:
                self._writer.close()  # which writes what is left
            except OSError as exc:
                self._end_unwritten(exc)

    def _join(self, deadline_s: float) -> bool:
        """Wait until the thread has done what it is at; whether it has."""
        self._is_over.set()
        if self._thread.ident is None:  # it never began
            return True
        if not self._is_done.wait(max(0.0, deadline_s - time.monotonic())):
            self._end(f"the meter has not answered for {JOIN_S:g} s")
        return self._is_done.is_set()
