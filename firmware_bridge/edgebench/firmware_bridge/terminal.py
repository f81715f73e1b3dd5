"""Sends a user's commands to a board, and shows the board's replies as they arrive."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from edgebench.firmware_bridge.dialects.lines import TERMINATOR, check_command
from edgebench.firmware_bridge.transports.base import BoardTransport
from edgebench.protocol.text import printable

MAX_CHARS = 1024
"""Maximum length of a command in the terminal; the limit of the firmware may be lower."""
_READY = re.compile(rb"ready\s*$")


def converse(
    transport: BoardTransport, commands: Iterable[str], *, silence_s: float, quiet_s: float = 0.3
) -> Iterator[str]:
    """Yield the text that a board prints when it starts, and then after each command.

    A command needs no terminator, and an empty command is not sent, because it would crash the
    reference firmware. Each text ends with `m-ready`, or after a time without data.

    Args:
        transport: Connection to the board.
        commands: Commands as they are typed.
        silence_s: Maximum time without data while the board executes a command.
        quiet_s: Maximum time without data after `m-ready`. An interface board prints its own
            `m-ready` before the reply of the board behind it.

    Raises:
        LocalProtocolError: a command is invalid.
        BoardLost: the board was disconnected.
    """
    yield from _text(transport, quiet_s, quiet_s)
    for line in commands:
        command = line.strip().removesuffix(TERMINATOR).strip()
        if not command:
            continue
        transport.write((check_command(command, MAX_CHARS) + TERMINATOR).encode("ascii"))
        yield from _text(transport, silence_s, quiet_s)


def _text(transport: BoardTransport, silence_s: float, quiet_s: float) -> Iterator[str]:
    received = b""
    while data := transport.read(quiet_s if _READY.search(received) else silence_s).data:
        received = (received + data)[-MAX_CHARS:]
        yield printable(data.decode("latin-1").replace("\r", ""), keep_lines=True)
