"""Encoding and decoding of messages, with size limits and without sockets.

Theory of operation. A frame is a WebSocket message:

    ┌────────────┬─────────────────────────────┬──────────────────────┐
    │ u32, LE    │ msgpack [kind, number, body]│ payload, raw bytes   │
    │ header size│ ≤ 64 KiB, ≤ 16 levels deep  │ ≤ 1 MiB, may be empty│
    └────────────┴─────────────────────────────┴──────────────────────┘

`kind` is the class name of the message in snake_case. `number` links a reply to its request. `body`
is a map from field name to value. The receiver ignores unknown fields and rejects unknown kinds.
The decoder replaces unprintable characters in texts, so no later code needs to escape texts for a
terminal. The limits are checked before anything is allocated, because Python objects take up to 72
times as much memory as their packed form. To save memory, only the small header is unpacked; the
payload is passed on as a view of the received bytes, without a copy.

Keep this format in sync with docs/wire-protocol.md.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any, cast, get_args

import msgpack

from edgebench.protocol.errors import LocalProtocolError, RemoteProtocolError
from edgebench.protocol.messages import Message
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.protocol.text import one_line

MAX_HEADER_BYTES = 64 * 1024
MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_FRAME_BYTES = 4 + MAX_HEADER_BYTES + MAX_PAYLOAD_BYTES
MAX_DEPTH = 16
"""Maximum levels of nesting in a message; the deepest real message has 6 levels."""
MAX_NUMBER = 2**53 - 1
"""Largest request number. Up to this limit, a double represents every request number exactly; some
languages store all numbers as doubles."""

_SIZE = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame."""

    number: int
    message: Message
    payload: memoryview


def encode(number: int, message: Message, payload: bytes | memoryview = b"") -> bytes:
    """Encode a message and its payload as a frame.

    Raises:
        LocalProtocolError: the message or the payload is larger than the protocol allows.
    """
    body = to_plain(message)
    header = cast(bytes, msgpack.packb([kind_of(type(message)), number, body]))
    if len(header) > MAX_HEADER_BYTES:
        raise LocalProtocolError(
            f"message {kind_of(type(message))} is too large: {len(header)} bytes, "
            f"limit {MAX_HEADER_BYTES}"
        )
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise LocalProtocolError(
            f"payload is too large: {len(payload)} bytes, limit {MAX_PAYLOAD_BYTES}"
        )
    return b"".join((_SIZE.pack(len(header)), header, payload))


def decode(data: bytes | memoryview) -> Frame:
    """Decode the frame in `data`; the payload of the result is a view of `data`.

    Raises:
        RemoteProtocolError: the bytes exceed a limit, or are not a valid frame.
    """
    if not _SIZE.size <= len(data) <= MAX_FRAME_BYTES:
        raise RemoteProtocolError(f"frame of {len(data)} bytes, limit {MAX_FRAME_BYTES}")
    view = memoryview(data)
    (size,) = _SIZE.unpack_from(view)
    if size > min(MAX_HEADER_BYTES, len(view) - _SIZE.size):
        raise RemoteProtocolError(f"header of {size} bytes in a frame of {len(view)}")
    payload = view[_SIZE.size + size :]
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise RemoteProtocolError(f"payload of {len(payload)} bytes, limit {MAX_PAYLOAD_BYTES}")
    number, message = _decode_header(view[_SIZE.size : _SIZE.size + size])
    return Frame(number, message, payload)


def kind_of(message_type: type[object]) -> str:
    """Name of a message class in a frame: the class name in snake_case."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", message_type.__name__).lower()


def _decode_header(header: memoryview) -> tuple[int, Message]:
    try:
        parts = msgpack.unpackb(header, strict_map_key=True)
    except (ValueError, RecursionError, msgpack.exceptions.UnpackException) as exc:
        raise RemoteProtocolError(f"header is not msgpack: {one_line(exc)}") from exc
    if not isinstance(parts, list) or len(parts) != 3:
        raise RemoteProtocolError("header is not [kind, number, body]")
    kind, number, body = parts
    if type(number) is not int or not 0 <= number <= MAX_NUMBER:
        raise RemoteProtocolError("request number is not an integer in range")
    message_type = _TYPES.get(kind) if isinstance(kind, str) else None
    if message_type is None:
        shown = kind[:40] if isinstance(kind, str) else type(kind).__name__
        raise RemoteProtocolError(f"unknown message kind {shown!r}")
    if not isinstance(body, dict) or _is_deeper_than(body, MAX_DEPTH):
        raise RemoteProtocolError(f"body of {kind} is not a map of at most {MAX_DEPTH} levels")
    return number, from_outside(body, message_type)


def _is_deeper_than(value: object, limit: int) -> bool:
    level: list[object] = [value]
    for _ in range(limit):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return False
    return True


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


_TYPES: dict[str, type[Any]] = {kind_of(kind): kind for kind in get_args(Message)}
