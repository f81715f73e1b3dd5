"""Base of instrument families: set up as a recording begins, then polled or emptied.

PolledInstrument   a question for each value
DataLogger         logs by a timer of its own, into a memory that is emptied a block at a time
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from edgebench.meters.base import Header, MeterInfo
from edgebench.meters.polled import PolledSession, timed
from edgebench.meters.recorder import Recorder
from edgebench.meters.scpi.link import ScpiLink
from edgebench.meters.scpi.setup import ScpiSetup
from edgebench.meters.stream import StreamSession

FETCH_S = 0.1
"""Time in which blocks gather, between two questions."""
FETCH_COUNT = 4096
"""Records in a block, at most."""


class Instrument(ABC):
    """Instrument that is connected and identified."""

    def __init__(self, link: ScpiLink, setup: ScpiSetup, info: MeterInfo) -> None:
        self._link = link
        self._setup = setup
        self._info = info

    @abstractmethod
    def describe(self) -> Header:
        """Header with the settings to come, as far as known; by questions only.

        Raises:
            EdgebenchError: it does not answer, or the user has to say something first.
        """

    @abstractmethod
    def session(self, header: Header, path: Path) -> Recorder:
        """Recording, which sets the instrument up as it begins and has what came of that."""

    @abstractmethod
    def _set_up(self) -> Header:
        """Choose what it measures, and how often; what came of that."""


class PolledInstrument(Instrument):
    """An instrument of which each value is asked for."""

    question: str
    """Question whose answer is one value, or the values of one moment."""

    def session(self, header: Header, path: Path) -> PolledSession:
        """Recording."""
        return PolledSession(
            lambda: [timed(lambda: self._link.ask(self.question))],
            header,
            path,
            set_up=self._set_up,
        )


class DataLogger(Instrument):
    """An instrument that is the source of its own recording."""

    def session(self, header: Header, path: Path) -> StreamSession:
        """Recording."""
        return StreamSession(
            self, header, path, start=self._start, stop=self._stop, set_up=self._set_up
        )

    @abstractmethod
    def read(self, timeout_s: float) -> bytes:
        """Records since the last fetch, as an undecoded block; waits for some to gather."""

    @abstractmethod
    def _start(self) -> None:
        """Let it log."""

    @abstractmethod
    def _stop(self) -> None:
        """Let it log no more."""

    @property
    def _clock_domain(self) -> str:
        return f"meter:scpi:{self._info.serial or 'unknown'}"

    def _tell(self, *commands: str) -> None:
        """Send commands.

        Raises:
            TargetError: it refuses one.
        """
        for command in commands:
            self._link.write(command)
        self._link.refuse_errors("SYST:ERR?")
