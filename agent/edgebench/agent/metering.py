"""A meter that the agent serves, recorded beside a run.

A meter that is missing, fails or is pulled out costs a run its energy, never its latencies: nothing
here raises, and the record says what the trouble was. Drivers are imported when a run asks for a
meter, since an idle agent has no use for numpy. A session has a thread of its own, in the daemon;
what it records is in the run's directory, and travels with it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.agent.runtimes.text import one_line
from edgebench.protocol.errors import EdgebenchError, UsageError
from edgebench.protocol.record import MeterFacts

if TYPE_CHECKING:
    from edgebench.meters.base import MeterSession

logger = logging.getLogger(__name__)


def check_meter(text: str) -> str:
    """The text, if a driver takes it; whether the meter is there, each run finds out.

    Raises:
        UsageError: there is no such driver, or an option is wrong.
    """
    from edgebench.meters.registry import find_meter

    find_meter(text).close()
    return text


def require_served(meter: str | None, served: tuple[str, ...]) -> None:
    """Check that a run asks for a meter that the agent's owner named, if for any.

    Raises:
        UsageError: it does not.
    """
    if meter is not None and meter not in served:
        named = ", ".join(served) or "none"
        raise UsageError(f"meter {meter[:80]!r} is not served by this agent, which serves {named}")


class Metering:
    """The recording of one run; of nothing, for a run that asks for no meter."""

    def __init__(self, meter: str | None, path: Path) -> None:
        self._meter = meter
        self._path = path
        self._open = ExitStack()
        self._session: MeterSession | None = None
        self._trouble: str | None = "the run did not begin"

    async def __aenter__(self) -> Metering:
        if self._meter is not None:
            await asyncio.to_thread(self._start, self._meter)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._meter is not None:
            await asyncio.to_thread(self._stop)

    @property
    def facts(self) -> MeterFacts | None:
        """For the run's record; None where no meter was asked for."""
        return None if self._meter is None else MeterFacts(self._meter, self._trouble)

    @property
    def trouble(self) -> str | None:
        """Why nothing more is recorded; None while all is well."""
        facts = self.facts
        return facts.trouble if facts else None

    def _start(self, name: str) -> None:
        try:
            self._trouble = self._record(name)
        except Exception as exc:  # each driver's library has its own
            self._fail(exc)

    def _record(self, name: str) -> str | None:
        """Open the meter and begin; why that cannot be, if it cannot."""
        from edgebench.meters.base import Missing
        from edgebench.meters.registry import find_meter

        meter = find_meter(name)
        self._open.callback(meter.close)
        found = meter.open()
        if isinstance(found, Missing):
            return found.reason
        session = meter.session(self._path)
        self._session = self._open.enter_context(session)
        return None

    def _stop(self) -> None:
        try:
            self._open.close()
        except Exception as exc:
            self._fail(exc)
        if self._session is not None and self._session.trouble is not None:
            self._trouble = self._session.trouble

    def _fail(self, exc: Exception) -> None:
        is_ours = not isinstance(exc, (EdgebenchError, OSError))
        logger.error("meter %s: %s", self._meter, exc, exc_info=is_ours)
        self._trouble = one_line(exc) or type(exc).__name__
