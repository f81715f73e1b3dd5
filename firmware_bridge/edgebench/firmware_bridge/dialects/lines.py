r"""Dialects of text lines, in which `%` ends a command and the line `m-ready` ends its reply.

Theory of operation. A line ends at LF, or at CR; empty lines are ignored, so all line endings are
equivalent. Bytes that are not text, and the terminal escape sequences of colours, are dropped.
Three defects are corrected:

    echo          the board repeats the command, on a separate line or at the beginning of its reply
    no prefix     firmware omits the prefix, and prints `ready` instead of `m-ready`
    joined lines  the end of a line was lost, so the next line follows on the same line

The lines are defined by a table of patterns, so a dialect is mostly data.

Source: mlcommons/tiny @ 1afd2c98, benchmark/api/internally_implemented.cpp (commands and replies).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from edgebench.firmware_bridge.dialects.events import BoardEvent, OtherText, Quirk, TimedEvent
from edgebench.protocol.errors import LocalProtocolError

TERMINATOR = "%"
COMMAND_MAX_CHARS = 79
"""Maximum length of a command without its terminator. MLPerf Tiny's reference firmware has space
for 80 characters with the terminator, and silently drops the rest."""
LINE_MAX_BYTES = 1 << 16
"""Maximum length of a line; longer data without a line end is dropped, because it is not a reply.
The longest line is the streaming firmware's reply to `db print`, with three characters per byte."""
_ENDS = re.compile(rb"\r|\n")
_NO_TEXT = bytes(
    {*range(0x09), *range(0x0B, 0x0D), *range(0x0E, 0x1B), *range(0x1C, 0x20), *range(0x7F, 0x100)}
)
_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~])?")
"""Pattern of terminal escape sequences, which shells of real-time operating systems print. Source:
ECMA-48, 5.4."""


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A pattern that recognises a type of line, and the function that makes the line's event."""

    pattern: re.Pattern[str]
    """Pattern that must match the whole line, without the prefix `m-`."""
    event: Callable[[re.Match[str], set[Quirk]], BoardEvent]
    has_prefix: bool = True
    """Whether the line starts with `m-`."""


def line_pattern(
    pattern: str,
    event: Callable[[re.Match[str], set[Quirk]], BoardEvent],
    *,
    has_prefix: bool = True,
) -> LinePattern:
    """Create a `LinePattern` from the text of its regular expression."""
    return LinePattern(re.compile(pattern), event, has_prefix)


def check_command(command: str, max_chars: int = COMMAND_MAX_CHARS) -> str:
    """Check that a text is a single valid command, and return it.

    An empty command would be sent as a bare terminator, which crashes the reference firmware.

    Raises:
        LocalProtocolError: the command is empty or too long, or contains a terminator, a control
            character or a non-ASCII character.
    """
    is_text = command.isascii() and command.isprintable() and TERMINATOR not in command
    if not command.strip() or not is_text:
        raise LocalProtocolError(f"not a command for a board: {command[:80]!r}")
    if len(command) > max_chars:
        raise LocalProtocolError(
            f"command of {len(command)} characters, limit {max_chars}: {command[:40]}…"
        )
    return command


class LineDialect:
    """A dialect that is defined by a table of patterns of lines."""

    def __init__(
        self,
        name: str,
        patterns: Sequence[LinePattern],
        beginnings: str,
        *,
        chunk_bytes: int,
        max_chars: int = COMMAND_MAX_CHARS,
        line_max_bytes: int = LINE_MAX_BYTES,
    ) -> None:
        """Create a dialect.

        Args:
            name: Stable name.
            patterns: Patterns of lines; the first pattern that matches a line makes its event.
            beginnings: Pattern of texts that occur only at the beginning of a line, never inside a
                line.
            chunk_bytes: Number of input bytes in a `db` command.
            max_chars: Maximum length of a command without its terminator.
            line_max_bytes: Maximum length of a line of the board.
        """
        self.name = name
        self.chunk_bytes = chunk_bytes
        self.max_chars = max_chars
        self._line_max_bytes = line_max_bytes
        self.quirks: set[Quirk] = set()
        self._patterns = patterns
        self._beginning = re.compile(beginnings)
        self._rest = b""
        self._rest_ns = 0
        """Return time of the read that received the first byte of `_rest`."""
        self._echo = b""
        """Command that the board may echo before its reply."""

    def widen(self, max_chars: int) -> None:
        """Allow longer commands, up to the maximum length that a board reports."""
        self.max_chars = max_chars
        self.chunk_bytes = max(self.chunk_bytes, (max_chars - len("db ")) // 2)

    def encode(self, command: str) -> bytes:
        """Encode a command, with its terminator."""
        sent = (check_command(command, self.max_chars) + TERMINATOR).encode("ascii")
        self._echo = sent
        return sent

    def reset(self) -> None:
        """Discard a partial line and the last command."""
        self._rest, self._echo = b"", b""

    def receive(self, data: bytes, time_ns: int) -> list[TimedEvent]:
        """Parse received bytes, and return the events of the lines that they complete."""
        text = data.translate(None, _NO_TEXT)
        if len(text) < len(data.translate(None, b"\0")):  # a glitch at a reset is often a NUL
            self.quirks.add(Quirk.NOT_TEXT)
        if text and not self._rest:
            self._rest_ns = time_ns
        self._rest += text
        if not self._cut_echo():
            return []
        *whole, self._rest = _ENDS.split(self._rest)
        if len(self._rest) > self._line_max_bytes:
            self._rest = b""
        events: list[TimedEvent] = []
        for number, line in enumerate(whole):
            # Only the first line can start in an earlier read.
            first_ns = time_ns if number else self._rest_ns
            events += [
                TimedEvent(self._event(part), first_ns, time_ns)
                for part in self._parts(_COLOURS.sub("", line.decode("ascii")).strip())
            ]
        if whole:
            self._rest_ns = time_ns
        return events

    def _cut_echo(self) -> bool:
        """Remove the echo of a command; return False if more data is needed to recognise it."""
        if not self._echo:
            return True
        begin = self._rest.lstrip(b"\r\n ")
        if begin.startswith(self._echo):
            self.quirks.add(Quirk.ECHO)
            self._rest, self._echo = begin[len(self._echo) :], b""
            return True
        if begin and not self._echo.startswith(begin):
            self._echo = b""
            return True
        return not begin

    def _parts(self, line: str) -> list[str]:
        """Split a line at each point where a further line begins because a line break was lost."""
        begins = [match.start() for match in self._beginning.finditer(line)]
        if not begins or begins == [0]:
            return [line] if line else []
        self.quirks.add(Quirk.JOINED_LINES)
        edges = sorted({0, *begins, len(line)})
        pieces = (line[one:other].strip() for one, other in pairwise(edges))
        return [piece for piece in pieces if piece]

    def _event(self, line: str) -> BoardEvent:
        bare = line.removeprefix("m-")
        for entry in self._patterns:
            match = entry.pattern.fullmatch(bare if entry.has_prefix else line)
            if match is None:
                continue
            if entry.has_prefix and bare == line:
                self.quirks.add(Quirk.NO_PREFIX)
            return entry.event(match, self.quirks)
        return OtherText(line)
