"""A connection that is given up when no request comes over it, or when another needs its place.

uvicorn waits for the first request for ever, and for the rest of a body that nobody has asked for;
whoever opens enough connections and says nothing would keep everybody else from the page. So such a
connection has a time limit, and none is refused for the sake of it: when all places are taken, the
one that has been idle for longest is closed. The stream of an open browser is never idle.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

REQUEST_TIMEOUT_S = 10.0
"""Longest wait for a whole request, as for its headers; checked so often."""


class PageConnection(H11Protocol):
    """A connection of somebody who looks on, or only pretends to."""

    _last: RequestResponseCycle | None = None
    """Request that was answered, or being answered, when it was last checked."""
    _idle_since_s: float = 0.0
    """Loop time at which it was made, or its last response ended."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, if need be in the place of an idle connection."""
        self._idle_since_s = self.loop.time()
        self._make_room()
        super().connection_made(transport)
        self.loop.call_later(REQUEST_TIMEOUT_S, self._check)

    def on_response_complete(self) -> None:
        """Begin to wait for another request."""
        self._idle_since_s = self.loop.time()
        super().on_response_complete()

    @property
    def _is_idle(self) -> bool:
        """Whether no request of it is being answered."""
        return not self.cycle or self.cycle.response_complete  # None before the first one

    def _make_room(self) -> None:
        """Close the longest idle connections if there is no place for another one."""
        assert self.limit_concurrency is not None
        # uvicorn refuses the request of the last one that the limit allows.
        excess_count = len(self.connections) + 2 - self.limit_concurrency
        if excess_count <= 0:
            return
        connections = [one for one in self.connections if isinstance(one, PageConnection)]
        idle = [one for one in connections if one._is_idle]
        # A response that is still on its way to a slow reader is cut off last.
        idle.sort(key=lambda one: (one.transport.get_write_buffer_size() > 0, one._idle_since_s))
        for one in idle[:excess_count]:
            one.transport.abort()
            self.connections.discard(one)  # now: several connections are made in one step

    def _check(self) -> None:
        """Close it if it has been without a request that is answered for all the time."""
        if self.transport.is_closing():
            return
        if self._is_idle and self.cycle is self._last:
            self.transport.close()
            return
        self._last = self.cycle
        self.loop.call_later(REQUEST_TIMEOUT_S, self._check)
