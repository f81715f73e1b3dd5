"""Access control of the live page, and the security headers of every response.

Any web page that the user's browser shows can send requests to this machine's loopback, also under
a host name that resolves here (DNS rebinding). So the Host header must name this machine, only GET
is allowed, and no CORS header lets other sites read a response. If a token is set, every request
needs it. A browser passes the token once, in the address that the command prints, and keeps it in a
cookie that neither scripts nor other sites can read.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
_UNAUTHORIZED = "token needed: open the address that edgebench serve has printed\n"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only.

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
            host: Address at which it listens.
            port: Port at which it listens; browsers keep one cookie for all ports of a machine.
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
        """Refuse the request, or pass it to the application."""
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
        """Response in place of the application's; None if the request is allowed."""
        headers = Headers(scope=scope)
        if not self._is_own_name(headers.getlist("host")):
            return PlainTextResponse("not the name of this machine\n", 421)
        if scope["method"] != "GET":
            return PlainTextResponse("read-only\n", 405, headers={"allow": "GET"})
        if headers.get("sec-fetch-site") == "cross-site" and (
            headers.get("sec-fetch-mode") != "navigate"
        ):
            return PlainTextResponse("not for other sites\n", 403)
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
        if self._is_token(self._cookie_of(headers)):
            return None
        return PlainTextResponse(_UNAUTHORIZED, 401, headers={"www-authenticate": "Bearer"})

    def _is_token(self, text: str) -> bool:
        assert self._token is not None
        return hmac.compare_digest(text.encode(), self._token.encode())

    def _cookie_of(self, headers: Headers) -> str:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return cookie.value if cookie else ""

    def _is_own_name(self, host_headers: list[str]) -> bool:
        """Whether the Host header names this machine.

        Beyond loopback any IP address is accepted: DNS rebinding needs a name.
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
