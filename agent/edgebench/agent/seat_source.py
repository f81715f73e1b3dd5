"""Sources of devices that are plugged in and out while an agent serves.

Theory of operation. A source lists the devices that are present, and how each is opened. It is
independent of seats, leases and runs: `hotplug.py` compares its offers with the open seats.

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
"""Opens a device as the seat of this name, with this directory for its state.

Called in a thread. Raises an `EdgebenchError` if the device does not work; opening is retried.
"""


@dataclass(frozen=True, slots=True)
class SeatOffer:
    """A device that is present now."""

    identity: str
    """A value that does not depend on the port or the time, such as the serial number."""
    name: str
    """Name of the seat if the device is new and the name is free."""
    open: OpenSeat | None
    """None if it cannot be opened now."""
    trouble: EdgebenchError | None = None
    """Why it cannot be opened, or None. In that case, `name` need not be a valid seat name."""

    def __post_init__(self) -> None:
        assert (self.open is None) is (self.trouble is not None)


class SeatSource(Protocol):
    """The devices of one kind that may appear and leave."""

    @property
    def period_s(self) -> float:
        """Interval at which it is read, also during runs."""
        ...

    async def offers(self) -> Sequence[SeatOffer]:
        """All devices that are present now.

        A device that is absent for a moment, such as a board that reboots when its port is opened,
        must still be offered: a device that is not offered has left, and its run ends.

        Raises:
            EdgebenchError: the devices cannot be listed; then no device appears or leaves.
        """
        ...
