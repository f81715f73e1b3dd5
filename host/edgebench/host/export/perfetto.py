"""Perfetto's native trace: what ui.perfetto.dev and its trace processor read.

A run is a process with a track for each kind of slice and for each counter. All packets belong to
one sequence and use the trace's default clock. Nothing is interned, so that every packet can be
read on its own.

    Trace { packet: TracePacket { timestamp, trusted_packet_sequence_id, and one of
        track_descriptor { uuid, parent_uuid, name, process | counter { unit_name } }
        track_event { type, track_uuid, name, double_counter_value, debug_annotations }  } … }

Source: github.com/google/perfetto, protos/perfetto/trace (field numbers below);
https://perfetto.dev/docs/reference/synthetic-track-event
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from edgebench.host.export.exported import ExportedRun
from edgebench.host.export.protobuf import (
    PADDED_BYTES,
    bytes_field,
    double_field,
    padded_field,
    padded_varints,
    uint_field,
)
from edgebench.host.export.run_trace import CounterTrack, RunTrace, SliceGroup, run_trace_of

_PACKET = 1  # Trace.packet
_TIMESTAMP, _SEQUENCE_ID, _TRACK_EVENT, _TRACK_DESCRIPTOR = 8, 10, 11, 60  # TracePacket
_UUID, _TRACK_NAME, _PROCESS, _PARENT_UUID, _COUNTER = 1, 2, 3, 5, 8  # TrackDescriptor
_PID, _PROCESS_NAME = 1, 6  # ProcessDescriptor
_UNIT_NAME = 6  # CounterDescriptor
_ANNOTATION, _TYPE, _TRACK_UUID, _EVENT_NAME, _VALUE = 4, 9, 11, 23, 44  # TrackEvent
_ANNOTATION_NAME, _ANNOTATION_TEXT = 10, 6  # DebugAnnotation
_BEGIN, _END, _COUNTER_EVENT = 1, 2, 4  # TrackEvent.Type
_SEQUENCE = uint_field(_SEQUENCE_ID, 1)
_CHUNK_ROWS = 1 << 16
"""Number of packets in memory at a time."""


def write(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write each run as a process with its own time zero."""
    uuids = iter(range(1, 1 << 62))
    for pid, one in enumerate(runs, 1):
        _write_run(run_trace_of(one), pid, uuids, out)


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
    """A packet whose last bytes are the timestamp, to be filled in."""
    event = uint_field(_TYPE, kind) + uint_field(_TRACK_UUID, track) + content
    time = padded_field(_TIMESTAMP)
    return bytes_field(_PACKET, _SEQUENCE + bytes_field(_TRACK_EVENT, event) + time)


def _write_slices(group: SliceGroup, track: int, out: BinaryIO) -> None:
    """Write a begin and an end event for each slice, in order of time."""
    named = bytes_field(_EVENT_NAME, group.name) + _annotations(group.facts)
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


def _annotations(facts: Mapping[str, str]) -> bytes:
    return b"".join(
        bytes_field(
            _ANNOTATION,
            bytes_field(_ANNOTATION_NAME, name) + bytes_field(_ANNOTATION_TEXT, text),
        )
        for name, text in facts.items()
    )


def _chunks(count: int) -> Iterator[slice]:
    return (slice(first, first + _CHUNK_ROWS) for first in range(0, count, _CHUNK_ROWS))


def _repeated(packet: bytes, count: int) -> NDArray[np.uint8]:
    """Copies of a packet, shape (count, length)."""
    return np.tile(np.frombuffer(packet, np.uint8), (count, 1))
