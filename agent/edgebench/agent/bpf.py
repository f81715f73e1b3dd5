"""Programs of the classic BPF, which filter system calls or the packets of a socket.

Source: include/uapi/linux/{filter,bpf_common}.h; Documentation/networking/filter.rst.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

Instruction = tuple[int, int, int, int]
"""Operation code, number of instructions to skip if the condition is true, number of instructions
to skip if it is false, and operand."""
LOAD, LOAD_BYTE = 0x20, 0x30
"""Load the word, or the byte, at an offset of the data: LD|W|ABS, LD|B|ABS."""
AND, SHIFT_RIGHT = 0x54, 0x74
"""Combine the loaded word with the operand: ALU|AND|K, ALU|RSH|K."""
JUMP, JUMP_EQUAL, JUMP_ABOVE, JUMP_FROM, JUMP_BITS = 0x05, 0x15, 0x25, 0x35, 0x45
"""Jump always, or only if the loaded word is equal to the operand, is above the operand, is not
below it, or has any of its bits: JMP|JA, JMP|JEQ|K, JMP|JGT|K, JMP|JGE|K, JMP|JSET|K."""
RETURN = 0x06
"""End with a value: RET|K."""
MAX_INSTRUCTIONS = 4096
"""BPF_MAXINSNS."""


class _Filter(ctypes.Structure):
    """`struct sock_filter`."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("operand", ctypes.c_uint32),
    )


class Program(ctypes.Structure):
    """`struct sock_fprog`, the kernel's format of a program; it keeps its instructions alive."""

    _fields_ = (("count", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Filter)))

    @classmethod
    def of(cls, instructions: Sequence[Instruction]) -> Program:
        """The program that consists of these instructions."""
        assert len(instructions) <= MAX_INSTRUCTIONS
        filters = [_Filter(*instruction) for instruction in instructions]
        return cls(len(filters), (_Filter * len(filters))(*filters))
