"""The highest temperature of a device, enforced by the agent whether a host is there or not.

Theory of operation. The sampler looks at the zones and tells when the device's heat changes; the
guard decides what that means for a run:

    hot while the device cools down      the gate stays shut
    hot when the run would start         the run is refused
    hot while the run goes on            the run is stopped, what it measured is kept
    the sampler is gone, or silent       as if it were hot: nobody would see it
    no zone tells anything               the run goes on, and its record says that nobody looked:
                                         a board without sensors could never be measured

A profile without a highest temperature has nothing to guard: a lost sampler is only noted.
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
"""The first look takes one period of the sampler, three of them when the device is hot."""
Note = Callable[[str, str], None]
"""Writes an event of this kind and with this detail into the run's record."""


class Guard:
    """Of one run."""

    def __init__(self, limit_c: float | None, *, stop: Callable[[], None], note: Note) -> None:
        self._limit_c = limit_c
        self._stop = stop
        self._note = note
        self._has_looked = asyncio.Event()
        self._watched: HeatReport | None = None
        self._lost: str | None = None
        self._is_running = False
        self.error: TargetError | None = None
        """Why the run was stopped, or did not start."""

    def hear(self, said: HeatReport | SamplerLoss) -> None:
        """The device's heat has changed, or nobody looks any more."""
        self._has_looked.set()
        if isinstance(said, SamplerLoss):
            self._lost = said.reason
            self._note(UNWATCHED, said.reason)
        else:
            self._watched = said
            if said.heat is HeatState.BLIND:
                self._note(UNWATCHED, f"no zone tells whether it has {said.limit_c:g} °C")
        if self._is_running and self.error is None:
            self._refuse("stopped")
            if self.error is not None:
                self._stop()

    @property
    def is_in_vain(self) -> bool:
        """Whether the run will not start, however long anybody waits."""
        return self._limit_c is not None and self._lost is not None

    def may_start(self) -> bool:
        """Whether the device is below its limit, as far as anybody can tell now."""
        return self._limit_c is None or not self._is_hot

    async def let_start(self) -> None:
        """The run starts now.

        Raises:
            TooHot: the device is above its limit.
            TargetError: nobody could tell when it will be.
        """
        if self._limit_c is not None and not self._has_looked.is_set():
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._has_looked.wait(), FIRST_LOOK_S)
            if not self._has_looked.is_set():
                self.hear(SamplerLoss(f"the sampler told no temperature for {FIRST_LOOK_S:g} s"))
        self._refuse("not started")
        if self.error is not None:
            raise self.error
        self._is_running = True

    @property
    def _is_hot(self) -> bool:
        return self._watched is not None and self._watched.heat is HeatState.HOT

    def _refuse(self, what: str) -> None:
        """Say why the run may not go on, if it may not."""
        if self._limit_c is None:
            return
        limit = f"the profile's limit is {self._limit_c:g} °C"
        if self._watched is not None and self._is_hot:
            found = self._watched
            self.error = TooHot(f"{what} at {found.temp_c:.1f} °C ({found.zone}): {limit}")
        elif self._lost is not None:
            self.error = TargetError(f"{what}, nobody watches the heat: {self._lost}; {limit}")
        if self.error is not None:
            self._note(TOO_HOT, str(self.error))
