"""Instruments that log by a timer of their own, into a memory that is emptied a block at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from edgebench.meters.base import Header, MeterInfo
from edgebench.meters.scpi.link import Link
from edgebench.meters.scpi.setup import Setup
from edgebench.meters.stream import StreamSession

FETCH_S = 0.1
"""For so long blocks gather, between two questions."""
FETCH_COUNT = 4096
"""Of records in a block, at most."""


class DataLogger(ABC):
    """What such an instrument does as the transport of its own recording."""

    def __init__(self, link: Link, setup: Setup, info: MeterInfo) -> None:
        self._link = link
        self._setup = setup
        self._info = info

    def session(self, header: Header, path: Path) -> StreamSession:
        """A recording."""
        return StreamSession(
            self, header, path, start=self._start, stop=self._stop, set_up=self._set_up
        )

    @abstractmethod
    def read(self, timeout_s: float) -> bytes:
        """The records since the last answer, as it came; waits for some to gather."""

    def write(self, data: bytes) -> None:
        """Send a command."""
        self._link.write(data.decode("ascii"))

    def close(self) -> None:
        """Let go."""
        self._link.close()

    @property
    def _clock_domain(self) -> str:
        return f"meter:scpi:{self._info.serial or 'unknown'}"

    @abstractmethod
    def _set_up(self) -> Header:
        """Choose what it logs, and how often; what came of that."""

    @abstractmethod
    def _start(self) -> None:
        """Let it log."""

    @abstractmethod
    def _stop(self) -> None:
        """Let it log no more."""

    def _tell(self, *commands: str) -> None:
        """Send commands.

        Raises:
            TargetError: it refuses one.
        """
        for command in commands:
            self._link.write(command)
        self._link.refuse_errors("SYST:ERR?")
