"""How long the host waits for an agent, by what the agent has to do first."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from support.records import DEVICE, RUN_ID

from edgebench.host.client import HASHED_BYTES_PER_S, MAX_FILE_BYTES, Client
from edgebench.host.transports.link import Link
from edgebench.protocol import messages as m
from edgebench.protocol.codec import decode, encode


class FakeLink:
    """An agent without files; notes how long each answer is waited for."""

    def __init__(self) -> None:
        self._asked: list[tuple[int, m.Message]] = []
        self.patience_s: dict[type[m.Message], float | None] = {}

    def send(self, data: bytes) -> None:
        """A request."""
        frame = decode(data)
        self._asked.append((frame.number, frame.message))

    def receive(self, timeout_s: float | None) -> bytes:
        """The answer to it."""
        number, message = self._asked.pop()
        self.patience_s[type(message)] = timeout_s
        if isinstance(message, m.Hello):
            return encode(number, m.Welcome(m.PROTOCOL_VERSION, "edgebench-agent 0", DEVICE))
        return encode(number, m.RunFiles(RUN_ID, ()))

    def close(self) -> None:
        """Nobody is there any more."""


def test_slow_device_has_time_to_hash_what_a_meter_recorded(tmp_path: Path) -> None:
    """Twenty minutes of a PPK2 on a slow card never arrive, and no other run of the device does."""
    link = FakeLink()
    Client(cast(Link, link)).fetch_run(RUN_ID, tmp_path)
    patience_s = link.patience_s[m.RunOpen]
    assert patience_s is not None
    assert patience_s >= MAX_FILE_BYTES / HASHED_BYTES_PER_S
