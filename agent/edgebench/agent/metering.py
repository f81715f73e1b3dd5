"""A meter that the agent serves, recorded beside a run.

A meter that is missing, fails or is pulled out costs a run its energy, never its latencies: nothing
here raises, and the record says what the trouble was. Drivers are imported when a run asks for a
meter, since an idle agent has no use for numpy. A session has a thread of its own, in the daemon;
what it records is in the run's directory, and travels with it. A driver that hangs is left behind
in the thread that it hangs in: nothing can end it, and no run waits for it. A recording that grows
beyond what a host fetches, or would fill the disk that the run's own results need, is ended.
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

from edgebench.agent.runtimes.text import one_line
from edgebench.protocol.errors import EdgebenchError, UsageError
from edgebench.protocol.record import MeterFacts

if TYPE_CHECKING:
    from edgebench.meters.base import MeterSession

logger = logging.getLogger(__name__)

HANG_S = 30.0
"""A meter that takes longer to open or to close hangs; a session's own limit is a third of it."""
LIMIT_BYTES = 2**32 - 2**26
"""Of a recording: hosts fetch files of up to 4 GiB, and it grows on between two looks."""
KEPT_FREE_BYTES = 2**26
"""Of the disk, for the run's own results: more than the traces of a million inferences."""
LOOK_S = 1.0
"""Between two looks at how long it is; a look takes 20 µs."""


def require_served(meter: str | None, served: tuple[str, ...]) -> None:
    """Check that a run asks for a meter that the agent's owner named, if for any.

    Raises:
        UsageError: it does not.
    """
    if meter is not None and meter not in served:
        from edgebench.meters.options import meant_of

        named = ", ".join(served) or "none"
        meant = meant_of(meter, served)
        advice = f"; name it in full: agent:{meant}" if meant else ""
        raise UsageError(
            f"meter {meter[:80]!r} is not served by this agent, which serves {named}{advice}"
        )


def why_not_there(meter: str) -> str | None:
    """Why a run would be without this meter, as far as its path tells; no driver is asked."""
    from edgebench.meters.options import Options, split_name

    path = Options.parse(*split_name(meter)).address
    if not path.startswith("/"):
        return None
    try:
        Path(path).stat()
    except FileNotFoundError:
        return f"meter {meter} is not there yet: no such file: {path}"
    except OSError as exc:  # behind a folder that is closed, or no name at all
        return f"meter {meter} is not there yet: {exc.strerror}: {path}"
    return None


class Metering:
    """The recording of one run; of nothing, for a run that asks for no meter."""

    def __init__(self, meter: str | None, path: Path) -> None:
        self._meter = meter
        self._path = path
        self._open = ExitStack()
        self._session: MeterSession | None = None
        self._trouble: str | None = "the run did not begin"
        self._lock = threading.Lock()
        """Of `_open`, where its two threads may meet."""
        self._is_over = False
        self._ending: asyncio.Event | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._is_closing = False

    async def __aenter__(self) -> Metering:
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
        """End the recording where it takes too much, unless the run ends before."""
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
        """End the recording, once: a meter that hangs is not waited for again."""
        if self._is_closing:
            return
        self._is_closing = True
        found = await self._within_limit(self._stop, "close")
        self._trouble = self._trouble or found

    @property
    def facts(self) -> MeterFacts | None:
        """For the run's record; None where no meter was asked for."""
        return None if self._meter is None else MeterFacts(self._meter, self._trouble)

    @property
    def trouble(self) -> str | None:
        """Why nothing more is recorded; None while all is well."""
        facts = self.facts
        return facts.trouble if facts else None

    async def _within_limit(self, act: Callable[[], str | None], what: str) -> str | None:
        """Do this in a thread of its own; what it says, or that it hangs."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str | None] = loop.create_future()

        def tell(found: str | None) -> None:
            if not done.done():
                done.set_result(found)

        def work() -> None:
            found = act()
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                loop.call_soon_threadsafe(tell, found)

        # Not of the loop's pool, which is waited for when the agent ends.
        threading.Thread(target=work, name=f"meter-{what}", daemon=True).start()
        try:
            return await asyncio.wait_for(done, HANG_S)
        except asyncio.TimeoutError:
            logger.error("meter %s did not %s within %g s", self._meter, what, HANG_S)
            return f"the meter did not {what} within {HANG_S:g} s"

    def _start(self, name: str) -> str | None:
        """Begin; why that cannot be, if it cannot."""
        try:
            found = self._record(name)
        except Exception as exc:  # each driver's library has its own
            found = self._said(exc)
        with self._lock:
            if self._is_over:  # the run has not waited so long
                self._open.close()
        return found

    def _record(self, name: str) -> str | None:
        """Open the meter and begin; why that cannot be, if it cannot."""
        from edgebench.meters.base import AbsentMeter
        from edgebench.meters.registry import find_meter

        meter = find_meter(name)
        self._open.callback(meter.close)
        found = meter.open()
        self._open.callback(meter.close)  # again: while it opened, the run may have given it up
        if isinstance(found, AbsentMeter):
            return found.reason
        session = meter.session(self._path)
        self._session = self._open.enter_context(session)
        return None

    def _stop(self) -> str | None:
        """End; what went wrong, if anything did."""
        found = None
        try:
            with self._lock:
                self._is_over = True
                self._open.close()
        except Exception as exc:  # each driver's library has its own
            found = self._said(exc)
        return (self._session.trouble if self._session else None) or found

    def _said(self, exc: Exception) -> str:
        is_ours = not isinstance(exc, (EdgebenchError, OSError))
        logger.error("meter %s: %s", self._meter, exc, exc_info=is_ours)
        return one_line(exc) or type(exc).__name__


def _why_too_long(path: Path) -> str | None:
    """Why a recording has to end, if it has: it takes what others need.

    One that is shorter than the room it leaves may go on, however small the disk is.
    """
    try:
        size_bytes, disk = path.stat().st_size, os.statvfs(path)
    except OSError:
        return None  # whoever writes to it finds out
    if size_bytes > LIMIT_BYTES:
        return f"the recording of the meter has {size_bytes} bytes, limit {LIMIT_BYTES}"
    free_bytes = disk.f_bavail * disk.f_frsize
    if free_bytes < min(size_bytes, KEPT_FREE_BYTES):
        return (
            f"the recording of the meter has {size_bytes} bytes, and {free_bytes} are left on its "
            "disk for the results of the run"
        )
    return None
