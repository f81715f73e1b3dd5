"""Finds the simulator of boards, an optional package that is not deployed to devices.

The agent looks for the simulator only here, and only to simulate a board or to print a help text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgebench.protocol.errors import SimulationMissing
from edgebench.protocol.extension import first_installed
from edgebench.protocol.simulation import ENTRY_POINT_GROUP, Simulator


def find_simulator() -> Simulator:
    """Return the simulator that is installed with the agent.

    Raises:
        SimulationMissing: no simulator is installed.
    """
    simulator: Simulator | None = first_installed(ENTRY_POINT_GROUP)
    if simulator is None:
        raise SimulationMissing("the simulated boards are not installed here")
    return simulator


def slowed(invoke: Callable[[], Any], speed_path: str | None) -> Callable[[], Any]:
    """Slow `invoke` down to the speed that a simulated device's file gives, if there is a file."""
    return invoke if speed_path is None else find_simulator().slowed(invoke, speed_path)
