"""Responses of instruments: numbers, special values, and blocks.

    9.9E+37, INF      beyond the range
    9.91E+37, NAN     no value
    #<d><length>…     a block: a length of d digits, then as many bytes; a line end follows

Source: SCPI 1999.0, volume 1, 7.2.1.5 (infinity and not-a-number); IEEE 488.2-1992, 8.7.9
(definite length arbitrary block).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Flag, Floats
from edgebench.protocol.errors import TargetError

SPECIAL = 9e36
"""Values above this threshold are special values, not measured values. Values are not compared with
9.9E37 itself, because a float32 cannot represent 9.9E37 exactly."""
_NO_VALUE = 9.905e37
"""Threshold that lies between 9.9E37 (beyond the range) and 9.91E37 (no value)."""
BLOCK_MAX_BYTES = 1 << 24


def numbers_of(text: bytes) -> Floats:
    """Parse the numbers of a response, separated by commas; NaN for other words; shape (n,)."""
    return np.array([_number(word) for word in text.split(b",")])


def _number(word: bytes) -> float:
    try:
        return float(word)
    except ValueError:
        return float("nan")


def flags_of(values: Floats) -> NDArray[np.uint8]:
    """Flags of received values; the caller must replace a flagged value with NaN."""
    size = np.abs(values)
    flags = np.zeros(values.shape, np.uint8)
    is_beyond = (size > SPECIAL) & ((size < _NO_VALUE) | np.isinf(size))
    flags[is_beyond & (values > 0)] |= np.uint8(Flag.SATURATED)
    flags[is_beyond & (values < 0)] |= np.uint8(Flag.CLIPPED)
    flags[np.isnan(values) | (size > SPECIAL)] |= np.uint8(Flag.MISSING)
    return flags


def length_digits(head: bytes) -> int:
    """Number of length digits of a block, from its first two bytes.

    Raises:
        TargetError: the bytes do not start a block.
    """
    if len(head) != 2 or head[:1] != b"#" or head[1:] not in b"123456789":
        raise TargetError(f"not a block of data: starts with {head!r}")
    return int(head[1:])


def block_length(digits: bytes) -> int:
    """Length of a block's content in bytes.

    Raises:
        TargetError: the digits are not a number, or exceed 16 MiB.
    """
    length = int(digits) if digits.isdigit() else -1
    if not 0 <= length <= BLOCK_MAX_BYTES:
        raise TargetError(f"invalid length of a block: {digits!r}")
    return length


def content_of(block: bytes) -> bytes:
    """Content of a block.

    Raises:
        TargetError: the bytes are not a block, or the block is incomplete.
    """
    begin = 2 + length_digits(block[:2])
    length = block_length(block[2:begin])
    if len(block) < begin + length:
        raise TargetError(f"block of {length} bytes ends after byte {len(block) - begin}")
    return block[begin : begin + length]
