"""Life cycle that all drivers share.

    open      connects, then describes; if either step raises an EdgebenchError, returns an
              `AbsentMeter` with the text of the error
    session   raises an error unless the meter is open
    close     releases the connection; a second call has no effect

A driver defines the type of its connection, the content of the header, and the type of session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from edgebench.meters.base import AbsentMeter, Header
from edgebench.meters.recorder import Recorder
from edgebench.protocol.errors import EdgebenchError, MeasurementError, NotPermitted


class Connection(Protocol):
    """Resource that an open meter holds, such as a port, a link or open files."""

    def close(self) -> None:
        """Release the resource; may be called twice."""
        ...


C = TypeVar("C", bound=Connection)


class InstrumentMeter(ABC, Generic[C]):
    """A meter that is reached through a connection."""

    name: str

    def __init__(self, connect: Callable[[], C]) -> None:
        """Create a meter that is not connected yet.

        Args:
            connect: Opens the connection; raises an EdgebenchError on failure.
        """
        self._connect = connect
        self._connection: C | None = None
        """Connection to the meter; None while the meter is not open."""
        self._header: Header | None = None

    def open(self) -> Header | AbsentMeter:
        """Connect to the meter and identify it; reports errors as `AbsentMeter`, never raises."""
        self.close()
        try:
            self._connection = self._connect()
            self._header = self._describe(self._connection)
        except EdgebenchError as exc:
            self.close()
            permission = exc.permission if isinstance(exc, NotPermitted) else None
            return AbsentMeter(str(exc), permission)
        return self._header

    def session(self, path: Path) -> Recorder:
        """Create a session that records into this file.

        Raises:
            MeasurementError: the meter is not open.
        """
        if self._connection is None or self._header is None:
            raise MeasurementError(f"the meter {self.name} is not open")
        return self._record(self._connection, self._header, path)

    def close(self) -> None:
        """Release the connection; may be called twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._release(connection)

    @abstractmethod
    def _describe(self, connection: C) -> Header:
        """Identify the meter by queries only, because only a session may configure the meter.

        Raises:
            EdgebenchError: the meter does not respond, or an option is missing.
        """

    @abstractmethod
    def _record(self, connection: C, header: Header, path: Path) -> Recorder:
        """Create a session of the open meter."""

    def _release(self, connection: C) -> None:
        """Undo changes to the meter and close the connection."""
        connection.close()
