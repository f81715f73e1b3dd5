"""The times before and after a run in which nothing is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from edgebench.agent.idle import LOOK_S, settle_disk, stay_idle
from edgebench.protocol.errors import TargetError


class Time:
    """A clock that advances during each sleep."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.sleeps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now_s += seconds

    def idle(self, duration_s: float, is_over: Callable[[], bool] = lambda: False) -> str:
        """Be idle for this time."""
        return asyncio.run(
            stay_idle(duration_s, is_over=is_over, clock=lambda: self.now_s, sleep=self.sleep)
        )


def test_idle_time_is_as_long_as_it_was_asked_for() -> None:
    """Otherwise the idle power would be a mean over less, or more, time than the record states."""
    time = Time()
    assert time.idle(1.1) == "after 1.10 s"
    assert sum(time.sleeps) == pytest.approx(1.1)
    assert max(time.sleeps) <= LOOK_S


def test_idle_time_that_is_cut_short_says_so() -> None:
    """Otherwise a stop would wait for ten minutes.

    The idle power of half a second would pass for that of ten.
    """
    time = Time()
    assert time.idle(600.0, lambda: time.now_s > 50.9) == "cut short after 1.00 of 600 s"


def test_files_are_on_the_disk_before_it_is_idle(tmp_path: Path) -> None:
    """Otherwise a disk that fails then would be an internal error of the agent."""
    (tmp_path / "queries.bin").write_bytes(b"times")
    settle_disk(tmp_path)
    with pytest.raises(TargetError, match="run not spooled"):
        settle_disk(tmp_path / "gone")
