"""TLS 1.3 to an agent whose certificate is pinned by fingerprint, over any stream to its port.

    PinnedTransport.dial ─▶ PlainStream ─▶ TLS, pin compared ─▶ WebSocket ─▶ Link
      (TCP, adb, …)                     (this file, for all of them)

Neither a certificate authority nor a host name is checked. The handshake proves that the agent owns
the key of the certificate that the agent presents. The fingerprint identifies the expected
certificate. The fingerprint is compared before this host sends any application data. So the
programs and networks that carry the stream need not be trusted.
"""

from __future__ import annotations

import random
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from websockets.exceptions import ConnectionClosed, InvalidMessage
from websockets.sync.client import connect as websocket_connect

from edgebench.host.transports.base import Announcement, Endpoint
from edgebench.host.transports.link import (
    AGENT_URI,
    OPEN_TIMEOUT_S,
    WEBSOCKET_OPTIONS,
    Link,
    opening,
)
from edgebench.protocol.errors import AgentBusy, EdgebenchError, NotPaired, Unreachable, WrongAgent
from edgebench.protocol.identity import fingerprint

CONNECT_TIMEOUT_S = 10.0
"""Time limit for opening a plain stream; the kernel of a running device responds much sooner."""
BUSY_S = 10.0
"""Time during which this host makes new attempts if connections end before the agent shows its
certificate. An agent drops connections at random while too many connections are waiting."""
FIRST_PAUSE_S, LAST_PAUSE_S = 0.1, 1.0
"""Shortest and longest pause between two attempts; each pause is up to twice as long as the
previous pause."""
REFUSALS = 2
"""If this number of consecutive connections end right after the handshake, the agent counts as
refusing this host. A single connection may end in this way because it took too long while other
connections were waiting."""
END_ERRORS = (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError)
"""Errors of a connection that the other side has closed."""


@dataclass(frozen=True, slots=True)
class PlainStream:
    """An open stream to the port of an agent, before TLS."""

    socket: socket.socket
    """Connected stream socket, TCP or unix."""
    end_reason: Callable[[], EdgebenchError | None] = lambda: None
    """Called once if the other side ends the stream before the agent has shown its certificate. The
    call is in any thread, and may take some seconds. If the program that carries the stream reports
    the cause of the end, the callback returns this cause as an error. If the callback returns None,
    a new attempt is made, because the agent may have had too many connections."""


Dial = Callable[[Endpoint], PlainStream]
"""Function that opens the plain stream to an endpoint with a single address, within
`CONNECT_TIMEOUT_S` and in any thread. It raises `Unreachable`, or an `OSError` that `link.opening`
translates."""


class PinnedTransport(ABC):
    """A transport that carries TLS with a pinned certificate; subclasses open the plain stream."""

    name: str

    def __init__(self, identity_path: Callable[[], Path]) -> None:
        self._identity_path = identity_path

    def connect(self, endpoint: Endpoint) -> Link:
        """Open a connection to the first address at which the pinned agent responds.

        Raises:
            Unreachable: no agent responds at any address.
            NotPaired: another agent responds, or the agent is not paired with this host.
        """
        identity_path = self._identity_path()
        failures = Failures(endpoint.name)
        for place in places(endpoint):
            with failures.noted(place):
                return _connect(place, identity_path, self.dial)
        raise failures.error()

    @abstractmethod
    def dial(self, place: Endpoint) -> PlainStream:
        """Open the plain stream to an endpoint with a single address, as `Dial` describes."""

    @abstractmethod
    def discover(self, timeout_s: float) -> list[Announcement]:
        """Find the devices that are visible now; empty if this machine cannot search."""


def places(endpoint: Endpoint) -> list[Endpoint]:
    """Split the endpoint into endpoints with a single address each."""
    return [replace(endpoint, addresses=(address,)) for address in endpoint.addresses]


class Failures:
    """The reasons why an agent could not be reached at its addresses."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._silent: dict[str, Unreachable] = {}
        self._refusal: NotPaired | None = None

    @contextmanager
    def noted(self, place: Endpoint) -> Iterator[None]:
        """Record the error of an attempt: no response, or a refusal by the agent."""
        try:
            yield
        except Unreachable as exc:
            self._silent[place.address] = exc
        except NotPaired as exc:
            # If a wrong agent is at this address, the right agent may be at the next address.
            self._refusal = self._refusal or exc

    def error(self) -> Unreachable | NotPaired:
        """Create a single error with the reasons of all addresses."""
        silent = [*self._silent.values()]
        addresses: dict[str, list[str]] = {}
        for address, exc in self._silent.items():
            addresses.setdefault(exc.reason, []).append(address)
        reasons = "; ".join(f"{reason} at {', '.join(at)}" for reason, at in addresses.items())
        if self._refusal is not None:
            if not silent:
                return self._refusal
            error = type(self._refusal)(f"{self._refusal}; {reasons}")
            error.__cause__ = self._refusal
            return error
        if not silent:
            return Unreachable(f"{self._name}: no address is known")
        if len(silent) == 1:
            return silent[0]
        is_offline = all(exc.is_offline for exc in silent)
        why = "no route from this machine: " if is_offline else ""
        text = f"cannot reach {self._name}: {why}{reasons}"
        return Unreachable(text, is_offline=is_offline)


class _EarlyEnd(Exception):
    """The other side ended a connection before it showed its certificate."""

    def __init__(self, stream: PlainStream) -> None:
        super().__init__()
        self.stream = stream


def _connect(endpoint: Endpoint, identity_path: Path, dial: Dial) -> Link:
    """Connect to an address, with retries as long as no application data was exchanged.

    Raises:
        AgentBusy: the agent ends connections before it shows its certificate.
        Unreachable: no agent responds at the address.
        NotPaired: another agent responds, or the agent refuses this host.
    """
    context, begin_s = client_context(identity_path), time.monotonic()
    refusal_count, pause_s = 0, FIRST_PAUSE_S
    for attempt in count(1):
        try:
            return _connect_once(endpoint, context, dial)
        except _EarlyEnd as exc:
            if (reason := exc.stream.end_reason()) is not None:
                raise reason from exc
            refusal_count = 0
            if (passed_s := time.monotonic() - begin_s) > BUSY_S:
                raise busy_error(peer_name(endpoint), attempt, passed_s) from exc
        except WrongAgent:
            raise
        except NotPaired:
            refusal_count += 1
            if refusal_count == REFUSALS:
                raise
        time.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = min(2 * pause_s, LAST_PAUSE_S)
    raise AssertionError("the loop returns or raises")


def busy_error(peer: str, attempts: int, passed_s: float) -> AgentBusy:
    """Create the error for a server that ended all connections before it showed a certificate."""
    times = "a connection" if attempts == 1 else f"{attempts} connections within {passed_s:.0f} s"
    reason = f"ended {times} before it sent a certificate: it is overloaded, or is not an agent"
    return AgentBusy(f"{peer} {reason}", reason=f"server {reason}")


def _connect_once(endpoint: Endpoint, context: ssl.SSLContext, dial: Dial) -> Link:
    """Make a single attempt to connect to an address."""
    peer = peer_name(endpoint)
    with opening(peer, CONNECT_TIMEOUT_S):
        stream = dial(endpoint)
    connection = stream.socket
    try:
        with opening(peer):
            stream.socket.settimeout(OPEN_TIMEOUT_S)
            try:
                connection = secured = context.wrap_socket(stream.socket)
            except END_ERRORS as exc:
                raise _EarlyEnd(stream) from exc
        with opening(peer), expecting_answer(peer):
            require_pin(secured.getpeercert(binary_form=True), endpoint)
            secured.settimeout(None)
            return Link(websocket_connect(AGENT_URI, sock=secured, **WEBSOCKET_OPTIONS), peer)
    except BaseException:  # Ctrl-C as well: no socket is left open
        connection.close()
        raise


def peer_name(endpoint: Endpoint) -> str:
    """Name of the agent at an endpoint, for error texts."""
    return f"{endpoint.name} ({endpoint.address})"


def require_pin(certificate: bytes | None, endpoint: Endpoint) -> None:
    """Check the certificate, in DER, that the agent presented in the handshake.

    Raises:
        WrongAgent: the certificate is not the pinned certificate.
    """
    shown = fingerprint(certificate or b"")
    if shown != endpoint.pin:
        raise WrongAgent(
            f"{peer_name(endpoint)} is not the paired agent: its certificate is {shown[:12]}…; "
            "this is another board, or the board was set up again"
        )


@contextmanager
def expecting_answer(peer: str) -> Iterator[None]:
    """Raise `NotPaired` if the connection ends before the pinned agent's first reply arrives.

    In TLS 1.3, the client's handshake ends before the agent has checked the client's certificate.
    The agent's refusal therefore appears only after the client's handshake, and never before the
    agent has shown its own certificate.
    """
    try:
        yield
    except (InvalidMessage, ConnectionClosed, ssl.SSLError, *END_ERRORS) as exc:
        raise NotPaired(f"{peer} does not accept this host's identity") from exc


def client_context(identity_path: Path) -> ssl.SSLContext:
    """TLS settings of this host, for any number of connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the fingerprint is compared instead
    context.load_cert_chain(identity_path)
    return context
