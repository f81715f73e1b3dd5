"""The system calls that confine a process, for which Python has no functions."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any

from edgebench.agent.bpf import Program
from edgebench.agent.confine.syscalls import (
    LANDLOCK_ADD,
    LANDLOCK_CREATE,
    LANDLOCK_RESTRICT,
    REFUSED,
    find_architecture,
)

_PR_GET_PDEATHSIG = 2
"""Source: include/uapi/linux/prctl.h."""
_CAPABILITY_VERSION = 0x20080522
"""`_LINUX_CAPABILITY_VERSION_3` of capget(2), the version in which capability sets have 64 bits."""


class Kernel:
    """System calls of this machine's kernel; tests replace calls that another kernel may lack.

    All methods raise OSError if the kernel refuses the call or does not have it.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)

    def _function(self, name: str) -> Any:
        """Function of the C library; Android's C library lacks some functions."""
        try:
            return self._library[name]
        except AttributeError as exc:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from exc

    def prctl(self, option: int, *arguments: int | ctypes.Array[ctypes.c_char]) -> int:
        """Change a property of this process.

        Source: prctl(2).
        """
        return self._checked(self._function("prctl")(option, *map(_long, arguments)))

    def death_signal(self) -> int:
        """Signal that this process gets when its parent dies; 0: none."""
        number = ctypes.c_int(0)
        self._library.prctl(_PR_GET_PDEATHSIG, ctypes.byref(number))
        return number.value

    def unshare(self, flags: int) -> None:
        """Move this process to new namespaces.

        Source: unshare(2).
        """
        self._checked(self._function("unshare")(flags))

    def mount(
        self, source: str | None, target: str, kind: str | None, flags: int, options: str = ""
    ) -> None:
        """Mount a file system, or change a mount.

        Source: mount(2).
        """
        texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
        self._checked(
            self._function("mount")(*texts, ctypes.c_ulong(flags), os.fsencode(options) or None)
        )

    def umount(self, target: str, flags: int) -> None:
        """Unmount.

        Source: umount2(2).
        """
        self._checked(self._function("umount2")(os.fsencode(target), flags))

    def pivot_root(self, new: str, old: str) -> None:
        """Make a mount the root, and move the old root.

        Source: pivot_root(2).
        """
        architecture = find_architecture()
        number = REFUSED["pivot_root"][architecture.column] if architecture else None
        if number is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._syscall(number, os.fsencode(new), os.fsencode(old))

    def drop_capabilities(self, kept: int, effective: int) -> None:
        """Keep at most the capabilities in the mask `kept`, and enable those in `effective`.

        Source: capset(2).
        """
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
        words: list[int] = []
        for shift in (0, 32):
            words += [(effective >> shift) & 0xFFFFFFFF, (kept >> shift) & 0xFFFFFFFF, 0]
        self._checked(self._function("capset")(header, (ctypes.c_uint32 * 6)(*words)))

    def landlock_abi(self) -> int:
        """Version of the kernel's Landlock, 1 or higher.

        Source: landlock_create_ruleset(2), LANDLOCK_CREATE_RULESET_VERSION.
        """
        return self._syscall(LANDLOCK_CREATE, None, 0, 1)

    def landlock_create(self, attributes: bytes) -> int:
        """Create a ruleset; returns its descriptor."""
        return self._syscall(LANDLOCK_CREATE, attributes, len(attributes), 0)

    def landlock_add(self, ruleset: int, path_rule: bytes) -> None:
        """Add a rule for a path and everything beneath it."""
        self._syscall(LANDLOCK_ADD, ruleset, 1, path_rule, 0)

    def landlock_restrict(self, ruleset: int) -> None:
        """Restrict this thread and all threads that it starts from now on."""
        self._syscall(LANDLOCK_RESTRICT, ruleset, 0)

    def seccomp(self, number: int, flags: int, program: Program) -> None:
        """Install a filter of system calls; `number` is the number of this call on this machine."""
        self._syscall(number, 1, flags, ctypes.byref(program))

    def _syscall(self, number: int, *arguments: Any) -> int:
        return self._checked(
            self._function("syscall")(ctypes.c_long(number), *map(_long, arguments))
        )

    def _checked(self, result: int) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result


def _long(value: Any) -> Any:
    """Widen an int to a whole register, because a variadic int leaves the upper half undefined."""
    return ctypes.c_long(value) if isinstance(value, int) else value
