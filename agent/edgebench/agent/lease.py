"""The lease: one host at a time may measure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from edgebench.protocol.errors import LeaseHeld, UsageError

MAX_TTL_S = 120.0
"""Longest time for which a dead host blocks the device after its run has ended."""
MAX_WAIT_S = 60.0
"""Longest wait of a host in a request; to wait longer, the host repeats the request."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A host that holds the lease."""

    identity: str
    name: str
    ttl_s: float
    expires_s: float
    since_s: float
    """Time at which the host took the lease; renewals do not change it."""


class Lease:
    """The right to measure on this device.

    A host keeps it by sending a message now and then. A run in progress keeps it for its host even
    after the host disconnects, so that the measurement is not disturbed.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._holder: Holder | None = None
        self._is_pinned = False
        self._changed = asyncio.Event()

    @property
    def holder(self) -> Holder | None:
        """The current holder, or None when the lease is free."""
        if self._holder and not self._is_pinned and self._holder.expires_s <= self._now_s():
            self._holder = None
        return self._holder

    def acquire(self, identity: str, name: str, ttl_s: float) -> float:
        """Take or renew the lease; returns the seconds until it expires.

        Raises:
            UsageError: the time is not positive, or longer than the limit.
            LeaseHeld: another client has the lease.
        """
        _check_ttl(ttl_s)
        self._refuse_others(identity)
        now_s = self._now_s()
        since_s = self._holder.since_s if self._holder else now_s
        self._holder = Holder(identity, name, ttl_s, now_s + ttl_s, since_s)
        return ttl_s

    async def acquire_within(
        self,
        identity: str,
        name: str,
        ttl_s: float,
        *,
        wait_s: float,
        is_wanted: Callable[[], bool],
    ) -> float:
        """Take or renew the lease as soon as it is free; returns the seconds until it expires.

        Args:
            identity: Identity of the host.
            name: Name of the host, shown to others.
            ttl_s: As for `acquire`.
            wait_s: Longest wait.
            is_wanted: Whether the host is still connected; checked whenever the lease changes.

        Raises:
            UsageError: a time is out of bounds.
            LeaseHeld: another client still has the lease after the wait.
        """
        if not 0 <= wait_s <= MAX_WAIT_S:
            raise UsageError(f"wait of {wait_s} s for the lease, limit {MAX_WAIT_S:.0f} s")
        deadline_s = self._now_s() + wait_s
        while True:
            try:
                return self.acquire(identity, name, ttl_s)
            except LeaseHeld:
                left_s = deadline_s - self._now_s()
                if left_s <= 0:
                    raise
                expires_in_s = self.expires_in_s()
                until_s = left_s if expires_in_s is None else min(left_s, expires_in_s)
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), until_s)
                if not is_wanted():
                    raise

    def wake(self) -> None:
        """Wake the waiting hosts, in the order of their requests."""
        self._changed.set()
        self._changed = asyncio.Event()

    def require(self, identity: str) -> None:
        """Check that this host holds the lease.

        Raises:
            LeaseHeld: another client has the lease, or no client has it.
        """
        self._refuse_others(identity)
        if self.holder is None:
            raise LeaseHeld("the lease has expired or was never taken")

    def release(self, identity: str) -> None:
        """Give the lease back; no effect for a host that does not hold it."""
        if self._holder and self._holder.identity == identity and not self._is_pinned:
            self._holder = None
            self.wake()

    def revoke(self) -> None:
        """End the lease of any holder: the device has left."""
        self._holder, self._is_pinned = None, False
        self.wake()

    def touch(self, identity: str) -> None:
        """Renew the lease of a holder that has sent a message."""
        holder = self.holder
        if holder is not None and holder.identity == identity:
            self._holder = replace(holder, expires_s=self._now_s() + holder.ttl_s)

    def abandon(self, identity: str) -> None:
        """Free the lease of a disconnected holder, now or when its run has ended."""
        if self._holder and self._holder.identity == identity:
            self._holder = replace(self._holder, ttl_s=0.0, expires_s=self._now_s())
            self.wake()

    def pin(self) -> None:
        """Hold the lease while a run is in progress, regardless of its expiry."""
        self._is_pinned = True

    def unpin(self) -> None:
        """Let the lease expire normally again, counted from now: the run has ended."""
        self._is_pinned = False
        if self._holder:
            self._holder = replace(self._holder, expires_s=self._now_s() + self._holder.ttl_s)
        self.wake()

    def inherit(self, identity: str, name: str, ttl_s: float) -> None:
        """Give the lease of a disconnected holder to another client of its host.

        Raises:
            UsageError: the time is not positive, or longer than the limit.
        """
        _check_ttl(ttl_s)
        if (holder := self.holder) is not None:
            expires_s = self._now_s() + ttl_s
            self._holder = Holder(identity, name, ttl_s, expires_s, holder.since_s)

    def held_for_s(self) -> float | None:
        """Seconds since the holder took the lease; None when it is free."""
        holder = self.holder
        return None if holder is None else self._now_s() - holder.since_s

    def expires_in_s(self) -> float | None:
        """Seconds until the lease expires; None when it is free, or held by a run."""
        holder = self.holder
        if holder is None or self._is_pinned:
            return None
        return holder.expires_s - self._now_s()

    def _refuse_others(self, identity: str) -> None:
        holder = self.holder
        if holder is None or holder.identity == identity:
            return
        left = self.expires_in_s()
        until = (
            "until its run ends" if left is None else f"until it ends or is silent for {left:.0f} s"
        )
        ago = _ago(self._now_s() - holder.since_s)
        raise LeaseHeld(f"device is in use by {holder.name}, {until}; taken {ago}")


def _check_ttl(ttl_s: float) -> None:
    if not 0 < ttl_s <= MAX_TTL_S:
        raise UsageError(f"lease of {ttl_s} s, limit {MAX_TTL_S:.0f} s")


def _ago(elapsed_s: float) -> str:
    """Time since something, to a second or to a minute.

    >>> _ago(12.3), _ago(754.0)
    ('12 s ago', '13 min ago')
    """
    return f"{elapsed_s:.0f} s ago" if elapsed_s < 120 else f"{elapsed_s / 60:.0f} min ago"
