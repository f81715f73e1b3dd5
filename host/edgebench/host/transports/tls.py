"""TLS over TCP to agents on the network, which announce themselves by mDNS."""

from __future__ import annotations

import socket

from edgebench.host.transports.base import Announcement, Endpoint
from edgebench.host.transports.pinned import CONNECT_TIMEOUT_S, PinnedTransport, PlainStream


class TlsTransport(PinnedTransport):
    """Transport over TLS and TCP, for agents that this host reaches directly."""

    name = "tls"

    def dial(self, place: Endpoint) -> PlainStream:
        """Open a TCP connection to the endpoint's address and port."""
        plain = socket.create_connection(
            (place.addresses[0], place.port), timeout=CONNECT_TIMEOUT_S
        )
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return PlainStream(plain)

    def discover(self, timeout_s: float) -> list[Announcement]:
        """Find agents that announce themselves on the local network."""
        # Imported here because zeroconf imports asyncio, and most commands need no discovery.
        from edgebench.host.transports import mdns

        return mdns.listen(timeout_s)
