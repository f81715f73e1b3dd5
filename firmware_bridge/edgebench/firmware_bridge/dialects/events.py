"""Events that dialects derive from the lines of a board, common to all dialects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Quirk(Enum):
    """Deviation from MLPerf Tiny's protocol that was seen on a board."""

    ECHO = "echo"
    """The board echoes commands."""
    NO_PREFIX = "no_prefix"
    """Lines lack the prefix `m-`."""
    NAME_FORMAT = "name_format"
    """The line with the board's name does not have the form `m-name-dut-[…]`."""
    TRAILING_COMMA = "trailing_comma"
    """Results end in a comma, as in MLPerf Tiny's reference firmware for visual wake words."""
    JOINED_LINES = "joined_lines"
    """The end of a line was lost, so the next line continues it without a line break."""
    TEXT_IN_WINDOW = "text_in_window"
    """The board prints extra lines while it runs timed inferences, so the measured time includes
    the printing."""
    NOT_TEXT = "not_text"
    """The board sends bytes that are not ASCII, because the speed is wrong or the line is bad."""


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """The line `m-ready`, which ends a command, with or without success."""


@dataclass(frozen=True, slots=True)
class BoardName:
    """Reply to `name`."""

    name: str


@dataclass(frozen=True, slots=True)
class InterfaceName:
    """Reply of an interface board to `name`; the board under test is connected behind it."""

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
    """First line that a board prints after a reset; it states the kind of timestamps."""

    is_energy: bool
    """Whether timestamps are pulses on a pin; otherwise, they are lines with the time."""


@dataclass(frozen=True, slots=True)
class InitEnd:
    """The line `m-init-done`, the second-last line that the board prints after a reset."""


@dataclass(frozen=True, slots=True)
class LapTime:
    """Timestamp line (lap), with the time by the board's clock."""

    time_us: int


@dataclass(frozen=True, slots=True)
class ExpectedSize:
    """Reply to `db load`, with the number of bytes that the board expects."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class LoadEnd:
    """The board has received the last byte of a load."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Number of bytes that the board has received since `db load`, if its firmware reports this."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class BufferBytes:
    """Part of the input buffer, in the reply to `db print`."""

    data: bytes


@dataclass(frozen=True, slots=True)
class WarmupBegin:
    """The warm-up of an `infer` begins; `count` is its number of inferences."""

    count: int


@dataclass(frozen=True, slots=True)
class WarmupEnd:
    """The warm-up of an `infer` has ended."""


@dataclass(frozen=True, slots=True)
class InferenceBegin:
    """The timed inferences of an `infer` begin; `count` is their number."""

    count: int


@dataclass(frozen=True, slots=True)
class InferenceEnd:
    """The timed inferences of an `infer` have ended."""


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
    """The board's processor is in its fault handler, so no reply follows."""

    text: str


@dataclass(frozen=True, slots=True)
class InputMismatch:
    """The size of the input differs from the expected size; the board uses the previous input.

    MLPerf Tiny's reference firmware reports this in a line without a prefix, and then runs
    inferences on the old content of the buffer. Results after this line do not belong to the input
    that was sent.
    """

    text: str


@dataclass(frozen=True, slots=True)
class ComplaintText:
    """Vendor-specific line about an error, which may be unrelated to the inference.

    Some boards print log messages of the radio or the file system between the lines of a reply.
    """

    text: str


@dataclass(frozen=True, slots=True)
class FailureText:
    """Vendor-specific line about a failed inference, for which the protocol defines no line.

    MLPerf Tiny's reference firmware prints results even if the runtime reports a failed inference.
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
    """Reply to `x-crc`: CRC-32 and size of the data that the board has received."""

    crc: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OutputBytes:
    """Part of the bytes of the output tensors, in the reply to `x-out`."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CyclesHead:
    """First line of the reply to `x-cycles`."""

    tick_rate_hz: int
    total_count: int
    """Number of inferences of the last `infer`."""
    kept_count: int
    """Number of inferences whose ticks the board has stored; they are the most recent ones."""


@dataclass(frozen=True, slots=True)
class CyclesPart:
    """Clock ticks that some of the last inferences took, oldest first."""

    ticks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperatorsHead:
    """First line of the reply to `x-profile`."""

    tick_rate_hz: int
    run_count: int
    """Number of inferences in the profile (times of the operators)."""
    overhead_ticks: int
    """Ticks that run_count · operator_count readings of the counter take, without any operator."""
    operator_count: int


@dataclass(frozen=True, slots=True)
class OperatorTicks:
    """Ticks that an operator took in total, in all inferences of a profile."""

    kind: str
    ticks: int


@dataclass(frozen=True, slots=True)
class FrameModeReply:
    """Reply to `x-frames`, with the limits for a payload in bytes and for frames in flight."""

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
    """Line that precedes the list with the activations of all audio frames."""


@dataclass(frozen=True, slots=True)
class NumberList:
    """A line of a list of integers; `values` is empty if the line has only a bracket."""

    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SoundBegin:
    """An interface board starts to play a sound file."""

    file: str


@dataclass(frozen=True, slots=True)
class SoundEnd:
    """An interface board has played a sound file, or cannot play it."""

    error: str | None = None
    """Error that the interface board prints; None if the file was played to its end."""


@dataclass(frozen=True, slots=True)
class RecordBegin:
    """An interface board starts to record edges of the board's pins."""


@dataclass(frozen=True, slots=True)
class DetectionsHead:
    """Line that precedes the times, in milliseconds, at which the board detected the wake word."""


@dataclass(frozen=True, slots=True)
class ProcessingHead:
    """Line that precedes the times, in units of 10 µs, at which processing began or ended."""

    is_end: bool


@dataclass(frozen=True, slots=True)
class OtherText:
    """Line that the dialect does not interpret, such as help, a greeting or a damaged line."""

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
    """Event, and the times by the bridge's clock at which its line arrived."""

    event: BoardEvent
    first_ns: int
    """Return time of the read that received the first byte of the line."""
    last_ns: int
    """Return time of the read that received the end of the line."""


class Dialect(Protocol):
    """State machine of a dialect; it does no I/O, and reads no clock."""

    @property
    def name(self) -> str:
        """Name of the dialect, which must not change, because it is stored with results."""
        ...

    @property
    def chunk_bytes(self) -> int:
        """Number of input bytes in a `db` command."""
        ...

    @property
    def quirks(self) -> set[Quirk]:
        """Deviations from MLPerf Tiny's protocol seen so far."""
        ...

    def encode(self, command: str) -> bytes:
        """Encode a command, so that `receive` parses the next bytes as its reply.

        Raises:
            LocalProtocolError: the text is not a single valid command.
        """
        ...

    def receive(self, data: bytes, time_ns: int) -> list[TimedEvent]:
        """Parse received bytes, and return the events of all lines that are now complete, in order.

        Args:
            data: Bytes of a read.
            time_ns: Time when the read returned, bridge clock.
        """
        ...

    def reset(self) -> None:
        """Discard a partial line and the last command, to which the next data does not belong."""
        ...
