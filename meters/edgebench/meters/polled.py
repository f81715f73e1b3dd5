"""A session for meters that are read by asking: one thread, one fixed rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from edgebench.meters.base import LossReport, Sample

Read = Callable[[], list[Sample]]
"""Reads every channel once; the first call of a session may give nothing."""


class PolledSession:
    """Calls `read` at a fixed rate in a thread of its own."""

    def __init__(self, read: Read, *, rate_hz: float, channel_count: int) -> None:
        self._read = read
        self._period_s = 1 / rate_hz
        self._channel_count = channel_count
        self._samples: list[Sample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="meter", daemon=True)
        self._began_s = self._ended_s = 0.0

    def __enter__(self) -> PolledSession:
        self._began_s = time.monotonic()
        self._read()  # the start of the first interval
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._ended_s = time.monotonic()

    def samples(self) -> list[Sample]:
        """Everything that was recorded."""
        return list(self._samples)

    def loss(self) -> LossReport:
        """Readings by the clock, and readings that were made."""
        passed_s = (self._ended_s or time.monotonic()) - self._began_s
        expected = int(passed_s / self._period_s) * self._channel_count
        return LossReport(expected, len(self._samples))

    def _poll(self) -> None:
        next_s = self._began_s + self._period_s
        while not self._stop.wait(max(0.0, next_s - time.monotonic())):
            self._samples += self._read()
            next_s += self._period_s
