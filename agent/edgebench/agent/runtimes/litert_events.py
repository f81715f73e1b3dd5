"""Events of LiteRT's profiler, as stored in the memory of its library.

Theory of operation. An event is a C++ structure whose header is not in the wheel. If this module
assumed a wrong layout, it would read invalid memory. The memory is therefore filled with a pattern
before the library writes events to the memory. Afterwards, the written part must end exactly where
the expected events end. Pointers to texts are followed only after the numbers next to them have
been validated.

Source: google-ai-edge/LiteRT, litert/c/litert_profiler_event.h; tflite/profiling/memory_info.h. The
size of an event, 104 bytes, was confirmed by experiment in 2.1.6, 2.2.0 and 2.3.0.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_char_p, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass

from edgebench.protocol.errors import ModelRefused

_OPERATOR, _DELEGATE_OPERATOR, _DELEGATE_PROFILED = 1 << 1, 1 << 2, 1 << 3
_TIMED_TYPES = (_OPERATOR, _DELEGATE_OPERATOR, _DELEGATE_PROFILED)
_EVENT_TYPES = {1 << bit for bit in range(9)}
"""`LiteRtProfilerEventType`."""
_WITH_GRAPHS = {"WHILE", "IF", "CALL", "CALL_ONCE", "STABLEHLO_WHILE", "STABLEHLO_CASE"}
_LONGEST_US = 600 * 10**6
_PATTERN = 0xA5


class RawEvent(ctypes.Structure):
    """`ProfiledEventData`, with the C++ layout of its two memory readings."""

    _fields_ = [
        ("tag", c_void_p),
        ("type", c_uint32),
        ("start_us", c_uint64),
        ("elapsed_us", c_uint64),
        ("memory_before", c_uint64 * 3),
        ("memory_after", c_uint64 * 3),
        ("node", c_uint64),
        ("subgraph", c_uint64),
        ("source", c_uint32),
    ]


@dataclass(frozen=True, slots=True)
class ProfilerEvent:
    """An event, copied out of the library's memory."""

    tag: str
    type: int
    elapsed_us: int

    @property
    def is_delegated(self) -> bool:
        """Whether the event belongs to a kernel of a delegate."""
        return self.type in (_DELEGATE_OPERATOR, _DELEGATE_PROFILED)


def operators(events: Sequence[ProfilerEvent]) -> list[ProfilerEvent]:
    """The operators of a run, except those whose time includes the time of other operators."""
    timed = [event for event in events if event.type == _OPERATOR or event.is_delegated]
    if any(event.tag in _WITH_GRAPHS for event in timed if not event.is_delegated):
        raise ModelRefused("no profile: LiteRT counts operators in loops twice")
    if any(event.is_delegated for event in timed):
        # A delegate's own node lasts as long as the kernels in it.
        timed = [event for event in timed if event.is_delegated or event.tag != "DELEGATE"]
    return timed


def make_room(count: int) -> ctypes.Array[RawEvent]:
    """Allocate memory for twice as many events as `count`, filled with the pattern."""
    room = (RawEvent * (2 * count))()
    ctypes.memset(room, _PATTERN, ctypes.sizeof(room))
    return room


def read_events(room: ctypes.Array[RawEvent], count: int) -> list[ProfilerEvent]:
    """Read the events that the library wrote, if they have the expected form."""
    used = ctypes.sizeof(RawEvent) * count
    beyond = bytes(memoryview(room).cast("B")[used:])
    pattern = int.from_bytes(bytes([_PATTERN] * 4), "little")
    is_sound = (
        not beyond.strip(bytes([_PATTERN]))
        and room[count - 1].source != pattern
        and all(room[index].type in _EVENT_TYPES for index in range(count))
        and all(
            room[index].elapsed_us < _LONGEST_US
            for index in range(count)
            if room[index].type in _TIMED_TYPES
        )
    )
    if not is_sound:
        raise ModelRefused("no profile: LiteRT's events have an unknown layout")
    events: list[ProfilerEvent] = []
    for raw in room[:count]:
        tag = ctypes.cast(raw.tag, c_char_p).value or b""
        text = tag.decode("utf-8", "replace")
        events.append(ProfilerEvent(text, int(raw.type), int(raw.elapsed_us)))
    return events
