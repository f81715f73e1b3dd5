"""What a connection does that nothing waits for."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from edgebench.agent.server import ConnectionHandler
from edgebench.protocol import messages as m


def test_notice_that_is_not_sent_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise a host would wait for the end of a run for as long as a run may last."""
    peer = SimpleNamespace(name="laptop", identity="x", is_pairing=False, is_local=False)
    connection = SimpleNamespace(peer=peer, transport=Mock(), send=Mock(side_effect=MemoryError))
    handler = ConnectionHandler(cast(Any, SimpleNamespace(first=None)), cast(Any, connection))

    async def notify() -> None:
        handler._listen(1)(m.Done())  # type: ignore[arg-type]
        await asyncio.sleep(0.01)

    with caplog.at_level(logging.ERROR):
        asyncio.run(notify())
    connection.transport.abort.assert_called_once_with()
    assert "disconnected laptop: a notice was not sent" in caplog.text
