"""Sources of devices that are plugged in and out while an agent serves.

Theory of operation. A source lists the devices that are present, each with a function that opens
the device. A source is independent of seats, leases and runs; `hotplug.py` compares the offers of
all sources with the open seats.

    source ── offers() ──▶ Hotplug ── opens, closes ──▶ seats
                              │
                              └── names, by identity ──▶ SeatMemory
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgebench.agent.seat import SeatPlan
from edgebench.protocol.errors import EdgebenchError

OpenSeat = Callable[[str, Path], SeatPlan]
"""Function that opens a device; the arguments are the name and the state directory of its seat.

The function is called in a thread. It raises an `EdgebenchError` if the device does not work; then
it is called again later.
"""


@dataclass(frozen=True, slots=True)
class SeatOffer:
    """A device that is present now."""

    identity: str
    """Value that identifies the device at any port and at any time, such as its serial number."""
    name: str
    """Name of the seat if the device is new and the name is free."""
    open: OpenSeat | None
    """Function that opens the device; None if the device cannot be opened now."""
    trouble: EdgebenchError | None = None
    """Why the device cannot be opened; None if it can. A device that cannot be opened may have a
    `name` that is not a valid seat name."""

    def __post_init__(self) -> None:
        assert (self.open is None) is (self.trouble is not None)


class SeatSource(Protocol):
    """The devices of one kind that may appear and leave."""

    @property
    def period_s(self) -> float:
        """Interval at which the source is read, also during runs."""
        ...

    async def offers(self) -> Sequence[SeatOffer]:
        """All devices that are present now.

        A device that is not offered has left, and its run ends. So a device must still be offered
        if it is absent for a moment, such as a board that reboots when its port is opened.

        Raises:
            EdgebenchError: the devices cannot be listed; then no device appears or leaves.
        """
        ...
