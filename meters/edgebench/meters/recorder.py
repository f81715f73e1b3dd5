"""Base class of sessions, with the recording's file and the thread that writes the file."""

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
"""Number of recent packets kept in memory. This number of packets spans some seconds, or some
milliseconds of a fast meter."""
JOIN_S = 10.0
"""Time to wait for the recording thread to end. A read that takes longer is assumed to be stuck,
and the run must not wait for it."""


class Recorder(ABC):
    """A session; subclasses define what the recording thread does."""

    _writer: SpoolWriter
    """Writer of the recording's file; the writer exists only while the session is open."""

    def __init__(
        self, header: Header, path: Path, *, set_up: Callable[[], Header] | None = None
    ) -> None:
        """Prepare a recording, which starts when the `with` block is entered.

        Args:
            header: Description of the meter.
            path: File to create; it must not exist yet.
            set_up: Configures the meter and returns the updated header. None if the meter needs no
                configuration.
        """
        self._header = header
        self._set_up = set_up
        self._path = path
        self._newest: deque[Packet] = deque(maxlen=NEWEST_COUNT)
        self._is_over = threading.Event()
        self._is_done = threading.Event()
        """Set when the thread has ended. `Thread.join` is unreliable here: after Ctrl-C has
        interrupted a join, the next join treats the running thread as finished (Python 3.11,
        CPython gh-90882)."""
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)
        self.trouble: str | None = None
        """Why the recording has stopped; None while it is running normally."""

    def __enter__(self) -> Self:
        if self._set_up is not None:  # before the file is created, because its result is the header
            self._header = self._set_up()
        self._writer = SpoolWriter(self._path, self._header)
        try:
            self._begin()
            self._thread.start()
        except BaseException:  # Ctrl-C included: anything already switched on is switched off
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
        """Start the meter before the thread starts; `_finish` is called even if this fails."""

    @abstractmethod
    def _work(self) -> None:
        """Record until `_is_over` is set."""

    @abstractmethod
    def _finish(self) -> None:
        """Stop the meter, after the thread has ended or if it never started."""

    def recording(self) -> Recording:
        """Return the finished recording; valid after the `with` block has ended."""
        return Recording(self._path, self._header, self.trouble)

    def newest(self) -> NewestPackets:
        """Return the most recent packets, at most `NEWEST_COUNT`."""
        # Copying a deque is atomic, so the reading thread may append at the same time.
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
        """End the recording for a reason, and keep the first reason if there are several."""
        self.trouble = self.trouble or why
        self._is_over.set()

    def _attempt(self, act: Callable[[], None]) -> None:
        """Call `act`, and end the recording if a driver's library raises any exception."""
        try:
            act()
        except TargetError as exc:
            self._end(str(exc))
        except Exception as exc:  # pyserial, pyvisa, or a bug in edgebench: the run continues
            logger.exception("meter %s", self._header.driver)
            self._end(f"the meter's driver failed: {one_line(exc)}")

    def _run(self) -> None:
        try:
            self._attempt(self._work)
        finally:
            self._is_done.set()

    def _leave(self, deadline_s: float) -> None:
        """Stop the meter and close the file, even if stopping fails."""
        try:
            is_done = self._join(deadline_s)
        except KeyboardInterrupt:  # a second Ctrl-C must not leave the device switched on either
            self._leave(deadline_s)
            raise
        try:
            if is_done:  # otherwise the thread still uses the meter, and nothing else may
                self._attempt(self._finish)
        finally:
            try:
                self._writer.close()  # flushes the buffer
            except OSError as exc:
                self._end_unwritten(exc)

    def _join(self, deadline_s: float) -> bool:
        """Wait for the thread's current read; return whether the thread has ended."""
        self._is_over.set()
        if self._thread.ident is None:  # never started
            return True
        if not self._is_done.wait(max(0.0, deadline_s - time.monotonic())):
            self._end(f"the meter did not respond within {JOIN_S:g} s")
        return self._is_done.is_set()
