"""The interface of simulated devices: what an agent needs of one.

The portion `edgebench.simulation` implements it and registers a `Simulator` under the entry-point
group below. It is not sent to real devices; an agent finds it there or says that it is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

ENTRY_POINT_GROUP = "edgebench.simulation"


class Simulation(Protocol):
    """One simulated device."""

    @property
    def root(self) -> Path:
        """Directory that stands for / wherever the agent reads the device."""
        ...

    @property
    def speed_path(self) -> Path:
        """File through which the worker learns how fast the device is; see `Simulator.slowed`."""
        ...

    def attach(self, worker_pid: int) -> None:
        """Show the files of this process as those of a process of the device."""
        ...

    async def live(self) -> None:
        """Let time pass, forever."""
        ...


class Simulator(Protocol):
    """The simulated boards."""

    @property
    def board_names(self) -> tuple[str, ...]:
        """Names of all boards."""
        ...

    def board_name(self, text: str) -> str:
        """Name of the board in `NAME` or `NAME:SEED`.

        Raises:
            UsageError: there is no such board, or the seed is not a number.
        """
        ...

    def simulate(self, text: str, root: Path) -> Simulation:
        """A new device of the board and seed in `text`; its files are written below `root`.

        Raises:
            UsageError: there is no such board, or the seed is not a number.
        """
        ...

    def slowed(self, invoke: Callable[[], Any], speed_path: str) -> Callable[[], Any]:
        """`invoke`, made as slow as the device with this speed file is at the moment.

        Called in the worker process, which may be on the timed path.
        """
        ...
