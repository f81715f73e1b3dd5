"""The simulated boards, if they are installed; their package is not deployed to devices.

This is the only place of the agent that looks for them, and only if `--simulate` is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgebench.protocol.errors import SimulationMissing
from edgebench.protocol.extension import first_installed
from edgebench.protocol.simulation import ENTRY_POINT_GROUP, Simulator


def find_simulator() -> Simulator:
    """The simulator that is installed with the agent.

    Raises:
        SimulationMissing: no simulator is installed.
    """
    simulator: Simulator | None = first_installed(ENTRY_POINT_GROUP)
    if simulator is None:
        raise SimulationMissing("the simulated boards are not installed here")
    return simulator


def slowed(invoke: Callable[[], Any], speed_path: str | None) -> Callable[[], Any]:
    """`invoke`, slowed down to the device of this speed file; unchanged on a real device."""
    return invoke if speed_path is None else find_simulator().slowed(invoke, speed_path)
