"""The temperature limit of a device, which the agent enforces even if no host is connected.

Theory of operation. The sampler monitors the thermal zones and reports each change of the heat
state. The guard decides what happens to the run:

    hot while the device cools down      the gate stays shut
    hot when the run would start         the run is refused
    hot during the run                   the run is stopped, its measurement is kept
    the sampler has ended, or is silent  the run is refused, or is stopped as above
    no zone has a temperature            the run continues, and its record notes that the
                                         temperature was not monitored. Without this rule, a
                                         board without sensors could not be measured.

If the profile has no temperature limit, the guard never stops a run. The loss of the sampler is
then only noted in the run's record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from edgebench.agent.telemetry.job import HeatReport, HeatState
from edgebench.agent.telemetry.process import SamplerLoss
from edgebench.protocol.errors import TargetError, TooHot
from edgebench.protocol.record import TOO_HOT, UNWATCHED

FIRST_LOOK_S = 10.0
"""Maximum time to wait for the first report, which takes one period of the sampler, or three
periods if the device is hot."""
Note = Callable[[str, str], None]
"""Function that writes an event, given its kind and detail, into the run's record."""


class Guard:
    """Enforces the temperature limit during a run."""

    def __init__(self, limit_c: float | None, *, stop: Callable[[], None], note: Note) -> None:
        self._limit_c = limit_c
        self._stop = stop
        self._note = note
        self._has_report = asyncio.Event()
        self._report: HeatReport | None = None
        self._loss: str | None = None
        """Why the sampler no longer monitors the device; None while it does."""
        self._is_running = False
        self.error: TargetError | None = None
        """Why the run was stopped or not started; None if neither has happened."""

    def on_message(self, message: HeatReport | SamplerLoss) -> None:
        """Handle a report of the device's heat, or the loss of the sampler."""
        self._has_report.set()
        if isinstance(message, SamplerLoss):
            self._loss = message.reason
            self._note(UNWATCHED, message.reason)
        else:
            self._report = message
            if message.heat is HeatState.BLIND:
                self._note(
                    UNWATCHED,
                    "no thermal zone reports a credible temperature; the profile's limit is "
                    f"{message.limit_c:g} °C",
                )
        if self._is_running and self.error is None:
            self._refuse("stopped")
            if self.error is not None:
                self._stop()

    @property
    def is_in_vain(self) -> bool:
        """Whether the run can never start, because the sampler is lost."""
        return self._limit_c is not None and self._loss is not None

    def may_start(self) -> bool:
        """Whether the run may start; False if a limit is set and the last report was `HOT`."""
        return self._limit_c is None or not self._is_hot

    async def let_start(self) -> None:
        """Allow the run to start, or raise an error.

        Raises:
            TooHot: the device is above its limit.
            TargetError: the temperature is not monitored.
        """
        if self._limit_c is not None and not self._has_report.is_set():
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._has_report.wait(), FIRST_LOOK_S)
            if not self._has_report.is_set():
                self.on_message(SamplerLoss(f"no temperature reading for {FIRST_LOOK_S:g} s"))
        self._refuse("not started")
        if self.error is not None:
            raise self.error
        self._is_running = True

    @property
    def _is_hot(self) -> bool:
        return self._report is not None and self._report.heat is HeatState.HOT

    def _refuse(self, what: str) -> None:
        """Set `error` and write it into the record, if the run must not start or continue."""
        if self._limit_c is None:
            return
        limit = f"the profile's limit is {self._limit_c:g} °C"
        report = self._report
        if report is not None and self._is_hot:
            self.error = TooHot(f"{what} at {report.temp_c:.1f} °C ({report.zone}): {limit}")
        elif self._loss is not None:
            self.error = TargetError(f"{what}, temperature not monitored: {self._loss}; {limit}")
        if self.error is not None:
            self._note(TOO_HOT, str(self.error))
