"""Changes of the overview for everybody who looks on.

Theory of operation. One loop reads the files, only while somebody looks on, and makes one message
of what has changed; all subscribers share its bytes. Each has a short queue: one that does not take
its messages for some 15 s is dropped, and a browser that is there after all connects again and gets
everything. So memory is bounded by the number of subscribers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from edgebench.host.serve.overview import Overview

TICK_S = 0.25
"""Interval at which the files are looked at: what is told is on the page within a second."""
MAX_SUBSCRIBERS = 200
MAX_WAITING = 64
"""Messages that wait for a subscriber."""


class Subscriber:
    """Somebody who gets all messages, the first one with everything."""

    def __init__(self) -> None:
        self.is_new = True
        """It has got nothing yet."""
        self.is_over = False
        """It gets nothing more."""
        self._waiting: deque[bytes] = deque()
        self._woken = asyncio.Event()

    def put(self, message: bytes) -> None:
        """Add a message; who has too many waiting is dropped."""
        if len(self._waiting) >= MAX_WAITING:
            self.end()
        else:
            self._waiting.append(message)
            self._woken.set()

    def end(self) -> None:
        """Give it nothing more."""
        self.is_over = True
        self._waiting.clear()
        self._woken.set()

    async def next(self, timeout_s: float) -> bytes | None:
        """The next message; None after so long without one, or when it is over."""
        if not self._waiting and not self.is_over:
            self._woken.clear()
            try:
                await asyncio.wait_for(self._woken.wait(), timeout_s)
            except asyncio.TimeoutError:
                return None
        return self._waiting.popleft() if self._waiting else None


class Feed:
    """The overview, and who looks at it; of one event loop."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self._subscribers: set[Subscriber] = set()
        self._joined = asyncio.Event()
        self._reading = asyncio.Lock()

    @property
    def is_watched(self) -> bool:
        """Whether anybody looks on."""
        return bool(self._subscribers)

    @property
    def is_full(self) -> bool:
        """Whether nobody else may subscribe."""
        return len(self._subscribers) >= MAX_SUBSCRIBERS

    @contextmanager
    def subscribed(self) -> Iterator[Subscriber]:
        """A subscriber, for the time of the block."""
        subscriber = Subscriber()
        self._subscribers.add(subscriber)
        self._joined.set()
        try:
            yield subscriber
        finally:
            self._subscribers.discard(subscriber)

    async def whole(self) -> bytes:
        """Everything, as it is now."""
        await self._refresh()
        return self._overview.whole()

    async def follow(self) -> None:
        """Read and tell for as long as somebody looks on, and wait for the next who does."""
        while True:
            if not self.is_watched:
                self._joined.clear()
                await self._joined.wait()
            await self._refresh()
            await asyncio.sleep(TICK_S)

    def end(self) -> None:
        """End all subscriptions."""
        for one in self._subscribers:
            one.end()

    async def _refresh(self) -> None:
        async with self._reading:
            message = await asyncio.to_thread(self._overview.refresh)
            new = [one for one in self._subscribers if one.is_new]
            whole = await asyncio.to_thread(self._overview.whole) if new else b""
            for one in self._subscribers:
                if one in new:
                    one.is_new = False
                    one.put(whole)
                elif message is not None and not one.is_new:
                    one.put(message)
