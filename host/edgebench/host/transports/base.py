"""What a way to reach agents has to offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from edgebench.host.transports.link import Link


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a transport reaches an agent."""

    name: str
    """Name of the device, for error texts."""
    pin: str
    """Fingerprint of the agent's certificate; empty where the transport proves who answers."""
    addresses: tuple[str, ...]
    """Addresses in the transport's own terms, tried in this order."""
    port: int
    """Port at all of them; 0 where the transport has no ports."""
    identity_file: str = ""
    """Only private key that a login on the way uses; empty: as its own settings have it."""

    @property
    def address(self) -> str:
        """First address, as people read it."""
        address = self.addresses[0] if self.addresses else "?"
        if not self.port:
            return address
        if address.count(":") == 1:  # HOST:PORT of something that has ports itself
            return f"{address} port {self.port}"
        return f"[{address}]:{self.port}" if ":" in address else f"{address}:{self.port}"


@dataclass(frozen=True, slots=True)
class Announcement:
    """A device as a transport discovers it; none of it is proven before a connection is made."""

    id: str
    endpoint: Endpoint
    next_step: str
    """How it becomes usable, when it is not known yet."""


class Transport(Protocol):
    """A way to reach agents."""

    name: str
    """Name that a known device is reached by: `KnownDevice.via`."""

    def connect(self, endpoint: Endpoint) -> Link:
        """Open a connection to the agent at an endpoint.

        Raises:
            Unreachable: no agent answers there.
            NotPaired: another agent answers, or the agent does not know this host.
            TargetError: its agent does not start.
        """
        ...

    def discover(self, timeout_s: float) -> list[Announcement]:
        """Devices that can be seen now; empty where this machine cannot look for them."""
        ...
