"""Base classes of instrument families, which are configured when a recording starts.

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
"""Time between two fetches of records; meanwhile, the instrument collects records."""
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
        """Return the header with the planned settings as far as known; send nothing but queries.

        Raises:
            EdgebenchError: the instrument does not respond, or an option is missing.
        """

    @abstractmethod
    def session(self, header: Header, path: Path) -> Recorder:
        """Create a recording, which configures the instrument and stores the actual settings."""

    @abstractmethod
    def _set_up(self) -> Header:
        """Configure quantity and rate, and return the header with the actual settings."""


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
        """Rate of the fastest of a few readings, because the first one may be slow."""
        fastest_hz = 0.0
        for _ in range(_TRIALS):
            before_s = time.monotonic()
            self._link.query(self.poll_command)
            fastest_hz = max(fastest_hz, BUSY_RATIO / max(1e-3, time.monotonic() - before_s))
            if fastest_hz >= wanted_hz:
                break
        return fastest_hz

    def _possible_hz(self, wanted_hz: float) -> float:
        """Return the wanted rate or the highest possible rate, whichever is lower.

        Raises:
            UsageError: the user requested a rate for which readings take too long.
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
        """Wait up to 0.1 s, then fetch new records as an undecoded block; b"" if there are none."""

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
