"""How a worker is stopped early without losing its measurement.

SIGTERM raises `StopRequested`, but only where the code allows it: while the model loads, and inside
a block of the timed loop. Elsewhere, such as between two blocks or while results are written, the
request is kept until the code allows the exception again.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class StopRequested(BaseException):
    """Raised when the daemon ends the run; `except Exception` does not catch it."""


class StopSwitch:
    """State of a stop: whether it was requested, and whether it may raise an exception now."""

    def __init__(self) -> None:
        self._is_requested = False
        self._may_raise = False

    def install(self) -> None:
        """Make SIGTERM a request to stop."""
        signal.signal(signal.SIGTERM, self._request)

    def dismiss(self) -> None:
        """Drop a request, and ignore later requests, because the remaining work is short."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._is_requested = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Allow a stop to interrupt the block.

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
"""The state of a stop in this worker process."""
