"""Programs on this machine that act as a board, and must end with the process that uses them.

A process that is killed cannot end its emulator. The emulator would continue to run, and use CPU
time during all later runs, so the kernel kills it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
"""prctl(2): the kernel sends this process a signal when the thread that started it ends."""
_LIBRARY = ctypes.CDLL(None)
"""The C library, which must be loaded at import, not between fork and exec. A thread may hold a
lock at the fork. The new process then has a copy of the lock, but not the thread that releases it,
so a load after the fork could wait forever for the lock."""


def ending_with_parent() -> Callable[[], None]:
    """Function for `preexec_fn` that makes a new process end with this process.

    More exactly, the new process ends with the *thread* that starts it. Source: prctl(2).
    """
    parent = os.getpid()

    def prepare() -> None:
        _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the line above took effect
            os.kill(os.getpid(), signal.SIGKILL)

    return prepare
