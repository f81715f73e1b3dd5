"""Commands to a board and the replies to them, over a transport, in a dialect.

Theory of operation. One command is under way at a time, and `m-ready` ends the reply to it. Before
a command is sent, what is still on its way is read and thrown away: it belongs to nothing. Where
`m-ready` does not come, or the board restarts in the middle, nobody knows what the board has in its
buffer, so the line is brought in step again before anything else is sent:

    drain    read until nothing comes for a while
    name%    until it is answered by a name and `m-ready`, and by nothing else

A bare `%` would end half a command, and crash the reference firmware on an empty one. `name` behind
half a command is at worst an unknown command, and the second `name` is clean.

A board that hears nothing may be in frame mode; a frame ends that, and is a few characters of an
unknown command to any other board.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from edgebench.firmware_bridge.console import ConsoleDirection, ConsoleLog
from edgebench.firmware_bridge.dialects.events import (
    BoardEvent,
    BoardName,
    CommandEcho,
    Dialect,
    ErrorReply,
    InitEnd,
    InterfaceName,
    OtherText,
    Quirk,
    ReplyEnd,
    TimedEvent,
    TimestampMode,
)
from edgebench.firmware_bridge.dialects.interface_board import PassthroughDialect
from edgebench.firmware_bridge.dialects.mlperf_tiny import mlperf_tiny
from edgebench.firmware_bridge.dialects.streaming import streaming
from edgebench.firmware_bridge.frames import LEAVE_FRAMES, BoardFrame, FrameReader
from edgebench.firmware_bridge.transports.base import BoardTransport, ReceivedBytes
from edgebench.protocol.errors import BoardRefusal, BoardRestarted, BoardSilent, LineDamaged
from edgebench.protocol.text import one_line

E = TypeVar("E")
CONFIRMATIONS = 5
"""Times that a question is asked, until two replies in a row are the same."""
DRAIN_S = 2.0
"""A board that talks for longer does not wait for a command: it is asked all the same."""
REPLY_S = 900.0
"""The longest reply, beside the time in which the board computes: 98304 bytes printed at 9600 baud
take 310 s."""
_NAME_REPLY_S = 15.0
"""The longest reply to `name`: the rest of one to an earlier command may come before it."""
_ECHO_LINE = "Received command: "


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardTiming:
    """Times by which a board is given up, or left alone."""

    answer_s: float = 2.0
    """A command that computes nothing is answered within this; a reply pauses no longer."""
    quiet_s: float = 0.1
    """Nothing comes for so long: nothing is on its way. USB adapters hold bytes back for 16 ms."""
    boot_s: float = 0.5
    """A board that starts when it is opened says its first word after so long, or is asked."""
    resync_s: tuple[float, ...] = (0.5, 1.0, 1.0, 2.0, 2.0, 3.0)
    """How long each `name` waits for its reply. A bootloader takes the first two seconds."""
    frame_s: float = 0.5
    """A frame is answered after so long."""


@dataclass(frozen=True, slots=True)
class BoardReply:
    """Reply of a board to one command."""

    command: str
    issued_ns: int
    """When the command was about to be sent, bridge clock."""
    events: tuple[TimedEvent, ...]
    is_complete: bool
    """Whether `m-ready` came."""

    def of_kind(self, kind: type[E]) -> list[E]:
        """Events of this kind, in order."""
        return [one.event for one in self.events if isinstance(one.event, kind)]

    def first(self, kind: type[E]) -> E | None:
        """First event of this kind; None: there is none."""
        return next(iter(self.of_kind(kind)), None)

    def timed(self, kind: type[object]) -> TimedEvent | None:
        """First event of this kind with its times; None: there is none."""
        return next((one for one in self.events if isinstance(one.event, kind)), None)

    @property
    def is_restart(self) -> bool:
        """Whether the board started anew instead of answering."""
        if self.command.startswith("x-mode"):
            return bool(self.of_kind(InitEnd))
        return bool(self.of_kind(InitEnd) or self.of_kind(TimestampMode))

    @property
    def error(self) -> str | None:
        """Error in the board's words; None: it named none."""
        reply = self.first(ErrorReply)
        return None if reply is None else reply.text

    @property
    def is_misheard(self) -> bool:
        """Whether the board refuses another word than the one that was sent to it."""
        error = self.error or ""
        first, *others = self.command.split()
        words = [first, *(word for word in others if word.isalpha())]
        return "ommand" in error and not any(word in error for word in words)


@dataclass(slots=True)
class BoardExchange:
    """A board that is asked one thing after another."""

    transport: BoardTransport
    dialect: Dialect = field(default_factory=mlperf_tiny)
    timing: BoardTiming = field(default_factory=BoardTiming)
    console: ConsoleLog = field(default_factory=ConsoleLog)
    boot_events: list[BoardEvent] = field(default_factory=list[BoardEvent])
    """Events when the board started, as far as they were received."""
    interface_name: str | None = None
    """Name of the interface board that the board is behind; None: there is none."""
    _due_ns: int | None = None
    """Time by which something of the reply under way has come, bridge clock; None: none is."""

    @property
    def busy_s(self) -> float:
        """How long the board may yet be busy with a command whose reply a stop cut off."""
        left_ns = 0 if self._due_ns is None else self._due_ns - self.transport.now_ns()
        return max(0.0, left_ns / 1e9)

    def finish(self) -> bool:
        """Hear out a reply that a stop cut off; whoever asks next finds the board ready.

        Returns:
            Whether the board is ready; it is not within the silence that its command was given.

        Raises:
            BoardLost: the board is gone.
        """
        left_s, is_busy = self.busy_s, self._due_ns is not None
        self._due_ns = None
        return not is_busy or self._until_ready([], left_s, 0.0)

    def ask(self, command: str, *, silence_s: float | None = None) -> BoardReply:
        """Send a command; its reply, to the end.

        Args:
            command: Command without its terminator.
            silence_s: How long nothing may come; None: as the timing has it.

        Raises:
            BoardRestarted: it started anew instead.
            BoardSilent: the reply has no end.
            BoardLost: the board is gone.
        """
        reply = self.attempt(command, silence_s=silence_s)
        if reply.is_restart:
            raise BoardRestarted(
                f"the board at {self.transport.name} restarted at `{_of(command)}`"
            )
        if not reply.is_complete:
            waited_s = self.timing.answer_s if silence_s is None else silence_s
            received = f"{len(reply.events)} lines of a reply" if reply.events else "no reply"
            raise BoardSilent(
                f"{received} to `{_of(command)}` from the board at {self.transport.name}, then "
                f"nothing for {waited_s:g} s"
            )
        return reply

    def attempt(
        self, command: str, *, silence_s: float | None = None, limit_s: float = REPLY_S
    ) -> BoardReply:
        """Send a command; what comes then, with or without an end.

        Args:
            command: Command without its terminator.
            silence_s: How long nothing may come; None: as the timing has it.
            limit_s: How long the reply may take beside that.

        Raises:
            BoardLost: the board is gone.
        """
        self._discard()
        data = self.dialect.encode(command)
        issued_ns = self.transport.now_ns()
        silent_s = self.timing.answer_s if silence_s is None else silence_s
        self._due_ns = issued_ns + round(silent_s * 1e9)
        self.send(data)
        events: list[TimedEvent] = []
        is_complete = self._until_ready(events, silent_s, limit_s)
        self._due_ns = None
        return BoardReply(command, issued_ns, tuple(events), is_complete)

    def confirmed(self, command: str, *kinds: type[object]) -> BoardReply:
        """Reply to a question that says the same as the one before it, in lines of these kinds.

        It may have no such line: firmware answers what it does not know with an error, or with
        nothing. A lost byte inside a line of text leaves another text that looks as good.

        Raises:
            LineDamaged: no two replies in a row are the same.
            BoardRefusal: the board refuses the question, twice.
            BoardSilent: the reply has no end.
            BoardRestarted: it started anew instead.
        """
        before: tuple[str, str | None] | None = None
        for _ in range(CONFIRMATIONS):
            reply = self.ask(command)
            if reply.is_misheard:
                continue
            # As text: results that are not numbers (nan) are the same ones, and not equal.
            replied = repr([one.event for one in reply.events if isinstance(one.event, kinds)])
            if before == (replied, reply.error):
                if reply.error is not None:
                    raise BoardRefusal(f"the board refuses `{_of(command)}`: {reply.error}")
                return reply
            before = replied, reply.error
        raise LineDamaged(f"{CONFIRMATIONS} replies to `{_of(command)}`, no two in a row the same")

    def hear_start(self) -> None:
        """Wait for what a board says when it is opened, if that started it."""
        self.dialect.reset()
        events: list[TimedEvent] = []
        received = self.read(self.timing.boot_s)
        if received.data:
            events += self.dialect.receive(received.data, received.time_ns)
            if not any(isinstance(one.event, ReplyEnd) for one in events):
                self._until_ready(events, self.timing.answer_s, _NAME_REPLY_S)
        self.boot_events += [one.event for one in events]

    def resync(self) -> str:
        """Bring the line in step; the board's name.

        Raises:
            BoardSilent: the board does not answer to its name.
            BoardLost: the board is gone.
        """
        heard_bytes, heard_lines = 0, 0
        attempts = list(self.timing.resync_s)
        while attempts:
            heard_bytes += self.drain()
            tried_count = len(self.timing.resync_s) - len(attempts)
            # At every other attempt: firmware may be as silent to what is left of a frame.
            if not heard_lines and tried_count in (2, 4):
                self._leave_blindly()
            reply = self.attempt("name", silence_s=attempts.pop(0), limit_s=_NAME_REPLY_S)
            heard_lines += len(reply.events) + reply.is_complete
            if self._switch(reply):
                attempts = attempts or list(self.timing.resync_s[:2])
                continue
            name = reply.first(BoardName)
            if name is not None and reply.is_complete and not reply.is_restart and not reply.error:
                self.drain()
                return name.name
            self.boot_events += [one.event for one in reply.events if reply.is_restart]
        raise BoardSilent(self._silence(heard_lines, heard_bytes))

    def drain(self) -> int:
        """Read until nothing comes; the number of bytes that came."""
        count, deadline_ns = 0, self.transport.now_ns() + round(DRAIN_S * 1e9)
        while self.transport.now_ns() < deadline_ns:
            received = self.read(self.timing.quiet_s)
            if not received.data:
                break
            count += len(received.data)
        self.dialect.reset()
        return count

    def send(self, data: bytes) -> None:
        """Bytes as they are, to the board and into the log."""
        self.transport.write(data)
        self.console.add(self.transport.now_ns(), ConsoleDirection.SENT, data)

    def read(self, timeout_s: float) -> ReceivedBytes:
        """Bytes as they come, also into the log."""
        received = self.transport.read(timeout_s)
        self.console.add(received.time_ns, ConsoleDirection.RECEIVED, received.data)
        return received

    def frames(self, reader: FrameReader, timeout_s: float) -> list[BoardFrame] | None:
        """Frames that are whole now; None: nothing came.

        Raises:
            BoardRestarted: what comes is the text of a start.
        """
        received = self.read(timeout_s)
        if not received.data:
            if b"m-init-done" in reader.take_rest():
                raise BoardRestarted(f"the board at {self.transport.name} restarted in a load")
            return None
        return reader.feed(received.data)

    def _until_ready(self, events: list[TimedEvent], silence_s: float, limit_s: float) -> bool:
        """Collect events to the end of the reply; whether it came."""
        deadline_ns = self.transport.now_ns() + round((silence_s + limit_s) * 1e9)
        while self.transport.now_ns() < deadline_ns:
            received = self.read(silence_s)
            if not received.data:
                return False
            for one in self.dialect.receive(received.data, received.time_ns):
                if isinstance(one.event, ReplyEnd):
                    return True
                events.append(one)
        return False

    def _discard(self) -> None:
        """Throw away what came since the last reply, and belongs to nothing."""
        while received := self.read(0).data:
            self.dialect.receive(received, 0)
        self.dialect.reset()

    def _switch(self, reply: BoardReply) -> bool:
        """Speak as the board does; whether that is another dialect than before."""
        texts = [one.text for one in reply.of_kind(OtherText)]
        is_echoed = any(text.startswith(_ECHO_LINE) for text in texts)
        if (interface := reply.first(InterfaceName)) and self.interface_name is None:
            self.interface_name = interface.name
            self.dialect = PassthroughDialect(mlperf_tiny())
            return True
        if is_echoed and not reply.of_kind(CommandEcho):
            board = streaming()
            self.dialect = PassthroughDialect(board) if self.interface_name else board
            return True
        return False

    def _leave_blindly(self) -> None:
        """End frame mode, which a board that heard nothing may be in."""
        if self.interface_name is None:
            self.send(LEAVE_FRAMES)
            self.drain()

    def _silence(self, line_count: int, byte_count: int) -> str:
        """Why there is no talking to the board, in one line."""
        speed = f" at {self.transport.baud_rate} baud" if self.transport.baud_rate else ""
        attempts = f"{len(self.timing.resync_s)} times `name`"
        if self.interface_name is not None:
            return (
                f"{self.interface_name} at {self.transport.name} answers, the board behind it does "
                f"not ({attempts})"
            )
        if Quirk.NOT_TEXT in self.dialect.quirks:
            return (
                f"what {self.transport.name} sends{speed} is not text: its speed is another one, "
                f"or the line is bad ({attempts})"
            )
        if line_count or byte_count:
            return (
                f"{self.transport.name} sends something{speed}, but no name: it may not speak "
                f"MLPerf Tiny's protocol ({attempts})"
            )
        return f"no answer from {self.transport.name}{speed} to {attempts}"


def _of(command: str) -> str:
    """Command for a message; the bytes of an input say nothing there."""
    return one_line(command, 40)
