"""A clock for tests, which decide when time passes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now_s: float = 50.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s
