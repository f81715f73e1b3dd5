r"""Raw bytes of a meter on disk: a header, then packets with their arrival times.

    <header as JSON> \n
    packet: first_rx_ns i64, last_rx_ns i64, length u32, CRC-32 of these 20 bytes, CRC-32 of the
            payload, little-endian; then `length` bytes of payload

All bytes are stored before they are decoded, so a bug in a decoder never destroys a measurement.
A file whose end is cut off or zeroed, as after a crash, is read up to that point. A file that is
damaged in the middle is read up to the damage. After the last packet, `Packets` reports which of
the two cases applies.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from edgebench.meters.base import Header, Packet
from edgebench.protocol.errors import (
    DirectoryTaken,
    MeasurementError,
    RemoteProtocolError,
    StoreError,
)
from edgebench.protocol.plain import from_plain, to_plain

_FACTS = struct.Struct("<qqI")
_SUMS = struct.Struct("<II")
_HEAD_BYTES = _FACTS.size + _SUMS.size
_HEADER_MAX_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 20
DAMAGED = "the recording of the meter is damaged"


class SpoolWriter:
    """Appends packets to a recording."""

    def __init__(self, path: Path, header: Header) -> None:
        """Create the recording; a full disk is detected here, before the measurement starts.

        Raises:
            StoreError: the file exists already, or cannot be written.
        """
        try:
            self._file = path.open("xb", buffering=_BUFFER_BYTES)
            try:
                self._file.write(json.dumps(to_plain(header)).encode() + b"\n")
                self._file.flush()
            except OSError:
                with suppress(OSError):  # close would try to write again
                    self._file.close()
                path.unlink()
                raise
        except OSError as exc:
            kind = DirectoryTaken if isinstance(exc, FileExistsError) else StoreError
            raise kind(f"recording cannot be written: {exc.strerror}: {path}") from exc

    def __enter__(self) -> SpoolWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Flush the buffer and close the file."""
        self._file.close()

    def append(self, packet: Packet) -> None:
        """Append a packet.

        Raises:
            OSError: the disk is full or was removed.
        """
        facts = _FACTS.pack(packet.first_rx_ns, packet.last_rx_ns, len(packet.data))
        self._file.write(facts + _SUMS.pack(crc32(facts), crc32(packet.data)) + packet.data)


def read_header(path: Path) -> Header:
    """Read the header of a recording.

    Raises:
        MeasurementError: the file is not a recording.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        line = file.readline(_HEADER_MAX_BYTES)
    try:
        return from_plain(json.loads(line), Header)
    except (ValueError, RemoteProtocolError) as exc:
        raise MeasurementError(f"not a recording of a meter: {path}") from exc


@dataclass(frozen=True, slots=True)
class _Head:
    """Header of a packet, stored before its payload."""

    first_rx_ns: int
    last_rx_ns: int
    length: int
    checksum: int
    """CRC-32 of the payload."""


class Packets:
    """Packets of a recording in order, up to its end or to the first damage."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.torn_bytes = 0
        """Number of bytes that a crash left at the end (zeros or a partial packet); valid after
        iteration."""
        self.damage: str | None = None
        """One line on why the bytes after the last packet are unreadable. None if no bytes follow
        the last packet, or if a crash left these bytes."""

    def __iter__(self) -> Iterator[Packet]:
        self.torn_bytes, self.damage = 0, None
        with self._path.open("rb", buffering=_BUFFER_BYTES) as file:
            end = len(file.readline(_HEADER_MAX_BYTES))
            while head := _head_of(file.read(_HEAD_BYTES)):
                data = file.read(head.length)
                if len(data) < head.length or crc32(data) != head.checksum:
                    break
                end += _HEAD_BYTES + head.length
                yield Packet(head.first_rx_ns, head.last_rx_ns, data)
            rest_bytes = max(0, self._path.stat().st_size - end)
            if _is_torn(file, end):
                self.torn_bytes = rest_bytes
            else:
                self.damage = (
                    f"{DAMAGED}: the last {rest_bytes} bytes, from byte {end}, are corrupt"
                )


def recorded_s(path: Path) -> float:
    """Time from the first to the last packet of a recording, read from packet headers only.

    Raises:
        OSError: the file cannot be read.
    """
    first_ns = last_ns = 0
    with path.open("rb", buffering=_BUFFER_BYTES) as file:
        size = path.stat().st_size
        file.readline(_HEADER_MAX_BYTES)
        while (head := _head_of(file.read(_HEAD_BYTES))) and file.tell() + head.length <= size:
            first_ns, last_ns = first_ns or head.first_rx_ns, head.last_rx_ns
            file.seek(head.length, 1)
    return (last_ns - first_ns) / 1e9


def read_packets(path: Path) -> Packets:
    """Return the packets of a recording, which are read from the file during iteration."""
    return Packets(path)


def _head_of(content: bytes) -> _Head | None:
    """Parse a packet header; None if it is incomplete or its checksum is wrong."""
    if len(content) < _HEAD_BYTES:
        return None
    checksum, data_checksum = _SUMS.unpack_from(content, _FACTS.size)
    if crc32(content[: _FACTS.size]) != checksum:
        return None
    first_ns, last_ns, length = _FACTS.unpack_from(content)
    return _Head(first_ns, last_ns, length, data_checksum)


def _is_torn(file: BinaryIO, begin: int) -> bool:
    """Whether the end of the file is a partial packet, zeros or nothing, as after a crash."""
    file.seek(begin)
    head = _head_of(file.read(_HEAD_BYTES))
    file.seek(begin)
    written = 0
    for place, chunk in enumerate(iter(lambda: file.read(_BUFFER_BYTES), b"")):
        if kept := chunk.rstrip(b"\0"):
            written = place * _BUFFER_BYTES + len(kept)
    return written < _HEAD_BYTES + (head.length if head else 0)
