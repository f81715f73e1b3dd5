"""The simulated boards as an agent finds them."""

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
        """A new device of the board and seed in `text`."""
        board, seed = find_board(text)
        return SimulatedDevice(board, seed, root)

    def slowed(self, invoke: Callable[[], Any], speed_path: str) -> Callable[[], Any]:
        """`invoke`, made as slow as the device."""
        return slowed(invoke, speed_path)
