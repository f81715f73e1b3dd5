"""Tests of what a quiet machine measures, on machines that are not.

Another process that is in the way is seen by edgebench, and the number is refused; that is right,
and no news of the number. Such an attempt is made again, and only such an attempt: each test says
which refusals are the machine's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from support.tools import skip_or_fail

ATTEMPTS = 3

T = TypeVar("T")


def undisturbed(attempt: Callable[[], T], disturbance: Callable[[T], str | None]) -> T:
    """The first attempt that nothing disturbed; where there is none, the test fails in CI.

    Args:
        attempt: Made up to three times.
        disturbance: What was in the way of an attempt, if anything was.
    """
    reasons: list[str] = []
    for _ in range(ATTEMPTS):
        found = attempt()
        reason = disturbance(found)
        if reason is None:
            return found
        reasons.append(reason)
    return skip_or_fail(f"a machine that is less busy: {'; '.join(reasons)}")
