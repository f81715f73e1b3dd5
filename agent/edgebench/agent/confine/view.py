"""View of the files: a mount namespace whose root contains only what a worker may open.

Theory of operation. Some kernels lack Landlock, such as the kernel of Raspberry Pi OS. Mount
namespaces are always available to root, and to users who may create user namespaces. The worker
therefore builds a tree of mounts and makes it the root:

    1  an empty file system in memory is mounted over the worker's own directory, in its own
       namespace
    2  each path of `AllowedPaths` is bound to the same path in the tree. Links on the way are
       created again, and their targets are bound.
    3  everything is made read-only, except the worker's directory and device files. No file raises
       rights when it is run. Only allowed devices work as devices.
    4  the tree becomes the root, and the old root is unmounted

The directories that lead to a bound path belong to the new file system, and every user may enter
them. A worker with another user can therefore open bound files in the home of root, but no other
files there.

Mounts beneath a path are bound together with the path. The kernel requires this in a namespace of a
less privileged user, because it does not reveal files that are hidden by another mount. Such a
namespace also has to keep the flags of mounts that it inherited.

Source: mount_namespaces(7), pivot_root(2) ("pivot_root(".", ".")"), mount(2).
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from edgebench.agent.confine.kernel import Kernel
from edgebench.agent.confine.landlock import AllowedPaths
from edgebench.agent.mounts import read_mounts

_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT = 1, 2, 4, 8, 32
_NOSYMFOLLOW, _BIND, _RECURSIVE, _PRIVATE = 256, 4096, 16384, 1 << 18
_DETACH = 2
"""Source: include/uapi/linux/mount.h; umount2(2)."""
_OPTIONS = {
    "ro": _RDONLY,
    "nosuid": _NOSUID,
    "nodev": _NODEV,
    "noexec": _NOEXEC,
    "nosymfollow": _NOSYMFOLLOW,
}
"""Mount options in mountinfo that a remount would clear; a remount keeps the options for access
times."""
_MAX_LINKS = 40
"""Maximum number of links that are followed for a path, as in the kernel: path_resolution(7)."""
_COVERED = (errno.ENOENT, errno.ENOTDIR, errno.EINVAL)
"""Errors of a remount that fails because another mount hides the mount point."""
_EMPTY = "/mnt"
"""Directory over which the tree is mounted if a worker has no directory of its own, as in tests and
benchmarks."""
_SIZE = "size=1m,mode=755"
"""Mount options of the tree's root, a file system that holds directories and links only."""


def enter_view(kernel: Kernel, allowed: AllowedPaths) -> None:
    """Make these paths the only files of this process's mount namespace.

    The process must be the only process in that namespace, and have root's rights in it.

    Raises:
        OSError: the kernel refuses a mount, or a file cannot be created; the files are unchanged.
    """
    work = next(filter(os.path.isdir, allowed.writable), None)
    base = os.path.realpath(work or _EMPTY)
    directory = os.getcwd()
    kernel.mount(None, "/", None, _RECURSIVE | _PRIVATE)
    # The contents that the base covers are bound from this descriptor.
    covered = os.open(base, os.O_PATH | os.O_CLOEXEC)
    kernel.mount("edgebench", base, "tmpfs", _NOSUID | _NODEV, _SIZE)
    try:
        _View(kernel, base, covered).build(allowed)
        os.chdir(base)
        kernel.pivot_root(".", ".")
        kernel.umount(".", _DETACH)
    except OSError:
        with suppress(OSError):  # it is the root already
            kernel.umount(base, _DETACH)
        raise
    finally:
        os.close(covered)
        os.chdir("/")
        with suppress(OSError):  # the directory may be outside the view
            os.chdir(directory)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class _View:
    """Tree of a view while it is built, in the directory `base`."""

    def __init__(self, kernel: Kernel, base: str, covered: int) -> None:
        self._kernel = kernel
        self._base = base
        self._covered = covered
        """Descriptor of the directory over which the base is mounted."""
        self._ways: set[str] = set()
        """Directories and links that lead to bound paths."""
        self._bound: dict[str, bool] = {}
        """Maps each bound path to whether the path is writable."""

    def build(self, allowed: AllowedPaths) -> None:
        """Bind all paths, and make all mounts read-only except the mounts of writable paths.

        Raises:
            OSError: the kernel refuses a mount, or a file cannot be created.
        """
        # Wider paths first, so that the paths inside them exist already.
        readable = {os.path.abspath(path) for path in allowed.readable}
        for path in sorted(readable, key=lambda path: (os.path.islink(path), len(path))):
            if not self._is_held(path):
                self._place(path, is_writable=False)
        for path in allowed.devices:
            # The line of a GPIO is a plain file of /sys. Device nodes are writable on any mount.
            self._place(os.path.abspath(path), is_writable=os.path.isfile(path))
        for path in allowed.writable:
            self._place(os.path.abspath(path), is_writable=True)
        devices = {os.path.realpath(path) for path in allowed.devices}
        for mount in read_mounts():
            if not _is_in(mount.point, self._base):
                continue
            place = mount.point[len(self._base) :] or "/"
            flags = _NOSUID
            for option in mount.options:
                flags |= _OPTIONS.get(option, 0)
            if not any(_is_in(place, device) for device in devices):
                flags |= _NODEV
            if not self._bound.get(place, False):
                flags |= _RDONLY
            try:
                self._kernel.mount(None, mount.point, None, _REMOUNT | _BIND | flags)
            except OSError as exc:
                if exc.errno not in _COVERED:
                    raise

    def _place(self, path: str, *, is_writable: bool) -> None:
        """Bind the file at a path, which may contain links; no effect if there is no file."""
        waiting, place = path.split("/")[:0:-1], ""
        link_count = 0
        while waiting:
            name = waiting.pop()
            if name in ("", "."):
                continue
            if name == "..":
                place = place.rpartition("/")[0]
                continue
            step = f"{place}/{name}"
            try:
                mode = self._mode(step)
                if stat.S_ISLNK(mode):
                    link_count += 1
                    if link_count > _MAX_LINKS:
                        return
                    target = os.readlink(step)
                    if not self._is_shown(step):
                        os.symlink(target, self._base + step)
                        self._ways.add(step)
                    waiting += target.split("/")[::-1]
                    place = "" if target.startswith("/") else place
                    continue
                if waiting and not self._is_shown(step):
                    os.mkdir(self._base + step)
                    self._ways.add(step)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                return
            place = step
        if place and (is_writable or not self._is_held(place)):
            self._bind(place, is_writable=is_writable)

    def _mode(self, path: str) -> int:
        status = os.fstat(self._covered) if path == self._base else os.lstat(path)
        return status.st_mode

    def _is_shown(self, place: str) -> bool:
        """Whether a path exists in the tree, because it is bound or leads to a bound path."""
        return self._is_held(place) or place in self._ways

    def _is_held(self, place: str) -> bool:
        """Whether a path, or a directory above it, is bound."""
        while place:
            if place in self._bound:
                return True
            place = place.rpartition("/")[0]
        return False

    def _bind(self, place: str, *, is_writable: bool) -> None:
        target = self._base + place
        if not self._is_held(place):
            if stat.S_ISDIR(self._mode(place)):
                os.makedirs(target, exist_ok=True)
            else:
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
        if place == self._base:  # without its cover, which is this tree
            self._kernel.mount(f"/proc/self/fd/{self._covered}", target, None, _BIND)
        else:
            self._kernel.mount(place, target, None, _BIND | _RECURSIVE)
        self._bound[place] = is_writable
