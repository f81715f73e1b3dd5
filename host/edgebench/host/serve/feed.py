"""Sends changes of the overview (the content of the live page) to all subscribed browsers.

Theory of operation. A single loop polls the files while there are subscribers. The loop encodes
each set of changes as a single message, whose bytes all subscribers share. Each subscriber has a
short queue, and is dropped if it takes no messages for about 15 s. A browser that is still running
reconnects and receives the whole overview. Memory use is therefore limited by the number of
subscribers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from edgebench.host.serve.overview import Overview

TICK_S = 0.25
"""Interval at which the files are polled; a new status is then on the page within a second."""
MAX_SUBSCRIBERS = 200
MAX_WAITING = 64
"""Maximum number of queued messages; a subscriber with more messages is dropped."""


class Subscriber:
    """Message queue of a browser; the first message is the whole overview."""

    def __init__(self) -> None:
        self.is_new = True
        """True until the first message is queued."""
        self.is_over = False
        """True once the subscription has ended."""
        self._waiting: deque[bytes] = deque()
        self._woken = asyncio.Event()

    def put(self, message: bytes) -> None:
        """Queue a message; end the subscription if too many are queued."""
        if len(self._waiting) >= MAX_WAITING:
            self.end()
        else:
            self._waiting.append(message)
            self._woken.set()

    def end(self) -> None:
        """End the subscription and drop queued messages."""
        self.is_over = True
        self._waiting.clear()
        self._woken.set()

    async def next(self, timeout_s: float) -> bytes | None:
        """The next message; None after the timeout, or once the subscription has ended."""
        if not self._waiting and not self.is_over:
            self._woken.clear()
            try:
                await asyncio.wait_for(self._woken.wait(), timeout_s)
            except asyncio.TimeoutError:
                return None
        return self._waiting.popleft() if self._waiting else None


class Feed:
    """The overview and its subscribers, for use in a single event loop."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self._subscribers: set[Subscriber] = set()
        self._joined = asyncio.Event()
        self._reading = asyncio.Lock()

    @property
    def is_watched(self) -> bool:
        """Whether there are subscribers."""
        return bool(self._subscribers)

    @property
    def is_full(self) -> bool:
        """Whether the limit on subscribers is reached."""
        return len(self._subscribers) >= MAX_SUBSCRIBERS

    @contextmanager
    def subscribed(self) -> Iterator[Subscriber]:
        """A subscriber that is removed at the end of the block."""
        subscriber = Subscriber()
        self._subscribers.add(subscriber)
        self._joined.set()
        try:
            yield subscriber
        finally:
            self._subscribers.discard(subscriber)

    async def whole(self) -> bytes:
        """Refresh the overview, and return the whole overview as a message."""
        await self._refresh()
        return self._overview.whole()

    async def follow(self) -> None:
        """Poll and publish while there are subscribers; otherwise wait. Never returns."""
        while True:
            if not self.is_watched:
                self._joined.clear()
                await self._joined.wait()
            await self._refresh()
            await asyncio.sleep(TICK_S)

    def end(self) -> None:
        """End all subscriptions."""
        for subscriber in self._subscribers:
            subscriber.end()

    async def _refresh(self) -> None:
        async with self._reading:
            message = await asyncio.to_thread(self._overview.refresh)
            new = [subscriber for subscriber in self._subscribers if subscriber.is_new]
            whole = await asyncio.to_thread(self._overview.whole) if new else b""
            for subscriber in self._subscribers:
                if subscriber in new:
                    subscriber.is_new = False
                    subscriber.put(whole)
                elif message is not None and not subscriber.is_new:
                    subscriber.put(message)
