"""Events of a board, the same in all dialects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Quirk(Enum):
    """Deviation from MLPerf Tiny's protocol that was seen on a board."""

    ECHO = "echo"
    """The board echoes commands."""
    NO_PREFIX = "no_prefix"
    """Lines lack their `m-`."""
    NAME_FORMAT = "name_format"
    """The name of the board is not `m-name-dut-[…]`."""
    TRAILING_COMMA = "trailing_comma"
    """Results end in a comma, as in the reference for visual wake words."""
    JOINED_LINES = "joined_lines"
    """A line begins in the middle of another: the end of the first line was lost."""
    TEXT_IN_WINDOW = "text_in_window"
    """The board prints other lines within a window, whose time includes the printing."""
    NOT_TEXT = "not_text"
    """Bytes that are not ASCII: the speed is wrong, or the line is bad."""


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """`m-ready`: the command has ended, with or without success."""


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
    """First line after a reset, which defines the kind of timestamps."""

    is_energy: bool
    """Timestamps are pulses on a pin instead of lines with the time."""


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
    """The last byte of a load has arrived."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Bytes received since `db load`, if the dialect reports them."""

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
    """Warm-up of an `infer` has ended."""


@dataclass(frozen=True, slots=True)
class InferenceBegin:
    """Timed inferences of an `infer`, with their number."""

    count: int


@dataclass(frozen=True, slots=True)
class InferenceEnd:
    """Timed inferences have ended."""


@dataclass(frozen=True, slots=True)
class ModelOutputs:
    """Outputs of the last inference."""

    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """The board rejects a command."""

    text: str


@dataclass(frozen=True, slots=True)
class FaultText:
    """The processor of the board is in its fault handler: no reply follows."""

    text: str


@dataclass(frozen=True, slots=True)
class InputMismatch:
    """The size of the input differs from the expected size; the board uses the previous input.

    The reference reports this in a line without a prefix, and then runs on the old content of the
    buffer: results after this line are not those of the input that was sent.
    """

    text: str


@dataclass(frozen=True, slots=True)
class ComplaintText:
    """Vendor-specific line about an error, which may be unrelated to the inference.

    Logs of the radio or the file system are printed between the lines of a reply.
    """

    text: str


@dataclass(frozen=True, slots=True)
class FailureText:
    """Vendor-specific line about a failed inference, which the protocol cannot express.

    The reference prints results even if an inference of the runtime fails.
    """

    text: str


@dataclass(frozen=True, slots=True)
class CommandEcho:
    """Command as the board received it, on a separate line."""

    command: str


@dataclass(frozen=True, slots=True)
class InfoItem:
    """A line of the reply to `x-info`."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class BufferCrc:
    """Reply to `x-crc`."""

    crc: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OutputBytes:
    """Part of the raw output tensors, reply to `x-out`."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CyclesHead:
    """First line of the reply to `x-cycles`."""

    tick_rate_hz: int
    total_count: int
    """Inferences of the last `infer`."""
    kept_count: int
    """Number of the most recent inferences whose ticks the board has kept."""


@dataclass(frozen=True, slots=True)
class CyclesPart:
    """Ticks of some inferences, oldest first."""

    ticks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperatorsHead:
    """First line of the reply to `x-profile`."""

    tick_rate_hz: int
    run_count: int
    """Inferences of the profile."""
    overhead_ticks: int
    """Ticks of as many readings of the counter as the profile has."""
    operator_count: int


@dataclass(frozen=True, slots=True)
class OperatorTicks:
    """Ticks of an operator over all inferences of a profile."""

    kind: str
    ticks: int


@dataclass(frozen=True, slots=True)
class FrameModeReply:
    """Reply to `x-frames`."""

    payload_max: int
    window: int


@dataclass(frozen=True, slots=True)
class ListeningBegin:
    """The board starts listening; a pulse follows right after this line."""


@dataclass(frozen=True, slots=True)
class ListeningEnd:
    """The board has stopped listening; a pulse came right before this line."""


@dataclass(frozen=True, slots=True)
class ActivationsHead:
    """Line before the activations of all audio frames."""


@dataclass(frozen=True, slots=True)
class NumberList:
    """A line of a list of whole numbers; empty for a bracket alone."""

    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SoundBegin:
    """An interface board plays this file."""

    file: str


@dataclass(frozen=True, slots=True)
class SoundEnd:
    """An interface board has played a file, or cannot play it."""

    error: str | None = None
    """Its reason; None: the file was played to its end."""


@dataclass(frozen=True, slots=True)
class RecordBegin:
    """An interface board starts to record edges of the board's pins."""


@dataclass(frozen=True, slots=True)
class DetectionsHead:
    """Line before the times at which the board detected the wake word, milliseconds."""


@dataclass(frozen=True, slots=True)
class ProcessingHead:
    """Line before the times at which processing of frames began or ended, in units of 10 µs."""

    is_end: bool


@dataclass(frozen=True, slots=True)
class OtherText:
    """Line without a meaning here: help, greetings, or the rest of a damaged line."""

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
    | FaultText
    | InputMismatch
    | ComplaintText
    | FailureText
    | CommandEcho
    | InfoItem
    | BufferCrc
    | OutputBytes
    | CyclesHead
    | CyclesPart
    | OperatorsHead
    | OperatorTicks
    | FrameModeReply
    | ListeningBegin
    | ListeningEnd
    | ActivationsHead
    | NumberList
    | SoundBegin
    | SoundEnd
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
    """Time when the read with its first byte returned."""
    last_ns: int
    """Time when the read with its end returned."""


class Dialect(Protocol):
    """State machine of a dialect; it does no I/O, and reads no clock."""

    @property
    def name(self) -> str:
        """Stable name, which is stored."""
        ...

    @property
    def chunk_bytes(self) -> int:
        """Bytes of input in a `db` command."""
        ...

    @property
    def quirks(self) -> set[Quirk]:
        """Deviations seen so far."""
        ...

    def encode(self, command: str) -> bytes:
        """Bytes of a command; the next received bytes are its reply.

        Raises:
            LocalProtocolError: the text is not a single valid command.
        """
        ...

    def receive(self, data: bytes, time_ns: int) -> list[TimedEvent]:
        """Events that are complete with these bytes, in order.

        Args:
            data: Bytes of a read.
            time_ns: Time when the read returned, bridge clock.
        """
        ...

    def reset(self) -> None:
        """Discard a partial line and the last command, before unrelated data."""
        ...
