"""Sessions of a device whose client a test has written."""

from __future__ import annotations

from typing import cast

from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.events import Notify
from edgebench.host.bench.session import DeviceSession
from edgebench.host.client import Client
from edgebench.host.store.layout import Store
from edgebench.protocol.messages import SeatState
from support.records import DEVICE


class FreeDevice:
    """The part of a client that is about a device which no other client uses."""

    device = DEVICE
    via = "tls"
    agent = "pin"
    seat = ""

    def acquire(self, wait_s: float) -> None:
        """Take the lease."""

    def seats(self) -> list[SeatState]:
        """No seats."""
        return []


def session_of(
    client: FreeDevice, store: Store, notify: Notify, cancellation: Cancellation | None = None
) -> DeviceSession:
    """A session over this client."""
    return DeviceSession(
        name="pi",
        client=cast(Client, client),
        store=store,
        notify=notify,
        cancellation=cancellation or Cancellation(),
    )
