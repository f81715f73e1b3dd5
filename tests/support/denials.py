"""The denials of SELinux to adb's shell in /data/local/tmp, by other means of the kernel.

Source: Android Open Source Project, system/sepolicy, private/shell.te: files, directories and links
of symbols may be made, but no socket file, FIFO or device (Landlock), and no hard link (seccomp).
Also linux/landlock.h; seccomp(2); elf.h and linux/audit.h for the numbers of machines.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable

MAKE_CHAR, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, REFER = (1 << bit for bit in (6, 9, 10, 11, 13))
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
RET_ALLOW, RET_ERRNO = 0x7FFF0000, 0x00050000
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
LINK_CALLS = {"x86_64": (86, 265), "aarch64": (37,)}
"""Numbers of link and linkat."""


class Denied(OSError):
    """The kernel does not take the restriction."""


def deny_as_android() -> None:
    """Restrict this process and its children, as adb's shell is restricted.

    Raises:
        Denied: the kernel has no Landlock, or no seccomp.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    # Without a rule for it, Landlock denies files to be moved between directories, too.
    handled = MAKE_CHAR | MAKE_SOCK | MAKE_FIFO | MAKE_BLOCK | REFER
    attributes = ctypes.create_string_buffer(struct.pack("<Q", handled), 8)
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(8), 0)
    lines = _filter()
    program = ctypes.create_string_buffer(
        struct.pack("<HxxxxxxQ", len(lines) // 8, ctypes.addressof(lines)), 16
    )
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    rule = ctypes.create_string_buffer(struct.pack("<Qi", REFER, root), 12)
    calls: tuple[Callable[[], int], ...] = (
        lambda: ruleset,
        lambda: libc.syscall(LANDLOCK_ADD_RULE, ruleset, PATH_BENEATH, rule, 0),
        lambda: libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        lambda: libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0),
        lambda: libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0),
    )
    for call in calls:
        if call() < 0:
            raise Denied(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.close(ruleset)
    os.close(root)


def _filter() -> ctypes.Array[ctypes.c_char]:
    """A filter that returns EACCES to each call that makes a hard link."""
    numbers = LINK_CALLS[platform.machine()]
    lines = [struct.pack("<HBBI", LOAD, 0, 0, 0)]  # of seccomp_data: the number of the call
    for at, number in enumerate(numbers):
        lines.append(struct.pack("<HBBI", EQUAL, len(numbers) - at, 0, number))
    lines.append(struct.pack("<HBBI", RETURN, 0, 0, RET_ALLOW))
    lines.append(struct.pack("<HBBI", RETURN, 0, 0, RET_ERRNO | errno.EACCES))
    return ctypes.create_string_buffer(b"".join(lines), 8 * len(lines))
