"""Binary frames of edgebench's firmware, with COBS and a CRC-32, and uploads by such frames.

    wire    COBS( kind u8 │ sequence u8 │ payload │ crc32 u32 ) 0x00

Theory of operation. An upload consists of a begin frame, data frames that contain their offset,
and, for a model, a commit frame. Up to `window` frames are in flight, which means sent but without
a reply yet. Each frame has a single reply, and replies arrive in order. A rejected or lost frame
invalidates the frames after it. So the upload waits until all frames in flight have replies or the
timeout has passed, and then continues from the offset in the board's reply. This module does no
I/O.

Source: docs/firmware-protocol.md. COBS: Cheshire & Baker, Consistent Overhead Byte Stuffing (1999).
CRC-32: as in zlib.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto

from edgebench.protocol.errors import BoardRefusal, LineDamaged

_U32 = struct.Struct("<I")
_RUN_MAX = 254
"""Maximum number of non-zero bytes after a code byte of COBS."""
_FRAME_MAX_BYTES = 1 << 16
"""Maximum size of a frame; longer data is discarded, because its delimiter was lost."""
_HALVED_EVERY = 4
"""Number of consecutive attempts without progress after which the size of data frames is halved."""
_PAYLOAD_MIN_BYTES = 32
ATTEMPTS = 20
"""Maximum number of consecutive attempts of an upload without progress."""


class FrameKind(IntEnum):
    """Type of a frame, given by the first byte of the frame."""

    INPUT_BEGIN = 0x01
    INPUT_DATA = 0x02
    MODEL_BEGIN = 0x03
    MODEL_DATA = 0x04
    MODEL_COMMIT = 0x05
    LEAVE = 0x0F
    ACK = 0x80
    NAK = 0x81


class FrameError(IntEnum):
    """Reason why the board rejects a frame, as stated in its `NAK` frame."""

    UNKNOWN = 0
    BAD_FRAME = 1
    UNKNOWN_KIND = 2
    BAD_PAYLOAD = 3
    TOO_LARGE = 4
    BAD_OFFSET = 5
    NOT_BEGUN = 6
    MODEL_INCOMPLETE = 7
    MODEL_CRC = 8
    MODEL_REFUSED = 9
    MODEL_LINKED = 10

    @classmethod
    def _missing_(cls, value: object) -> FrameError:
        return cls.UNKNOWN


class ModelReason(IntEnum):
    """Reason why firmware rejects a model."""

    READY = 0
    NONE = 1
    BAD_HEADER = 2
    BAD_OPERATOR = 3
    BAD_TENSOR = 4
    NO_MEMORY = 5
    UNKNOWN = 255

    @classmethod
    def _missing_(cls, value: object) -> ModelReason:
        return cls.UNKNOWN


_REPEATED = {FrameError.BAD_FRAME, FrameError.BAD_OFFSET, FrameError.MODEL_INCOMPLETE}
"""Errors caused by a damaged or lost frame; the upload continues from the board's offset."""
_BEGIN_AGAIN = {FrameError.NOT_BEGUN, FrameError.MODEL_CRC}
"""Errors of a board that has no load in progress, or has received wrong data; the upload starts
again. After an error in neither set, the upload fails, because the error would recur."""


@dataclass(frozen=True, slots=True)
class BoardFrame:
    """A frame to or from a board."""

    kind: int
    sequence: int
    payload: bytes = b""


class FrameDamaged(ValueError):
    """The bytes between two zero bytes are not a valid frame."""


def cobs_encode(data: bytes) -> bytes:
    r"""Encode bytes by COBS, so that the result contains no zero byte.

    The result does not include the delimiter.

    >>> cobs_encode(b"\x11\x22\x00\x33").hex(" ")
    '03 11 22 02 33'
    """
    encoded = bytearray()
    runs = data.split(b"\0")
    for number, run in enumerate(runs):
        is_last = number == len(runs) - 1
        while len(run) >= _RUN_MAX:
            if is_last and len(run) == _RUN_MAX:
                break  # a full run at the very end needs no further code byte
            encoded += b"\xff" + run[:_RUN_MAX]
            run = run[_RUN_MAX:]
        encoded += bytes([len(run) + 1]) + run
    return bytes(encoded)


def cobs_decode(encoded: bytes) -> bytes:
    """Reverse `cobs_encode`.

    Raises:
        FrameDamaged: the bytes contain a zero, or end in the middle of a run.
    """
    data = bytearray()
    place = 0
    while place < len(encoded):
        code = encoded[place]
        run = encoded[place + 1 : place + code]
        if code == 0 or len(run) != code - 1 or 0 in run:
            raise FrameDamaged(f"{len(encoded)} bytes are not valid COBS: code {code} at {place}")
        data += run
        place += code
        if code <= _RUN_MAX and place < len(encoded):
            data.append(0)
    return bytes(data)


def frame_encode(frame: BoardFrame) -> bytes:
    """Encode a frame as sent on the wire, with the zero byte that delimits it."""
    body = bytes([frame.kind, frame.sequence]) + frame.payload
    return cobs_encode(body + _U32.pack(zlib.crc32(body))) + b"\0"


def frame_decode(encoded: bytes) -> BoardFrame:
    """Decode the bytes between two zero bytes as a frame.

    Raises:
        FrameDamaged: the bytes are not a frame, or its CRC is wrong.
    """
    data = cobs_decode(encoded)
    if len(data) < 2 + _U32.size:
        raise FrameDamaged(f"a frame must have at least {2 + _U32.size} bytes, got {len(data)}")
    body, (crc,) = data[: -_U32.size], _U32.unpack(data[-_U32.size :])
    if zlib.crc32(body) != crc:
        raise FrameDamaged(f"CRC-32 is {zlib.crc32(body):08x}, but the frame states {crc:08x}")
    return BoardFrame(body[0], body[1], body[2:])


LEAVE_FRAMES = b"\0" + frame_encode(BoardFrame(FrameKind.LEAVE, 0))
"""Frame that ends frame mode in any state. In line mode it is harmless, because none of its bytes
ends a command."""


class FrameReader:
    """Finds frames in received data, which arrives in chunks of any size; counts damaged frames."""

    def __init__(self) -> None:
        self._rest = b""
        self.damaged_count = 0

    def feed(self, data: bytes) -> list[BoardFrame]:
        """Add received bytes, and return the frames that are now complete."""
        *whole, self._rest = (self._rest + data).split(b"\0")
        if len(self._rest) > _FRAME_MAX_BYTES:
            self._rest = b""
            self.damaged_count += 1
        frames: list[BoardFrame] = []
        for encoded in whole:
            if not encoded:
                continue
            try:
                frames.append(frame_decode(encoded))
            except FrameDamaged:
                self.damaged_count += 1
        return frames

    def take_rest(self) -> bytes:
        """Remove and return the bytes after the last frame; after frame mode, they are text."""
        rest, self._rest = self._rest, b""
        return rest


class _Step(Enum):
    BEGIN = auto()
    DATA = auto()
    COMMIT = auto()
    DONE = auto()


@dataclass(slots=True)
class FrameUpload:
    """Upload of an input or a model; the replies so far determine the next frames."""

    data: bytes
    is_model: bool
    payload_max: int
    """Maximum number of data bytes per frame, from the reply to `x-frames`; reduced on a bad
    line."""
    window: int
    """Maximum number of frames in flight."""
    received_bytes: int = 0
    """Bytes that the board has reported as received."""
    _step: _Step = _Step.BEGIN
    _offset: int = 0
    """Offset, in the uploaded data, of the next data frame."""
    _under_way: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])
    """Sequence number and kind of each frame in flight, oldest first."""
    _is_going_back: bool = False
    """Whether a frame was rejected, and the upload still waits for replies to later frames."""
    _sequence: int = 0
    _furthest_bytes: int = 0
    """Highest `received_bytes` so far; an attempt makes progress only if it exceeds this value."""
    _attempts: int = 0

    @property
    def is_done(self) -> bool:
        """Whether the board has received and accepted all data."""
        return self._step is _Step.DONE

    def next_frames(self) -> bytes:
        """Bytes to send now; empty if a reply must arrive first, or if the upload is done."""
        if self._is_going_back:
            return b""
        if self._step is _Step.DATA:
            out = b""
            kind = FrameKind.MODEL_DATA if self.is_model else FrameKind.INPUT_DATA
            while self._offset < len(self.data) and len(self._under_way) < self.window:
                piece = self.data[self._offset : self._offset + self.payload_max]
                out += self._frame(kind, _U32.pack(self._offset) + piece)
                self._offset += len(piece)
            return out
        if self._under_way or self._step is _Step.DONE:
            return b""
        if self._step is _Step.COMMIT:
            return self._frame(FrameKind.MODEL_COMMIT)
        size = _U32.pack(len(self.data))
        if not self.is_model:
            return self._frame(FrameKind.INPUT_BEGIN, size)
        return self._frame(FrameKind.MODEL_BEGIN, size + _U32.pack(zlib.crc32(self.data)))

    def receive(self, frame: BoardFrame) -> None:
        """Process a reply; a late reply to a frame that counts as lost is ignored.

        Raises:
            BoardRefusal: the board rejects this load.
            LineDamaged: there are too many attempts without progress.
        """
        kind = self._answered(frame)
        if kind is None:
            return
        if frame.kind == FrameKind.ACK and len(frame.payload) == _U32.size:
            self._advance(kind, _U32.unpack(frame.payload)[0])
        elif frame.kind == FrameKind.NAK and len(frame.payload) == 2 + _U32.size:
            error, detail = FrameError(frame.payload[0]), frame.payload[1]
            self._refused(error, detail, _U32.unpack(frame.payload[2:])[0])
        if not self._under_way:
            self._is_going_back = False

    def time_out(self) -> None:
        """Process a timeout, after which the frames in flight count as lost.

        Raises:
            LineDamaged: there are too many attempts without progress.
        """
        self._under_way.clear()
        self._is_going_back = False
        self._offset = self.received_bytes
        self._count_attempt("no reply")

    def _frame(self, kind: FrameKind, payload: bytes = b"") -> bytes:
        self._sequence = self._sequence % 255 + 1  # 0 is for frames that could not be decoded
        self._under_way.append((self._sequence, kind))
        return frame_encode(BoardFrame(kind, self._sequence, payload))

    def _answered(self, frame: BoardFrame) -> int | None:
        """Type of the frame in flight to which a received frame replies; None if there is none.

        Replies arrive in order. So if an older frame in flight has no reply, the frame or its reply
        was lost.
        """
        is_undecoded = frame.sequence == 0 and frame.kind == FrameKind.NAK
        if not is_undecoded and frame.sequence not in (number for number, _ in self._under_way):
            return None
        while self._under_way:
            number, kind = self._under_way.popleft()
            if is_undecoded or number == frame.sequence:
                return kind
        return None

    def _advance(self, kind: int, received: int) -> None:
        if kind in (FrameKind.INPUT_BEGIN, FrameKind.MODEL_BEGIN):
            self._step, self._offset, self.received_bytes = _Step.DATA, 0, 0
        elif kind == FrameKind.MODEL_COMMIT:
            self._step = _Step.DONE
        elif received > self.received_bytes:
            self.received_bytes = received
            if received > self._furthest_bytes:
                self._furthest_bytes, self._attempts = received, 0
        if self._step is _Step.DATA and self.received_bytes >= len(self.data):
            self._step = _Step.COMMIT if self.is_model else _Step.DONE
            self._under_way.clear()

    def _refused(self, error: FrameError, detail: int, received: int) -> None:
        if error in _BEGIN_AGAIN:
            self._step, self._offset, self.received_bytes = _Step.BEGIN, 0, 0
        elif error in _REPEATED:
            if self._step is not _Step.BEGIN:
                if error is not FrameError.BAD_FRAME:  # which has no valid offset
                    self.received_bytes = min(received, len(self.data))
                self._offset = self.received_bytes
                is_whole = self.is_model and self._offset == len(self.data)
                self._step = _Step.COMMIT if is_whole else _Step.DATA
        else:
            raise BoardRefusal(self._refusal(error, detail))
        self._is_going_back = True
        self._count_attempt(error.name)

    def _refusal(self, error: FrameError, detail: int) -> str:
        what = f"{'a model' if self.is_model else 'an input'} of {len(self.data)} bytes"
        if error is FrameError.MODEL_REFUSED:
            return f"the board rejects {what}: {ModelReason(detail).name.lower()} ({detail})"
        return f"the board rejects {what}: {error.name.lower()}"

    def _count_attempt(self, why: str) -> None:
        self._attempts += 1
        if not self._attempts % _HALVED_EVERY:  # short frames may pass on such a bad line
            self.payload_max = max(_PAYLOAD_MIN_BYTES, self.payload_max // 2)
        if self._attempts > ATTEMPTS:
            raise LineDamaged(
                f"upload stopped at {self.received_bytes} of {len(self.data)} bytes after "
                f"{ATTEMPTS} attempts: {why.lower()}"
            )
