"""Perfetto's native trace format, for ui.perfetto.dev and the trace processor.

A run is a process with a track for each kind of slice and each counter. All packets belong to the
same sequence and use the trace's default clock. No string is interned, so every packet can be
decoded separately.

    Trace { packet: TracePacket { timestamp, trusted_packet_sequence_id, and one of
        track_descriptor { uuid, parent_uuid, name, process | counter { unit_name } }
        track_event { type, track_uuid, name, double_counter_value, debug_annotations }  } … }

A protocol buffer is a sequence of fields:

    field   = tag, content          tag = number << 3 | wire type
    content = varint (0) | eight bytes (1) | length, bytes (2)

A varint may be padded. So packets that differ only in their numbers have the same length, and a
million of them can be written as a single array.

Source: github.com/google/perfetto, protos/perfetto/trace (field numbers below);
https://perfetto.dev/docs/reference/synthetic-track-event;
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from edgebench.host.export.exported import ExportedRun
from edgebench.host.export.run_trace import CounterTrack, RunTrace, SliceGroup, run_trace_of

_PACKET = 1  # Trace.packet
_TIMESTAMP, _SEQUENCE_ID, _TRACK_EVENT, _TRACK_DESCRIPTOR = 8, 10, 11, 60  # TracePacket
_UUID, _TRACK_NAME, _PROCESS, _PARENT_UUID, _COUNTER = 1, 2, 3, 5, 8  # TrackDescriptor
_PID, _PROCESS_NAME = 1, 6  # ProcessDescriptor
_UNIT_NAME = 6  # CounterDescriptor
_ANNOTATION, _TYPE, _TRACK_UUID, _EVENT_NAME, _VALUE = 4, 9, 11, 23, 44  # TrackEvent
_ANNOTATION_NAME, _ANNOTATION_TEXT = 10, 6  # DebugAnnotation
_BEGIN, _END, _COUNTER_EVENT = 1, 2, 4  # TrackEvent.Type
_VARINT, _FIXED64, _BYTES = 0, 1, 2  # wire types
PADDED_BYTES = 8
"""Length of a padded varint: 56 bits, enough for two years of nanoseconds."""
_CHUNK_ROWS = 1 << 16
"""Number of packets in memory at a time."""


def varint(value: int) -> bytes:
    r"""A non-negative number as a varint: seven bits per byte, lowest bits first.

    >>> varint(1), varint(300)
    (b'\x01', b'\xac\x02')
    """
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def uint_field(number: int, value: int) -> bytes:
    """Field with an unsigned integer, an enumerator or a Boolean."""
    return varint(number << 3 | _VARINT) + varint(value)


def double_field(number: int, value: float) -> bytes:
    """Field with a 64-bit floating-point number."""
    return varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def bytes_field(number: int, content: bytes | str) -> bytes:
    """Field with a string or an encoded message."""
    packed = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | _BYTES) + varint(len(packed)) + packed


def padded_field(number: int) -> bytes:
    """Field that ends with a placeholder varint of `PADDED_BYTES`."""
    return varint(number << 3 | _VARINT) + b"\x80" * (PADDED_BYTES - 1) + b"\0"


def padded_varints(values: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Numbers as varints of the same length, shape (n, PADDED_BYTES).

    Args:
        values: Shape (n,), 0 <= value < 2**56.
    """
    shifts = 7 * np.arange(PADDED_BYTES, dtype=np.int64)
    groups: NDArray[np.uint8] = (values[:, None] >> shifts & 0x7F).astype(np.uint8)
    groups[:, :-1] |= 0x80
    return groups


_SEQUENCE = uint_field(_SEQUENCE_ID, 1)


def write(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write each run as a process with its own time zero."""
    uuids = iter(range(1, 1 << 62))
    for pid, run in enumerate(runs, 1):
        _write_run(run_trace_of(run), pid, uuids, out)


def _write_run(trace: RunTrace, pid: int, uuids: Iterator[int], out: BinaryIO) -> None:
    process = next(uuids)
    facts = bytes_field(_PROCESS, uint_field(_PID, pid) + bytes_field(_PROCESS_NAME, trace.title))
    out.write(_descriptor(uint_field(_UUID, process) + facts))
    about = next(uuids)
    out.write(_track(about, process, "run"))
    whole = SliceGroup.single(trace.title, 0, trace.end_ns, trace.facts)
    _write_slices(whole, about, out)
    for track in trace.slices:
        uuid = next(uuids)
        out.write(_track(uuid, process, track.name))
        for group in track.groups:
            _write_slices(group, uuid, out)
    for counter in trace.counters:
        uuid = next(uuids)
        unit = bytes_field(_COUNTER, bytes_field(_UNIT_NAME, counter.unit))
        out.write(_track(uuid, process, counter.name, unit))
        _write_counter(counter, uuid, out)


def _track(uuid: int, process: int, name: str, kind: bytes = b"") -> bytes:
    place = uint_field(_UUID, uuid) + uint_field(_PARENT_UUID, process)
    return _descriptor(place + bytes_field(_TRACK_NAME, name) + kind)


def _descriptor(content: bytes) -> bytes:
    return bytes_field(_PACKET, _SEQUENCE + bytes_field(_TRACK_DESCRIPTOR, content))


def _event(kind: int, track: int, content: bytes = b"") -> bytes:
    """A packet that ends with a placeholder for its timestamp."""
    event = uint_field(_TYPE, kind) + uint_field(_TRACK_UUID, track) + content
    time = padded_field(_TIMESTAMP)
    return bytes_field(_PACKET, _SEQUENCE + bytes_field(_TRACK_EVENT, event) + time)


def _write_slices(group: SliceGroup, track: int, out: BinaryIO) -> None:
    """Write a begin and an end event for each slice, in order of time."""
    named = bytes_field(_EVENT_NAME, group.name)
    for name, text in group.facts.items():
        fact = bytes_field(_ANNOTATION_NAME, name) + bytes_field(_ANNOTATION_TEXT, text)
        named += bytes_field(_ANNOTATION, fact)
    begin, end = _event(_BEGIN, track, named), _event(_END, track)
    for rows in _chunks(len(group.begin_ns)):
        packets = _repeated(begin + end, len(group.begin_ns[rows]))
        packets[:, len(begin) - PADDED_BYTES : len(begin)] = padded_varints(group.begin_ns[rows])
        packets[:, -PADDED_BYTES:] = padded_varints(group.end_ns[rows])
        out.write(packets.tobytes())


def _write_counter(counter: CounterTrack, track: int, out: BinaryIO) -> None:
    event = _event(_COUNTER_EVENT, track, double_field(_VALUE, 0.0))
    value = event.index(double_field(_VALUE, 0.0)) + len(double_field(_VALUE, 0.0)) - 8
    for rows in _chunks(len(counter.time_ns)):
        packets = _repeated(event, len(counter.time_ns[rows]))
        doubles = np.ascontiguousarray(counter.value[rows], "<f8")
        packets[:, value : value + 8] = doubles.view(np.uint8).reshape(-1, 8)
        packets[:, -PADDED_BYTES:] = padded_varints(counter.time_ns[rows])
        out.write(packets.tobytes())


def _chunks(count: int) -> Iterator[slice]:
    return (slice(first, first + _CHUNK_ROWS) for first in range(0, count, _CHUNK_ROWS))


def _repeated(packet: bytes, count: int) -> NDArray[np.uint8]:
    """Copies of a packet, shape (count, length)."""
    return np.tile(np.frombuffer(packet, np.uint8), (count, 1))
