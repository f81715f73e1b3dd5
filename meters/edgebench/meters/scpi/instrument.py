"""Base of instrument families: set up as a recording begins, then polled or emptied.

PolledInstrument   a question for each value
DataLogger         logs by a timer of its own, into a memory that is emptied a block at a time
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from pathlib import Path

from edgebench.meters.base import Header, MeterInfo
from edgebench.meters.polled import PolledSession, timed
from edgebench.meters.recorder import Recorder
from edgebench.meters.scpi.link import ScpiLink
from edgebench.meters.scpi.setup import ScpiSetup
from edgebench.meters.stream import StreamSession
from edgebench.protocol.errors import UsageError

FETCH_S = 0.1
"""Time in which blocks gather, between two questions."""
FETCH_COUNT = 4096
"""Records in a block, at most."""
BUSY_RATIO = 0.8
"""Share of an interval that a reading may take."""
_TRIALS = 3


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

    def _fastest_hz(self, wanted_hz: float) -> float:
        """By the shortest of a few readings: the first one may have to choose a range."""
        fastest_hz = 0.0
        for _ in range(_TRIALS):
            before_s = time.monotonic()
            self._link.ask(self.question)
            fastest_hz = max(fastest_hz, BUSY_RATIO / max(1e-3, time.monotonic() - before_s))
            if fastest_hz >= wanted_hz:
                break
        return fastest_hz

    def _possible_hz(self, wanted_hz: float) -> float:
        """The default rate, or the highest below it; the rate that the user asks for, or none.

        Raises:
            UsageError: readings take longer than the rate that was asked for allows.
        """
        fastest_hz = self._fastest_hz(wanted_hz)
        if self._setup.rate_hz is not None and wanted_hz > fastest_hz:
            raise UsageError(
                f"{self._info.model} takes too long for {wanted_hz:g} readings a second: "
                f"{fastest_hz:.3g} at most"
            )
        return min(wanted_hz, fastest_hz)


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
