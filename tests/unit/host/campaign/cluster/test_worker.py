"""A lab host that waits for its scheduler, and says why."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from edgebench.host.campaign.cluster.worker import why_away


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ECONNREFUSED, "Connect call failed"), "Connection refused"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service"),
        (asyncio.TimeoutError(), "no answer within 5 s"),
        (RuntimeError("name taken, lab"), "name taken, lab"),
        (EOFError(), "EOFError"),
    ],
)
def test_reason_is_one_for_people(error: Exception, text: str) -> None:
    """A name that nobody knows is `Unknown error -2`, and a timeout has no text at all."""
    assert why_away(error).startswith(text)
