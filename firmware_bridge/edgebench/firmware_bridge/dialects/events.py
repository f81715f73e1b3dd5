"""Events of a board, the same in all dialects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Quirk(Enum):
    """Deviation from MLPerf Tiny's protocol that a board was seen to have."""

    ECHO = "echo"
    """The board sends commands back."""
    NO_PREFIX = "no_prefix"
    """Lines lack their `m-`."""
    NAME_FORMAT = "name_format"
    """The name of the board is not `m-name-dut-[…]`."""
    TRAILING_COMMA = "trailing_comma"
    """Results end in a comma, as those of the reference for visual wake words."""
    JOINED_LINES = "joined_lines"
    """A line begins in the middle of another: the end of the first one was lost."""
    TEXT_IN_WINDOW = "text_in_window"
    """The board prints lines of its own within a window, whose time includes the printing."""
    NOT_TEXT = "not_text"
    """Bytes that are no ASCII: the speed is wrong, or the line is bad."""


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """`m-ready`: the command is over, whether it succeeded or not."""


@dataclass(frozen=True, slots=True)
class BoardName:
    """Reply to `name`."""

    name: str


@dataclass(frozen=True, slots=True)
class InterfaceName:
    """Reply of an interface board to `name`: the board itself is behind it."""

    name: str


@dataclass(frozen=True, slots=True)
class FirmwareProfile:
    """Version of the firmware, first line of the reply to `profile`."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelName:
    """Id of the model on the board, second line of the reply to `profile`."""

    name: str


@dataclass(frozen=True, slots=True)
class TimestampMode:
    """First line after a reset: what a timestamp is."""

    is_energy: bool
    """A pulse on a pin, and not a line with the time."""


@dataclass(frozen=True, slots=True)
class InitEnd:
    """Last line but one after a reset."""


@dataclass(frozen=True, slots=True)
class LapTime:
    """Timestamp, by the board's clock."""

    time_us: int


@dataclass(frozen=True, slots=True)
class ExpectedSize:
    """Reply to `db load`."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class LoadEnd:
    """The last byte of a load has come."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Bytes that came since `db load`, if the dialect reports them."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class BufferBytes:
    """Part of the input buffer, reply to `db print`."""

    data: bytes


@dataclass(frozen=True, slots=True)
class WarmupBegin:
    """Warm-up of an `infer`, with its number of inferences."""

    count: int


@dataclass(frozen=True, slots=True)
class WarmupEnd:
    """Warm-up of an `infer` is over."""


@dataclass(frozen=True, slots=True)
class InferenceBegin:
    """Timed inferences of an `infer`, with their number."""

    count: int


@dataclass(frozen=True, slots=True)
class InferenceEnd:
    """Timed inferences are over."""


@dataclass(frozen=True, slots=True)
class ModelOutputs:
    """Outputs of the last inference."""

    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """The board refuses a command."""

    text: str


@dataclass(frozen=True, slots=True)
class InputMismatch:
    """The input has another size than the board expects; it goes on with the one before.

    The reference says so in a line without a prefix, and then runs on what was there before: no
    result after this line is of the input that was sent.
    """

    text: str


@dataclass(frozen=True, slots=True)
class ComplaintText:
    """Line of the maker's own about an error, which need not be one of the inference.

    A log of the radio or the file system is printed between the lines of a reply.
    """

    text: str


@dataclass(frozen=True, slots=True)
class FailureText:
    """Line of the maker's own that tells of a failure; nothing in the protocol says so.

    The reference prints results all the same when the runtime refuses an inference.
    """

    text: str


@dataclass(frozen=True, slots=True)
class CommandEcho:
    """Command as the board received it, in a line of its own."""

    command: str


@dataclass(frozen=True, slots=True)
class InfoItem:
    """One line of the reply to `x-info`."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class BufferCrc:
    """Reply to `x-crc`."""

    crc: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OutputBytes:
    """Part of the output tensors as they are, reply to `x-out`."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CyclesHead:
    """First line of the reply to `x-cycles`."""

    tick_rate_hz: int
    total_count: int
    """Inferences of the last `infer`."""
    kept_count: int
    """The last of them, which the board still has."""


@dataclass(frozen=True, slots=True)
class CyclesPart:
    """Ticks of some inferences, oldest first."""

    ticks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FrameModeReply:
    """Reply to `x-frames`."""

    payload_max: int
    window: int


@dataclass(frozen=True, slots=True)
class ListeningBegin:
    """The board listens from now on; a pulse comes right after this line."""


@dataclass(frozen=True, slots=True)
class ListeningEnd:
    """The board listens no more; a pulse came right before this line."""


@dataclass(frozen=True, slots=True)
class ActivationsHead:
    """Line before the activations of all audio frames."""


@dataclass(frozen=True, slots=True)
class NumberList:
    """One line of a list of whole numbers; empty for a bracket alone."""

    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SoundBegin:
    """An interface board plays this file."""

    file: str


@dataclass(frozen=True, slots=True)
class RecordBegin:
    """An interface board notes edges of the board's pins from now on."""


@dataclass(frozen=True, slots=True)
class DetectionsHead:
    """Line before the times at which the board detected something, milliseconds."""


@dataclass(frozen=True, slots=True)
class ProcessingHead:
    """Line before the times at which processing of frames began or ended, in units of 10 µs."""

    is_end: bool


@dataclass(frozen=True, slots=True)
class OtherText:
    """Line that means nothing here: help, greetings, or what is left of a damaged one."""

    text: str


BoardEvent = (
    ReplyEnd
    | BoardName
    | InterfaceName
    | FirmwareProfile
    | ModelName
    | TimestampMode
    | InitEnd
    | LapTime
    | ExpectedSize
    | LoadEnd
    | LoadProgress
    | BufferBytes
    | WarmupBegin
    | WarmupEnd
    | InferenceBegin
    | InferenceEnd
    | ModelOutputs
    | ErrorReply
    | InputMismatch
    | ComplaintText
    | FailureText
    | CommandEcho
    | InfoItem
    | BufferCrc
    | OutputBytes
    | CyclesHead
    | CyclesPart
    | FrameModeReply
    | ListeningBegin
    | ListeningEnd
    | ActivationsHead
    | NumberList
    | SoundBegin
    | RecordBegin
    | DetectionsHead
    | ProcessingHead
    | OtherText
)


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """Event with the times of its line, bridge clock."""

    event: BoardEvent
    first_ns: int
    """When the read that brought its first byte returned."""
    last_ns: int
    """When the read that brought its end returned."""


class Dialect(Protocol):
    """State machine of one way to talk; it does no I/O, and reads no clock."""

    @property
    def name(self) -> str:
        """Stable name, as it is stored."""
        ...

    @property
    def chunk_bytes(self) -> int:
        """Bytes of input in one `db` command."""
        ...

    @property
    def quirks(self) -> set[Quirk]:
        """Deviations seen so far."""
        ...

    def encode(self, command: str) -> bytes:
        """Bytes of a command; the reply to it is what is received next.

        Raises:
            LocalProtocolError: the board would not take it as one command.
        """
        ...

    def receive(self, data: bytes, time_ns: int) -> list[TimedEvent]:
        """Events that are complete with these bytes, in order.

        Args:
            data: Bytes of one read.
            time_ns: When the read returned, bridge clock.
        """
        ...

    def reset(self) -> None:
        """Forget half a line and the last command: what comes next is something new."""
        ...
