"""UF2, the format of firmware files on the drive of a Raspberry Pi Pico's boot ROM.

Source: microsoft/uf2, README.md (blocks), utils/uf2families.json;
RP2350 datasheet, 5.5 (families).
"""

from __future__ import annotations

import struct

UF2_FAMILIES = {"rp2040-pico": 0xE48B_FF56, "pico2": 0xE48B_FF59}
"""Families of firmware for the RP2040, and for the RP2350's Arm processors."""
PAGE_BYTES = 256
_BLOCK = struct.Struct("<8I476sI")
_HAS_FAMILY = 0x2000
_LOADED = 1
"""Type of an ELF segment that is loaded into memory. Source: System V ABI, chapter 5."""


def flash_pages(elf: bytes) -> dict[int, bytes]:
    """Flash content of a 32-bit little-endian ELF: pages of 256 bytes, by address.

    Bytes outside of all segments are 0xff, like erased flash.
    """
    (headers_at,) = struct.unpack_from("<I", elf, 28)
    size, count = struct.unpack_from("<HH", elf, 42)
    pages: dict[int, bytearray] = {}
    for number in range(count):
        at = headers_at + number * size
        kind, place, _, address, stored = struct.unpack_from("<5I", elf, at)
        for offset in range(stored if kind == _LOADED else 0):
            page, inside = divmod(address + offset, PAGE_BYTES)
            content = pages.setdefault(page * PAGE_BYTES, bytearray(b"\xff" * PAGE_BYTES))
            content[inside] = elf[place + offset]
    return {address: bytes(pages[address]) for address in sorted(pages)}


def uf2(elf: bytes, family: int) -> bytes:
    """The UF2 file of an ELF: a block of 512 bytes for each page."""
    pages = flash_pages(elf)
    return b"".join(
        _BLOCK.pack(
            *(0x0A32_4655, 0x9E5D_5157, _HAS_FAMILY, address, PAGE_BYTES, number, len(pages)),
            *(family, content, 0x0AB1_6F30),
        )
        for number, (address, content) in enumerate(pages.items())
    )
