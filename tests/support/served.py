"""`edgebench serve` as a process, and a reader of its page without a browser."""

from __future__ import annotations

import http.client
import json
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.agents import START_TIMEOUT_S, Host
from support.process_server import StartedProcess

READ_TIMEOUT_S = 90.0
Rows = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class PageResponse:
    """A response of the page's server."""

    status: int
    headers: dict[str, str]
    """Values by the name in lower case."""
    text: str


@dataclass(frozen=True)
class ServedPage:
    """A running server and the address of its page."""

    process: StartedProcess
    url: str
    port: int
    token: str | None

    def get(
        self, path: str, method: str = "GET", headers: dict[str, str] | None = None
    ) -> PageResponse:
        """Request a path, without a token."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READ_TIMEOUT_S)
        try:
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            is_stream = names.get("content-type", "").startswith("text/event-stream")
            return PageResponse(
                response.status, names, "" if is_stream else response.read().decode()
            )
        finally:
            connection.close()


@contextmanager
def served(host: Host, *words: str, prefix: Sequence[str] = ()) -> Iterator[ServedPage]:
    """Serve the page of a host for the block; Ctrl-C must end it with exit code 0."""
    process = host.popen("serve", "--port", "0", "--json", *words, prefix=prefix)
    try:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
        line = process.stdout.readline() if readable else ""
        assert line, f"not served: {process.communicate(timeout=10)[1] if readable else ''}"
        yield ServedPage(process, **json.loads(line))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, "")
    finally:
        process.kill()
        process.communicate(timeout=30)


@dataclass
class EventReader:
    """Subscriber to the page's events; keeps the current rows of each section."""

    page: ServedPage
    sections: dict[str, Rows] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    _connection: http.client.HTTPConnection | None = None
    _stream: http.client.HTTPResponse | None = None

    def __enter__(self) -> EventReader:
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", self.page.port, timeout=READ_TIMEOUT_S
        )
        self._connection.request("GET", "/events")
        self._stream = self._connection.getresponse()
        assert self._stream.status == 200
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stream is not None
        assert self._connection is not None
        self._stream.close()
        self._connection.close()

    def until(self, is_met: Callable[[EventReader], bool]) -> None:
        """Read messages until the condition holds."""
        while not self.messages or not is_met(self):
            self._take()

    def _take(self) -> None:
        assert self._stream is not None
        while not (line := self._stream.readline()).startswith(b"data: "):
            assert line, "the stream has ended"
        message = json.loads(line[6:])
        self.messages.append(message)
        if message["is_whole"]:
            self.sections.clear()
        for section, rows in message["sections"].items():
            known = self.sections.setdefault(section, {})
            for key, row in rows.items():
                if row is None:
                    del known[key]
                else:
                    known[key] = row

    def rows(self, section: str) -> list[dict[str, Any]]:
        """Current rows of a section."""
        return list(self.sections.get(section, {}).values())
