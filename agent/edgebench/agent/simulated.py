"""The simulated boards, if they are installed: the portion that has them is not sent to devices.

This is the only place of the agent that looks for them, and only when `--simulate` asks for one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgebench.protocol.errors import SimulationMissing
from edgebench.protocol.extension import first_installed
from edgebench.protocol.simulation import ENTRY_POINT_GROUP, Simulator


def find_simulator() -> Simulator:
    """The simulator that is installed beside the agent.

    Raises:
        SimulationMissing: none is.
    """
    simulator: Simulator | None = first_installed(ENTRY_POINT_GROUP)
    if simulator is None:
        raise SimulationMissing("the simulated boards are not installed here")
    return simulator


def slowed(invoke: Callable[[], Any], speed_path: str | None) -> Callable[[], Any]:
    """`invoke` as slow as the simulated device with this speed file; unchanged on a real one."""
    return invoke if speed_path is None else find_simulator().slowed(invoke, speed_path)
