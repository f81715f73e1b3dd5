"""What tests do with simulated devices that no worker keeps busy."""

from __future__ import annotations

from edgebench.simulation.board import SimulatedBoard
from edgebench.simulation.device import SimulatedDevice
from edgebench.simulation.slowed import SHARED

WORKER_PID = 4321


def machine(board: SimulatedBoard) -> str:
    """What uname(1) would say on the board: this machine may be of another kind."""
    return "aarch64" if board.compatible else "x86_64"


def keep_busy(device: SimulatedDevice, seconds: float) -> None:
    """Tell what a worker tells that has run its model for so long."""
    speed, worked_s = SHARED.unpack(device.speed_path.read_bytes())
    device.speed_path.write_bytes(SHARED.pack(speed, worked_s + seconds))


def speed(device: SimulatedDevice) -> float:
    """How fast the device computes now, 1: undisturbed."""
    return float(SHARED.unpack(device.speed_path.read_bytes())[0])


def make_worker(device: SimulatedDevice) -> None:
    """Files of a process that runs on the first CPU, which this machine need not share."""
    folder = device.root / "proc" / str(WORKER_PID)
    folder.mkdir()
    (folder / "stat").write_text(f"{WORKER_PID} (model) R{' 0' * 49}\n")
    (folder / "statm").write_text("5000 2500 900 1 0 2000 0\n")
