"""Stores the seats of devices that appear and leave, by the identity of the device.

    seats/<name>/seat.json      the device, and when it left
    seats/<name>/spool/         its finished runs

The name of a seat belongs to a single device until the seat is deleted. A device that is plugged in
again therefore gets its name, its runs and its history back, and another device always gets another
name.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from edgebench.agent.files import disk_errors, make_private_directory, write_private
from edgebench.protocol.device import DeviceDescription
from edgebench.protocol.errors import RemoteProtocolError, UsageError
from edgebench.protocol.plain import from_outside, to_plain

MEMORY_FILE = "seat.json"
SEAT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")
"""Names that are valid in `--on AGENT/SEAT`, and as names of directories."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RememberedSeat:
    """A device that was plugged in here."""

    identity: str
    """Identity of the device, as in `SeatOffer`."""
    device: DeviceDescription
    board: str = ""
    left_s: float | None = None
    """Unix time at which the device left; None if it was present when the agent ended."""


class SeatMemory:
    """All seats that were opened for the devices of a source and have not been deleted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seats: dict[str, RememberedSeat] = {}
        for path in sorted(directory.glob(f"*/{MEMORY_FILE}")):
            try:
                remembered = from_outside(json.loads(path.read_text()), RememberedSeat)
            except (OSError, ValueError, RemoteProtocolError) as exc:
                # The seat's directory stays, so the name is not reused.
                logger.warning("seat not restored: %s: %s", exc, path)
            else:
                self._seats[path.parent.name] = remembered

    @property
    def seats(self) -> dict[str, RememberedSeat]:
        """Maps each name to its stored seat."""
        return dict(self._seats)

    def state(self, name: str) -> Path:
        """Directory of a seat."""
        return self._directory / name

    def name_for(self, identity: str, wanted: str, taken: Collection[str]) -> str:
        """The name of a device's seat: its earlier name, or else a free name made from `wanted`.

        Args:
            identity: Identity of the device.
            wanted: Preferred name.
            taken: Names of permanent seats.

        Raises:
            UsageError: the preferred name is not a valid seat name.
        """
        for name, seat in self._seats.items():
            if seat.identity == identity:
                return name
        if not SEAT_NAME.fullmatch(wanted):
            raise UsageError(
                f"not a seat name: {wanted[:64]!r}; a name is up to 48 letters, digits, dots, "
                "hyphens and underscores"
            )
        name, number = wanted, 1
        while name in taken or name in self._seats or self.state(name).exists():
            number += 1
            name = f"{wanted}-{number}"
        return name

    def remember(self, name: str, seat: RememberedSeat) -> None:
        """Store the description of a seat.

        Raises:
            TargetError: the disk failed.
        """
        path = self.state(name) / MEMORY_FILE
        with disk_errors("seat not stored", path):
            make_private_directory(path.parent)
            write_private(path, json.dumps(to_plain(seat), indent=1))
        self._seats[name] = seat

    def forget(self, name: str) -> None:
        """Delete a seat with its directory.

        Raises:
            TargetError: the disk failed.
        """
        path = self.state(name)
        with disk_errors("seat not deleted", path):
            (path / MEMORY_FILE).unlink(missing_ok=True)
            shutil.rmtree(path)
        self._seats.pop(name, None)
