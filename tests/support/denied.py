"""Facts that a system may hide from a program: Android from its apps, a container from its guests.

Files and functions are denied to Python alone: the libraries of a runtime keep their own view. The
list of network interfaces is denied by the kernel, through seccomp, to every later process.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import pathlib
import re
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILES = (
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/vmstat",
    "/proc/pressure/.*",
    "/proc/(self|thread-self)/(maps|smaps|smaps_rollup|mountinfo)",
    "/proc/(self|[0-9]+)/(io|cgroup|environ)",
    "/proc/self/task/[0-9]+/schedstat",
    "/proc/sys/.*",
    "/sys/devices/system/cpu/.*",
    "/sys/class/.*",
    "/etc/(os-release|machine-id)",
)
"""Patterns of files that one system or another denies."""
_NO_NEW_PRIVS = 38
_MAKE_SOCKET = 1 << 9
"""LANDLOCK_ACCESS_FS_MAKE_SOCK. Source: include/uapi/linux/landlock.h."""
_OPENERS: tuple[Any, ...] = (
    *(io, builtins, os),
    *filter(None, [getattr(pathlib, "_NormalAccessor", None)]),  # of Python 3.10
)
"""Whoever has a function `open`."""


class Denial:
    """A function that opens files, with exceptions; a plain function would be bound by a class."""

    def __init__(self, function: Any, pattern: re.Pattern[str]) -> None:
        self._function = function
        self._pattern = pattern

    def __call__(self, path: Any, *arguments: Any, **named: Any) -> Any:
        if not isinstance(path, int) and self._pattern.fullmatch(os.fsdecode(path)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return self._function(path, *arguments, **named)


def deny_files(*patterns: str) -> None:
    """Refuse to open these files, for good."""
    pattern = re.compile("|".join(patterns))
    for place in _OPENERS:
        place.open = Denial(place.open, pattern)


@contextmanager
def denied_files(*patterns: str) -> Iterator[None]:
    """Files that cannot be opened inside the block."""
    functions = [place.open for place in _OPENERS]
    deny_files(*patterns)
    try:
        yield
    finally:
        for place, function in zip(_OPENERS, functions, strict=True):
            place.open = function


def no_load() -> tuple[float, float, float]:
    """What `os.getloadavg` is on Android."""
    raise OSError("load averages not available")


def deny_everything() -> None:
    """Deny all of it to this process, for good; processes that it starts do the same."""
    deny_files(*FILES)
    os.getloadavg = no_load
    deny_interfaces()


def deny_interfaces() -> None:
    """Make the kernel refuse netlink sockets, as Android's does."""
    from edgebench.agent.confine.kernel import Kernel
    from edgebench.agent.confine.seccomp import install_filter
    from edgebench.agent.confine.syscalls import REFUSED, find_architecture

    architecture = find_architecture()
    assert architecture is not None
    number = REFUSED["socket"][architecture.column]
    assert number is not None
    kernel = Kernel()
    kernel.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    load, equal, answer = 0x20, 0x15, 0x06
    program = [
        (load, 0, 0, 0),  # the number of the call
        (equal, 0, 3, number),
        (load, 0, 0, 16),  # its first argument
        (equal, 0, 1, int(socket.AF_NETLINK)),
        (answer, 0, 0, 0x00050000 | errno.EACCES),
        (answer, 0, 0, 0x7FFF0000),
    ]
    install_filter(kernel, architecture, program)


def deny_socket_files() -> None:
    """Make the kernel refuse socket files to this process and all its children, for good.

    Android's SELinux does the same to the shell of adb, with the same error.
    """
    from edgebench.agent.confine.kernel import Kernel

    kernel = Kernel()
    kernel.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    ruleset = kernel.landlock_create(struct.pack("=Q", _MAKE_SOCKET))
    kernel.landlock_restrict(ruleset)
    os.close(ruleset)


def without_socket_files(action: Callable[[], Any]) -> Any:
    """The JSON result of this function in a child to which the kernel refuses socket files."""
    from support.confined import in_a_child, need_landlock

    def act() -> Any:
        deny_socket_files()
        return action()

    need_landlock()
    answer = in_a_child(act)
    assert not (isinstance(answer, dict) and "raised" in answer), answer
    return answer


def denying_environment(folder: Path, denial: str = "deny_everything") -> dict[str, str]:
    """Variables that make every Python call one of these functions before it does anything."""
    folder.mkdir(parents=True, exist_ok=True)
    text = f"import runpy\nrunpy.run_path({__file__!r})[{denial!r}]()\n"
    (folder / "sitecustomize.py").write_text(text)
    return {"PYTHONPATH": str(folder)}
