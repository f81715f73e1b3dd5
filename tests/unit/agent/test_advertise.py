"""The advertisement of an agent whose seats come and go, over real mDNS on loopback."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from zeroconf import IPVersion, Zeroconf
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from edgebench.agent import advertise
from edgebench.agent.advertise import SERVICE_TYPE, Advertisement

LOOPBACK = "127.0.0.1"
FINGERPRINT = "hotplug-test"
LOOKS = 200


def on_loopback(_: tuple[str, ...] = ()) -> Zeroconf:
    """A responder that is not reachable outside this machine."""
    return Zeroconf(interfaces=[LOOPBACK], ip_version=IPVersion.V4Only)


def test_announcement_follows_the_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the network would learn of a plugged-in board when the agent is restarted."""
    monkeypatch.setattr(advertise, "_responder", on_loopback)
    seats, changed = ["1"], asyncio.Event()

    def now() -> Advertisement:
        changed.clear()
        return Advertisement((LOOPBACK,), {"seats": seats[0]})

    async def seen(listener: AsyncZeroconf, count: str) -> None:
        name = f"edgebench-{FINGERPRINT}.{SERVICE_TYPE}"
        for _ in range(LOOKS):
            info = AsyncServiceInfo(SERVICE_TYPE, name)
            await info.async_request(listener.zeroconf, 500)
            if info.properties.get(b"seats") == count.encode():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not announced: {count} seats")

    async def story() -> None:
        listener = AsyncZeroconf(zc=on_loopback())
        advertising = asyncio.create_task(
            advertise.advertise(now, 7747, FINGERPRINT, changed=changed)
        )
        try:
            await seen(listener, "1")
            seats[0] = "2"
            changed.set()
            await seen(listener, "2")
        finally:
            advertising.cancel()
            with suppress(asyncio.CancelledError):
                await advertising
            await listener.async_close()

    asyncio.run(story())
