"""An agent that says whatever a test wants, on a unix socket: for hosts that must not trust it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, unix_serve

from edgebench.protocol import messages as m
from edgebench.protocol.codec import decode, encode
from edgebench.system.paths import CONTROL_SOCKET

Said = m.Message | tuple[m.Message, bytes] | bytes | str | None
"""A message, one with a payload, or a frame that nobody checked; None ends the connection."""
Answer = Said | Callable[[m.Message], Said]
"""What is said, or what decides that from the request."""


class FakeAgent:
    """Answers each kind of request with what the test gave for it, and with `Done` otherwise."""

    def __init__(self, state: Path, answers: Mapping[type[m.Message], Answer]) -> None:
        state.mkdir(parents=True, exist_ok=True)
        self._answers = answers
        self._server = unix_serve(
            self._serve, str(state / CONTROL_SOCKET), compression=None, close_timeout=1
        )
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.asked: list[m.Message] = []

    def __enter__(self) -> FakeAgent:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()

    def _serve(self, link: ServerConnection) -> None:
        try:
            for data in link:
                assert isinstance(data, bytes)
                frame = decode(data)
                self.asked.append(frame.message)
                answer = self._answers.get(type(frame.message), m.Done())
                said = answer(frame.message) if callable(answer) else answer
                if said is None:
                    return
                link.send(_frame(frame.number, said))
        except ConnectionClosed:
            return


def _frame(number: int, answer: m.Message | tuple[m.Message, bytes] | bytes | str) -> bytes | str:
    if isinstance(answer, (bytes, str)):
        return answer
    if isinstance(answer, tuple):
        return encode(number, *answer)
    return encode(number, answer)
