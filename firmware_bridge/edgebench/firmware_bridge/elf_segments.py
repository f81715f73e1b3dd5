"""Reads the segments of the packaged firmware files, which are 32-bit little-endian ELF.

Source: System V ABI, chapters 4 (`e_phoff`, `e_phentsize`, `e_phnum`) and 5 (`Elf32_Phdr`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_LOADED = 1
"""`PT_LOAD`, the type of a segment that is in memory at run time."""
_WRITABLE = 2
"""`PF_W`, the flag of a writable segment, which is in RAM."""


@dataclass(frozen=True, slots=True)
class ElfSegment:
    """A part of the firmware that is in memory at run time."""

    content: bytes
    """Bytes of the segment in the file, which are stored in flash."""
    load_address: int
    """Address of the content in flash."""
    run_address: int
    """Address of the segment in memory while the firmware runs."""
    memory_bytes: int
    """Size of the segment in memory; bytes after the content are zeros."""
    is_writable: bool


def loaded_segments(elf: bytes) -> list[ElfSegment]:
    """Segments of an ELF file that are in memory at run time, in the order of the file."""
    (headers_at,), (size, count) = (
        struct.unpack_from("<I", elf, 28),
        struct.unpack_from("<HH", elf, 42),
    )
    segments: list[ElfSegment] = []
    for at in range(headers_at, headers_at + count * size, size):
        kind, offset, run_address, load_address, stored, memory_bytes, flags = struct.unpack_from(
            "<7I", elf, at
        )
        if kind == _LOADED:
            content = elf[offset : offset + stored]
            is_writable = bool(flags & _WRITABLE)
            segments.append(
                ElfSegment(content, load_address, run_address, memory_bytes, is_writable)
            )
    return segments
