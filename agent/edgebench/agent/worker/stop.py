"""How a worker is stopped early without losing its measurement.

SIGTERM raises `StopRequested`, but only where the code allows it: while the model loads, and inside
a block of the timed loop. Elsewhere, between two blocks or while results are written, the request
is kept until the next such place.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class StopRequested(BaseException):
    """Raised when the daemon ends the run; no `except Exception` may swallow it."""


class StopSwitch:
    """Whether a stop was requested, and whether it may interrupt now."""

    def __init__(self) -> None:
        self._is_requested = False
        self._may_raise = False

    def install(self) -> None:
        """Handle SIGTERM."""
        signal.signal(signal.SIGTERM, self._request)

    def dismiss(self) -> None:
        """Drop a request, and ignore later ones: the remaining work is short."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._is_requested = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        """A block that a stop may interrupt.

        Raises:
            StopRequested: a stop was requested before or inside the block.
        """
        self._may_raise = True
        try:
            # Checked after arming: a signal in between raises by itself.
            if self._is_requested:
                raise StopRequested
            yield
        finally:
            self._may_raise = False

    def _request(self, _signal: int, _frame: object) -> None:
        self._is_requested = True
        if self._may_raise:
            raise StopRequested


STOP = StopSwitch()
"""Switch of this worker process."""
