"""Programs on this machine that act as a board: they must not outlive their user.

A killed process does not clean up. An emulator that it started would continue, and use CPU time
during every later run; so the kernel kills it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
"""prctl(2): the kernel sends this process a signal when the thread that started it ends."""
_LIBRARY = ctypes.CDLL(None)
"""Loaded at import: between fork and exec, another thread's lock may never be released."""


def ending_with_parent() -> Callable[[], None]:
    """Function for `preexec_fn` that makes a new process end with this process.

    More exactly, it ends with the *thread* that starts it. Source: prctl(2).
    """
    parent = os.getpid()

    def prepare() -> None:
        _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the line above took effect
            os.kill(os.getpid(), signal.SIGKILL)

    return prepare
