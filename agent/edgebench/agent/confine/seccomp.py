"""The filter of system calls: seccomp(2), mode 2, with a program of the classic BPF.

Theory of operation. The kernel runs the program before each call. Calls of another architecture are
refused first, because their numbers mean something else: int 0x80 on x86-64. Then the program
searches the number of the call among segments, by halves, so that a call costs 8 comparisons; since
Linux 5.11 the kernel also remembers the calls that are allowed whatever their arguments, and does
not run the program for them.

It is a list of refusals. A list of permissions would be stricter, but runtimes are C++ of others,
with any C library on four architectures, and a permission that is missing ends a measurement on
somebody's board. What a runtime may try without need (a socket for a name service, a program
that tells the CPU) gets EPERM and goes on; nothing is killed. Calls that are newer than the table
are refused as unknown, so that the list does not age.

Source: Documentation/userspace-api/seccomp_filter.rst; include/uapi/linux/{seccomp,filter}.h.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Sequence

from edgebench.agent.confine.kernel import Kernel
from edgebench.agent.confine.syscalls import (
    ARM_PRIVATE,
    CONDITIONAL,
    NEWEST,
    REFUSED,
    SECCOMP,
    Architecture,
)

_SPEC_ALLOW = 1 << 2
"""SECCOMP_FILTER_FLAG_SPEC_ALLOW: before Linux 5.16 a filter else switches speculative stores off,
which makes every inference slower (Documentation/admin-guide/hw-vuln/spectre.rst). There is no
secret in the worker that it would have to keep from itself."""
_PR_SET_PDEATHSIG = 1
_CLONE_THREAD = 0x00010000
_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Instructions: load a word; jump if equal, if greater or equal, if a bit is set; return."""
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in `struct seccomp_data`; of the first argument the lower half, on little endian."""
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000

Instruction = tuple[int, int, int, int]
"""Code, instructions to skip where the condition holds, and where it does not, operand."""


def _return(action: int) -> list[Instruction]:
    return [(_RETURN, 0, 0, action)]


_ALLOWED = _return(_ALLOW)
_REFUSED = _return(_ERRNO | errno.EPERM)
_UNKNOWN = _return(_ERRNO | errno.ENOSYS)
_FIRST = (_LOAD, 0, 0, _FIRST_ARGUMENT)


def build_filter(architecture: Architecture, pid: int) -> list[Instruction]:
    """The program for a process of this architecture with this number."""
    own = [_FIRST, (_JUMP_EQUAL, 0, 1, pid), *_ALLOWED, *_REFUSED]
    leaves = {
        "kill": own,
        "tgkill": own,
        "rt_sigqueueinfo": own,
        "rt_tgsigqueueinfo": own,
        "prlimit64": [
            *(_FIRST, (_JUMP_EQUAL, 1, 0, 0), (_JUMP_EQUAL, 0, 1, pid)),
            *(*_ALLOWED, *_REFUSED),
        ],
        "prctl": [_FIRST, (_JUMP_EQUAL, 0, 1, _PR_SET_PDEATHSIG), *_REFUSED, *_ALLOWED],
        "clone": [_FIRST, (_JUMP_BITS, 0, 1, _CLONE_THREAD), *_ALLOWED, *_REFUSED],
        "clone3": _UNKNOWN,
    }
    column = architecture.column
    by_number = {
        number: _REFUSED for numbers in REFUSED.values() if (number := numbers[column]) is not None
    } | {
        number: leaves[name]
        for name, numbers in CONDITIONAL.items()
        if (number := numbers[column]) is not None
    }
    segments = [(0, _ALLOWED)]
    for number, leaf in sorted(by_number.items()):
        if segments[-1][0] == number:
            segments[-1] = (number, leaf)
        else:
            segments.append((number, leaf))
        segments.append((number + 1, _ALLOWED))
    # Calls of x32, on x86-64, are above this line, too: their numbers have bit 30 set.
    segments = [segment for segment in segments if segment[0] <= NEWEST]
    segments.append((NEWEST + 1, _UNKNOWN))
    if architecture.column == 2:
        first, last = ARM_PRIVATE
        segments += [(first, _ALLOWED), (last + 1, _UNKNOWN)]
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture.audit),
        *_REFUSED,
        (_LOAD, 0, 0, _NUMBER),
        *_search(segments),
    ]


def _search(segments: Sequence[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """The search for the segment of a number, which is loaded; each begins with its number."""
    if len(segments) == 1:
        return segments[0][1]
    middle = len(segments) // 2
    low, high = _search(segments[:middle]), _search(segments[middle:])
    assert len(low) < 256, "a jump skips 255 instructions at most"
    return [(_JUMP_ABOVE, len(low), 0, segments[middle][0]), *low, *high]


def install_filter(
    kernel: Kernel, architecture: Architecture, program: Sequence[Instruction]
) -> None:
    """Filter the calls of this thread, and of those that it starts, for good.

    Needs `no_new_privs`.

    Raises:
        OSError: the kernel has no filters.
    """
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: a count of 16 bits and a pointer, which is aligned.
    header = struct.pack("HP", len(program), ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(header, len(header))
    try:
        kernel.seccomp(SECCOMP[architecture.column], _SPEC_ALLOW, pointer)
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise
        kernel.seccomp(SECCOMP[architecture.column], 0, pointer)  # before Linux 4.17
