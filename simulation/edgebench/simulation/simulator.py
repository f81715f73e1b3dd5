"""The entry point through which an agent finds the simulated boards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgebench.protocol.simulation import Simulation
from edgebench.simulation.boards import BOARDS, find_board
from edgebench.simulation.device import SimulatedDevice
from edgebench.simulation.slowed import slowed


class BoardSimulator:
    """Implements `edgebench.protocol.simulation.Simulator`."""

    board_names = tuple(BOARDS)

    def board_name(self, text: str) -> str:
        """Name of the board in `NAME` or `NAME:SEED`."""
        return find_board(text)[0].name

    def simulate(self, text: str, root: Path) -> Simulation:
        """Create a device from the board and seed in `text`."""
        board, seed = find_board(text)
        return SimulatedDevice(board, seed, root)

    def slowed(self, invoke: Callable[[], Any], speed_path: str) -> Callable[[], Any]:
        """Wrap `invoke` so that it takes as long as on the simulated device."""
        return slowed(invoke, speed_path)
