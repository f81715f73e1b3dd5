"""Sends the state and the readings of seats to the clients that watch them.

Theory of operation. Without watchers, this module runs no task. During a run, the readings come
from the run's sampler, which reports its newest reading to the daemon once a second. If the seat
has watchers, each report contains all samples since the last report. Between runs there is no
sampler, so the daemon itself reads the seat's temperature once a second. The daemon also does so
during a run whose sampler is missing or late. At every reading, the state of a seat (holder, run,
phase) is compared with the previous state, and a change is sent. When a device leaves, the watchers
of its seat receive the changed state. The readings that the watchers receive after this change
contain no samples.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from edgebench.agent.seat import Seat
from edgebench.agent.telemetry.job import LiveReading, LiveSample
from edgebench.agent.worker.process import monotonic_ns
from edgebench.protocol import messages as m
from edgebench.protocol.live import pack_samples

PERIOD_S = 1.0
LATE_NS = 3e9
"""If the sampler of a run sends no report for this long, the daemon itself reads the
temperature."""

logger = logging.getLogger(__name__)

Notice = m.SeatChange | m.SeatReadings
SendNotice = Callable[[Notice, bytes], None]
"""Function that sends a notice and its payload; it must neither block nor raise."""
_Key = tuple[str | None, str | None, object]


@dataclass(slots=True, eq=False)
class WatchedSeat:
    """A seat with at least one watcher."""

    seat: Seat
    senders: list[SendNotice] = field(default_factory=list)
    last_key: _Key = (None, None, None)
    """Holder, run and phase in the last notice."""
    reported_ns: int = 0
    """Time of the sampler's last report."""
    sampled_ns: int = 0
    """Time of the last sample that was sent."""

    def key(self) -> _Key:
        """Holder of the lease, run and phase; watchers are notified when one of these changes."""
        holder = self.seat.lease.holder
        return holder.identity if holder else None, self.seat.running, self.seat.phase

    def send(self, notice: Notice, payload: bytes = b"") -> None:
        """Send a notice to all watchers of the seat."""
        for send in list(self.senders):
            send(notice, payload)

    def on_reading(self, live: LiveReading) -> None:
        """Send a report of the sampler to the watchers."""
        if not self.seat.is_there:  # the last report of a run that is ending
            return
        self.reported_ns = monotonic_ns()
        samples = live.samples or (LiveSample(live.time_ns, live.temp_c, live.freq_hz),)
        self.look(samples)

    def look(self, samples: Iterable[LiveSample]) -> None:
        """Send the seat's state if it has changed, then the samples that were not sent yet."""
        if (key := self.key()) != self.last_key:
            self.last_key = key
            self.send(m.SeatChange(self.seat.state()))
        rows = [
            (sample.time_ns, _or_nan(sample.temp_c), _or_nan(sample.freq_hz))
            for sample in samples
            if sample.time_ns > self.sampled_ns
        ]
        if rows:
            self.sampled_ns = rows[-1][0]
        load_1m = self.seat.surroundings.load_1m()
        notice = m.SeatReadings(self.seat.name, len(rows), self.seat.running, load_1m)
        self.send(notice, pack_samples(rows))


@dataclass(frozen=True, slots=True)
class _Watcher:
    """The seats that a watcher has requested."""

    names: frozenset[str]
    is_for_all: bool
    """Whether the watcher has requested all seats, including seats that are added later."""


class Watches:
    """The watchers of an agent's seats; watched seats are read once a second."""

    def __init__(self) -> None:
        self._watchers: dict[SendNotice, _Watcher] = {}
        self._watched: dict[str, WatchedSeat] = {}
        self._looking: asyncio.Task[None] | None = None

    def add(
        self, seats: Iterable[Seat], send: SendNotice, *, is_for_all: bool = False
    ) -> tuple[m.SeatState, ...]:
        """Add a watcher of these seats, and return their states.

        If `is_for_all`, the watcher also gets seats that are added later.
        """
        seats = tuple(seats)
        self._watchers[send] = _Watcher(frozenset(seat.name for seat in seats), is_for_all)
        for seat in seats:
            self._follow(seat, send)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_often())
        return tuple(seat.state() for seat in seats)

    def seat_changed(self, seat: Seat) -> None:
        """Notify the watchers that the device of a seat has appeared or left."""
        for send, watcher in list(self._watchers.items()):
            if watcher.is_for_all or seat.name in watcher.names:
                self._follow(seat, send)
        if (watched := self._watched.get(seat.name)) is not None:
            if seat.is_there:
                seat.runner.watch(watched.on_reading)
            watched.last_key = watched.key()
            watched.send(m.SeatChange(seat.state()))

    def _follow(self, seat: Seat, send: SendNotice) -> None:
        watched = self._watched.setdefault(seat.name, WatchedSeat(seat))
        watched.seat = seat  # may differ if the earlier seat was deleted
        if not watched.senders:
            watched.last_key = watched.key()
            if seat.is_there:
                seat.runner.watch(watched.on_reading)
        if send not in watched.senders:
            watched.senders.append(send)

    def remove(self, send: SendNotice) -> None:
        """Remove a watcher."""
        self._watchers.pop(send, None)
        for watched in list(self._watched.values()):
            if send in watched.senders:
                watched.senders.remove(send)
            if not watched.senders:
                if watched.seat.is_there:
                    watched.seat.runner.watch(None)
                del self._watched[watched.seat.name]
        if not self._watchers and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look_often(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            for watched in list(self._watched.values()):
                now_ns = monotonic_ns()
                if watched.seat.running and now_ns - watched.reported_ns < LATE_NS:
                    continue
                if not watched.seat.is_there:  # keeps the connection alive
                    watched.send(m.SeatReadings(watched.seat.name, 0))
                    continue
                try:
                    temp_c = watched.seat.surroundings.temp_c()
                    watched.look([LiveSample(now_ns, temp_c, None)])
                except Exception:  # a faulty seat must not affect the others
                    logger.exception("seat %s could not be read", watched.seat.name)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
