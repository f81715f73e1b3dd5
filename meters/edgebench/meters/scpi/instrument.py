"""Base of instrument families: configured when a recording starts, then polled or drained.

PolledInstrument   a query per value
DataLogger         logs by its own timer into a memory, which is read block by block
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
"""Time between two queries, in which blocks accumulate."""
FETCH_COUNT = 4096
"""Maximum number of records in a block."""
BUSY_RATIO = 0.8
"""Maximum share of an interval that a reading may take."""
_TRIALS = 3


class Instrument(ABC):
    """A connected and identified instrument."""

    def __init__(self, link: ScpiLink, setup: ScpiSetup, info: MeterInfo) -> None:
        self._link = link
        self._setup = setup
        self._info = info

    @abstractmethod
    def describe(self) -> Header:
        """Header with the planned settings, as far as known; by queries only.

        Raises:
            EdgebenchError: the instrument does not respond, or an option is missing.
        """

    @abstractmethod
    def session(self, header: Header, path: Path) -> Recorder:
        """Create a recording; it configures the instrument at its start and stores the result."""

    @abstractmethod
    def _set_up(self) -> Header:
        """Configure quantity and rate; returns the header with the actual settings."""


class PolledInstrument(Instrument):
    """An instrument that is queried for each value."""

    poll_command: str
    """Query whose response is a value, or several simultaneous values."""

    def session(self, header: Header, path: Path) -> PolledSession:
        """Create a polled recording."""
        return PolledSession(
            lambda: [timed(lambda: self._link.query(self.poll_command))],
            header,
            path,
            set_up=self._set_up,
        )

    def _fastest_hz(self, wanted_hz: float) -> float:
        """Rate of the fastest of a few readings: the first may include the choice of a range."""
        fastest_hz = 0.0
        for _ in range(_TRIALS):
            before_s = time.monotonic()
            self._link.query(self.poll_command)
            fastest_hz = max(fastest_hz, BUSY_RATIO / max(1e-3, time.monotonic() - before_s))
            if fastest_hz >= wanted_hz:
                break
        return fastest_hz

    def _possible_hz(self, wanted_hz: float) -> float:
        """The default rate, or else the highest possible rate; a requested rate is never lowered.

        Raises:
            UsageError: readings take too long for the requested rate.
        """
        fastest_hz = self._fastest_hz(wanted_hz)
        if self._setup.rate_hz is not None and wanted_hz > fastest_hz:
            raise UsageError(
                f"{self._info.model} takes too long for {wanted_hz:g} readings per second: "
                f"{fastest_hz:.3g} at most"
            )
        return min(wanted_hz, fastest_hz)


class DataLogger(Instrument):
    """An instrument that supplies the data of its own recording."""

    def session(self, header: Header, path: Path) -> StreamSession:
        """Create a streaming recording."""
        return StreamSession(
            self, header, path, start=self._start, stop=self._stop, set_up=self._set_up
        )

    @abstractmethod
    def read(self, timeout_s: float) -> bytes:
        """Records since the last fetch as an undecoded block; waits up to 0.1 s for new records."""

    @abstractmethod
    def _start(self) -> None:
        """Start logging."""

    @abstractmethod
    def _stop(self) -> None:
        """Stop logging."""

    @property
    def _clock_domain(self) -> str:
        return f"meter:scpi:{self._info.serial or 'unknown'}"

    def _send(self, *commands: str) -> None:
        """Send commands.

        Raises:
            TargetError: the instrument reports an error.
        """
        for command in commands:
            self._link.write(command)
        self._link.refuse_errors("SYST:ERR?")
