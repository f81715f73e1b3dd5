"""Access control of the live page, its connections, and the security headers of every response.

Any web page in the user's browser can send requests to the loopback interface. With DNS rebinding,
the host name in such a request resolves to this machine. For this reason, the Host header must name
this machine, only GET is allowed, and no CORS header allows other sites to read a response. If a
token is set, every request needs the token. The address that the command prints contains the token.
A browser sends the token once in this address, and then keeps the token in a cookie that neither
scripts nor other sites can read.

uvicorn waits without limit for the first request of a connection, and for the rest of a request
body that the application does not read. A client with enough idle connections would block all other
clients. For this reason, idle connections have a time limit. A new connection is never refused
because of idle connections. If the limit on connections is reached, the connection that has been
idle longest is closed. The stream of an open page is never idle.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Mapping
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Default headers of every response."""
REQUEST_TIMEOUT_S = 10.0
"""Interval of the check for idle connections; a connection that was idle for a whole interval is
closed."""
_UNAUTHORIZED = "missing or wrong token: open the address that edgebench serve printed\n"


def is_loopback(host: str) -> bool:
    """Whether an address is reachable only from this machine.

    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class PageGuard:
    """ASGI middleware that checks host name, method, origin and token."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, token: str | None) -> None:
        """Guard an application.

        Args:
            app: The application.
            host: Address of the server.
            port: Port of the server. The cookie's name contains the port, because browsers share
                cookies between all ports of a host.
            token: Token that every request needs; None: no token.
        """
        self._app = app
        self._token = token
        self._cookie = f"edgebench_{port}"
        self._takes_addresses = not is_loopback(host)
        own = socket.gethostname().lower()
        others = {host.lower(), own, f"{own.partition('.')[0]}.local"}
        self._names = LOOPBACK_NAMES | (others if self._takes_addresses else {host.lower()})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application if it is allowed; otherwise refuse it."""
        if scope["type"] != "http":
            return  # no WebSockets

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        respond = self._refusal(scope) or self._app
        await respond(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Response that refuses the request; None if the request is allowed."""
        headers = Headers(scope=scope)
        if not self._is_own_name(headers.getlist("host")):
            return PlainTextResponse("Host header does not name this machine\n", 421)
        if scope["method"] != "GET":
            return PlainTextResponse("only GET is allowed\n", 405, headers={"allow": "GET"})
        if headers.get("sec-fetch-site") == "cross-site" and (
            headers.get("sec-fetch-mode") != "navigate"
        ):
            return PlainTextResponse("cross-site request refused\n", 403)
        if self._token is None:
            return None
        given = QueryParams(scope["query_string"]).get("token")
        if given is not None and scope["path"] == "/" and self._is_token(given):
            redirect = RedirectResponse("/", 303)
            redirect.set_cookie(self._cookie, given, httponly=True, samesite="strict")
            return redirect
        kind, _, value = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(value):
            return None
        with suppress(CookieError):
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
            if cookie is not None and self._is_token(cookie.value):
                return None
        return PlainTextResponse(_UNAUTHORIZED, 401, headers={"www-authenticate": "Bearer"})

    def _is_token(self, text: str) -> bool:
        assert self._token is not None
        return hmac.compare_digest(text.encode(), self._token.encode())

    def _is_own_name(self, host_headers: list[str]) -> bool:
        """Whether the Host header names this machine.

        If the server is not on loopback, any IP address is accepted, because DNS rebinding needs a
        host name.
        """
        if len(host_headers) != 1:
            return False
        name = host_headers[0].lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if name.rstrip(".") in self._names:
            return True
        if not self._takes_addresses:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


class PageConnection(H11Protocol):
    """HTTP connection with a limit on its idle time."""

    _last: RequestResponseCycle | None = None
    """Newest request (complete or in progress) at the time of the most recent check for
    idleness."""
    _idle_since_s: float = 0.0
    """Event-loop time at which the connection opened, or at which its last response ended."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request.

        At the limit on connections, the connections that have been idle longest are closed.
        """
        self._idle_since_s = self.loop.time()
        assert self.limit_concurrency is not None
        # uvicorn refuses requests on the last connection within its limit.
        excess_count = max(0, len(self.connections) + 2 - self.limit_concurrency)
        connections = [
            connection for connection in self.connections if isinstance(connection, PageConnection)
        ]
        idle = (
            [connection for connection in connections if connection._is_idle]
            if excess_count
            else []
        )
        # Connections with unsent response data are closed last.
        idle.sort(
            key=lambda connection: (
                connection.transport.get_write_buffer_size() > 0,
                connection._idle_since_s,
            )
        )
        for surplus in idle[:excess_count]:
            surplus.transport.abort()
            self.connections.discard(surplus)  # now, because more may open in the same step
        super().connection_made(transport)
        self.loop.call_later(REQUEST_TIMEOUT_S, self._check)

    def on_response_complete(self) -> None:
        """Record the time from which the connection is idle."""
        self._idle_since_s = self.loop.time()
        super().on_response_complete()

    @property
    def _is_idle(self) -> bool:
        """Whether no request is in progress."""
        return not self.cycle or self.cycle.response_complete  # None before the first request

    def _check(self) -> None:
        """Close the connection if it was idle for the whole interval."""
        if self.transport.is_closing():
            return
        if self._is_idle and self.cycle is self._last:
            self.transport.close()
            return
        self._last = self.cycle
        self.loop.call_later(REQUEST_TIMEOUT_S, self._check)
