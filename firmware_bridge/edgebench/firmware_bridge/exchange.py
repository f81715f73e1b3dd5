"""Sends commands to a board over a transport, and receives the replies, in a dialect.

Theory of operation. A single command is in progress at a time, and `m-ready` ends its reply. Before
a command is sent, all pending input is read and discarded, because it belongs to no command. After
a reply without `m-ready`, or a restart of the board during the reply, the board's command buffer
may contain a partial command. So the line is synchronised before the next command:

    drain    read until no data arrives for some time
    name%    repeat until the reply contains a name and `m-ready`, and no error

A bare `%` would end a partial command. It is not sent, because it crashes the reference firmware if
the command buffer is empty. The first `name` may be appended to a partial command, and be rejected
as an unknown command; the second `name` is then received alone.

A board that ignores commands may be in frame mode. A special frame ends this mode; a board in line
mode receives the frame as a few characters of an unknown command.
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
    FaultText,
    InitEnd,
    InterfaceName,
    OtherText,
    Quirk,
    ReplyEnd,
    TimedEvent,
    TimestampMode,
)
from edgebench.firmware_bridge.dialects.interface_board import PassthroughDialect
from edgebench.firmware_bridge.dialects.mlperf_tiny import FAULT_LINE, mlperf_tiny
from edgebench.firmware_bridge.dialects.streaming import streaming
from edgebench.firmware_bridge.frames import LEAVE_FRAMES, BoardFrame, FrameReader
from edgebench.firmware_bridge.transports.base import BoardTransport, ReceivedBytes
from edgebench.protocol.errors import (
    BoardFault,
    BoardRefusal,
    BoardRestarted,
    BoardSilent,
    LineDamaged,
)
from edgebench.protocol.text import one_line

E = TypeVar("E")
ATTEMPTS = 7
"""Maximum number of attempts to load data or to run a window, on a line that loses bytes."""
UNANSWERED_LIMIT = 3
"""Number of attempts after which a command without a reply counts as missing in the firmware, if
the board replies to `name` after each attempt."""
CONFIRMATIONS = 5
"""Maximum number of times that a query is sent; two consecutive replies must be equal."""
DRAIN_S = 2.0
"""Maximum time to drain the line; the command is then sent even if data still arrives."""
REPLY_S = 900.0
"""Maximum duration of a reply in seconds, without the time in which the board computes. To print
98304 bytes at 9600 baud takes 310 s."""
_NAME_REPLY_S = 15.0
"""Maximum duration of a reply to `name`, including the rest of the reply to an earlier command."""
_ADDED_ATTEMPTS = 3
"""Maximum number of additional attempts to get a reply to `name`. An attempt is added if the board
restarts, or rejects the remains of an earlier command."""
_ECHO_LINE = "Received command: "


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardTiming:
    """Timeouts of the exchange with a board, in seconds."""

    answer_s: float = 2.0
    """Maximum time without data before or within a reply, for commands that need no computation."""
    quiet_s: float = 0.1
    """The line counts as drained after this time without data. USB adapters delay bytes by 16
    ms."""
    boot_s: float = 0.5
    """Maximum time until the first data of a board that restarts when its port is opened."""
    resync_s: tuple[float, ...] = (0.5, 1.0, 1.0, 2.0, 2.0, 3.0)
    """Timeouts of consecutive `name` commands. A bootloader takes the first two seconds."""
    start_s: float = 3.5
    """Time that a board may take to start after its port was opened. At the first speed that is
    tried, `name` is also sent after this time."""
    frame_s: float = 0.5
    """Maximum time until the reply to a frame."""


@dataclass(frozen=True, slots=True)
class BoardReply:
    """Reply of a board to a command."""

    command: str
    issued_ns: int
    """Time just before the command was sent, bridge clock."""
    events: tuple[TimedEvent, ...]
    is_complete: bool
    """Whether `m-ready` was received."""

    def of_kind(self, kind: type[E]) -> list[E]:
        """All events of the given type in the reply, in order."""
        return [event.event for event in self.events if isinstance(event.event, kind)]

    def first(self, kind: type[E]) -> E | None:
        """First event of the given type in the reply, or None."""
        return next(iter(self.of_kind(kind)), None)

    def timed(self, kind: type[object]) -> TimedEvent | None:
        """First event of the given type with its times, or None."""
        return next((event for event in self.events if isinstance(event.event, kind)), None)

    @property
    def is_restart(self) -> bool:
        """Whether the board restarted instead of replying."""
        if self.command.startswith("x-mode"):
            return bool(self.of_kind(InitEnd))
        return bool(self.of_kind(InitEnd) or self.of_kind(TimestampMode))

    @property
    def error(self) -> str | None:
        """Error that the board reported, or None."""
        reply = self.first(ErrorReply)
        return None if reply is None else reply.text

    @property
    def is_garbled(self) -> bool:
        """Whether the board rejects the command because the line has damaged the command."""
        error = self.error or ""
        first, *others = self.command.split()
        words = [first, *(word for word in others if word.isalpha())]
        return "ommand" in error and not any(word in error for word in words)


@dataclass(slots=True)
class BoardExchange:
    """Sequential exchange of commands and replies with a board."""

    transport: BoardTransport
    dialect: Dialect = field(default_factory=mlperf_tiny)
    timing: BoardTiming = field(default_factory=BoardTiming)
    console: ConsoleLog = field(default_factory=ConsoleLog)
    boot_events: list[BoardEvent] = field(default_factory=list[BoardEvent])
    """Events received while the board started."""
    interface_name: str | None = None
    """Name of the interface board in front of the board; None if there is no interface board."""
    slow_s: float = 0.0
    """Longest time that the board took to reply to `name`; 0 if no reply was slower than usual."""
    _due_ns: int | None = None
    """Bridge-clock time by which data of the pending reply must arrive; None if no reply is due."""

    @property
    def answer_s(self) -> float:
        """Maximum time until a reply begins; it is longer if the board replied slowly to `name`."""
        return max(self.timing.answer_s, 2 * self.slow_s)

    @property
    def busy_s(self) -> float:
        """Maximum remaining time of a command whose reply is still due; 0 if no reply is due."""
        left_ns = 0 if self._due_ns is None else self._due_ns - self.transport.now_ns()
        return max(0.0, left_ns / 1e9)

    def finish(self) -> bool:
        """Receive the rest of an interrupted reply, after which the board accepts a new command.

        Returns:
            Whether the board is ready; False if the interrupted command exceeded its timeout.

        Raises:
            BoardLost: the board was disconnected.
        """
        left_s, is_busy = self.busy_s, self._due_ns is not None
        self._due_ns = None
        return not is_busy or self._until_ready([], left_s, 0.0)

    def request(self, command: str, *, silence_s: float | None = None) -> BoardReply:
        """Send a command and return its complete reply.

        Args:
            command: Command without its terminator.
            silence_s: Maximum time without data; None for `answer_s`.

        Raises:
            BoardFault: the board reports a fault of its processor.
            BoardRestarted: the board restarted instead of replying.
            BoardSilent: the reply does not end.
            BoardLost: the board was disconnected.
        """
        reply = self.attempt(command, silence_s=silence_s)
        if reply.is_restart:
            raise BoardRestarted(
                f"the board at {self.transport.name} restarted during `{_of(command)}`"
            )
        if not reply.is_complete:
            waited_s = self.answer_s if silence_s is None else silence_s
            received = f"{len(reply.events)} lines of a reply" if reply.events else "no reply"
            raise BoardSilent(
                f"{received} to `{_of(command)}`: the board at {self.transport.name} "
                f"was silent for {waited_s:g} s"
            )
        return reply

    def attempt(
        self, command: str, *, silence_s: float | None = None, limit_s: float = REPLY_S
    ) -> BoardReply:
        """Send a command and return its reply, which may be incomplete.

        Args:
            command: Command without its terminator.
            silence_s: Maximum time without data; None for `answer_s`.
            limit_s: Maximum duration of the reply in addition to `silence_s`.

        Raises:
            BoardFault: the board reports a fault of its processor.
            BoardLost: the board was disconnected.
        """
        self._discard()
        data = self.dialect.encode(command)
        issued_ns = self.transport.now_ns()
        silent_s = self.answer_s if silence_s is None else silence_s
        self._due_ns = issued_ns + round(silent_s * 1e9)
        self.send(data)
        events: list[TimedEvent] = []
        is_complete = self._until_ready(events, silent_s, limit_s)
        self._due_ns = None
        if events and isinstance(fault := events[-1].event, FaultText):
            raise BoardFault(
                f"the board at {self.transport.name} stopped during `{_of(command)}`: "
                f"{one_line(fault.text, 80)}"
            )
        return BoardReply(command, issued_ns, tuple(events), is_complete)

    def confirmed(self, command: str, *kinds: type[object]) -> BoardReply:
        """Repeat a query until two consecutive replies have equal lines of the given event types.

        A single reply is not enough, because a line that has lost a byte may still look valid. Two
        replies without any such line also count as equal, because firmware may lack the command.

        Raises:
            LineDamaged: no two consecutive replies are equal.
            BoardRefusal: two consecutive replies reject the query with the same error.
            BoardSilent: a reply does not end.
            BoardRestarted: the board restarted instead of replying.
        """
        before: tuple[str, str | None] | None = None
        for _ in range(CONFIRMATIONS):
            reply = self.request(command)
            if reply.is_garbled:
                continue
            # As text: results that are NaN are the same, but do not compare equal.
            replied = repr(
                [event.event for event in reply.events if isinstance(event.event, kinds)]
            )
            if before == (replied, reply.error):
                if reply.error is not None:
                    raise BoardRefusal(f"the board rejects `{_of(command)}`: {reply.error}")
                return reply
            before = replied, reply.error
        raise LineDamaged(
            f"of {CONFIRMATIONS} replies to `{_of(command)}`, no two consecutive replies are equal"
        )

    def read_start_messages(self) -> None:
        """Wait for the start messages of a board that restarts when its port is opened."""
        self.dialect.reset()
        events: list[TimedEvent] = []
        received = self.read(self.timing.boot_s)
        if received.data:
            events += self.dialect.receive(received.data, received.time_ns)
            if not any(isinstance(event.event, ReplyEnd) for event in events):
                self._until_ready(events, self.answer_s, self.timing.start_s)
        self.boot_events += [event.event for event in events]

    def resync(self, *, is_first: bool = False) -> str:
        """Synchronise the line, and return the board's name.

        Args:
            is_first: Whether the port was just opened; if so, the board may still be starting.

        Raises:
            BoardFault: the board reports a fault of its processor.
            BoardSilent: the board does not reply to `name`.
            BoardLost: the board was disconnected.
        """
        received_bytes, received_lines, added_count = 0, 0, 0
        attempts = list(self.timing.resync_s)
        if is_first and (left_s := self.timing.start_s - sum(attempts[:-1])) > 0:
            attempts.append(left_s)
        tried_count, late_count, begin_ns = 0, 0, self.transport.now_ns()
        while attempts:
            received_bytes += self.drain()
            # At every second attempt only: firmware may also ignore the rest of a frame.
            if not received_lines and tried_count in (2, 4):
                self._leave_blindly()
            silence_s = max(attempts.pop(0), 2 * self.slow_s)
            reply = self.attempt("name", silence_s=silence_s, limit_s=_NAME_REPLY_S)
            tried_count += 1
            received_lines += len(reply.events) + reply.is_complete
            if self._switch(reply):
                attempts = attempts or list(self.timing.resync_s[:2])
                continue
            name = reply.first(BoardName)
            if name is not None and reply.is_complete and not reply.is_restart and not reply.error:
                if not late_count or self._settle(name, late_count, begin_ns):
                    self.drain()
                    return name.name
                late_count = 0
            elif reply.is_restart or (reply.error and reply.is_complete):
                if reply.is_restart:
                    self.boot_events += [event.event for event in reply.events]
                    late_count = 0  # it lost the earlier commands
                if added_count < _ADDED_ATTEMPTS:
                    attempts, added_count = attempts or [self.timing.resync_s[-1]], added_count + 1
            elif not reply.is_complete:
                late_count += 1
        raise BoardSilent(self._silence(received_lines, received_bytes))

    def _settle(self, name: BoardName, late_count: int, begin_ns: int) -> bool:
        """Receive a slow board's replies to earlier `name` commands; return whether it caught up.

        Args:
            name: Name in the first reply.
            late_count: Number of `name` commands without a reply yet. There may never be a reply
                to them, because the board was still starting.
            begin_ns: Time before the first `name` was sent, bridge clock.
        """
        waited_s = (self.transport.now_ns() - begin_ns) / 1e9
        while late_count and self._until_ready([], waited_s, _NAME_REPLY_S):
            late_count -= 1
        issued_ns = self.transport.now_ns()
        reply = self.attempt("name", silence_s=waited_s + self.answer_s, limit_s=_NAME_REPLY_S)
        took_s = (self.transport.now_ns() - issued_ns) / 1e9
        if took_s > self.timing.resync_s[0]:
            self.slow_s = max(self.slow_s, took_s)
        return reply.is_complete and reply.of_kind(BoardName) == [name]

    def drain(self) -> int:
        """Read until no data arrives for `quiet_s`, and return the number of received bytes."""
        count, deadline_ns = 0, self.transport.now_ns() + round(DRAIN_S * 1e9)
        while self.transport.now_ns() < deadline_ns:
            received = self.read(self.timing.quiet_s)
            if not received.data:
                break
            count += len(received.data)
        self.dialect.reset()
        return count

    def send(self, data: bytes) -> None:
        """Send raw bytes to the board, and log them."""
        self.transport.write(data)
        self.console.add(self.transport.now_ns(), ConsoleDirection.SENT, data)

    def read(self, timeout_s: float) -> ReceivedBytes:
        """Read raw bytes, and log them."""
        received = self.transport.read(timeout_s)
        self.console.add(received.time_ns, ConsoleDirection.RECEIVED, received.data)
        return received

    def frames(self, reader: FrameReader, timeout_s: float) -> list[BoardFrame] | None:
        """Read data, and return the frames that are now complete; return None if no data arrived.

        Raises:
            BoardFault: no data arrived, and the last received data is the text of a fault handler.
            BoardRestarted: no data arrived, and the last received data has a start message of the
                board.
        """
        received = self.read(timeout_s)
        if not received.data:
            text = reader.take_rest().decode("latin-1")
            if fault := FAULT_LINE.search(text):
                reason = one_line(fault[0].strip())
                where = f"the board at {self.transport.name}"
                raise BoardFault(f"{where} stopped during an upload: {reason}")
            if "m-init-done" in text:
                where = f"the board at {self.transport.name}"
                raise BoardRestarted(f"{where} restarted during an upload")
            return None
        return reader.feed(received.data)

    def _until_ready(self, events: list[TimedEvent], silence_s: float, limit_s: float) -> bool:
        """Collect events until the reply ends or a fault occurs; return whether the reply ended."""
        deadline_ns = self.transport.now_ns() + round((silence_s + limit_s) * 1e9)
        while self.transport.now_ns() < deadline_ns:
            received = self.read(silence_s)
            if not received.data:
                return False
            for timed in self.dialect.receive(received.data, received.time_ns):
                if isinstance(timed.event, ReplyEnd):
                    return True
                events.append(timed)
                if isinstance(timed.event, FaultText):
                    return False
                if isinstance(timed.event, ErrorReply):  # the board computes nothing any more
                    silence_s = min(silence_s, self.answer_s)
        return False

    def _discard(self) -> None:
        """Discard data that arrived after the last reply, because it belongs to no command."""
        while received := self.read(0).data:
            self.dialect.receive(received, 0)
        self.dialect.reset()

    def _switch(self, reply: BoardReply) -> bool:
        """Switch to the dialect that a reply to `name` reveals; return whether this is a change."""
        texts = [other.text for other in reply.of_kind(OtherText)]
        is_echoed = any(text.startswith(_ECHO_LINE) for text in texts)
        is_own = bool(reply.of_kind(BoardName))  # if so, "interface board" was in a log line
        if (interface := reply.first(InterfaceName)) and not (is_own or self.interface_name):
            self.interface_name = interface.name
            self.dialect = PassthroughDialect(mlperf_tiny())
            return True
        if is_echoed and not reply.of_kind(CommandEcho):
            board = streaming()
            self.dialect = PassthroughDialect(board) if self.interface_name else board
            return True
        return False

    def _leave_blindly(self) -> None:
        """Send the frame that ends frame mode, because a board in this mode ignores commands."""
        if self.interface_name is None:
            # After a character, because a command that begins with NUL is an empty command.
            self.send(b"-" + LEAVE_FRAMES)
            self.drain()

    def _silence(self, line_count: int, byte_count: int) -> str:
        """Text, on a single line, that explains why no reply to `name` was received."""
        speed = f" at {self.transport.baud_rate} baud" if self.transport.baud_rate else ""
        attempts = f"{len(self.timing.resync_s)} times `name`"
        if self.interface_name is not None:
            return (
                f"{self.interface_name} at {self.transport.name} responds, but the board behind it "
                f"does not ({attempts})"
            )
        if Quirk.NOT_TEXT in self.dialect.quirks:
            return (
                f"{self.transport.name} sends data{speed} that is not text: the speed is wrong, "
                f"or the line is bad ({attempts})"
            )
        if line_count or byte_count:
            return (
                f"{self.transport.name} sends data{speed}, but no name: it may not support MLPerf "
                f"Tiny's protocol ({attempts})"
            )
        return f"no reply from {self.transport.name}{speed} to {attempts}"


def _of(command: str) -> str:
    """Shorten a command for an error message, because a `db` command contains many digits."""
    return one_line(command, 40)
