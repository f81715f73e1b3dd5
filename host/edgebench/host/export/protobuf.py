"""Encoder of protocol buffers, for the few field types that a trace needs.

    field   = tag, content          tag = number << 3 | wire type
    content = varint (0) | eight bytes (1) | length, bytes (2)

A varint may be padded. So packets that differ only in their numbers have the same length, and a
million of them can be written as one array.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

_VARINT, _FIXED64, _BYTES = 0, 1, 2
PADDED_BYTES = 8
"""Length of a padded varint: 56 bits, which are two years of nanoseconds."""


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
    """Field with a placeholder varint of `PADDED_BYTES`, which are its last bytes."""
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
