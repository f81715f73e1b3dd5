"""Where devices come from that are plugged in and out while an agent serves.

Theory of operation. A source says which devices there are now, and how each is opened. It knows
nothing of seats, leases or runs: `hotplug.py` compares what it says with the seats that are open.

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

Called in a thread. Raises an `EdgebenchError` where the device does not work; it is tried again.
"""


@dataclass(frozen=True, slots=True)
class SeatOffer:
    """A device that is there now."""

    identity: str
    """What stays the same wherever and whenever the device is plugged in: its serial number."""
    name: str
    """Name that the seat gets if the device is new and no other has it."""
    open: OpenSeat | None
    """None: it cannot be opened now."""
    trouble: EdgebenchError | None = None
    """Why it cannot; its name may be none then, as that of a port is. None: it can."""

    def __post_init__(self) -> None:
        assert (self.open is None) is (self.trouble is not None)


class SeatSource(Protocol):
    """The devices of one kind that may come and go."""

    @property
    def period_s(self) -> float:
        """Interval at which it is read, also during runs."""
        ...

    async def offers(self) -> Sequence[SeatOffer]:
        """Every device that is there now.

        A device that is away for a moment, such as a board that reboots when its port is opened, is
        offered all the same: one that is not offered has left, and its run ends.

        Raises:
            EdgebenchError: it cannot tell; then nothing comes and nothing leaves.
        """
        ...
