"""Tests that run alone: two at the same time, but none next to an exclusive test."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def apart(
    config: pytest.Config, factory: pytest.TempPathFactory, *, is_exclusive: bool = False
) -> Iterator[None]:
    """Hold back the tests of the other processes that must not run during this test.

    A module-scoped fixture needs it too: it is created before the fixtures of a single test.
    """
    base = factory.getbasetemp()
    shared = base.parent if hasattr(config, "workerinput") else base
    with (shared / "alone.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if is_exclusive else fcntl.LOCK_SH)
        yield
