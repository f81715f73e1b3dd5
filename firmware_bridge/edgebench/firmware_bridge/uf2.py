"""Makes UF2 files, the firmware format for the USB drive of a Raspberry Pi Pico's boot ROM.

Source: microsoft/uf2, README.md (blocks), utils/uf2families.json;
RP2350 datasheet, 5.5 (families).
"""

from __future__ import annotations

import struct

from edgebench.firmware_bridge.elf_segments import loaded_segments

UF2_FAMILIES = {"rp2040-pico": 0xE48B_FF56, "pico2": 0xE48B_FF59}
"""Maps boards to UF2 family ids for the RP2040, and for the Arm processors of the RP2350."""
RAW_IMAGES = frozenset({"arduino-nano-33-ble"})
"""Boards whose bootloader accepts the flash content as a raw file without addresses (`.bin`)."""
PAGE_BYTES = 256
_BLOCK = struct.Struct("<8I476sI")
_HAS_FAMILY = 0x2000


def flash_pages(elf: bytes) -> dict[int, bytes]:
    """Maps addresses to pages of 256 bytes, which are the flash content of a 32-bit ELF file.

    Bytes outside of all segments are 0xff, like erased flash.
    """
    pages: dict[int, bytearray] = {}
    for segment in loaded_segments(elf):
        for address, byte in enumerate(segment.content, segment.load_address):
            page, inside = divmod(address, PAGE_BYTES)
            content = pages.setdefault(page * PAGE_BYTES, bytearray(b"\xff" * PAGE_BYTES))
            content[inside] = byte
    return {address: bytes(pages[address]) for address in sorted(pages)}


def uf2(elf: bytes, family: int) -> bytes:
    """Convert an ELF file to a UF2 file, with a block of 512 bytes for each page of flash."""
    pages = flash_pages(elf)
    return b"".join(
        _BLOCK.pack(
            *(0x0A32_4655, 0x9E5D_5157, _HAS_FAMILY, address, PAGE_BYTES, number, len(pages)),
            *(family, content, 0x0AB1_6F30),
        )
        for number, (address, content) in enumerate(pages.items())
    )
