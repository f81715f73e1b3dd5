"""A lab host that waits for its scheduler, and the wording of the reason."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from edgebench.host.campaign.cluster.lab import why_away


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ECONNREFUSED, "Connect call failed"), "Connection refused"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service"),
        (asyncio.TimeoutError(), "no response within 5 s"),
        (RuntimeError("name taken, lab"), "name taken, lab"),
        (EOFError(), "EOFError"),
    ],
)
def test_reason_is_in_plain_words(error: Exception, text: str) -> None:
    """Otherwise a name that cannot be resolved would be `Unknown error -2`."""
    assert why_away(error).startswith(text)
