"""HTTP server of the live page: socket, limits and shutdown."""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec

from edgebench.host.serve.feed import MAX_SUBSCRIBERS, Feed
from edgebench.host.serve.overview import Overview, OverviewSources
from edgebench.protocol.distributions import HOST_DISTRIBUTION, install_command
from edgebench.protocol.errors import PageUnavailable, UsageError

INSTALL = install_command("serve", HOST_DISTRIBUTION)
DEFAULT_PORT = 7750
MIN_TOKEN = 16
"""Minimum length of a user's token, in characters; shorter tokens can be guessed."""
TOKEN_BYTES = 24
MAX_CONNECTIONS = MAX_SUBSCRIBERS + 100
"""Limit on concurrent connections; at the limit, the connection that has been idle longest is
closed."""
BACKLOG = 100
"""Number of connections that are accepted in one step of the event loop. It is below the limit on
connections, so that no new connection is closed before its request was read."""
UNREAD_MS = 30_000
"""The kernel closes a connection if the browser does not acknowledge sent data for this time."""
STOP_POLL_S = 0.1
MAX_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAddress:
    """Address of the page, with its token."""

    host: str
    port: int
    token: str | None

    @property
    def url(self) -> str:
        """URL for a browser, with the token if there is a token."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        if self.host in ("0.0.0.0", "::"):
            name = socket.gethostname()
        query = f"?token={self.token}" if self.token else ""
        return f"http://{name}:{self.port}/{query}"


def serve(
    sources: OverviewSources,
    *,
    host: str,
    port: int,
    token: str | None,
    on_ready: Callable[[PageAddress], None],
) -> None:
    """Serve the page until Ctrl-C.

    Args:
        sources: Files that the page shows.
        host: Address to bind to. Any address other than loopback needs a token.
        port: Port to bind to; 0 selects a free port.
        token: Token that every request needs. None means no token on loopback, and a random token
            on any other address.
        on_ready: Called with the page's address once the server is listening.

    Raises:
        PageUnavailable: starlette or uvicorn is missing, or the address is not available.
        UsageError: the port is out of range, or the token is too short or has characters other than
            letters, digits, - and _.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise PageUnavailable("the page needs the packages starlette and uvicorn", INSTALL)
    from edgebench.host.serve.guard import is_loopback

    if token is not None and not re.fullmatch(rf"[\w-]{{{MIN_TOKEN},}}", token, re.ASCII):
        raise UsageError(
            f"token must be at least {MIN_TOKEN} letters, digits, - and _; got {len(token)} "
            "characters"
        )
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(TOKEN_BYTES)
    listening = _listen(host, port)
    with listening:
        address = PageAddress(host=host, port=listening.getsockname()[1], token=token)
        with suppress(KeyboardInterrupt):
            asyncio.run(_serve(sources, listening, address, on_ready))


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= MAX_PORT:  # the C library takes larger values modulo 65536
        raise UsageError(f"port must be from 0 to {MAX_PORT}; got {port}")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Accepted connections inherit the option.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
            listener.bind(place)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    except OSError as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise PageUnavailable(f"cannot bind to {host}, port {port}: {reason}") from exc
    return listener


async def _serve(
    sources: OverviewSources,
    listening: socket.socket,
    address: PageAddress,
    on_ready: Callable[[PageAddress], None],
) -> None:
    import uvicorn

    from edgebench.host.serve.app import new_app
    from edgebench.host.serve.guard import PageConnection, PageGuard

    feed = Feed(Overview(sources))
    app = new_app(sources.store, feed)
    server = uvicorn.Server(
        uvicorn.Config(
            PageGuard(app, host=address.host, port=address.port, token=address.token),
            http=PageConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            backlog=BACKLOG,
            timeout_graceful_shutdown=2,
        )
    )

    async def end_feed() -> None:
        while not server.should_exit:
            await asyncio.sleep(STOP_POLL_S)
        feed.end()

    def stop(_: asyncio.Task[None]) -> None:
        server.should_exit = True

    following, ending = asyncio.create_task(feed.follow()), asyncio.create_task(end_feed())
    following.add_done_callback(stop)  # ends only after a bug: no page is better than a stale page
    on_ready(address)
    try:
        await server.serve(sockets=[listening])
    finally:
        for task in (following, ending):
            task.cancel()
    with suppress(asyncio.CancelledError):
        await following
