"""Frames of our own firmware, and uploads over lines that lose them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

import pytest
from cobs import cobs
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebench.firmware_bridge.dialects.lines import TERMINATOR
from edgebench.firmware_bridge.frames import (
    LEAVE_FRAMES,
    BoardFrame,
    FrameDamaged,
    FrameError,
    FrameKind,
    FrameReader,
    FrameUpload,
    cobs_decode,
    cobs_encode,
    frame_decode,
    frame_encode,
)
from edgebench.protocol.errors import BoardRefusal, LineDamaged

runs = st.lists(
    st.one_of(st.just(b"\0"), st.binary(max_size=20), st.just(b"\1" * 254), st.just(b"\2" * 255)),
    max_size=6,
).map(b"".join)


@settings(max_examples=100)
@given(runs)
def test_cobs_is_that_of_everybody(data: bytes) -> None:
    """Otherwise another implementation would decode 254 bytes without a zero differently."""
    encoded = cobs_encode(data)
    assert encoded == cobs.encode(data)
    assert cobs_decode(encoded) == data


@settings(max_examples=100)
@given(st.binary(max_size=30))
def test_cobs_refuses_what_others_refuse(encoded: bytes) -> None:
    """Otherwise damaged bytes would be taken for data, or end the bridge."""
    try:
        expected: bytes | None = cobs.decode(encoded)
    except cobs.DecodeError:
        expected = None
    if expected is None:
        with pytest.raises(FrameDamaged):
            cobs_decode(encoded)
    else:
        assert cobs_decode(encoded) == expected


def test_frame_is_laid_out_as_documented() -> None:
    """Otherwise our firmware would read the sequence as the kind, or the CRC of other data."""
    wire = frame_encode(BoardFrame(FrameKind.INPUT_DATA, 7, b"\0\0\0\0abc"))
    body = b"\x02\x07\0\0\0\0abc"
    assert cobs.decode(wire[:-1]) == body + struct.pack("<I", zlib.crc32(body))
    assert wire.endswith(b"\0")
    assert frame_decode(wire[:-1]) == BoardFrame(2, 7, b"\0\0\0\0abc")


@given(st.binary(max_size=40), st.data())
def test_damaged_frame_is_none(payload: bytes, data: st.DataObject) -> None:
    """Otherwise a byte that changed on its way would become a byte of the model."""
    wire = bytearray(frame_encode(BoardFrame(1, 1, payload))[:-1])
    place = data.draw(st.integers(0, len(wire) - 1))
    wire[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FrameDamaged):
        frame_decode(bytes(wire))


def test_frames_come_in_pieces_and_with_rubbish_between() -> None:
    """Otherwise a frame split over two reads, or behind rubbish, would be lost."""
    frames = [BoardFrame(0x80, n, struct.pack("<I", n)) for n in range(1, 4)]
    wire = b"rubbish\0\0" + b"".join(frame_encode(frame) for frame in frames) + b"m-rea"
    reader = FrameReader()
    heard = [frame for place in range(len(wire)) for frame in reader.feed(wire[place : place + 1])]
    assert heard == frames
    assert reader.damaged_count == 1
    assert reader.take_rest() == b"m-rea"


def test_end_of_frame_mode_is_harmless_in_line_mode() -> None:
    """Otherwise the end of frame mode would end a command of a board that never was in it."""
    assert TERMINATOR.encode() not in LEAVE_FRAMES
    assert LEAVE_FRAMES.startswith(b"\0")
    assert frame_decode(LEAVE_FRAMES[1:-1]).kind == FrameKind.LEAVE


@dataclass(slots=True)
class FrameDevice:
    """Our firmware's side of an upload, as specified in docs/firmware-protocol.md."""

    size: int | None = None
    crc: int = 0
    data: bytearray = field(default_factory=bytearray)
    is_committed: bool = False
    room: int = 10_000
    reader: FrameReader = field(default_factory=FrameReader)

    def hear(self, wire: bytes) -> bytes:
        """Return the replies to these bytes."""
        out = b""
        for encoded in wire.split(b"\0"):
            if encoded:
                try:
                    out += frame_encode(self._reply(frame_decode(encoded)))
                except FrameDamaged:
                    out += frame_encode(self._nak(0, FrameError.BAD_FRAME))
        return out

    def _reply(self, frame: BoardFrame) -> BoardFrame:
        payload, number = frame.payload, frame.sequence
        if frame.kind in (FrameKind.INPUT_BEGIN, FrameKind.MODEL_BEGIN):
            size, *crc = struct.unpack(f"<{len(payload) // 4}I", payload)
            if size > self.room:
                return self._nak(number, FrameError.TOO_LARGE)
            self.size, self.crc = size, crc[0] if crc else 0
            self.data.clear()
            self.is_committed = False
        elif frame.kind in (FrameKind.INPUT_DATA, FrameKind.MODEL_DATA):
            if self.size is None:
                return self._nak(number, FrameError.NOT_BEGUN)
            (offset,) = struct.unpack("<I", payload[:4])
            piece = payload[4:]
            if offset + len(piece) > self.size:
                return self._nak(number, FrameError.TOO_LARGE)
            if offset != len(self.data) and offset + len(piece) > len(self.data):
                return self._nak(number, FrameError.BAD_OFFSET)
            self.data[offset : offset + len(piece)] = piece
        elif frame.kind == FrameKind.MODEL_COMMIT:
            if self.size is None:
                return self._nak(number, FrameError.NOT_BEGUN)
            if len(self.data) < self.size:
                return self._nak(number, FrameError.MODEL_INCOMPLETE)
            if zlib.crc32(self.data) != self.crc:
                return self._nak(number, FrameError.MODEL_CRC)
            self.is_committed, self.size = True, None
        return BoardFrame(FrameKind.ACK, number, struct.pack("<I", len(self.data)))

    def _nak(self, number: int, error: FrameError) -> BoardFrame:
        received = 0 if error is FrameError.BAD_FRAME else len(self.data)
        return BoardFrame(FrameKind.NAK, number, struct.pack("<BBI", error, 0, received))


def uploaded(
    upload: FrameUpload,
    device: FrameDevice,
    lost_to_board: frozenset[int] = frozenset(),
    lost_to_host: frozenset[int] = frozenset(),
) -> int:
    """Run both sides until it is done; return the number of bytes that were sent."""
    reader, sent, received = FrameReader(), 0, 0
    for _ in range(2000):
        if upload.is_done:
            return sent
        wire = upload.next_frames()
        kept = bytes(b for n, b in enumerate(wire, sent) if n not in lost_to_board)
        sent += len(wire)
        replies = device.hear(kept)
        heard = bytes(b for n, b in enumerate(replies, received) if n not in lost_to_host)
        received += len(replies)
        frames = reader.feed(heard)
        for frame in frames:
            upload.receive(frame)
        if not frames:
            upload.time_out()
    raise AssertionError("it does not end")


@pytest.mark.parametrize("is_model", [False, True])
@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000])
def test_upload_arrives(is_model: bool, window: int, size: int) -> None:
    """Otherwise the last piece would be missing, or a model would never be committed."""
    data = bytes(n % 251 for n in range(size))
    device = FrameDevice()
    upload = FrameUpload(data, is_model, payload_max=64, window=window)
    sent = uploaded(upload, device)
    assert bytes(device.data) == data
    assert device.is_committed is is_model
    assert sent < size * 1.25 + 60


lost = st.frozensets(st.integers(0, 1500), max_size=12)


@settings(max_examples=60)
@given(data=st.binary(min_size=1, max_size=900), is_model=st.booleans(), a=lost, b=lost)
def test_upload_survives_lost_bytes(
    data: bytes, is_model: bool, a: frozenset[int], b: frozenset[int]
) -> None:
    """Otherwise a lost byte would leave a hole in the model, or the upload would never end."""
    device = FrameDevice()
    uploaded(FrameUpload(data, is_model, payload_max=64, window=4), device, a, b)
    assert bytes(device.data) == data
    assert device.is_committed is is_model


def test_damaged_frame_costs_a_frame_and_not_the_load() -> None:
    """Otherwise a model would never arrive over a bad line: each damaged frame would restart it."""
    data = bytes(n % 251 for n in range(4000))
    device = FrameDevice()
    damaged = frozenset(range(500, 5000, 500))
    upload = FrameUpload(data, True, payload_max=64, window=2)
    sent = uploaded(upload, device, damaged)
    assert bytes(device.data) == data
    assert sent < 1.15 * len(data) + 9 * 2 * 75


def test_refused_upload_ends_with_the_reason() -> None:
    """Otherwise a model that is too large would be sent again and again."""
    upload = FrameUpload(bytes(100), True, payload_max=64, window=4)
    with pytest.raises(BoardRefusal, match=r"rejects a model of 100 bytes: too_large"):
        uploaded(upload, FrameDevice(room=10))


def test_upload_to_nobody_ends() -> None:
    """Otherwise a board that left frame mode would be sent frames for ever."""
    upload = FrameUpload(b"x", False, payload_max=64, window=4)
    everything = frozenset(range(10_000))
    with pytest.raises(LineDamaged, match=r"stopped at 0 of 1 bytes after 20 attempts: no reply"):
        uploaded(upload, FrameDevice(), everything)
