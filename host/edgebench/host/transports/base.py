"""The interface of a transport."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from edgebench.host.transports.link import Link


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The addresses and identity by which a transport reaches an agent."""

    name: str
    """Name of the device, for error texts."""
    pin: str
    """Fingerprint of the agent's certificate; empty if the transport itself proves the identity."""
    addresses: tuple[str, ...]
    """Addresses in the transport's own format, tried in this order."""
    port: int
    """Port, which is the same at all addresses; 0 if the transport has no ports."""
    identity_file: str = ""
    """Path of the only private key to use for an SSH login; empty: the keys that the user's SSH
    configuration names."""

    @property
    def address(self) -> str:
        """First address with the port, as text."""
        address = self.addresses[0] if self.addresses else "?"
        if not self.port:
            return address
        if address.count(":") == 1:  # HOST:PORT of SSH or adb, before the agent's port
            return f"{address} port {self.port}"
        return f"[{address}]:{self.port}" if ":" in address else f"{address}:{self.port}"


@dataclass(frozen=True, slots=True)
class Announcement:
    """A device that a transport has discovered; its properties are not verified yet."""

    id: str
    endpoint: Endpoint
    next_step: str
    """Next step of the user to make the device usable, if it is not a known device yet."""


class Transport(Protocol):
    """A way to reach agents."""

    name: str
    """Name of the transport, stored in `KnownDevice.via`."""

    def connect(self, endpoint: Endpoint) -> Link:
        """Open a connection to the agent at an endpoint.

        Raises:
            Unreachable: no agent responds there.
            NotPaired: another agent responds, or the agent is not paired with this host.
            TargetError: the agent does not start.
        """
        ...

    def discover(self, timeout_s: float) -> list[Announcement]:
        """Find the devices that are visible now; empty if this machine cannot search."""
        ...
