"""Uses Landlock, which needs no privileges, to restrict the files that a worker may open.

All accesses that the kernel's version of Landlock handles are denied first, and then allowed
beneath specific paths. Operations that Landlock does not handle (permissions of files, links to
them) are denied by the filter of system calls.

Source: Documentation/userspace-api/landlock.rst; include/uapi/linux/landlock.h.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from edgebench.agent.confine.kernel import Kernel

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_FILE, _MAKE_REGULAR = 1 << 5, 1 << 8
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_ALL_FILES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Maps a version of Landlock to all accesses to files that it can deny. A version that is not a key
can deny the same accesses as the highest key below it."""
_TCP_SINCE, _TCP = 4, 0b11
"""First version of Landlock that can restrict TCP, and mask of the rights to bind and connect."""
_SCOPES_SINCE, _SCOPES = 6, 0b11
"""First version of Landlock with scopes, and a mask of the denied scopes. The denied scopes
are abstract unix sockets of processes outside this confinement, and signals to such processes."""
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_READ = _READ_FILE | _READ_DIR
_WRITE = _READ | _WRITE_FILE | _TRUNCATE | _REMOVE_FILE | _MAKE_REGULAR
"""Rights in a writable directory. Only regular files can be created, because a link, a socket or a
directory among the results would mislead the daemon."""
_DEVICE = _READ | _WRITE_FILE | _IOCTL_DEVICE


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """The files that a worker may open; paths that do not exist are ignored."""

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    """Files that may be written, and directories in which files may also be created."""
    devices: tuple[str, ...] = ()
    """Devices, and directories of devices, that may be read, written and controlled; patterns of
    glob(3) are expanded."""


def restrict(kernel: Kernel, allowed: AllowedPaths) -> int:
    """Restrict this thread, and threads that it starts, to these files; returns Landlock's version.

    This requires that `no_new_privs` is set.

    Raises:
        OSError: the kernel has no Landlock, or it is disabled.
    """
    abi = kernel.landlock_abi()
    handled = max(mask for since, mask in _ALL_FILES.items() if since <= abi)
    attributes = struct.pack("=Q", handled)
    if abi >= _TCP_SINCE:
        attributes += struct.pack("=Q", _TCP)
    if abi >= _SCOPES_SINCE:
        attributes += struct.pack("=Q", _SCOPES)
    ruleset = kernel.landlock_create(attributes)
    try:
        _allow(kernel, ruleset, allowed.readable, _READ & handled)
        _allow(kernel, ruleset, allowed.writable, _WRITE & handled)
        _allow(kernel, ruleset, allowed.devices, _DEVICE & handled)
        kernel.landlock_restrict(ruleset)
    finally:
        os.close(ruleset)
    return abi


def _allow(kernel: Kernel, ruleset: int, paths: Iterable[str], access: int) -> None:
    for path in paths:
        with suppress(OSError):  # missing, or denied to this user: no rule is needed
            # Stays open. A rule holds the inode, but /proc creates a new inode after its entry was
            # dropped from the kernel's cache; an open descriptor keeps the entry.
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            granted = access if is_directory else access & _OF_A_FILE
            kernel.landlock_add(ruleset, struct.pack("=Qi", granted, descriptor))
