"""Programs of the classic BPF, which filter system calls or the packets of a socket.

Source: include/uapi/linux/{filter,bpf_common}.h; Documentation/networking/filter.rst.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

Instruction = tuple[int, int, int, int]
"""An instruction: operation code, number of instructions to skip if its condition is true, number
of instructions to skip if the condition is false, and operand."""
LOAD, LOAD_BYTE = 0x20, 0x30
"""Operations LD|W|ABS and LD|B|ABS, which load the word or the byte at an offset of the data."""
AND, SHIFT_RIGHT = 0x54, 0x74
"""Operations ALU|AND|K and ALU|RSH|K, which combine the loaded word with the operand."""
JUMP, JUMP_EQUAL, JUMP_ABOVE, JUMP_FROM, JUMP_BITS = 0x05, 0x15, 0x25, 0x35, 0x45
"""Operations JMP|JA, JMP|JEQ|K, JMP|JGT|K, JMP|JGE|K and JMP|JSET|K. JA always jumps. The other
operations jump under a condition:

- JEQ: the loaded word is equal to the operand;
- JGT: the loaded word is greater than the operand;
- JGE: the loaded word is not less than the operand;
- JSET: the loaded word and the operand have at least one bit in common.
"""
RETURN = 0x06
"""Operation RET|K, which ends the program with a value."""
MAX_INSTRUCTIONS = 4096
"""Maximum number of instructions of a program, `BPF_MAXINSNS`."""


class _Filter(ctypes.Structure):
    """`struct sock_filter`."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("operand", ctypes.c_uint32),
    )


class Program(ctypes.Structure):
    """`struct sock_fprog`, the kernel's format of a program, with a pointer to the instructions."""

    _fields_ = (("count", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Filter)))

    @classmethod
    def of(cls, instructions: Sequence[Instruction]) -> Program:
        """The program that consists of these instructions."""
        assert len(instructions) <= MAX_INSTRUCTIONS
        filters = [_Filter(*instruction) for instruction in instructions]
        return cls(len(filters), (_Filter * len(filters))(*filters))
