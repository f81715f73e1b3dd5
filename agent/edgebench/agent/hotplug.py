"""Opens and closes the seats of an agent while it serves, as their devices appear and leave.

Theory of operation. At a regular interval, the devices that the sources offer are compared, by
identity, with the open seats. If an open seat's device is no longer offered, the device has left:
its run and its lease end, and its seat stays listed as disconnected. A device that appears gets the
seat that it had earlier, or else a new seat. If a device cannot be opened, the fault is logged
once, and opening is retried; other devices are not affected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import chain
from typing import Protocol

from edgebench.agent.artifacts import ArtifactStore
from edgebench.agent.seat import Seat
from edgebench.agent.seat_memory import RememberedSeat, SeatMemory
from edgebench.agent.seat_source import SeatOffer, SeatSource
from edgebench.protocol.errors import EdgebenchError, UsageError
from edgebench.protocol.messages import MAX_SEATS
from edgebench.protocol.text import one_line

logger = logging.getLogger(__name__)


class SeatOwner(Protocol):
    """The part of an agent that hot-plugging uses."""

    seats: dict[str, Seat]
    """Maps each name to its seat, including the seats of permanent devices."""
    models: ArtifactStore

    def seat(self, name: str) -> Seat:
        """The seat of this name.

        Raises:
            NoSuchDevice: no seat has this name.
        """
        ...

    def seat_changed(self, seat: Seat) -> None:
        """Notify watchers that the device of a seat has appeared or left."""
        ...


class Hotplug:
    """The seats of the devices that all sources offer."""

    def __init__(self, agent: SeatOwner, sources: Sequence[SeatSource], memory: SeatMemory) -> None:
        """Create the stored seats; their devices are detected later.

        Raises:
            UsageError: a permanent seat of the agent has the name of a stored seat.
        """
        self._agent = agent
        self._sources = sources
        self._offers: list[Sequence[SeatOffer]] = [() for _ in sources]
        """Devices that each source offered last, in the order of the sources."""
        self._memory = memory
        self._open: dict[str, Seat] = {}
        """Maps the identity of each present device to its seat."""
        self._troubles: dict[str, str] = {}
        """Maps the identity of a device, or `source N`, to its logged fault, while the fault
        exists."""
        self._fixed = frozenset(agent.seats)
        self._changing = asyncio.Lock()
        for name, seat in memory.seats.items():
            if name in self._fixed:
                raise UsageError(
                    f"seat {name!r} belongs to a device that was once plugged in; if the seat is "
                    f"obsolete, remove {memory.state(name)}"
                )
            agent.seats[name] = Seat(
                name, seat.device, memory.state(name), board=seat.board, left_s=seat.left_s
            )

    async def follow(self) -> None:
        """Read all sources at the shortest of their intervals, until cancelled."""
        period_s = min(source.period_s for source in self._sources)
        while True:
            await asyncio.sleep(period_s)
            try:
                await self.look()
            except Exception:  # an odd device must not end the hot-plugging of the others
                logger.exception("looking for devices failed")

    async def end(self, following: asyncio.Task[None]) -> None:
        """Cancel the task of `follow`, once the runs of devices that have left are stored."""
        async with self._changing:
            following.cancel()

    async def look(self) -> None:
        """Open the seats of new devices, and close the seats of devices that have left."""
        async with self._changing:
            await self._look()

    async def _look(self) -> None:
        failed: set[str] = set()
        for number, source in enumerate(self._sources):
            key = f"source {number}"
            try:
                self._offers[number] = await source.offers()
            except Exception as exc:  # its devices stay as they were
                failed.add(key)
                self._note_trouble(key, one_line(exc))
                logger.debug("devices not listed", exc_info=True)
        offers: dict[str, SeatOffer] = {}
        for offer in chain.from_iterable(self._offers):
            if offer is not offers.setdefault(offer.identity, offer):
                twin = offers[offer.identity].name
                self._note_trouble(offer.identity, f"{offer.name} has the same identity as {twin}")
        for key in self._troubles.keys() - offers.keys() - failed:
            del self._troubles[key]
        left = [identity for identity in self._open if identity not in offers]
        await asyncio.gather(*(self._close(identity) for identity in left))
        for identity, offer in offers.items():
            if identity not in self._open:
                await self._try_to_open(offer)

    async def forget(self, name: str) -> None:
        """Delete a seat whose device has left.

        Raises:
            NoSuchDevice: no seat has this name.
            UsageError: the device is present or permanent, or the seat has uncollected runs.
            TargetError: the disk failed.
        """
        async with self._changing:
            self._forget(name)

    def _forget(self, name: str) -> None:
        seat = self._agent.seat(name)
        if name not in self._memory.seats:
            raise UsageError(f"seat {name!r} belongs to a permanent device")
        if seat.is_there:
            raise UsageError(f"the device of seat {name!r} is plugged in: unplug it first")
        if count := seat.spool.usage()[0]:
            raise UsageError(f"seat {name!r} has uncollected runs: {count}")
        self._memory.forget(name)
        del self._agent.seats[name]

    async def _try_to_open(self, offer: SeatOffer) -> None:
        try:
            self._open[offer.identity] = await self._opened(offer)
        except Exception as exc:  # a faulty device affects no other
            self._note_trouble(offer.identity, f"{offer.name}: {one_line(exc)}")
            logger.debug("device not opened", exc_info=True)

    async def _opened(self, offer: SeatOffer) -> Seat:
        if offer.trouble is not None:
            raise offer.trouble
        assert offer.open is not None
        name = self._memory.name_for(offer.identity, offer.name, self._fixed)
        is_known = name in self._memory.seats
        outdated = None if is_known else self._outdated()
        try:
            plan = await asyncio.to_thread(offer.open, name, self._memory.state(name))
            if outdated is not None:  # only now: a faulty device evicts no other
                self._forget(outdated)
            self._memory.remember(name, RememberedSeat(offer.identity, plan.device, plan.board))
        except BaseException:  # also when cancelled
            if not is_known and self._memory.state(name).exists():
                self._memory.forget(name)  # otherwise its name would stay in use
            raise
        seat = self._agent.seats.get(name) or Seat(name, plan.device, self._memory.state(name))
        seat.open(plan, self._agent.models)
        self._agent.seats[name] = seat
        self._agent.seat_changed(seat)
        logger.info("seat %s: device connected", name)
        return seat

    async def _close(self, identity: str) -> None:
        seat = self._open.pop(identity)
        logger.info("seat %s: device disconnected", seat.name)
        await seat.lose_device()
        self._agent.seat_changed(seat)
        remembered = RememberedSeat(identity, seat.device, seat.board, seat.left_s)
        try:
            self._memory.remember(seat.name, remembered)
        except EdgebenchError as exc:
            logger.warning("seat %s: %s", seat.name, exc)

    def _outdated(self) -> str | None:
        """Name of the seat to delete for a new seat; None if fewer than `MAX_SEATS` exist.

        Raises:
            UsageError: no seat can be deleted, because each has a present device or uncollected
                runs.
        """
        seats = self._agent.seats
        if len(seats) < MAX_SEATS:
            return None
        gone = [seat for seat in seats.values() if not (seat.is_there or seat.spool.usage()[0])]
        if not gone:
            raise UsageError(f"{len(seats)} seats, limit {MAX_SEATS}")
        return min(gone, key=lambda seat: seat.left_s or 0.0).name

    def _note_trouble(self, key: str, text: str) -> None:
        if self._troubles.get(key) != text:
            self._troubles[key] = text
            logger.warning("device not served: %s", text)
