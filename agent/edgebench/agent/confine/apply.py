"""Confines this process: applies every mechanism in turn, and records the results."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from glob import glob
from pathlib import Path

from edgebench.agent.confine.kernel import Kernel
from edgebench.agent.confine.landlock import AllowedPaths, restrict
from edgebench.agent.confine.paths import (
    CUDA_DEVICE,
    CUDA_WRITABLE,
    PLAIN_DEVICES,
    readable_paths,
)
from edgebench.agent.confine.seccomp import build_filter, install_filter
from edgebench.agent.confine.syscalls import find_architecture
from edgebench.agent.confine.user import READ_ALL, WRITE_ALL, become_stranger, hold
from edgebench.agent.confine.view import enter_view
from edgebench.agent.telemetry.source import read_text
from edgebench.protocol.record import Confinement, Safeguard

MAX_THREADS = 512
"""Maximum number of threads of a worker, several times the number of threads of a runtime on the
largest board."""
MAX_FILES = 1024
"""Maximum number of open files of a worker; a runtime opens about ten. The limit also bounds the
disk space of files that are deleted while they are open; no directory lists such files."""
GRACE_S = 5
"""CPU time, in seconds, from the signal that announces the limit until the worker is killed."""
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _CLEAR_ALL = 38, 24, 47, 4
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
"""Source: prctl(2), include/uapi/linux/prctl.h."""
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
_CAPABILITY_COUNT = 64


@dataclass(frozen=True, slots=True)
class Permissions:
    """Permissions of a specific worker, in addition to the permissions that every worker has."""

    paths: AllowedPaths
    cpu_s: float
    """CPU time after which the kernel ends the worker."""


@dataclass(frozen=True, slots=True)
class ConfinementResult:
    """The record of a confinement, and the names by which the worker can open its files."""

    record: Confinement
    moved: dict[str, str]
    """Maps each path of the run that has become inaccessible to a new name by which its file can be
    opened."""

    def path(self, name: str) -> str:
        """Name by which a file of the run can be opened."""
        return self.moved.get(name, name)


def confine(permissions: Permissions, kernel: Kernel | None = None) -> ConfinementResult:
    """Confine this process permanently, by all mechanisms that its kernel supports.

    The process must have a single thread, and must not have read any byte of the model. The process
    still ends when its parent dies.
    """
    kernel = kernel or Kernel()
    paths = permissions.paths
    paths = replace(
        paths,
        readable=(*readable_paths(), *paths.readable),
        devices=(*PLAIN_DEVICES, *(file for name in paths.devices for file in glob(name))),
    )
    has_cuda = CUDA_DEVICE in paths.devices
    for_cuda = CUDA_WRITABLE if has_cuda else ()  # kernel files, never given to another user
    is_root, parent, death_signal = os.geteuid() == 0, os.getppid(), kernel.death_signal()
    _limit(resource.RLIMIT_CPU, int(permissions.cpu_s) + 1)
    _limit(resource.RLIMIT_NOFILE, MAX_FILES)

    # namespaces: an empty network, and mounts for a view of the files
    user_namespace, mounts = _namespace("user"), _namespace("mnt")
    network = _attempt(lambda: _enter_namespaces(kernel), "the worker can use the device's network")
    has_own_user_namespace = _namespace("user") != user_namespace
    shown = _with_writable(paths, for_cuda)
    view = _attempt(
        # Without its own mounts, the worker would change the root of the whole system.
        lambda: _enter_view(kernel, shown, has_own_mounts=_namespace("mnt") != mounts),
        "all files are visible",
        rehearse=lambda: _rehearse_view(kernel, shown),
    )

    # user and rights; with a view, all files of the run are reachable by their names
    given = permissions.paths if not view.is_applied else AllowedPaths()
    change = _Change()
    user = _attempt(
        lambda: _change_user(kernel, paths, given, change), "the worker runs as the agent's user"
    )
    paths = change.renamed(paths)
    threads = _limit_threads(is_alone=has_own_user_namespace or user.is_applied)
    capabilities = _drop_capabilities(kernel, change, permissions.paths)
    privileges = _attempt(
        lambda: _set_no_new_privs(kernel), "set-user-ID programs keep their rights"
    )
    _die_with(kernel, parent, death_signal)

    # files and system calls, which need no_new_privs
    landlock = _attempt(
        lambda: f"Landlock, version {restrict(kernel, _with_writable(paths, for_cuda))}",
        "the worker can open every file that its user can, including keys",
    )
    calls = _attempt(
        lambda: _filter_calls(kernel, has_cuda=has_cuda),
        "the worker can start programs and send signals to processes",
    )

    record = Confinement(
        is_root=is_root,
        privileges=privileges,
        capabilities=capabilities,
        calls=calls,
        files=_protected_files(landlock, view, user, calls, has_rights=change.rights != 0),
        network=network,
        threads=threads,
    )
    return ConfinementResult(record, change.moved)


def _protected_files(
    landlock: Safeguard, view: Safeguard, user: Safeguard, calls: Safeguard, *, has_rights: bool
) -> Safeguard:
    """Combine the safeguards of the device's files into a single safeguard, for the record.

    If none of the mechanisms protects the files, the result is the failure of Landlock. A change of
    user protects no files if the worker keeps a capability that bypasses permissions. With such a
    capability, a view protects files only together with the filter of system calls, because
    open_by_handle_at(2) can open files outside the view.
    """
    details = [landlock.detail] if landlock.is_applied else []
    details += [view.detail] if view.is_applied and (not has_rights or calls.is_applied) else []
    details += [user.detail] if user.is_applied and not has_rights else []
    return Safeguard(is_applied=True, detail="; ".join(details)) if details else landlock


def _die_with(kernel: Kernel, parent: int, death_signal: int) -> None:
    """Restore the parent-death signal of this process after a change of user or rights.

    Such a change clears the signal. It also removes the right of this process, and of other
    processes of its user, to read the files of this process in /proc. This function restores both.
    """
    with suppress(OSError):
        kernel.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        kernel.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if death_signal and os.getppid() != parent:  # the parent has died by now
        os.kill(os.getpid(), death_signal)


@dataclass(slots=True)
class _Change:
    """Consequences of a change of the user."""

    rights: int = 0
    """Capabilities that the worker has to keep, as a mask."""
    moved: dict[str, str] = field(default_factory=dict[str, str])
    """Maps paths to new names that can be opened, as in `ConfinementResult`."""

    def renamed(self, paths: AllowedPaths) -> AllowedPaths:
        """Replace each path by a name that can be opened."""
        return replace(
            paths,
            readable=tuple(self.moved.get(path, path) for path in paths.readable),
            writable=tuple(self.moved.get(path, path) for path in paths.writable),
        )


def _with_writable(paths: AllowedPaths, more: tuple[str, ...]) -> AllowedPaths:
    return replace(paths, writable=(*paths.writable, *more))


def _namespace(kind: str) -> int:
    """Number of this process's namespace of a type; 0 if the kernel lacks the type."""
    path = f"/proc/self/ns/{kind}"
    return os.stat(path).st_ino if os.path.exists(path) else 0


def _attempt(
    apply: Callable[[], str], consequence: str, *, rehearse: Callable[[], str] | None = None
) -> Safeguard:
    """Apply a mechanism; returns a record of the success or the error.

    Args:
        apply: Function that applies the mechanism, and returns a description of it.
        consequence: What the worker can do without the mechanism.
        rehearse: Function that a child process tries first, if this process already has a filter
            of system calls; None: `apply`.
    """
    try:
        if _is_filtered():
            _try_in_child(rehearse or apply)
        return Safeguard(is_applied=True, detail=apply())
    except OSError as exc:
        return Safeguard(is_applied=False, detail=f"{exc.strerror or exc}: {consequence}")


def _is_filtered() -> bool:
    """Whether this process already has a filter of system calls, as every app has on Android."""
    return "\nSeccomp:\t2\n" in read_text(Path("/proc/self/status"))


def _try_in_child(apply: Callable[[], str]) -> None:
    """Try a mechanism in a child process, because the system may kill a process that applies it.

    Raises:
        OSError: the child was killed.
    """
    child = os.fork()
    if child == 0:
        try:
            apply()
        finally:
            os._exit(0)
    if os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        raise OSError("the system kills processes that restrict themselves")


def _set_no_new_privs(kernel: Kernel) -> str:
    kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return "no_new_privs"


def _filter_calls(kernel: Kernel, *, has_cuda: bool) -> str:
    architecture = find_architecture()
    if architecture is None:
        raise OSError(f"no table of system calls for {os.uname().machine}")
    program = build_filter(architecture, os.getpid(), has_cuda=has_cuda)
    install_filter(kernel, architecture, program)
    return f"seccomp, {architecture.name}"


def _enter_namespaces(kernel: Kernel) -> str:
    """Enter new network and mount namespaces; users without rights need a user namespace too."""
    user, group = os.geteuid(), os.getegid()
    try:
        kernel.unshare(_CLONE_NEWNET | _CLONE_NEWNS)
        return "network namespace"
    except OSError:
        kernel.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWNS)
    # Without the maps, this user has no name in its namespace, and cannot create files in the view.
    with suppress(OSError):  # the view reports any resulting error
        kernel.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # otherwise these files belong to root
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return "network namespace, user namespace"


def _enter_view(kernel: Kernel, paths: AllowedPaths, *, has_own_mounts: bool) -> str:
    if not has_own_mounts:
        raise OSError("no mount namespace")
    enter_view(kernel, paths)
    return "separate view of the files"


def _rehearse_view(kernel: Kernel, paths: AllowedPaths) -> str:
    """Enter the view in a child process, in a new mount namespace.

    Without the new namespace, the child would change the mounts of its parent.
    """
    mounts = _namespace("mnt")
    kernel.unshare(_CLONE_NEWNS)
    return _enter_view(kernel, paths, has_own_mounts=_namespace("mnt") != mounts)


def _change_user(kernel: Kernel, paths: AllowedPaths, given: AllowedPaths, change: _Change) -> str:
    """Become another user, which only root can do; capabilities are dropped later.

    Args:
        kernel: The kernel.
        paths: All paths that the worker may open.
        given: Paths of the run, which may be in directories that are closed to another user.
        change: Receives the capabilities that the worker has to keep, and new names of paths.
    """
    if os.geteuid() != 0:
        raise OSError("only root can change the user of a process")
    # This needs a capability of root.
    _drop_bounding_set(kernel)
    held = hold(given)
    change.rights = become_stranger(kernel, paths, held)
    change.moved = {path: name for path, name in held.items() if not os.access(path, os.R_OK)}
    return f"user {os.geteuid()}"


def _limit_threads(*, is_alone: bool) -> Safeguard:
    """Limit the threads if the user has no other threads; the kernel counts threads per user."""
    if os.geteuid() == 0:
        return Safeguard(is_applied=False, detail="the kernel does not limit the threads of root")
    if not is_alone:
        return Safeguard(
            is_applied=False,
            detail="without a user namespace, the limit would count all threads of the user",
        )
    _limit(resource.RLIMIT_NPROC, MAX_THREADS)
    return Safeguard(is_applied=True, detail=f"{MAX_THREADS} threads")


def _drop_bounding_set(kernel: Kernel) -> None:
    for number in range(_CAPABILITY_COUNT):
        try:
            kernel.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
        except OSError:  # not permitted: nothing to drop; or no such capability
            break


def _drop_capabilities(kernel: Kernel, change: _Change, paths: AllowedPaths) -> Safeguard:
    """Drop all capabilities, of root or of a user namespace, except those that the run needs.

    If root runs an agent from a user's home, as with sudo, the worker needs root's capability to
    enter that home.
    """

    def drop() -> str:
        _drop_bounding_set(kernel)
        with suppress(OSError):  # not supported before Linux 4.3
            kernel.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
        if os.geteuid() == 0:  # still root if the change of user failed
            kernel.drop_capabilities(READ_ALL | WRITE_ALL, 0)
            change.rights = 0 if _can_work(paths) else READ_ALL | WRITE_ALL
        kernel.drop_capabilities(change.rights, change.rights)
        if os.geteuid() == 0 and change.rights:
            return (
                "kept only to bypass file permissions: "
                "the agent's files are in a directory of another user"
            )
        if change.rights & WRITE_ALL:
            return "kept to bypass file permissions: only root may open a device of the run"
        if change.rights:
            return "kept to read all files: Python or the agent's files are in closed directories"
        return "none"

    return _attempt(drop, "the worker has all rights of the agent")


def _can_work(paths: AllowedPaths) -> bool:
    """Whether the run's files can be opened.

    The function opens the files, because access(2) also considers rights that this process has
    dropped.
    """
    try:
        for path in (os.__file__, __file__, *paths.readable):
            with suppress(FileNotFoundError):
                os.close(os.open(path, os.O_RDONLY))
        for folder in filter(os.path.isdir, paths.writable):
            probe = os.path.join(folder, ".reach")
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.unlink(probe)
    except OSError:
        return False
    return True


def _limit(kind: int, value: int) -> None:
    """Lower a resource limit of this process, unless the limit is lower already."""
    hard = resource.getrlimit(kind)[1]
    value = min(value, sys.maxsize - GRACE_S)  # times from the wire may exceed the type
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    # Exceeding the soft limit raises a named signal; a kill at the hard limit does not.
    grace = GRACE_S if kind == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY else 0
    resource.setrlimit(kind, (value, value + grace))
