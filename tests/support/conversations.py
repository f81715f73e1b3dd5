"""Conversations with programs of MLPerf Tiny, as tests/fixtures/conversations keeps them.

# text            what it is, and the commit that it is from
# dialect: NAME   dialect that the host speaks
> command         what the host sends, without its terminator; none before the text of a start
< line            what the program prints, with CR LF
{ line            … with LF alone
= event           what the line means to the dialect; `-`: nothing
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgebench.firmware_bridge.dialects.events import Dialect, OtherText
from edgebench.firmware_bridge.dialects.interface_board import PassthroughDialect
from edgebench.firmware_bridge.dialects.mlperf_tiny import mlperf_tiny
from edgebench.firmware_bridge.dialects.streaming import interface_board, streaming

FOLDER = Path(__file__).parents[1] / "fixtures" / "conversations"
_ENDS = {"<": "\r\n", "{": "\n"}
DIALECTS: dict[str, Callable[[], Dialect]] = {
    "mlperf_tiny": mlperf_tiny,
    "streaming": streaming,
    "interface_board": interface_board,
    "passthrough": lambda: PassthroughDialect(mlperf_tiny()),
}
"""The host's side of a conversation, by the name in its file."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A command and its reply."""

    command: str | None
    """None: the program starts."""
    reply: bytes
    events: tuple[str, ...]
    """Events of the reply, as `repr`; `-` for text without a meaning."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A file."""

    name: str
    source: str
    dialect_name: str
    exchanges: tuple[Exchange, ...]

    def dialect(self) -> Dialect:
        """The host's side."""
        return DIALECTS[self.dialect_name]()


def read_conversation(path: Path) -> Conversation:
    """Parse a file."""
    head: list[str] = []
    exchanges: list[Exchange] = []
    for block in path.read_text("utf-8").split("\n\n"):
        command, reply, events = None, "", list[str]()
        for line in block.splitlines():
            mark, text = line[0], line[2:]
            if mark == "#":
                head.append(text)
            elif mark == ">":
                command = text
            elif mark == "=":
                events.append(text)
            else:
                reply += text + _ENDS[mark]
        if reply:
            exchanges.append(Exchange(command, reply.encode("ascii"), tuple(events)))
    *source, dialect = head
    name = dialect.removeprefix("dialect: ")
    return Conversation(path.stem, " ".join(source), name, tuple(exchanges))


CONVERSATIONS = tuple(read_conversation(path) for path in sorted(FOLDER.glob("*.txt")))


def meanings(dialect: Dialect, command: str | None, reply: bytes) -> tuple[str, ...]:
    """Events of a reply to a command, as a conversation lists them."""
    dialect.reset()
    if command is not None:
        dialect.encode(command)
    return tuple(
        "-" if isinstance(timed.event, OtherText) else repr(timed.event)
        for timed in dialect.receive(reply, 0)
    )
