r"""Raw bytes of a meter on disk: a header, then packets with the time they came.

    <header as JSON> \n
    packet: first_rx_ns i64, last_rx_ns i64, length u32, little-endian; then so many bytes

Everything is kept before anybody decodes it, so that a mistake in a decoder costs no measurement.
A file whose end is cut off, or zeros, as by a crash, is read up to there, and so is one that is
damaged in its middle: which of them it was is told when all was read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from edgebench.meters.base import Header, Packet
from edgebench.protocol.codec import from_plain, to_plain
from edgebench.protocol.errors import MeasurementError, RemoteProtocolError, StoreError

_PACKET = struct.Struct("<qqI")
_HEADER_MAX_BYTES = 1 << 20
_PACKET_MAX_BYTES = 1 << 26
_BUFFER_BYTES = 1 << 20
DAMAGED = "the recording of the meter is damaged"


class SpoolWriter:
    """Appends packets."""

    def __init__(self, path: Path, header: Header) -> None:
        """Begin a recording; a full disk is told here, before anything is measured.

        Raises:
            StoreError: there is one already, or it cannot be written.
        """
        self.path = path
        try:
            self._file = path.open("xb", buffering=_BUFFER_BYTES)
            self._begin(json.dumps(to_plain(header)).encode() + b"\n")
        except OSError as exc:
            raise StoreError(f"recording cannot be written: {exc.strerror}: {path}") from exc

    def _begin(self, line: bytes) -> None:
        try:
            self._file.write(line)
            self._file.flush()
        except OSError:
            with suppress(OSError):  # it would write once more
                self._file.close()
            self.path.unlink()
            raise

    def __enter__(self) -> SpoolWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what is left."""
        self._file.close()

    def append(self, packet: Packet) -> None:
        """Keep one packet.

        Raises:
            OSError: the disk is full, or gone.
        """
        head = _PACKET.pack(packet.first_rx_ns, packet.last_rx_ns, len(packet.data))
        self._file.write(head + packet.data)


def read_header(path: Path) -> Header:
    """What was recorded.

    Raises:
        MeasurementError: this is no recording.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        line = file.readline(_HEADER_MAX_BYTES)
    try:
        return from_plain(json.loads(line), Header)
    except (ValueError, RemoteProtocolError) as exc:
        raise MeasurementError(f"not a recording of a meter: {path}") from exc


class Packets:
    """The packets of a recording in order, up to where it ends or is damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.torn_bytes = 0
        """At the end, of no whole packet, or zeros, as after a crash; when all were read."""
        self.damage: str | None = None
        """Why the rest cannot be read, if no crash leaves it so; one line."""

    def __iter__(self) -> Iterator[Packet]:
        self.torn_bytes, self.damage = 0, None
        with self._path.open("rb", buffering=_BUFFER_BYTES) as file:
            size_bytes = self._path.stat().st_size
            end = len(file.readline(_HEADER_MAX_BYTES))
            while len(head := file.read(_PACKET.size)) == _PACKET.size:
                first_ns, last_ns, length = _PACKET.unpack(head)
                is_packet = 0 < length <= _PACKET_MAX_BYTES  # an empty one is never written
                if not is_packet or len(data := file.read(length)) < length:
                    break
                end += _PACKET.size + length
                yield Packet(first_ns, last_ns, data)
            rest_bytes = max(0, size_bytes - end)
            file.seek(end)
            if _is_torn(file, rest_bytes):
                self.torn_bytes = rest_bytes
            else:
                self.damage = (
                    f"{DAMAGED}: {rest_bytes} bytes from byte {end} on are no packets of a meter"
                )


def read_packets(path: Path) -> Packets:
    """The packets in order, up to where the file ends or is damaged."""
    return Packets(path)


def _is_torn(file: BinaryIO, rest_bytes: int) -> bool:
    """Whether this is what a crash leaves: the begin of one packet, or zeros, or nothing.

    What waited to be written is a packet and a buffer at most.
    """
    head = file.read(_PACKET.size)
    if len(head) < _PACKET.size:
        return True
    length: int = _PACKET.unpack(head)[2]
    if rest_bytes - _PACKET.size < length <= _PACKET_MAX_BYTES:
        return rest_bytes <= _BUFFER_BYTES
    chunks = iter(lambda: file.read(_BUFFER_BYTES), b"")
    return not any(head) and not any(any(chunk) for chunk in chunks)
