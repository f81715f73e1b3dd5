"""A limit for a fixture in a file whose limits are those of the tests alone (`func_only`)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest


@contextmanager
def time_limit(timeout_s: float, what: str) -> Iterator[None]:
    """Fail if the body of the `with` statement takes longer.

    It must run in the main thread, and not within the limit of a test, which uses the same timer.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        pytest.fail(f"{what}: not complete after {timeout_s:g} s")

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
