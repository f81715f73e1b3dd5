"""The lease of a device, which allows only a single host at a time to measure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from edgebench.protocol.errors import LeaseHeld, UsageError

MAX_TTL_S = 120.0
"""Longest validity of a lease; a host that has crashed blocks the device for this time after its
run."""
MAX_WAIT_S = 60.0
"""Longest time that a request waits for the lease; a host waits longer by repeating the request."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A host that holds the lease."""

    identity: str
    name: str
    ttl_s: float
    expires_s: float
    since_s: float
    """Time at which the host took the lease; renewals do not change this time."""


class Lease:
    """The right to measure on this device.

    A host keeps the lease by sending any message before the lease expires. A run in progress keeps
    the lease for its host even if the host disconnects, so that no other host disturbs the
    measurement.
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
            UsageError: `ttl_s` is not positive, or longer than `MAX_TTL_S`.
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
            wait_s: Maximum time to wait for the lease, in seconds.
            is_wanted: Function that returns whether the host is still connected; called whenever
                the lease changes.

        Raises:
            UsageError: `ttl_s` or `wait_s` is out of bounds.
            LeaseHeld: after `wait_s`, another client still has the lease.
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
        """End the lease of any holder, because the device has left."""
        self._holder, self._is_pinned = None, False
        self.wake()

    def touch(self, identity: str) -> None:
        """Renew the lease after a message of this host; no effect if the host does not hold it."""
        holder = self.holder
        if holder is not None and holder.identity == identity:
            self._holder = replace(holder, expires_s=self._now_s() + holder.ttl_s)

    def abandon(self, identity: str) -> None:
        """End the lease of a disconnected holder now, or after its run if one is in progress."""
        if self._holder and self._holder.identity == identity:
            self._holder = replace(self._holder, ttl_s=0.0, expires_s=self._now_s())
            self.wake()

    def pin(self) -> None:
        """Keep the lease from expiring while a run is in progress."""
        self._is_pinned = True

    def unpin(self) -> None:
        """Undo `pin` after a run; the lease then expires after its usual time, counted from now."""
        self._is_pinned = False
        if self._holder:
            self._holder = replace(self._holder, expires_s=self._now_s() + self._holder.ttl_s)
        self.wake()

    def inherit(self, identity: str, name: str, ttl_s: float) -> None:
        """Give the lease of a disconnected holder to another client of the same host.

        Raises:
            UsageError: `ttl_s` is not positive, or longer than `MAX_TTL_S`.
        """
        _check_ttl(ttl_s)
        if (holder := self.holder) is not None:
            expires_s = self._now_s() + ttl_s
            self._holder = Holder(identity, name, ttl_s, expires_s, holder.since_s)

    def held_for_s(self) -> float | None:
        """Seconds since the holder took the lease; None if the lease is free."""
        holder = self.holder
        return None if holder is None else self._now_s() - holder.since_s

    def expires_in_s(self) -> float | None:
        """Seconds until the lease expires; None if the lease is free, or a run keeps it."""
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
            "until its run ends"
            if left is None
            else f"until it releases the device or is silent for {left:.0f} s"
        )
        ago = _ago(self._now_s() - holder.since_s)
        raise LeaseHeld(f"device is in use by {holder.name}, {until}; taken {ago}")


def _check_ttl(ttl_s: float) -> None:
    if not 0 < ttl_s <= MAX_TTL_S:
        raise UsageError(f"lease of {ttl_s} s, limit {MAX_TTL_S:.0f} s")


def _ago(elapsed_s: float) -> str:
    """Format an elapsed time: in seconds below 120 s, else in minutes.

    >>> _ago(12.3), _ago(754.0)
    ('12 s ago', '13 min ago')
    """
    return f"{elapsed_s:.0f} s ago" if elapsed_s < 120 else f"{elapsed_s / 60:.0f} min ago"
