"""Changes the user of a worker, if its agent runs as root.

On any kernel, the permissions of root's files prevent another user from opening them. The new user
id belongs to no account, and differs between workers. If files of the run are in directories that
are closed to other users, the worker opens them through descriptors. The new user may still be
unable to reach a file that the run needs, such as Python in the home of root, or a device that only
root may use. The worker then keeps root's capability to read any file, CAP_DAC_READ_SEARCH. If the
file is a device, the worker also keeps CAP_DAC_OVERRIDE. The worker keeps no other capability. With
these capabilities, only a view or Landlock can protect the files.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping

from edgebench.agent.confine.kernel import Kernel
from edgebench.agent.confine.landlock import AllowedPaths

FIRST_USER, USER_COUNT = 0x7EDB0000, 0x10000
"""First id, and number of ids, in a range of user ids that no system assigns to accounts or
containers. The user id of a worker in this range is derived from its process id.

Source: systemd, docs/UIDS-GIDS.md: nothing uses 1879048192 to 2147352575."""
SPARE_USER = 65533
"""User id if the ids from `FIRST_USER` on do not exist, as in a container with 65536 users; it owns
no files."""
READ_ALL, WRITE_ALL = 1 << 2, 1 << 1
"""CAP_DAC_READ_SEARCH and CAP_DAC_OVERRIDE. Source: include/uapi/linux/capability.h."""
_PR_SET_KEEPCAPS = 8


def hold(given: AllowedPaths) -> dict[str, str]:
    """Open these files; returns names by which they can be opened even in closed directories.

    A name in /proc/self/fd leads directly to the file of a descriptor, not through the directories
    of its path, so only the permissions of the file itself are checked.
    """
    names = filter(os.path.exists, (*given.readable, *given.writable))
    # The descriptors stay open until the process ends.
    return {name: f"/proc/self/fd/{os.open(name, os.O_PATH | os.O_CLOEXEC)}" for name in names}


def become_stranger(kernel: Kernel, allowed: AllowedPaths, held: Mapping[str, str]) -> int:
    """Become a user that owns only the writable paths.

    The process must be root. Afterwards, its capabilities have no effect, but can be regained.

    Args:
        kernel: The kernel.
        allowed: All paths that the worker may open.
        held: Maps some of these paths to other names, as `hold` returns them.

    Returns:
        Capabilities that the worker has to keep, as a mask.

    Raises:
        OSError: no such user exists, or the process may not change to it.
    """
    error = OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    nodes = [node for path in allowed.devices for node in _nodes(path)]
    # Groups that may use these devices, such as `render` for a GPU; never root's.
    groups = {os.stat(node).st_gid for node in nodes} - {0}
    readable = _readable(allowed)
    kernel.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    try:
        for number in (FIRST_USER + os.getpid() % USER_COUNT, SPARE_USER):
            try:
                for path in filter(os.path.exists, allowed.writable):
                    os.chown(path, number, number)
                os.setgroups(sorted(groups))
                os.setresgid(number, number, number)
                os.setresuid(number, number, number)
            except OSError as exc:
                error = exc
            else:
                # access(2) ignores capabilities of users other than root.
                if not all(os.access(node, os.R_OK | os.W_OK) for node in nodes):
                    return READ_ALL | WRITE_ALL
                is_reached = all(
                    os.access(path, os.R_OK) or os.access(held.get(path, path), os.R_OK)
                    for path in readable
                )
                return 0 if is_reached else READ_ALL
    finally:
        kernel.prctl(_PR_SET_KEEPCAPS, 0, 0, 0, 0)
    raise error


def _nodes(path: str) -> list[str]:
    """Paths of a device, or of all devices in a directory; empty if there is none."""
    if not os.path.isdir(path):
        return [path] if os.path.exists(path) else []
    return [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]


def _readable(allowed: AllowedPaths) -> list[str]:
    """Files that must be readable: the run's files, Python, and Python's packages."""
    paths = [os.__file__, __file__, *allowed.readable]
    for folder in filter(os.path.isdir, sys.path):
        paths.append(folder)
        if folder.endswith("-packages"):  # permissions may differ between packages
            paths += [entry.path for entry in os.scandir(folder)]
    return [path for path in paths if os.path.exists(path)]
