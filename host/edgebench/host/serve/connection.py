"""A connection that is given up when no request comes over it.

uvicorn waits for the first request for ever, and for the rest of a body that nobody has asked for;
whoever opens enough connections and says nothing would keep everybody else from the page.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

REQUEST_TIMEOUT_S = 10.0
"""Longest wait for a whole request, as for its headers; checked so often."""
MAX_OPEN = 600
"""Open connections, also those that are refused, below the usual limit of 1024 open files."""


class PageConnection(H11Protocol):
    """A connection of somebody who looks on, or only pretends to."""

    _last: RequestResponseCycle | None = None
    """Request that was answered, or being answered, when it was last checked."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        if len(self.connections) > MAX_OPEN:
            transport.abort()
        else:
            self.loop.call_later(REQUEST_TIMEOUT_S, self._check)

    def _check(self) -> None:
        """Close it if it has been without a request that is answered for all the time."""
        if self.transport.is_closing():
            return
        is_idle = not self.cycle or self.cycle.response_complete  # None before the first one
        if is_idle and self.cycle is self._last:
            self.transport.close()
            return
        self._last = self.cycle
        self.loop.call_later(REQUEST_TIMEOUT_S, self._check)
