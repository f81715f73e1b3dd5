"""Who gets an answer, and which headers every answer has.

A page on this machine's loopback can be asked for by whatever page the user's browser shows: its
name may be led here (DNS rebinding), so the Host header has to be one of ours. Nothing is answered
to other methods than GET, nothing has a header that lets other pages read it, and where there is a
token, nothing is answered without it. A browser brings the token once, in the address that the
command has printed; from then on it is a cookie that no script and no other site gets.
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
"""Headers of every answer that does not have its own."""
_UNAUTHORIZED = "token needed: open the address that edgebench serve has printed\n"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

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
    """Stands before the application."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, token: str | None) -> None:
        """Guard an application.

        Args:
            app: The application.
            host: Address at which it listens.
            port: Port at which it listens; browsers keep one cookie for all ports of a machine.
            token: Token without which nothing is answered; None: there is none.
        """
        self._app = app
        self._token = token
        self._cookie = f"edgebench_{port}"
        self._takes_addresses = not is_loopback(host)
        own = socket.gethostname().lower()
        others = {host.lower(), own, f"{own.partition('.')[0]}.local"}
        self._names = LOOPBACK_NAMES | (others if self._takes_addresses else {host.lower()})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the application answer."""
        if scope["type"] != "http":
            return  # nothing else is spoken here

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(scope) or self._app
        await answer(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """An answer in place of the application's; None where that may answer."""
        headers = Headers(scope=scope)
        if not self._is_ours(headers.getlist("host")):
            return PlainTextResponse("not the name of this machine\n", 421)
        if scope["method"] != "GET":
            return PlainTextResponse("read-only\n", 405, headers={"allow": "GET"})
        if headers.get("sec-fetch-site") == "cross-site" and (
            headers.get("sec-fetch-mode") != "navigate"
        ):
            return PlainTextResponse("not for other sites\n", 403)
        if self._token is None:
            return None
        brought = QueryParams(scope["query_string"]).get("token")
        if brought is not None and scope["path"] == "/" and self._is_token(brought):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, brought, httponly=True, samesite="strict")
            return answer
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
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return found.value if found else ""

    def _is_ours(self, given: list[str]) -> bool:
        """Whether the Host header is a name of this machine; an address cannot be led elsewhere."""
        if len(given) != 1:
            return False
        name = given[0].lower()
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
