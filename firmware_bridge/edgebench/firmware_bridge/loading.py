"""Sends models and inputs to a board, and compares the data with the board's copy.

MLPerf Tiny's reference firmware writes beyond its buffer if it receives more bytes than announced.
Therefore a failed load starts again from `db load`, no chunk is sent twice within a load, and no
chunk is sent after `m-load-done`.
"""

from __future__ import annotations

import zlib

from edgebench.firmware_bridge.dialects import events
from edgebench.firmware_bridge.exchange import ATTEMPTS, UNANSWERED_LIMIT, BoardExchange
from edgebench.firmware_bridge.facts import FirmwareInfo, ReadBack
from edgebench.firmware_bridge.frames import LEAVE_FRAMES, FrameKind, FrameReader, FrameUpload
from edgebench.protocol.errors import BoardRefusal, BoardSilent, LineDamaged
from edgebench.protocol.target import OnBytes

FRAMES_FROM_BYTES = 512
"""Minimum size in bytes of an input that is sent in frames. A smaller input is sent as hexadecimal
digits, because a change to frame mode would take longer."""


class BoardLoader:
    """Makes a single attempt to load a model or an input; the caller repeats failed attempts."""

    def __init__(self, exchange: BoardExchange, on_bytes: OnBytes) -> None:
        self._exchange = exchange
        self._on_bytes = on_bytes

    def has_frames(self, firmware: FirmwareInfo | None) -> bool:
        """Whether data can be sent in frames; an interface board does not forward frames."""
        is_direct = self._exchange.interface_name is None
        return (
            is_direct
            and firmware is not None
            and bool(firmware.frame_max and firmware.frame_window)
        )

    def load_input(
        self, data: bytes, firmware: FirmwareInfo | None, *, read_back: bool
    ) -> ReadBack:
        """Send an input, and compare it with the board's copy.

        Args:
            data: Bytes in the encoding that the firmware expects.
            firmware: Facts of edgebench's firmware; None for any other firmware.
            read_back: Whether to compare the bytes if the board computes no CRC. The board then
                prints all bytes.

        Raises:
            BoardRefusal: the board has no space for an input of this size.
            LineDamaged: the bytes do not arrive as sent.
            BoardSilent: the board does not respond.
        """
        if self.has_frames(firmware) and len(data) >= FRAMES_FROM_BYTES:
            self.send_frames(data, is_model=False)
        else:
            self.send_digits(data)
        if firmware is not None:
            self.check_crc("x-crc", data)
            return ReadBack.CRC
        return self._compare_printed(data) if read_back else ReadBack.NONE

    def load_model(self, blob: bytes) -> None:
        """Send a model in frames, and compare the CRC-32 of the board's copy.

        Raises:
            LineDamaged: the model does not arrive as sent.
            BoardSilent: the board does not respond.
        """
        self.send_frames(blob, is_model=True)
        self.check_crc("x-crc model", blob)

    def send_digits(self, data: bytes) -> None:
        """Send an input as hexadecimal digits.

        Raises:
            BoardRefusal: the board has no space for an input of this size.
            LineDamaged: the board does not confirm the size, or a chunk of the load fails.
        """
        exchange, size = self._exchange, len(data)
        reply = exchange.request(f"db load {size}")
        mismatch = reply.first(events.InputMismatch)
        text = reply.error or (mismatch.text if mismatch else None)
        if text is not None and str(size) in text:
            raise BoardRefusal(f"the board rejects an input of {size} bytes: {text}")
        expected = reply.first(events.ExpectedSize)
        if text is not None or expected is None or expected.size_bytes != size:
            raise LineDamaged(
                f"the board expects {expected} instead of {size} bytes: {text or 'no error'}"
            )
        chunk = exchange.dialect.chunk_bytes
        for begin in range(0, size, chunk):
            part = data[begin : begin + chunk]
            reply = exchange.request(f"db {part.hex()}")
            is_last = begin + chunk >= size
            progress = reply.first(events.LoadProgress)
            is_as_sent = progress is None or progress.size_bytes == begin + len(part)
            is_done = reply.first(events.LoadEnd) is not None
            if reply.error or is_done != is_last or not is_as_sent:
                raise LineDamaged(
                    f"upload of {size} bytes failed at byte {begin}: "
                    f"{reply.error or ('it was ended early' if is_done else 'bytes are missing')}"
                )
            self._on_bytes(begin + len(part), size)

    def send_frames(self, data: bytes, *, is_model: bool) -> None:
        """Send an input or a model in frames, and return to line mode.

        Raises:
            LineDamaged: the board does not enter frame mode, or too many frames are lost.
        """
        exchange = self._exchange
        opened = exchange.request("x-frames").first(events.FrameModeReply)
        if opened is None:
            raise LineDamaged("the board does not report its maximum frame size")
        reader = FrameReader()
        upload = FrameUpload(data, is_model, opened.payload_max, max(1, opened.window))
        try:
            while not upload.is_done:
                if out := upload.next_frames():
                    exchange.send(out)
                frames = exchange.frames(reader, exchange.timing.frame_s)
                if frames is None:
                    upload.time_out()
                for frame in frames or ():
                    upload.receive(frame)
                self._on_bytes(upload.received_bytes, len(data))
        finally:
            self._leave_frames()

    def check_crc(self, command: str, data: bytes) -> None:
        """Compare the CRC-32 and size of the board's copy with the data.

        Raises:
            LineDamaged: the board's copy differs from the data.
        """
        reply = self._exchange.confirmed(command, events.BufferCrc)
        if reply.first(events.BufferCrc) != events.BufferCrc(zlib.crc32(data), len(data)):
            raise LineDamaged(f"the data on the board differs from the {len(data)} bytes sent")

    def _compare_printed(self, data: bytes) -> ReadBack:
        """Make the board print its copy of the input, and compare the copy with the sent bytes.

        MLPerf Tiny's reference firmware prints the whole input. But according to the help text of
        this firmware, `db print` prints only 16 bytes or a given number of bytes, and firmware of
        other vendors may follow the help text.

        Raises:
            LineDamaged: the board's copy differs from the sent bytes.
        """
        before: tuple[bytes, str | None] | None = None
        command, unanswered_count = "db print", 0
        for _ in range(ATTEMPTS):
            try:
                reply = self._exchange.request(command)
            except BoardSilent:
                self._exchange.resync()
                unanswered_count += 1
                if unanswered_count == UNANSWERED_LIMIT:
                    return ReadBack.NONE
                continue
            printed = b"".join(event.data for event in reply.of_kind(events.BufferBytes))
            if printed[: len(data)] == data:
                return ReadBack.PRINTED
            if (printed, reply.error) == before:
                # Two equal replies, so the reply itself is not damaged.
                if not printed and not reply.is_garbled:
                    return ReadBack.NONE
                if not data.startswith(printed) or command != "db print":
                    break
                command = f"db print {len(data)}"
            before = printed, reply.error
        raise LineDamaged(f"the input on the board differs from the {len(data)} bytes sent")

    def _leave_frames(self) -> None:
        exchange, reader = self._exchange, FrameReader()
        for _ in range(ATTEMPTS):
            exchange.send(LEAVE_FRAMES)
            frames = exchange.frames(reader, exchange.timing.frame_s)
            if any(frame.kind == FrameKind.ACK and frame.sequence == 0 for frame in frames or ()):
                break
        exchange.drain()
