"""A process that does something, and then waits to be killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def start_waiting(act: Callable[[], object]) -> int:
    """Fork, act in the child, and return its process id once it waits."""
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            act()
            os.write(go, b"1")
            signal.pause()
        finally:
            os._exit(1)
    os.close(go)
    assert os.read(ready, 1) == b"1"
    os.close(ready)
    return child
