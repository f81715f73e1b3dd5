"""Session of streaming meters, in which a thread only moves bytes to disk.

Decoding is deferred until samples are requested, because bytes are lost if a read is late.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from edgebench.meters.base import Header, Packet
from edgebench.meters.recorder import Recorder

_READ_S = 0.1
"""Timeout of a read. The stop of a session is delayed by at most this time, until the thread's read
ends."""
SILENT_S = 2.0
"""A meter that sends nothing for this time counts as stopped."""
_SILENT_SAMPLES = 3
"""A slow meter counts as stopped if it sends no bytes during the time of this number of samples."""


class ByteSource(Protocol):
    """Source of a stream: a transport, or an object that polls a transport."""

    def read(self, timeout_s: float) -> bytes:
        """Return the bytes that have arrived; wait up to the timeout for the first byte.

        Raises:
            TargetError: the instrument is gone.
        """
        ...


class StreamSession(Recorder):
    """Starts a stream, moves it to a file, and stops it."""

    def __init__(
        self,
        source: ByteSource,
        header: Header,
        path: Path,
        *,
        start: Callable[[], None],
        stop: Callable[[], None],
        set_up: Callable[[], Header] | None = None,
    ) -> None:
        super().__init__(header, path, set_up=set_up)
        self._source = source
        self._start = start
        self._stop = stop

    def _begin(self) -> None:
        self._start()

    def _work(self) -> None:
        silent_s = max(SILENT_S, _SILENT_SAMPLES / self._header.capability.rate_hz)
        received_ns = time.perf_counter_ns()
        while not self._is_over.is_set():
            before_ns = time.perf_counter_ns()
            data = self._source.read(_READ_S)
            now_ns = time.perf_counter_ns()
            if data:
                self._append(Packet(before_ns, now_ns, data))
                received_ns = now_ns
            elif now_ns - received_ns > silent_s * 1e9:
                self._end(f"the meter sent nothing for {silent_s:g} s")

    def _finish(self) -> None:
        self._stop()
