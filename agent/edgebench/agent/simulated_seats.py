"""Seats of simulated boards, from `--simulate` or from a directory of device files.

Each file of the directory is a device that is present for as long as the file exists::

    schema = 1
    board = "raspberry-pi-5-bare:3"     # as for --simulate
    serial = "100000003fa2"             # its identity (default: the name of the file)

The name of the file, without `.toml`, is the preferred name of the seat.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgebench.agent.files import make_private_directory
from edgebench.agent.seat import SeatPlan
from edgebench.agent.seat_source import SeatOffer
from edgebench.agent.simulated import find_simulator
from edgebench.agent.surroundings import SimulatedSurroundings
from edgebench.agent.system import board_id, describe_device, device_identity
from edgebench.device_profiles.match import match_profile
from edgebench.meters.wiring import Wiring
from edgebench.protocol.errors import TargetError, UsageError
from edgebench.protocol.messages import MAX_SEATS
from edgebench.protocol.simulation import SIMULATED_SUFFIX
from edgebench.protocol.toml_text import TomlText, strict_converter

SCHEMA_VERSION = 1
SUFFIX = ".toml"
MAX_FILE_BYTES = 64 * 1024
SERIAL_FILE = Path("proc/device-tree/serial-number")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDeviceFile:
    """Content of a device file."""

    schema: int = SCHEMA_VERSION
    board: str
    """Board, with a seed, as `--simulate` takes it."""
    serial: str = ""
    """Serial number that identifies the device; if it is empty, the name of the file identifies the
    device."""


def fixed_seats(
    boards: Sequence[str], state: Path, seats: Path, *, shown: str | None, wiring: Wiring
) -> Iterator[SeatPlan]:
    """The seats of boards that are present for the agent's whole life.

    Args:
        boards: Names of the boards, each with a seed.
        state: State directory of the first board, as for an agent with one device.
        seats: Directory that contains the state directories of the other boards.
        shown: Name of the first device; None: the name of its board.
        wiring: Meters and sync line of the first device; a meter is wired to a single device.

    Raises:
        UsageError: a board is unknown, or there are too many.
    """
    if len(boards) > MAX_SEATS:
        raise UsageError(f"{len(boards)} simulated boards, limit {MAX_SEATS}")
    simulator, count = find_simulator(), Counter[str]()
    for number, board in enumerate(boards):
        name = simulator.board_name(board)
        count[name] += 1
        seat = name if count[name] == 1 else f"{name}-{count[name]}"
        if number == 0:
            yield _plan(seat, state, board, shown=shown or seat, wiring=wiring)
        else:
            yield _plan(seat, seats / seat, board, shown=seat, wiring=Wiring())


def _plan(
    seat: str, state: Path, board: str, *, shown: str, wiring: Wiring, serial: str = ""
) -> SeatPlan:
    """Plan the seat of a simulated board, and create the board's files again under `state`."""
    make_private_directory(state)
    root = state / "simulated"
    shutil.rmtree(root, ignore_errors=True)
    simulation = find_simulator().simulate(board, root)
    if serial:
        (root / SERIAL_FILE).parent.mkdir(parents=True, exist_ok=True)
        (root / SERIAL_FILE).write_text(serial)
    # The name of a simulated device marks it as simulated wherever it is shown.
    device = describe_device(state, f"{shown}{SIMULATED_SUFFIX}", root)
    profile = match_profile(device_identity(root))
    surroundings = SimulatedSurroundings(profile, device.id, simulation)
    return SeatPlan(
        seat, device, profile, surroundings, state, wiring, board_id(root) if serial else ""
    )


class SimulatedDirectory:
    """Simulated devices, described by the files of a directory; implements `SeatSource`."""

    period_s = 0.25
    """The interval is short, because reading ten files takes less than half a millisecond."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, tuple[_Stamp, SeatOffer]] = {}
        """Maps each file to its offer, and to its inode, time and size when it was read."""

    async def offers(self) -> Sequence[SeatOffer]:
        """An offer for each file; a file that became invalid keeps its earlier offer.

        Raises:
            TargetError: the directory cannot be read.
        """
        known = {}
        try:
            for entry in sorted(os.scandir(self._directory), key=lambda entry: entry.name):
                if entry.name.endswith(SUFFIX):
                    with suppress(FileNotFoundError):  # it was removed just now
                        known[entry.name] = self._look(Path(entry.path))
        except OSError as exc:
            raise TargetError(f"{exc.strerror}: {self._directory}") from exc
        self._known = known
        return [offer for _, offer in known.values()]

    def _look(self, path: Path) -> tuple[_Stamp, SeatOffer]:
        status, before = path.stat(), self._known.get(path.name)
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if before is not None and before[0] == stamp:
            return before
        name = path.name.removesuffix(SUFFIX)
        try:
            device = _read(path)
        except FileNotFoundError:
            raise
        except (UsageError, OSError) as exc:
            error = UsageError(f"{exc.strerror}: {path}") if isinstance(exc, OSError) else exc
            # The file may be half written.
            return before or (stamp, SeatOffer(name, name, None, error))
        return stamp, SeatOffer(device.serial or name, name, partial(_open, device, name))


_Stamp = tuple[int, int, int]


def _read(path: Path) -> SimulatedDeviceFile:
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES)
    source = TomlText(content.decode("utf-8", "replace"), str(path))
    table = source.table(SCHEMA_VERSION)
    device = source.structured(table, SimulatedDeviceFile, strict_converter())
    find_simulator().board_name(device.board)
    return device


def _open(device: SimulatedDeviceFile, wanted: str, name: str, state: Path) -> SeatPlan:
    serial = device.serial or wanted
    return _plan(name, state, device.board, shown=name, wiring=Wiring(), serial=serial)
