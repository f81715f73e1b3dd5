"""The interface between an agent and a simulated device.

The portion `edgebench.simulation` implements it and registers a `Simulator` under the entry-point
group below. It is not deployed to real devices; an agent without it reports that it is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

ENTRY_POINT_GROUP = "edgebench.simulation"
SIMULATED_SUFFIX = "-simulated"
"""End of the name of a simulated device, behind the key of its profile or the name of its seat."""


class Simulation(Protocol):
    """A simulated device."""

    @property
    def root(self) -> Path:
        """Directory that replaces / wherever the agent reads files of the device."""
        ...

    @property
    def speed_path(self) -> Path:
        """File from which the worker reads the speed of the device; see `Simulator.slowed`."""
        ...

    @property
    def time_scale(self) -> float:
        """Seconds of the device's heat per second of real time."""
        ...

    def attach(self, worker_pid: int) -> None:
        """Show the files of this process as those of a process of the device."""
        ...

    async def live(self) -> None:
        """Update the device as time passes, until cancelled."""
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
        """Create a device of the board and seed in `text`; its files are written below `root`.

        Raises:
            UsageError: there is no such board, or the seed is not a number.
        """
        ...

    def slowed(self, invoke: Callable[[], Any], speed_path: str) -> Callable[[], Any]:
        """`invoke`, slowed down to the present speed of the device with this speed file.

        It is called in the worker process, and may be on the timed path.
        """
        ...
