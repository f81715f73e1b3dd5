"""TLS 1.3 to an agent whose certificate is pinned by fingerprint.

No authority and no name is checked: the handshake proves that the agent owns the key of the
certificate that it shows, and the fingerprint says whether that is the certificate we want. That
is decided before a single byte of ours is sent.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from websockets.exceptions import ConnectionClosed, InvalidMessage
from websockets.sync.client import connect as websocket_connect

from edgebench.host.transports.base import Announcement, Endpoint
from edgebench.host.transports.link import OPEN_TIMEOUT_S, WEBSOCKET_OPTIONS, Link, opening
from edgebench.protocol.errors import NotPaired, Unreachable, WrongAgent
from edgebench.protocol.identity import fingerprint

CONNECT_TIMEOUT_S = 10.0
"""Time for TCP's handshake: the kernel of a device answers at once, or it is not there."""
ATTEMPTS = 5
"""Handshakes that are begun with an agent which ends them unanswered."""
PAUSE_S = 0.1
"""Pause between two of them; an agent drops a waiting connection for another in less."""


class TlsTransport:
    """TLS over TCP, to agents that announce themselves by mDNS."""

    name = "tls"

    def __init__(self, identity_path: Callable[[], Path]) -> None:
        self._identity_path = identity_path

    def connect(self, endpoint: Endpoint) -> Link:
        """Open a connection to the first address that answers as the pinned agent.

        Raises:
            Unreachable: no agent answers at any of them.
            NotPaired: another agent answers, or the agent does not know this host.
        """
        identity_path = self._identity_path()
        failures = Failures(endpoint.name)
        for place in places(endpoint):
            with failures.noted(place):
                return _connect(place, identity_path)
        raise failures.error()

    def discover(self, timeout_s: float) -> list[Announcement]:
        """Agents that announce themselves on the local network."""
        # Imported here: zeroconf brings asyncio, and most commands know the address.
        from edgebench.host.transports import mdns

        return mdns.listen(timeout_s)


def places(endpoint: Endpoint) -> list[Endpoint]:
    """The endpoint at each of its addresses alone."""
    return [replace(endpoint, addresses=(address,)) for address in endpoint.addresses]


class Failures:
    """Why an agent could not be reached, at one address after another."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._silent: dict[str, Unreachable] = {}
        self._refusal: NotPaired | None = None

    @contextmanager
    def noted(self, place: Endpoint) -> Iterator[None]:
        """Keep the reason why nobody answers here, or why the agent refuses."""
        try:
            yield
        except Unreachable as exc:
            self._silent[place.address] = exc
        except NotPaired as exc:
            # A wrong agent at one address does not mean that the right one is not at the next.
            self._refusal = self._refusal or exc

    def error(self) -> Unreachable | NotPaired:
        """One error with all reasons."""
        if self._refusal is None:
            return _unreachable(self._name, self._silent)
        if self._silent:
            error = type(self._refusal)(f"{self._refusal}; {_reasons(self._silent)}")
            error.__cause__ = self._refusal
            return error
        return self._refusal


def _unreachable(name: str, silent: Mapping[str, Unreachable]) -> Unreachable:
    """Why nobody answers at any address; an only one is named by its own error."""
    if len(silent) == 1:
        return next(iter(silent.values()))
    if not silent:
        return Unreachable(f"{name}: no address is known")
    is_offline = all(exc.is_offline for exc in silent.values())
    why = "no network leads there: " if is_offline else ""
    return Unreachable(f"cannot reach {name}: {why}{_reasons(silent)}", is_offline=is_offline)


def _reasons(silent: Mapping[str, Unreachable]) -> str:
    """Each reason with the addresses that it is of."""
    addresses: dict[str, list[str]] = {}
    for address, exc in silent.items():
        addresses.setdefault(exc.reason, []).append(address)
    return "; ".join(f"{reason} at {', '.join(those)}" for reason, those in addresses.items())


def _connect(endpoint: Endpoint, identity_path: Path) -> Link:
    peer = peer_name(endpoint)
    secured = _handshake(endpoint, peer, client_context(identity_path))
    try:
        with opening(peer), expecting_answer(peer):
            require_pin(secured.getpeercert(binary_form=True), endpoint)
            secured.settimeout(None)
            uri = f"ws://{endpoint.address}/"
            return Link(websocket_connect(uri, sock=secured, **WEBSOCKET_OPTIONS), peer)
    except BaseException:  # Ctrl-C as well
        secured.close()
        raise


def peer_name(endpoint: Endpoint) -> str:
    """The agent at an endpoint, for error texts."""
    return f"{endpoint.name} ({endpoint.address})"


def require_pin(certificate: bytes | None, endpoint: Endpoint) -> None:
    """Check the certificate, in DER, that the agent has shown in the handshake.

    Raises:
        WrongAgent: it is not the pinned one.
    """
    shown = fingerprint(certificate or b"")
    if shown != endpoint.pin:
        raise WrongAgent(f"{peer_name(endpoint)} is not the paired agent: it shows {shown[:12]}…")


@contextmanager
def expecting_answer(peer: str) -> Iterator[None]:
    """Translate an end where the pinned agent's first answer should be.

    In TLS 1.3 our handshake ends before the agent has looked at our certificate: a refusal shows
    only then.
    """
    try:
        yield
    except (InvalidMessage, ConnectionClosed) as exc:
        raise NotPaired(f"{peer} does not accept this host's identity") from exc


def _handshake(endpoint: Endpoint, peer: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Connect and secure the connection; tried again where the agent drops it unanswered.

    An agent does that if too many connections wait for their handshake.
    """
    for attempt in range(1, ATTEMPTS + 1):
        with opening(peer, CONNECT_TIMEOUT_S):
            plain = socket.create_connection(
                (endpoint.addresses[0], endpoint.port), timeout=CONNECT_TIMEOUT_S
            )
        with opening(peer):
            try:
                plain.settimeout(OPEN_TIMEOUT_S)
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return context.wrap_socket(plain)
            except (ssl.SSLEOFError, ConnectionResetError) as exc:
                plain.close()
                if attempt == ATTEMPTS:
                    reason = "ends connections without an answer"
                    raise Unreachable(f"{peer} {reason}", reason=f"what is there {reason}") from exc
            except BaseException:  # Ctrl-C as well: no socket is left open
                plain.close()
                raise
        time.sleep(PAUSE_S)
    raise AssertionError("the last attempt returns or raises")


def client_context(identity_path: Path) -> ssl.SSLContext:
    """TLS settings of this host, for any number of connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the fingerprint is compared instead: see above
    context.load_cert_chain(identity_path)
    return context
