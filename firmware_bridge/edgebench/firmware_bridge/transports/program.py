"""Programs of this machine that stand for a board: they must not outlive their user.

A process that is killed closes nothing. An emulator that it started would go on, and take the
processor from every later run; so the kernel ends it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
"""prctl(2): the kernel sends this process a signal when the thread that started it ends."""
_LIBRARY = ctypes.CDLL(None)
"""Loaded here: between fork and exec, another thread's lock may never be released."""


def ending_with_parent() -> Callable[[], None]:
    """What a new process calls before its program begins (`preexec_fn`), so that it ends with us.

    It ends with the *thread* that starts it. Source: prctl(2).
    """
    parent = os.getpid()

    def prepare() -> None:
        _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above took effect
            os.kill(os.getpid(), signal.SIGKILL)

    return prepare
