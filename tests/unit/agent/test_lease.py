"""One host at a time, by a clock that the test controls."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pytest

from edgebench.agent.lease import MAX_TTL_S, MAX_WAIT_S, Lease
from edgebench.protocol.errors import LeaseHeld, UsageError


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """The lease's clock."""
    return Clock()


@pytest.fixture
def lease(clock: Clock) -> Lease:
    """A free lease."""
    return Lease(clock)


def test_free_lease_goes_to_whoever_asks(lease: Lease) -> None:
    """Otherwise no host could measure."""
    assert lease.holder is None
    assert lease.expires_in_s() is None
    assert lease.acquire("a", "Ada", 30.0) == 30.0
    assert lease.holder is not None
    assert lease.holder.name == "Ada"
    assert lease.expires_in_s() == 30.0


def test_second_host_hears_who_holds_the_lease_and_for_how_long(lease: Lease, clock: Clock) -> None:
    """Otherwise two hosts would measure at once, or the second not know whom to contact."""
    lease.acquire("a", "Ada", 30.0)
    clock.now_s += 10
    with pytest.raises(LeaseHeld, match="until it releases the device or is silent for 20 s"):
        lease.acquire("b", "Bob", 30.0)
    with pytest.raises(LeaseHeld, match="Ada"):
        lease.require("b")
    lease.require("a")


def test_renewal_counts_from_now(lease: Lease, clock: Clock) -> None:
    """Otherwise a host that renews in time would lose the lease nevertheless."""
    for _ in range(10):
        lease.acquire("a", "Ada", 5.0)
        clock.now_s += 4.9
        lease.require("a")


def test_lease_expires_at_its_time_and_not_before(lease: Lease, clock: Clock) -> None:
    """Otherwise a dead host would block the device for ever, or a live host be cut off early."""
    lease.acquire("a", "Ada", 5.0)
    clock.now_s += 4.999
    with pytest.raises(LeaseHeld):
        lease.acquire("b", "Bob", 5.0)
    clock.now_s += 0.001
    with pytest.raises(LeaseHeld, match="expired"):
        lease.require("a")
    assert lease.acquire("b", "Bob", 5.0) == 5.0


def test_released_lease_is_free_and_only_its_holder_can_release_it(lease: Lease) -> None:
    """Otherwise a host could free the device while another uses it."""
    lease.acquire("a", "Ada", 5.0)
    lease.release("b")
    lease.require("a")
    lease.release("a")
    assert lease.holder is None
    with pytest.raises(LeaseHeld, match="never taken"):
        lease.require("a")


def test_run_in_progress_keeps_the_lease_whatever_the_clock_says(
    lease: Lease, clock: Clock
) -> None:
    """Otherwise the next host would disturb the measurement of a host that died during its run."""
    lease.acquire("a", "Ada", 5.0)
    lease.pin()
    clock.now_s += 3600
    assert lease.expires_in_s() is None
    with pytest.raises(LeaseHeld, match="until its run ends"):
        lease.acquire("b", "Bob", 5.0)
    lease.release("a")
    lease.require("a")
    lease.unpin()
    with pytest.raises(LeaseHeld):  # its host has yet to fetch the run
        lease.acquire("b", "Bob", 5.0)
    clock.now_s += 5.1
    lease.acquire("b", "Bob", 5.0)


def test_lease_of_a_host_that_died_in_its_run_ends_with_the_run(lease: Lease) -> None:
    """Otherwise a device would wait for a host that will never come back."""
    lease.acquire("a", "Ada", 5.0)
    lease.pin()
    lease.abandon("a")
    with pytest.raises(LeaseHeld):
        lease.acquire("b", "Bob", 5.0)
    lease.unpin()
    lease.acquire("b", "Bob", 5.0)


def test_any_word_of_the_holder_renews_the_lease(lease: Lease, clock: Clock) -> None:
    """Otherwise a host that sends a large model would lose the lease while it sends."""
    lease.acquire("a", "Ada", 5.0)
    for _ in range(10):
        clock.now_s += 4.9
        lease.touch("a")
    lease.require("a")
    lease.touch("b")
    lease.touch("")
    clock.now_s += 5.0
    lease.touch("a")
    assert lease.holder is None, "an expired lease is not brought back"


def test_lease_of_a_lost_connection_is_free_at_once(lease: Lease) -> None:
    """Otherwise a host that was killed would block the device for the rest of its two minutes."""
    lease.acquire("a", "Ada", 120.0)
    lease.abandon("b")
    lease.require("a")
    lease.abandon("a")
    assert lease.holder is None


def test_lease_of_a_lost_connection_is_kept_until_its_run_has_ended(lease: Lease) -> None:
    """Otherwise the next host would disturb the measurement of a host that went away."""
    lease.acquire("a", "Ada", 120.0)
    lease.pin()
    lease.abandon("a")
    lease.require("a")
    with pytest.raises(LeaseHeld):
        lease.acquire("b", "Bob", 5.0)
    lease.unpin()
    assert lease.holder is None


@pytest.mark.parametrize(
    "ttl_s", [0.0, -1.0, MAX_TTL_S + 0.1, float("nan"), float("inf"), 1.8e19], ids=str
)
def test_lease_of_impossible_length_is_refused(lease: Lease, ttl_s: float) -> None:
    """Otherwise one message would block the device for a century."""
    with pytest.raises(UsageError, match="limit 120 s"):
        lease.acquire("a", "Ada", ttl_s)
    assert lease.holder is None


def test_refused_renewal_changes_nothing(lease: Lease, clock: Clock) -> None:
    """Otherwise a wrong renewal would throw away the existing lease."""
    lease.acquire("a", "Ada", 5.0)
    for wrong in ({"ttl_s": -1.0}, {"ttl_s": 1e9}):
        arguments: dict[str, Any] = {"identity": "a", "name": "Ada", **wrong}
        with pytest.raises(UsageError):
            lease.acquire(**arguments)
    assert lease.expires_in_s() == 5.0


def test_hosts_that_wait_get_the_lease_in_the_order_in_which_they_came() -> None:
    """Otherwise the first of two waiting hosts would be passed over for the whole night."""
    lease = Lease(time.monotonic)
    got: list[str] = []

    async def wait_for_it(name: str, *, wait_s: float, is_wanted: bool = True) -> None:
        await lease.acquire_within(name, name, 5.0, wait_s=wait_s, is_wanted=lambda: is_wanted)
        got.append(name)
        lease.release(name)

    async def scene() -> None:
        lease.acquire("a", "Ada", 5.0)
        gone = asyncio.create_task(wait_for_it("gone", wait_s=5.0, is_wanted=False))
        both = [asyncio.create_task(wait_for_it(name, wait_s=5.0)) for name in ("b", "c")]
        with pytest.raises(LeaseHeld, match="in use by Ada"):
            await wait_for_it("d", wait_s=0.01)
        lease.pin()
        lease.release("a")
        await asyncio.sleep(0)
        assert got == [], "its run goes on"
        lease.abandon("a")
        lease.unpin()
        with pytest.raises(LeaseHeld):
            await gone
        await asyncio.gather(*both)

    asyncio.run(scene())
    assert got == ["b", "c"]


def test_lease_that_expires_wakes_whoever_waits() -> None:
    """Otherwise a host that was cut off would be waited for until the very end."""
    lease = Lease(time.monotonic)
    lease.acquire("a", "Ada", 0.05)
    begin_s = time.monotonic()
    asyncio.run(lease.acquire_within("b", "Bob", 5.0, wait_s=30.0, is_wanted=lambda: True))
    assert time.monotonic() - begin_s < 10


@pytest.mark.parametrize("wait_s", [-1.0, MAX_WAIT_S + 1, float("nan")])
def test_wait_of_impossible_length_is_refused(lease: Lease, wait_s: float) -> None:
    """Otherwise a host could occupy a connection for ever."""
    with pytest.raises(UsageError, match="limit 60 s"):
        asyncio.run(lease.acquire_within("a", "A", 5.0, wait_s=wait_s, is_wanted=lambda: True))


def test_lease_of_a_holder_that_is_gone_is_inherited(lease: Lease, clock: Clock) -> None:
    """Otherwise the device would be free for others before the follower has the run's files."""
    lease.acquire("ada/1", "Ada", 30.0)
    lease.pin()
    clock.now_s += 20
    lease.abandon("ada/1")
    lease.inherit("ada/2", "Ada", 30.0)
    assert lease.held_for_s() == 20
    lease.unpin()
    lease.require("ada/2")
    clock.now_s += 29
    lease.require("ada/2")
    clock.now_s += 2
    assert (lease.holder, lease.held_for_s()) == (None, None)
    lease.inherit("ada/3", "Ada", 30.0)
    assert lease.holder is None, "what is free is not inherited"
    with pytest.raises(UsageError, match="limit 120 s"):
        lease.inherit("ada/3", "Ada", MAX_TTL_S + 1)
