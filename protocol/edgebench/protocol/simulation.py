"""The interface between an agent and a simulated device.

The package `edgebench.simulation` implements this interface and registers a `Simulator` in the
entry-point group `ENTRY_POINT_GROUP`. The package is not deployed to real devices; an agent without
the package reports that the simulation is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

ENTRY_POINT_GROUP = "edgebench.simulation"
SIMULATED_SUFFIX = "-simulated"
"""Suffix of a simulated device's name. The text before the suffix is the key of the device's
profile, or the name of the device's seat in its agent."""


class Simulation(Protocol):
    """A simulated device."""

    @property
    def root(self) -> Path:
        """Directory that replaces `/` where the agent reads files of the device."""
        ...

    @property
    def speed_path(self) -> Path:
        """File from which the worker reads the device's speed; see `Simulator.slowed`."""
        ...

    @property
    def time_scale(self) -> float:
        """Seconds of simulated heating and cooling per second of real time."""
        ...

    def attach(self, worker_pid: int) -> None:
        """Make the `/proc` files of the worker process visible as files of the simulated device."""
        ...

    async def live(self) -> None:
        """Update the simulated device as time passes, until the task is cancelled."""
        ...


class Simulator(Protocol):
    """Factory of simulated devices, with a list of the available simulated boards."""

    @property
    def board_names(self) -> tuple[str, ...]:
        """Names of all simulated boards."""
        ...

    def board_name(self, text: str) -> str:
        """Name of the board in `NAME` or `NAME:SEED`.

        Raises:
            UsageError: there is no such board, or the seed is not a number.
        """
        ...

    def simulate(self, text: str, root: Path) -> Simulation:
        """Create the device that `text` names; the files of the device are written below `root`.

        Raises:
            UsageError: there is no such board, or the seed is not a number.
        """
        ...

    def slowed(self, invoke: Callable[[], Any], speed_path: str) -> Callable[[], Any]:
        """Wrap `invoke` in a function that is as slow as the simulated device with this speed file.

        The returned function runs in the worker process, and may be part of the timed path.
        """
        ...
