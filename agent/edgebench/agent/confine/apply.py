"""Confine this process: every mechanism in turn, with its result."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path

from edgebench.agent.confine.kernel import Kernel
from edgebench.agent.confine.landlock import AllowedPaths, restrict
from edgebench.agent.confine.paths import PLAIN_DEVICES, readable_paths
from edgebench.agent.confine.seccomp import build_filter, install_filter
from edgebench.agent.confine.syscalls import find_architecture
from edgebench.agent.telemetry.source import read_text
from edgebench.protocol.record import Confinement, Safeguard

MAX_THREADS = 512
"""Threads of a worker: those of a runtime on the largest board, several times."""
MAX_FILES = 1024
"""Open files of a worker. A runtime opens some ten; a file that is deleted while it is open takes
space that nobody sees."""
GRACE_S = 5
"""CPU time between the signal that it is over and the end."""
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _CLEAR_ALL = 38, 24, 47, 4
"""Source: prctl(2), include/uapi/linux/prctl.h."""
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_USER_NAMESPACE = "/proc/self/ns/user"
_FILE_RIGHTS = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: root's right to bypass file permissions."""
_CAPABILITY_COUNT = 64


@dataclass(frozen=True, slots=True)
class Permissions:
    """What one worker needs beside what every worker needs."""

    paths: AllowedPaths
    cpu_s: float
    """CPU time after which the kernel ends it."""


def confine(permissions: Permissions, kernel: Kernel | None = None) -> Confinement:
    """Confine this process, as far as its kernel can, for the rest of its life.

    It must have one thread only, and no byte of the model may have been read.
    """
    kernel = kernel or Kernel()
    paths = permissions.paths
    paths = replace(
        paths,
        readable=(*readable_paths(), *paths.readable),
        devices=(*PLAIN_DEVICES, *(file for name in paths.devices for file in glob(name))),
    )
    _limit(resource.RLIMIT_CPU, int(permissions.cpu_s) + 1)
    _limit(resource.RLIMIT_NOFILE, MAX_FILES)
    namespace_before = os.stat(_USER_NAMESPACE).st_ino if os.path.exists(_USER_NAMESPACE) else 0
    network = _attempt(
        lambda: _enter_empty_network(kernel), "the worker is in the device's network"
    )
    has_own_user_namespace = namespace_before != 0 and (
        os.stat(_USER_NAMESPACE).st_ino != namespace_before
    )
    threads = _limit_threads(has_own_user_namespace=has_own_user_namespace)
    capabilities = _drop_capabilities(kernel, permissions.paths)
    privileges = _attempt(
        lambda: _set_no_new_privs(kernel), "set-user-ID programs keep their rights"
    )
    files = _attempt(
        lambda: f"Landlock, version {restrict(kernel, paths)}",
        "the worker can open every file that its user can, keys among them",
    )
    calls = _attempt(
        lambda: _filter_calls(kernel), "the worker can start programs, and signal processes"
    )
    return Confinement(
        is_root=os.geteuid() == 0,
        privileges=privileges,
        capabilities=capabilities,
        calls=calls,
        files=files,
        network=network,
        threads=threads,
    )


def _attempt(apply: Callable[[], str], consequence: str) -> Safeguard:
    """Apply a mechanism, whose function returns what was applied."""
    try:
        if _is_filtered():
            _try_in_child(apply)
        return Safeguard(is_applied=True, detail=apply())
    except OSError as exc:
        return Safeguard(is_applied=False, detail=f"{exc.strerror or exc}: {consequence}")


def _is_filtered() -> bool:
    """Whether somebody else filters this process: Android kills apps for calls unknown to it."""
    return "\nSeccomp:\t2\n" in read_text(Path("/proc/self/status"))


def _try_in_child(apply: Callable[[], str]) -> None:
    """Apply a mechanism in a child, which may be killed for it.

    Raises:
        OSError: it was.
    """
    child = os.fork()
    if child == 0:
        try:
            apply()
        finally:
            os._exit(0)
    if os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        raise OSError("the system kills processes that try it")


def _set_no_new_privs(kernel: Kernel) -> str:
    kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return "no_new_privs"


def _filter_calls(kernel: Kernel) -> str:
    architecture = find_architecture()
    if architecture is None:
        raise OSError(f"no table of system calls for {os.uname().machine}")
    install_filter(kernel, architecture, build_filter(architecture, os.getpid()))
    return f"seccomp, {architecture.name}"


def _enter_empty_network(kernel: Kernel) -> str:
    """Enter an empty network; for all but root that takes a user namespace, too."""
    user, group = os.geteuid(), os.getegid()
    try:
        kernel.unshare(_CLONE_NEWNET)
        return "network namespace"
    except OSError:
        kernel.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
    # Else this user has no name in its own namespace, and its files seem to be another's.
    with suppress(OSError):  # a name is a comfort, and the network is left already
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return "network namespace, user namespace"


def _limit_threads(*, has_own_user_namespace: bool) -> Safeguard:
    """Limit the threads, which the kernel counts for each user: so where the count begins anew."""
    if os.geteuid() == 0:
        return Safeguard(is_applied=False, detail="the kernel sets root no limit of threads")
    if not has_own_user_namespace:
        return Safeguard(
            is_applied=False, detail="without a user namespace all threads of the user count"
        )
    _limit(resource.RLIMIT_NPROC, MAX_THREADS)
    return Safeguard(is_applied=True, detail=f"{MAX_THREADS} threads")


def _drop_capabilities(kernel: Kernel, paths: AllowedPaths) -> Safeguard:
    """Drop capabilities, of root or of a user namespace; Landlock narrows what may be kept.

    An agent that root runs out of a user's home, by sudo, needs root's right to enter it.
    """

    def drop() -> str:
        for number in range(_CAPABILITY_COUNT):
            try:
                kernel.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
            except OSError:  # no right to, so it has none to drop; or beyond the last one
                break
        with suppress(OSError):  # before Linux 4.3 there are none
            kernel.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
        if os.geteuid() != 0:
            kernel.drop_capabilities(0, 0)
            return "none"
        kernel.drop_capabilities(_FILE_RIGHTS, 0)
        if _can_work(paths):
            kernel.drop_capabilities(0, 0)
            return "none"
        kernel.drop_capabilities(_FILE_RIGHTS, _FILE_RIGHTS)
        return "only to bypass file permissions: the agent's are in a directory of another user"

    return _attempt(drop, "the worker has all rights of the agent")


def _can_work(paths: AllowedPaths) -> bool:
    """Whether the files of the run are within reach; access(2) would not ask for capabilities."""
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
    """Lower a limit of this process, as far as it is not lower already."""
    hard = resource.getrlimit(kind)[1]
    value = min(value, sys.maxsize - GRACE_S)  # times from the wire may be larger than the type
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    # The signal of the CPU time has a name, which a death at the hard limit has not.
    grace = GRACE_S if kind == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY else 0
    resource.setrlimit(kind, (value, value + grace))
