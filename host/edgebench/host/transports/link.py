"""An open connection to an agent, which sends and receives frames."""

from __future__ import annotations

import errno
import ssl
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from http import HTTPStatus
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection

from edgebench.protocol.codec import MAX_FRAME_BYTES
from edgebench.protocol.errors import AgentBusy, LinkLost, LinkTimeout, Unreachable
from edgebench.protocol.text import one_line

OPEN_TIMEOUT_S = 30.0
"""Time limit of each handshake step, after the device has accepted a connection. A board that is
swapping, or that measures on its only core, takes seconds for its part of a handshake."""
AGENT_URI = "ws://agent/"
"""URI that is sent to every agent; the agent's actual address depends on the transport, and may not
fit in a URI."""
WEBSOCKET_OPTIONS: dict[str, Any] = {
    "compression": None,
    "max_size": MAX_FRAME_BYTES,
    "max_queue": 16,
    "open_timeout": OPEN_TIMEOUT_S,
    "close_timeout": 2.0,
    "ping_interval": 10.0,
    "ping_timeout": 20.0,
    "user_agent_header": None,
}


_OFFLINE = {errno.ENETUNREACH, errno.ENETDOWN}
"""Error numbers on a machine without any network, or without a route to an address."""


class Link:
    """A WebSocket connection that raises edgebench's errors instead of the library's."""

    def __init__(self, opened: AbstractContextManager[ClientConnection], peer: str) -> None:
        self._exit = ExitStack()
        self._connection = self._exit.enter_context(opened)
        self._lock = threading.Lock()
        self.peer = peer

    def send(self, frame: bytes) -> None:
        """Send a frame.

        Raises:
            LinkLost: the connection is lost.
        """
        with self._lock, self._translated():
            self._connection.send(frame)

    def receive(self, timeout_s: float | None) -> bytes:
        """Receive the next frame from the other side; without `timeout_s`, wait without limit.

        Raises:
            LinkTimeout: no frame arrived in time.
            LinkLost: the connection is lost.
        """
        with self._translated():
            data = self._connection.recv(timeout=timeout_s, decode=False)
        assert isinstance(data, bytes)
        return data

    def close(self) -> None:
        """Close the connection; no effect if it is closed already."""
        self._exit.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as exc:
            raise LinkTimeout(f"no answer from {self.peer}") from exc
        except (ConnectionClosed, OSError) as exc:
            raise LinkLost(f"connection to {self.peer} was lost") from exc


@contextmanager
def opening(peer: str, timeout_s: float = OPEN_TIMEOUT_S) -> Iterator[None]:
    """While a connection is opened, translate errors to `Unreachable` or `AgentBusy`."""
    try:
        yield
    except (InvalidHandshake, ConnectionClosed, EOFError, ssl.SSLError) as exc:
        if (
            isinstance(exc, InvalidStatus)
            and exc.response.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        ):
            reason = "has no room for another connection"
            raise AgentBusy(f"{peer} {reason}", reason=f"agent {reason}") from exc
        reason = f"does not speak edgebench: {one_line(exc)}"
        raise Unreachable(f"{peer} {reason}", reason=f"server {reason}") from exc
    except TimeoutError as exc:
        limit = f"within {timeout_s:g} s"
        reason = f"no answer {limit}"
        raise Unreachable(f"no answer from {peer} {limit}", reason=reason) from exc
    except OSError as exc:
        reason = exc.strerror or one_line(exc)
        is_offline = exc.errno in _OFFLINE
        text = f"cannot reach {peer}: {reason}"
        raise Unreachable(text, reason=reason, is_offline=is_offline) from exc
