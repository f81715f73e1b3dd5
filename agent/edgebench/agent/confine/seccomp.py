"""The filter of system calls: seccomp(2), mode 2, with a program of the classic BPF.

Theory of operation. The kernel runs the program before each call. The program first refuses calls
of another architecture, such as int 0x80 on x86-64, because their numbers have other meanings. It
then finds, by a bisection of 8 comparisons, the range that contains the number of the call. Since
Linux 5.11, the kernel also caches which calls are allowed with any arguments, and does not run the
program for these calls.

If the effect of a call depends on an argument (a command, a flag, the number of a process), the
program checks that argument. A filter cannot follow a pointer, so calls whose effect depends on
memory behind a pointer fail with ENOSYS, like unknown calls.

The tables of `syscalls` list the calls that are refused. A list of allowed calls would be stricter.
But runtimes are third-party C++ code, with any C library on four architectures, and a missing entry
would end a measurement on a user's board. A refused call returns EPERM and does not kill the
process. A runtime may try a call that it does not need, and can continue after the error. Examples
are a socket for a name service, and a program that reports the CPU. Calls that are newer than the
tables fail with ENOSYS, so that the tables need not be extended for each new kernel.

Source: Documentation/userspace-api/seccomp_filter.rst; include/uapi/linux/{seccomp,filter}.h.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from edgebench.agent.bpf import (
    AND,
    JUMP,
    JUMP_BITS,
    JUMP_EQUAL,
    JUMP_FROM,
    LOAD,
    RETURN,
    SHIFT_RIGHT,
    Instruction,
    Program,
)
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
"""SECCOMP_FILTER_FLAG_SPEC_ALLOW. Before Linux 5.16, a filter without this flag disables
speculative stores, which slows down every inference
(Documentation/admin-guide/hw-vuln/spectre.rst). The protection is not needed, because the worker
contains no secrets of others."""
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_MM, _PR_SCHED_CORE = 1, 4, 35, 62
"""Options of prctl(2) that are refused, because each option would let a worker do the following:

- PR_SET_PDEATHSIG: outlive the daemon;
- PR_SET_DUMPABLE: hide /proc/PID/io, from which the daemon reads how much the worker has written;
- PR_SET_MM: look like another process;
- PR_SCHED_CORE: share a core with another process.

Source: include/uapi/linux/prctl.h."""
_CLONE_THREAD = 0x00010000
_F_SETFL, _O_ASYNC = 4, 0o20000
_F_REFUSED = (8, 10, 15, 1024, 1026)
"""Commands of fcntl(2) that are refused. By F_SETOWN, F_SETSIG and F_SETOWN_EX with O_ASYNC, a
worker could make the kernel send any signal to any process. By F_SETLEASE, a worker could make
other processes wait when they open a file. F_NOTIFY is refused as well.

Source: include/uapi/{asm-generic/fcntl.h,linux/fcntl.h}; the numbers are equal on all four
architectures."""
_F_NEWEST = 1038
"""F_SET_FILE_RW_HINT, the highest command that was examined; higher commands fail with EINVAL."""
_IOCTL_REFUSED = (
    # TIOCSCTTY, TIOCSPGRP, TIOCSTI, TIOCSWINSZ, TIOCLINUX, TIOCCONS, TIOCNOTTY, TIOCSETD,
    # TIOCVHANGUP, TIOCSIG: input and signals to the owners of a terminal.
    *(0x540E, 0x5410, 0x5412, 0x5414, 0x541C, 0x541D, 0x5422, 0x5423, 0x5437, 0x40045436),
    # FIOASYNC: equivalent to O_ASYNC.
    0x5452,
)
"""Source: include/uapi/asm-generic/ioctls.h."""
_IOCTL_TYPES_REFUSED = (0x89, 0x58, 0x66, 0x94)
"""Types of ioctl(2) commands that are refused:

- 0x89: sockets (FIOSETOWN, SIOCSPGRP);
- 0x58, 'X': file systems (disk space, as by fallocate(2));
- 0x66, 'f': file systems (attributes);
- 0x94: Btrfs (subvolumes).

Source: Documentation/userspace-api/ioctl/ioctl-number.rst."""
_O_ACCMODE, _O_TRUNC, _TMPFILE = 0o3, 0o1000, 0o20000000
"""Flags of open(2). `_TMPFILE` is `__O_TMPFILE`, the bit by which O_TMPFILE differs from
O_DIRECTORY.

Source: include/uapi/asm-generic/fcntl.h; arch/arm and arch/arm64 change only other flags."""
_AF_UNIX, _SOCK_TYPE_MASK, _SOCK_STREAM, _SOCK_SEQPACKET = 1, 0xF, 1, 5
"""Source: include/linux/socket.h, include/linux/net.h."""
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1
"""Source: setpriority(2), ioprio_set(2)."""
_NUMBER, _ARCHITECTURE = 0, 4
"""Offsets of the call's number and of the architecture in `struct seccomp_data`."""
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def _return(action: int) -> list[Instruction]:
    return [(RETURN, 0, 0, action)]


_ALLOWED = _return(_ALLOW)
_REFUSED = _return(_ERRNO | errno.EPERM)
_UNKNOWN = _return(_ERRNO | errno.ENOSYS)
_UNKNOWN_COMMAND = _return(_ERRNO | errno.EINVAL)
_UNSUPPORTED = _return(_ERRNO | errno.EOPNOTSUPP)
"""The error by which a file system reports that it lacks a feature. After this error,
posix_fallocate(3) writes to the file instead, and Python's tempfile uses files with names."""


def _argument(index: int) -> Instruction:
    """Load the lower 32 bits of an argument, on a little-endian architecture.

    The upper half of a checked argument has no effect: the kernel takes these arguments as int,
    unsigned int or pid_t. Of the flags of clone(2), the kernel also uses only the lower half.
    """
    return (LOAD, 0, 0, 16 + 8 * index)


def _unless(values: Sequence[int], leaf: list[Instruction]) -> list[Instruction]:
    """Instructions that run the instructions `leaf` only if the loaded word is one of `values`."""
    checks = [(JUMP_EQUAL, len(values) - 1 - place, 0, value) for place, value in enumerate(values)]
    # The last check jumps to the leaf, which is next, or skips it.
    checks[-1] = (JUMP_EQUAL, 0, len(leaf), values[-1])
    return [*checks, *leaf]


# A datagram socket could send to named sockets of other processes.
_LOCAL_SOCKET = [
    *(_argument(0), (JUMP_EQUAL, 1, 0, _AF_UNIX), *_REFUSED),
    *(_argument(1), (AND, 0, 0, _SOCK_TYPE_MASK)),
    *(*_unless((_SOCK_STREAM, _SOCK_SEQPACKET), _ALLOWED), *_REFUSED),
]


def build_filter(
    architecture: Architecture, pid: int, *, has_cuda: bool = False
) -> list[Instruction]:
    """Build the filter program for a process.

    Args:
        architecture: Architecture of the process.
        pid: Process id.
        has_cuda: Whether the process may use a GPU by CUDA, which opens a local listening socket
            when it starts. Nothing can be sent by this socket, because connect(2) and accept(2) are
            refused.
    """
    leaves = _leaves(pid)
    for_cuda = {"socket": _LOCAL_SOCKET, "bind": _ALLOWED, "listen": _ALLOWED} if has_cuda else {}
    column = architecture.column
    by_number = {
        number: for_cuda.get(name, _REFUSED)
        for name, numbers in REFUSED.items()
        if (number := numbers[column]) is not None
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
    # Calls of x32, on x86-64, are also above this line: their numbers have bit 30 set.
    segments = [segment for segment in segments if segment[0] <= NEWEST]
    segments.append((NEWEST + 1, _UNKNOWN))
    if architecture.column == 2:
        first, last = ARM_PRIVATE
        segments += [(first, _ALLOWED), (last + 1, _UNKNOWN)]
    return [
        (LOAD, 0, 0, _ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, architecture.audit),
        *_REFUSED,
        (LOAD, 0, 0, _NUMBER),
        *_search(segments),
    ]


def _leaves(pid: int) -> dict[str, list[Instruction]]:
    """Maps each call of `CONDITIONAL` to its instructions, for the process with this id."""
    by_this = [_argument(0), *_unless((pid,), _ALLOWED), *_REFUSED]
    by_this_or_0 = [_argument(0), *_unless((0, pid), _ALLOWED), *_REFUSED]

    def of_kind(kind: int) -> list[Instruction]:
        """Allow a call with `kind` as first argument, and 0 or this process's id as second."""
        leaf = [_argument(1), *_unless((0, pid), _ALLOWED), *_REFUSED]
        return [_argument(0), *_unless((kind,), leaf), *_REFUSED]

    control = [
        _argument(1),
        *_unless(_F_REFUSED, _REFUSED),
        (JUMP_FROM, 0, 1, _F_NEWEST + 1),
        *_UNKNOWN_COMMAND,
        (JUMP_EQUAL, 1, 0, _F_SETFL),
        *_ALLOWED,
        _argument(2),
        (JUMP_BITS, 0, 1, _O_ASYNC),
        *_REFUSED,
        *_ALLOWED,
    ]
    return {
        "kill": by_this,
        "tgkill": by_this,
        "rt_sigqueueinfo": by_this,
        "rt_tgsigqueueinfo": by_this,
        "prlimit64": by_this_or_0,
        "sched_setaffinity": by_this_or_0,
        "sched_setparam": by_this_or_0,
        "sched_setscheduler": by_this_or_0,
        "sched_setattr": by_this_or_0,
        "setpriority": of_kind(_PRIO_PROCESS),
        "ioprio_set": of_kind(_IOPRIO_WHO_PROCESS),
        "prctl": [
            _argument(0),
            *_unless((_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_MM, _PR_SCHED_CORE), _REFUSED),
            *_ALLOWED,
        ],
        "clone": [_argument(0), (JUMP_BITS, 0, 1, _CLONE_THREAD), *_ALLOWED, *_REFUSED],
        "fcntl": control,
        "fcntl64": control,
        "ioctl": [
            *(_argument(1), *_unless(_IOCTL_REFUSED, _REFUSED)),
            *((SHIFT_RIGHT, 0, 0, 8), (AND, 0, 0, 0xFF)),
            *(*_unless(_IOCTL_TYPES_REFUSED, _REFUSED), *_ALLOWED),
        ],
        "open": _opening(_argument(1)),
        "openat": _opening(_argument(2)),
        "fallocate": _UNSUPPORTED,
        "clone3": _UNKNOWN,
        "openat2": _UNKNOWN,
    }


def _opening(flags: Instruction) -> list[Instruction]:
    """Instructions that refuse files without a name, and truncation by a read-only open."""
    return [
        *(flags, (JUMP_BITS, 0, 1, _TMPFILE), *_UNSUPPORTED),
        *((JUMP_BITS, 1, 0, _O_TRUNC), *_ALLOWED),
        *((JUMP_BITS, 0, 1, _O_ACCMODE), *_ALLOWED, *_REFUSED),
    ]


def _search(segments: Sequence[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """Instructions that find the loaded number's segment by bisection, and run its instructions."""
    if len(segments) == 1:
        return segments[0][1]
    middle = len(segments) // 2
    low, high = _search(segments[:middle]), _search(segments[middle:])
    first = segments[middle][0]
    if len(low) < 256:
        return [(JUMP_FROM, len(low), 0, first), *low, *high]
    # A condition skips 255 instructions at most, a jump any number.
    return [(JUMP_FROM, 0, 1, first), (JUMP, 0, 0, len(low)), *low, *high]


def install_filter(
    kernel: Kernel, architecture: Architecture, program: Sequence[Instruction]
) -> None:
    """Filter the calls of this thread, and of threads that it starts, permanently.

    This requires that `no_new_privs` is set.

    Raises:
        OSError: the kernel does not support filters.
    """
    packed = Program.of(program)
    try:
        kernel.seccomp(SECCOMP[architecture.column], _SPEC_ALLOW, packed)
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise
        kernel.seccomp(SECCOMP[architecture.column], 0, packed)  # before Linux 4.17
