"""Records a meter of the agent during a run.

If a meter is missing, fails or is unplugged, the run has no energy values but keeps its latencies:
the recorder does not raise, and the run's record names the fault. Drivers are imported only when a
run uses a meter, because they import numpy, which an idle agent does not need. A session of a meter
has its own thread in the daemon; its recording is a file in the run's directory and is collected
with the run. A driver that hangs cannot be stopped, so it is left in its thread, and no run waits
for it. A recording ends early when it exceeds the maximum size that a host fetches, or when the
disk space for the run's own results becomes short.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.protocol.errors import EdgebenchError, UsageError
from edgebench.protocol.record import MeterFacts
from edgebench.protocol.sizes import format_bytes, format_distinct_sizes
from edgebench.protocol.text import one_line

if TYPE_CHECKING:
    from edgebench.meters.base import MeterSession

logger = logging.getLogger(__name__)

HANG_S = 30.0
"""A driver counts as hung if it takes longer than this to open or close a meter. A session has a
limit of its own, which is a third of this time."""
LIMIT_BYTES = 2**32 - 2**26
"""Maximum size of a recording. It is less than 4 GiB, the maximum that hosts fetch, because a
recording grows between two checks."""
KEPT_FREE_BYTES = 2**26
"""Free space that is kept for the run's own results, enough for the traces of a million
inferences."""
LOOK_S = 1.0
"""Interval at which the size of the recording is checked; a check takes 20 µs."""


def require_served(meter: str | None, served: tuple[str, ...]) -> None:
    """Check that the agent has the meter that a run requests; a run may request none.

    Raises:
        UsageError: the agent does not serve the meter.
    """
    if meter is not None and meter not in served:
        from edgebench.meters.options import meant_of

        named = ", ".join(served) or "none"
        meant = meant_of(meter, served)
        advice = f"; use the full name: agent:{meant}" if meant else ""
        raise UsageError(
            f"meter {meter[:80]!r} is not served by this agent, which serves {named}{advice}"
        )


def why_not_there(meter: str) -> str | None:
    """Why the path of a meter is unavailable; None if it exists, or if the meter has no path."""
    from edgebench.meters.options import Options, split_name

    path = Options.parse(*split_name(meter)).address
    if not path.startswith("/"):
        return None
    try:
        Path(path).stat()
    except FileNotFoundError:
        return f"meter {meter} is not available yet: no such file: {path}"
    except OSError as exc:  # an unreadable folder, or not a valid name
        return f"meter {meter} is not available yet: {exc.strerror}: {path}"
    return None


class MeterRecorder:
    """Records the meter of a run; for a run without a meter, it does nothing."""

    def __init__(self, meter: str | None, path: Path) -> None:
        self._meter = meter
        self._path = path
        self._open = ExitStack()
        self._session: MeterSession | None = None
        self._trouble: str | None = "the run did not start"
        self._lock = threading.Lock()
        """Lock for `_open`, to which two threads have access."""
        self._is_over = False
        self._ending: asyncio.Event | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._is_closing = False

    async def __aenter__(self) -> MeterRecorder:
        if self._meter is not None:
            meter = self._meter
            self._trouble = await self._within_limit(lambda: self._start(meter), "open")
            if self._trouble is None:
                self._ending = asyncio.Event()
                self._watcher = asyncio.create_task(self._watch(self._ending))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ending is not None and self._watcher is not None:
            self._ending.set()
            await self._watcher
        if self._meter is not None:
            await self._close()

    async def _watch(self, ending: asyncio.Event) -> None:
        """End the recording if it takes too much space before the run ends."""
        while self._trouble is None:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(ending.wait(), LOOK_S)
            if ending.is_set():
                return
            if (why := _why_too_long(self._path)) is not None:
                logger.error("meter %s: %s", self._meter, why)
                self._trouble = why
                await self._close()

    async def _close(self) -> None:
        """End the recording; a second call does nothing, so it does not wait for a hung meter."""
        if self._is_closing:
            return
        self._is_closing = True
        trouble = await self._within_limit(self._stop, "close")
        self._trouble = self._trouble or trouble

    @property
    def facts(self) -> MeterFacts | None:
        """Facts for the run's record; None for a run without a meter."""
        return None if self._meter is None else MeterFacts(self._meter, self._trouble)

    @property
    def trouble(self) -> str | None:
        """Why the meter is not recorded; None if it is recorded, or if the run has no meter."""
        return None if self._meter is None else self._trouble

    async def _within_limit(self, act: Callable[[], str | None], what: str) -> str | None:
        """Run `act` in its own thread; return its fault, or a message if it hangs, or None."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str | None] = loop.create_future()

        def finish(trouble: str | None) -> None:
            if not done.done():
                done.set_result(trouble)

        def work() -> None:
            trouble = act()
            with suppress(RuntimeError):  # the loop has ended, and nothing waits
                loop.call_soon_threadsafe(finish, trouble)

        # Not in the event loop's thread pool: an agent that ends waits for the threads of the pool.
        threading.Thread(target=work, name=f"meter-{what}", daemon=True).start()
        try:
            return await asyncio.wait_for(done, HANG_S)
        except asyncio.TimeoutError:
            logger.error("meter %s did not %s within %g s", self._meter, what, HANG_S)
            return f"the meter did not {what} within {HANG_S:g} s"

    def _start(self, name: str) -> str | None:
        """Start the recording; returns the fault, if any."""
        try:
            trouble = self._record(name)
        except Exception as exc:  # drivers raise many types
            trouble = self._logged(exc)
        with self._lock:
            if self._is_over:  # the run has stopped waiting
                self._open.close()
        return trouble

    def _record(self, name: str) -> str | None:
        """Open the meter and start its session; returns the reason if the meter is missing."""
        from edgebench.meters.base import AbsentMeter
        from edgebench.meters.registry import find_meter

        meter = find_meter(name)
        self._open.callback(meter.close)
        probed = meter.open()
        self._open.callback(meter.close)  # again, in case the run has given up
        if isinstance(probed, AbsentMeter):
            return probed.reason
        self._session = self._open.enter_context(meter.session(self._path))
        return None

    def _stop(self) -> str | None:
        """End the recording; returns the fault, if any."""
        trouble = None
        try:
            with self._lock:
                self._is_over = True
                self._open.close()
        except Exception as exc:  # drivers raise many types
            trouble = self._logged(exc)
        return (self._session.trouble if self._session else None) or trouble

    def _logged(self, exc: Exception) -> str:
        """Log the error, with a traceback if it may be a bug; returns its text as a single line."""
        is_bug = not isinstance(exc, (EdgebenchError, OSError))
        logger.error("meter %s: %s", self._meter, exc, exc_info=is_bug)
        return one_line(exc)


def _why_too_long(path: Path) -> str | None:
    """Why a recording must end to leave space for the run's results; None if it may continue.

    A recording that is smaller than the free space may continue, however small the disk is.
    """
    try:
        size_bytes, disk = path.stat().st_size, os.statvfs(path)
    except OSError:
        return None  # its writer will detect this
    if size_bytes > LIMIT_BYTES:
        size, limit = format_distinct_sizes(size_bytes, LIMIT_BYTES)
        return f"the recording of the meter has {size}, limit {limit}"
    free_bytes = disk.f_bavail * disk.f_frsize
    if free_bytes < min(size_bytes, KEPT_FREE_BYTES):
        return (
            f"the recording of the meter has {format_bytes(size_bytes)}, and the disk has "
            f"{format_bytes(free_bytes)} left for the results of the run"
        )
    return None
