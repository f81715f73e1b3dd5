"""Blobs and lines that no host would send, for the firmware's sanitizers."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

WORDS = (0, 1, 2, 3, 4, 7, 15, 16, 31, 127, 128, 255, 256, 32767, 32768, 65535, 2**20, 2**24)
INTERESTING = (*WORDS, *(2**32 - word for word in WORDS if word), 2**31 - 1, 2**31)
"""Values of a word at which a check may be off by one."""


def structure_words(blob: bytes) -> int:
    """Words of a blob before its weights: header, tensors and operators."""
    operator_count, _, operators_at = struct.unpack_from("<3I", blob, 24)
    return (int(operators_at) + int(operator_count) * 96) // 4


def edited(blob: bytes, edits: Sequence[tuple[int, int]]) -> bytes:
    """The blob with other words at these places, and a CRC that is right again."""
    data = bytearray(blob)
    for place, value in edits:
        struct.pack_into("<I", data, 4 * (place % (len(blob) // 4)), value)
    (size,) = struct.unpack_from("<I", data, 8)
    checked = data[16 : min(int(size), len(data))]
    struct.pack_into("<I", data, 12, zlib.crc32(checked))
    return bytes(data)
